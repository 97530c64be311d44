#!/usr/bin/env python3
"""Every operator with extents of 0 and 1 and with inputs of rank 0 and 1, against ONNX Runtime and ONNX's reference.

    python3 compare_empty.py --metac build/release/bin/metac [--sample N --seed S] [--only REGEX] [--keep DIR] [--plain] [-- OPTIONS OF metac verify]
    needs: pip install numpy onnx onnxruntime

Out of each of ONNX's own node cases come variants: one extent is 0 or 1 wherever it occurs (in integer vectors that say a shape too), one dim of one
input is, or all inputs (or one) lie flat or are scalars. Whether a variant is a model at all the two judges say: a process of their own runs it. Where
one answers, metac must give that answer; where both answer and differ, one of theirs. Where both refuse metac may do as it likes, except crash. What
metac refuses although a judge answers, and where it knows better than both, stands in expected_empty.txt, a regular expression a line with its reason.
The last line is 'N passed, N failed, N skipped'.
"""
import argparse
import collections
import json
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import sys
import tempfile
import warnings

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import reference_cases  # noqa: E402

LIST = pathlib.Path(__file__).with_name("expected_empty.txt")


# ---- the variants ----
def is_shape_operand(array):
    return array.dtype == np.int64 and array.ndim <= 1 and array.size <= 8


def with_extent(array, old, new):
    """Where an extent is `old` it becomes `new`; a vector of integers that says so follows."""
    kept = array[tuple(slice(new) if d == old else slice(None) for d in array.shape)]
    return np.where(kept == old, np.int64(new), kept) if is_shape_operand(array) and array.shape != (old,) else kept


def variants(feeds):
    """(what was done, feeds) of each, without repetitions."""
    plain = {k: v for k, v in feeds.items() if isinstance(v, np.ndarray)}

    def changed(what, **new):
        return what, {**feeds, **new}
    extents = sorted({d for v in plain.values() for d in v.shape if d > 0})
    for old in extents:
        for new in (0, 1):
            if new < old:
                yield changed(f"{old} is {new}", **{k: with_extent(v, old, new) for k, v in plain.items()})
                yield changed(f"dims {old} are {new}", **{k: v[tuple(slice(new) if d == old else slice(None) for d in v.shape)] for k, v in plain.items()})
    for k, v in plain.items():
        for axis, d in enumerate(v.shape):
            for new in (0, 1):
                if new < d:
                    yield changed(f"dim {axis} of {k} is {new}", **{k: v[(slice(None),) * axis + (slice(new),)]})
        if v.size and v.ndim > 0:
            yield changed(f"{k} is a scalar", **{k: v.reshape(-1)[:1].reshape(())})
        if v.ndim > 1:
            yield changed(f"{k} lies flat", **{k: v.reshape(-1)})
    if all(v.size for v in plain.values()):
        yield changed("all are scalars", **{k: v.reshape(-1)[:1].reshape(()) for k, v in plain.items()})
    yield changed("all lie flat", **{k: v.reshape(-1) for k, v in plain.items()})
    yield changed("all are empty vectors", **{k: v.reshape(-1)[:0] for k, v in plain.items()})


def shapes_of(feeds):
    return str([(k, v.shape, v.tolist() if is_shape_operand(v) else "") if isinstance(v, np.ndarray) else k for k, v in feeds.items()])


def variant_model(model, feeds):
    """The model for these inputs; what comes out is for others to find."""
    new = onnx.ModelProto()
    new.CopyFrom(model)
    for value in new.graph.input:
        if isinstance(feeds[value.name], np.ndarray):
            tensor = value.type.tensor_type
            tensor.ClearField("shape")
            tensor.shape.CopyFrom(onnx.TensorShapeProto(dim=[onnx.TensorShapeProto.Dimension(dim_value=d) for d in feeds[value.name].shape]))
    for value in new.graph.output:
        if value.type.WhichOneof("value") == "tensor_type":
            value.type.tensor_type.ClearField("shape")
    del new.graph.value_info[:]
    return new


EQUATIONS = {"...i,...i->...": [(2, 3), (2, 3)], "...ij,...jk->...ik": [(2, 3, 4), (2, 4, 5)], "i...,...i->...": [(3, 2), (2, 3)], "...ii->...i": [(2, 3, 3)], "i...j,j...k->...ik": [(3, 2, 4), (4, 2, 5)],
             "...,...,...->...": [(2, 3), (2, 3), (3,)], "...a,...b->...ab": [(2, 3, 4), (3, 5)], "...i->i...": [(2, 3, 4)], "bij,bjk->bik": [(2, 3, 4), (2, 4, 5)], "ij->": [(2, 3)]}


def further_cases():
    """What ONNX has few cases of."""
    for k, (equation, shapes) in enumerate(EQUATIONS.items()):
        feeds = {f"x{i}": np.random.default_rng(k).uniform(-1, 1, shape).astype(np.float32) for i, shape in enumerate(shapes)}
        model = reference_cases.build_model([helper.make_node("Einsum", list(feeds), ["y"], equation=equation)], feeds, ["y"])
        model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        yield f"einsum_{k}", model, feeds
    gemm = {"a": np.ones((32, 64), np.float32), "b": np.ones((64, 128), np.float32)}
    for name, nodes in (("matmul_softmax", ["MatMul", "Softmax"]), ("matmul_relu", ["MatMul", "Relu"]), ("gemm_layernorm", ["Gemm", "LogSoftmax"])):
        chain = [helper.make_node(nodes[0], list(gemm), ["t"]), helper.make_node(nodes[1], ["t"], ["y"])]
        model = reference_cases.build_model(chain, gemm, ["y"])
        model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
        yield name, model, gemm


def node_cases(only):
    """(name, model, feeds) of ONNX's node cases, but for the ones that spell out a function's body, and of some more."""
    yield from (case for case in further_cases() if re.search(only, case[0]))
    import onnx.backend.test.case.node as node_tests
    for case in node_tests.collect_testcases():
        if "_expanded" in case.name or not re.search(only, case.name) or not case.data_sets:
            continue
        inputs = case.data_sets[0][0]
        yield case.name, case.model, {v.name: x for v, x in zip(case.model.graph.input, inputs)}


def all_variants(only):
    seen = set()
    for name, model, feeds in node_cases(only):
        for k, (what, new) in enumerate(variants(feeds)):
            key = (model.graph.SerializeToString() if len(model.graph.node) > 1 else model.graph.node[0].SerializeToString(), str(model.opset_import),
                   str([getattr(v, "dtype", "") for v in new.values()]), shapes_of(new))
            if key not in seen:
                seen.add(key)
                yield f"{name}-{k}", what, variant_model(model, new), new


# ---- the judges ----
def by_onnxruntime(model, feeds):
    return reference_cases.session_of(model).run(None, feeds)


def by_reference(model, feeds):
    from onnx.reference import ReferenceEvaluator
    return ReferenceEvaluator(model).run(None, feeds)


def is_answer(value):
    return isinstance(value, np.ndarray) or (isinstance(value, list) and all(map(is_answer, value)))


def serve(pipe):
    """One question at a time; a judge that dies leaves the pipe closed."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    while (question := pipe.recv()) is not None:
        judge, model, feeds = question
        try:
            results = [np.asarray(r) if isinstance(r, np.generic) else r for r in judge(model, feeds)]
            pipe.send(results if all(map(is_answer, results)) else "no tensors")
        except Exception as error:  # it refuses the variant
            pipe.send(f"{type(error).__name__}: {error}"[:300])


class Judge:
    """A process that answers, or a text that says why not."""

    def __init__(self, function, seconds=20):
        self.function, self.seconds, self.process = function, seconds, None

    def __call__(self, model, feeds):
        if self.process is None:
            self.pipe, theirs = multiprocessing.Pipe()
            self.process = multiprocessing.Process(target=serve, args=(theirs,), daemon=True)
            self.process.start()
            theirs.close()
        self.pipe.send((self.function, model, feeds))
        try:
            if self.pipe.poll(self.seconds):
                return self.pipe.recv()
            self.process.kill()
        except EOFError:
            pass
        self.process.join()
        self.process = None
        return "it died or took too long"


# ---- metac ----
def to_proto(value, name, value_type):
    kind = value_type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.from_list(list(value), name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, name)
    return numpy_helper.from_array(value, name)


def write_case(folder, model, feeds, results):
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for kind, ports, values in (("input", model.graph.input, list(feeds.values())), ("output", model.graph.output, results)):
        for i, (port, value) in enumerate(zip(ports, values)):
            (data / f"{kind}_{i}.pb").write_bytes(to_proto(value, port.name, port.type).SerializeToString())


def same(a, b):
    if isinstance(a, list) or isinstance(b, list):
        return isinstance(a, list) and isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    return a.tobytes() == b.tobytes() or (a.dtype.kind == "f" and np.allclose(a, b, equal_nan=True))


def write_variant(folder, name, model, feeds, judges):
    """The folders of a variant, one a different answer, and what the judges said."""
    answers = {}
    for word, judge in judges.items():
        answers[word] = judge(model, feeds)
    found = []
    for word, results in answers.items():
        if isinstance(results, str) or any(all(map(same, results, other)) for _, other in found):
            continue
        found.append((word, results))
    for word, results in found or [("none", [])]:
        try:
            write_case(folder / f"{name}.{word}", model, feeds, results)
        except Exception:  # a value that a data file cannot hold, as an empty optional
            shutil.rmtree(folder / f"{name}.{word}", ignore_errors=True)
            return [], answers
    return [word for word, _ in found] or ["none"], answers


CRASH = re.compile(r"crashed|ended with status|internal error|a bug in metac|no verdict|no end after")


def judge_variant(rows):
    """(kind, text) of a variant from the verdicts on its folders, {word: (status, detail)}."""
    for word, (status, detail) in rows.items():
        if status != "passed" and CRASH.search(detail):
            return "failed", detail
    if "none" in rows:
        return "skipped", "both judges refuse"
    if any(status == "passed" for status, _ in rows.values()):
        return "passed", ""
    refused = all(status == "skipped" or not detail.startswith("output ") for status, detail in rows.values())
    if refused and list(rows) == ["reference"]:
        return "skipped", "only the reference, which checks little, takes it"
    return "failed", ("refused: " if refused else "") + "; ".join(f"{word}: {re.sub(r'^/.*?model.onnx: ', '', detail)}" for word, (_, detail) in rows.items())


def expectations():
    lines = [line for line in LIST.read_text().splitlines() if line.strip() and not line.startswith("#")] if LIST.exists() else []
    return [(re.compile(line.split(" : ", 1)[0].strip()), line.split(" : ", 1)[1].strip()) for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="regular expression on the names of node cases")
    parser.add_argument("--keep", type=pathlib.Path, help="write the cases here and leave them")
    parser.add_argument("options", nargs="*", help="further options of metac verify, behind --")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")

    chosen = list(all_variants(arguments.only))
    if arguments.sample and arguments.sample < len(chosen):  # of each operator about as many
        draw, by_operator = random.Random(arguments.seed), collections.defaultdict(list)
        for variant in draw.sample(chosen, len(chosen)):
            by_operator[variant[2].graph.node[0].op_type].append(variant)
        ranked = sorted((k + draw.random(), i) for k, i in ((k, (op, k)) for op, some in by_operator.items() for k in range(len(some))))
        chosen = [by_operator[op][k] for _, (op, k) in ranked[:arguments.sample]]
    judges = {"onnxruntime": Judge(by_onnxruntime), "reference": Judge(by_reference)}
    with tempfile.TemporaryDirectory(prefix="metac-empty-") as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        words = {}
        for name, what, model, feeds in chosen:
            words[name], _ = write_variant(folder, name, model, feeds, judges)
        verdicts = reference_cases.verify(arguments.metac, folder, *arguments.options)
    expected, counts = expectations(), collections.Counter()
    for name, what, *_ in chosen:
        if not words[name]:
            counts["skipped"] += 1
            continue
        kind, text = judge_variant({word: verdicts.get(f"{name}.{word}", ("failed", "no verdict")) for word in words[name]})
        if kind == "failed" and not CRASH.search(text) and any(pattern.search(f"{name} ({what}): {text}") for pattern, _ in expected):
            kind = "skipped"
        counts[kind] += 1
        if kind == "failed":
            print(f"FAIL  {name} ({what}): {text}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
