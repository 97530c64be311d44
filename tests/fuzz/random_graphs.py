#!/usr/bin/env python3
"""Random valid graphs: metac against ONNX Runtime, or ONNX's reference where that has no kernel.

    python3 random_graphs.py --metac build/release/bin/metac [--count 200] [--first 0] [--seed 1] [--nodes 12] [--evaluator build/.../metac_evaluate_cases]
                             [--keep DIR] [--only NAME,NAME]
    needs: pip install numpy onnx onnxruntime

A graph is made node by node (operator_samples.py): its values are computed as it grows, so that every node is valid and all values
are known. Broadcasting, dims of 1 and (in every eighth graph) of 0 occur, in three of ten graphs also some that fill vectors; some operands are inputs, some constants; some dims of the
inputs have names. Values of which a rounding could make another answer (a comparison, a floor) are exact: small multiples of 1/16.
Each graph runs with static shapes, as a library would (--known shapes) under another fusion, and with every dim open; with
--evaluator also on the reference evaluator, which fuses nothing.

Before them run the graphs that were found to go wrong once, tests/fuzz/found/*.txt: ONNX's text form, dims with names being random.

A failure is reduced to the fewest nodes that still show it, their operands becoming inputs, and kept in build/fuzz-failures/. With
16-bit floats it is none where the same nodes in double are nearer to metac's answer than to the other one. Ends with
'N passed, N failed'.
"""
import argparse
import collections
import functools
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import ml_dtypes
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "conformance"))
import double_answers  # noqa: E402
import reference_cases  # noqa: E402
import late_samples  # noqa: E402, F401: its samplers
from operator_samples import SAMPLERS, Unfit, is_float  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPSETS = [20] * 4 + [21, 23, 24, 26, 28]  # what a graph declares; it has the operators of that time
JUDGED = 26
BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
# Operators that no graph draws, with the reason.
LEFT_OUT = {
    "Bernoulli": "random", "Multinomial": "random", "RandomNormal": "random", "RandomNormalLike": "random", "RandomUniform": "random", "RandomUniformLike": "random",
    **dict.fromkeys(("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch"), "strings"), "ImageDecoder": "image files",
    **dict.fromkeys(("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence", "ConcatFromSequence"), "sequences"),
    **dict.fromkeys(("Optional", "OptionalGetElement", "OptionalHasElement"), "optionals"),
}
# Of each kind of graph: the float that it computes in, and how far answers may be apart.
TOLERANCES = {"float32": ("1e-3", "2e-4"), "float64": ("1e-4", "1e-4"), "float16": ("2e-2", "2e-2"), "bfloat16": ("1e-1", "1e-1")}
# What code may rely on, and how it is fused.
WAYS = {"jit": [], "library": ["--known", "shapes", "--fusion", "greedy"], "open": ["--known", "ranks"]}


class Value:
    def __init__(self, name, array, exact):
        self.name, self.array, self.exact = name, array, exact
        self.dtype, self.shape, self.ndim, self.size = array.dtype, array.shape, array.ndim, array.size


class Step:
    """A node and what it makes."""

    def __init__(self, proto, inputs, outputs):
        self.proto, self.inputs, self.outputs = proto, inputs, outputs


def is_exact(array):
    if not is_float(array):
        return True
    if array.dtype == BFLOAT16:
        array = array.astype(np.float32)
    return bool(np.all(np.isfinite(array)) and np.all(np.abs(array) < 2 ** 10) and np.all(array * 16 == np.floor(array * 16)))


def fits_shape(array, dims):
    """Whether the array may have the shape that ONNX's inference gives."""
    return array.ndim == len(dims) and not any(d.HasField("dim_value") and d.dim_value != n for d, n in zip(dims, array.shape))


@functools.cache
def since(sampler):
    """The opset in which its operator came, in a form that is no error."""
    return min(s.since_version for s in onnx.defs.get_all_schemas_with_history() if s.domain == "" and s.name == sampler.split()[0] and not s.deprecated)


def evaluate(model, feeds):
    """ONNX Runtime's answer; ONNX's reference, which rounds and counts in its own ways here and there, where that has none."""
    try:
        return reference_cases.session_of(model).run(None, feeds)
    except Exception:  # ONNX Runtime has no such kernel
        return ReferenceEvaluator(model).run(None, feeds)


class Graph:
    def __init__(self, seed, nodes, only=()):
        self.rng = np.random.default_rng(seed)
        self.float, self.opset = np.dtype(self.choice(["float32"] * 7 + ["float64", "float16", BFLOAT16])), self.choice([o for o in OPSETS if all(since(n) <= o for n in only)])
        self.zeros, self.large = self.chance(1 / 8), self.chance(0.3)
        self.values, self.steps, self.inputs, self.constants, self.used = [], [], [], {}, collections.Counter()
        for dtype in (self.float, self.float, np.dtype("int64"), np.dtype("bool"), np.dtype(self.choice(["int32", "uint8", "int8", "uint16", "int16", "uint32", "uint64"]))):
            self.values.append(self.fresh([self.extent(4, 0 if self.zeros else 1) for _ in range(self.int(1, 2 if self.large else 3))], dtype))
        names = sorted(n for n in SAMPLERS if (not only or n in only) and since(n) <= self.opset)
        for _ in range(40 * nodes):
            if len(self.steps) >= nodes:
                break
            name, steps, values = self.choice(names), len(self.steps), len(self.values)
            try:
                SAMPLERS[name](self)
                self.used[name] += 1
            except Unfit:
                del self.steps[steps:], self.values[values:]  # what it began with

    # ---- chance ----
    def int(self, low, high):
        return int(self.rng.integers(low, high + 1)) if high >= low else low

    def extent(self, most, least=1):
        """A dim: up to `most`, or, in graphs of large values, one that fills vectors, with or without a rest."""
        return self.choice([1, 3, 8, 16, 17, 31, 33]) if self.large and self.chance(0.7) else self.int(least, most)

    def chance(self, p=0.5):
        return bool(self.rng.random() < p)

    def choice(self, options):
        if not options:
            raise Unfit
        return options[self.int(0, len(options) - 1)]

    # ---- values ----
    def random(self, shape, dtype):
        dtype = np.dtype(dtype)
        if dtype == bool:
            return self.rng.random(shape) < 0.5
        low = 0 if dtype.kind == "u" else -4
        whole = self.rng.integers(low, 5, shape)
        return (whole + self.rng.integers(0, 4, shape) / 4).astype(dtype) if dtype.kind == "f" or dtype == BFLOAT16 else whole.astype(dtype)

    def fresh(self, shape, dtype):
        """A new input."""
        return self.new_input(self.random(shape, dtype))

    def fresh_distinct(self, shape, dtype):
        count = int(np.prod(shape))
        return self.new_input(self.rng.permutation(count).reshape(shape).astype(dtype) - np.dtype(dtype).type(count // 2))

    def new_input(self, array):
        value = Value(f"x{len(self.inputs)}", np.asarray(array), is_exact(np.asarray(array)))
        self.inputs.append(value)
        return value

    def constant(self, array):
        value = Value(f"c{len(self.constants)}", np.asarray(array), is_exact(np.asarray(array)))
        self.constants[value.name] = value
        return value

    def operand(self, array):
        """An input or a constant."""
        return self.new_input(array) if self.chance(0.4) else self.constant(array)

    def shape_operand(self, numbers, scalar=False):
        return self.operand(np.array(numbers[0] if scalar else numbers, np.int64).reshape([] if scalar else [len(numbers)]))

    def pick_value(self, fits, exact=False):
        """A value of the graph, the later the likelier."""
        found = [v for v in self.values if (v.exact or not exact) and v.size < 1200 and fits(v)]
        return found[-1 - min(int(self.rng.geometric(0.35)) - 1, len(found) - 1)] if found else self.choice(found)

    def broadcastable(self, to, dtype=None, exact=False):
        dtype = dtype or to.dtype
        if self.chance(0.4):
            same = [v for v in self.values if v.dtype == dtype and v.shape == to.shape and (v.exact or not exact)]
            if same:
                return self.choice(same)
        shape = [d if self.chance(0.7) else 1 for d in to.shape][self.int(0, to.ndim):]
        array = self.random(shape, dtype)
        return self.operand(array)

    @staticmethod
    def onnx_type(dtype):
        return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))

    @staticmethod
    def tensor(array):
        return numpy_helper.from_array(np.asarray(array))

    # ---- nodes ----
    def node(self, op, operands, outputs=1, exact=False, **attributes):
        names = [f"v{len(self.steps)}_{i}" for i in range(outputs)]
        return self.add(helper.make_node(op, [v.name if v is not None else "" for v in operands], names, **attributes), [v for v in operands if v is not None], exact)

    def add(self, proto, inputs, exact):
        by_name = {v.name: v.array for v in inputs}
        # As of the newest opset that ONNX Runtime knows, where the operator has not changed since.
        changed = onnx.defs.get_schema(proto.op_type, self.opset, "").since_version
        opset = min(self.opset, max(changed, JUDGED))
        model = reference_cases.build_model([proto], by_name, list(proto.output), opset, ())
        try:
            arrays = [np.asarray(a) for a in evaluate(model, by_name)]
        except Exception as error:
            raise Unfit from error
        known = {k: v for k, v in by_name.items() if v.dtype == np.int64 and v.ndim <= 1}  # axes and shapes: what ONNX infers shapes from
        stated = reference_cases.build_model([proto], {k: v for k, v in by_name.items() if k not in known}, list(proto.output), opset, (), known)
        declared = {v.name: v.type.tensor_type for v in onnx.shape_inference.infer_shapes(stated).graph.output}
        if any(declared[name].elem_type not in (0, self.onnx_type(a.dtype)) for name, a in zip(proto.output, arrays)):
            raise Unfit  # ONNX's reference sums small integers in NumPy's wider ones
        if any(declared[name].HasField("shape") and not fits_shape(a, declared[name].shape.dim) for name, a in zip(proto.output, arrays)):
            raise Unfit  # the reference drops a window of pooling with ceil_mode; ONNX Runtime forgets negative axes where nothing is summed
        for a in arrays:
            if a.size > 8000 or a.ndim > 5 or (not self.zeros and a.size == 0) or (is_float(a) and not np.all(np.abs(a.astype(np.float64)) < 1e3)):
                raise Unfit
        exact = exact and all(v.exact for v in inputs)
        values = [Value(name, a, is_exact(a) if exact or not is_float(a) else False) for name, a in zip(proto.output, arrays)]
        if not exact and any(not v.exact for v in inputs):
            for v in values:
                v.exact = False
        self.steps.append(Step(proto, inputs, values))
        self.values += values
        return values[0]

    def subgraph(self, name, nodes, inputs, outputs):
        def port(n, dtype, shape=None):
            return helper.make_tensor_value_info(n, self.onnx_type(dtype), shape)
        return helper.make_graph(nodes, name, [port(*i) for i in inputs], [port(*o) for o in outputs])

    def branch(self, condition, a):
        k = len(self.steps)
        two = self.constant(np.array(2, a.dtype))
        then = self.subgraph("then", [helper.make_node("Add", [a.name, two.name], [f"t{k}"])], [], [(f"t{k}", a.dtype)])
        other = self.subgraph("else", [helper.make_node("Concat", [a.name, a.name], [f"e{k}"], axis=0) if a.ndim and self.chance() else helper.make_node("Neg", [a.name], [f"e{k}"])], [],
                              [(f"e{k}", a.dtype)])
        self.add_region(helper.make_node("If", [condition.name], [f"v{k}_0"], then_branch=then, else_branch=other), [condition, a, two])

    def loop(self, trips, a):
        k = len(self.steps)
        half, yes = self.constant(np.array(0.5, a.dtype)), self.constant(np.array(True))
        grows = a.ndim > 0 and self.chance(0.3)
        body = [helper.make_node("Identity", ["go"], ["on"]), helper.make_node("Mul", ["s", half.name], ["h"]),
                helper.make_node("Concat", ["h", a.name], ["next"], axis=0) if grows else helper.make_node("Add", ["h", a.name], ["next"]), helper.make_node("ReduceSum", ["h"], ["row"], keepdims=0)]
        graph = self.subgraph("body", body, [("i", np.int64, []), ("go", bool, []), ("s", a.dtype)], [("on", bool, []), ("next", a.dtype), ("row", a.dtype)])
        self.add_region(helper.make_node("Loop", [trips.name, yes.name, a.name], [f"v{k}_0", f"v{k}_1"], body=graph), [trips, yes, a, half])

    def scan(self, a, state):
        k = len(self.steps)
        half = self.constant(np.array(0.5, a.dtype))
        body = [helper.make_node("Mul", ["s", half.name], ["h"]), helper.make_node("Add", ["h", "row"], ["next"]), helper.make_node("Sub", ["row", "h"], ["out"])]

        def port(n):
            return helper.make_tensor_value_info(n, self.onnx_type(a.dtype), a.shape[1:])
        graph = helper.make_graph(body, "body", [port("s"), port("row")], [port("next"), port("out")])
        self.add_region(helper.make_node("Scan", [state.name, a.name], [f"v{k}_0", f"v{k}_1"], body=graph, num_scan_inputs=1, scan_input_directions=[self.int(0, 1)]), [state, a, half])

    def add_region(self, proto, inputs):
        """As add(), for nodes whose bodies see values from outside: those become inputs of the little model too."""
        self.add(proto, inputs, False)


def write_case(folder, graph, steps, seed):
    """The model of these steps; what others made is an input."""
    made = {v.name for s in steps for v in s.outputs}
    needed = {v.name: v for s in steps for v in s.inputs if v.name not in made}
    constants = {k: v.array for k, v in needed.items() if k in graph.constants}
    feeds = {k: v.array for k, v in needed.items() if k not in constants}
    outputs = [v for s in steps for v in s.outputs]
    model = reference_cases.build_model([s.proto for s in steps], feeds, [v.name for v in outputs], graph.opset, (), constants)
    rng = np.random.default_rng(seed)
    for value in model.graph.input:  # some dims have names, each its own
        for k, dim in enumerate(value.type.tensor_type.shape.dim):
            if rng.random() < 0.3 and dim.dim_value != 0:
                dim.dim_param = f"{value.name}_{k}"
    for port, value in zip(model.graph.output, outputs):
        port.CopyFrom(helper.make_tensor_value_info(port.name, helper.np_dtype_to_tensor_dtype(value.dtype), [None] * value.ndim))
    onnx.checker.check_model(model)
    reference_cases.write_case(folder, model, feeds, [v.array for v in outputs])
    write_tolerance(folder, graph.float.name)


def write_tolerance(folder, kind):
    """Where the evaluator reads it."""
    rtol, atol = map(float, TOLERANCES[kind])
    (pathlib.Path(folder) / "data.json").write_text(json.dumps({"rtol": rtol, "atol": atol}))


def write_found(folder, samples=2):
    """The graphs of found/, each with so many draws of its open dims and inputs."""
    for file in sorted((pathlib.Path(__file__).parent / "found").glob("*.txt")):
        text = "\n".join(line for line in file.read_text().splitlines() if not line.startswith("#"))
        for k in range(samples):
            model, rng, dims, feeds = onnx.parser.parse_model(text), np.random.default_rng([k, *file.stem.encode()]), {}, {}
            for value in model.graph.input:
                kind = value.type.tensor_type
                shape = [d.dim_value if d.HasField("dim_value") else dims.setdefault(d.dim_param, int(rng.integers(1, 5))) for d in kind.shape.dim]
                feeds[value.name] = rng.integers(0 if kind.elem_type != onnx.TensorProto.FLOAT else -4, 5, shape).astype(helper.tensor_dtype_to_np_dtype(kind.elem_type))
            judge = ReferenceEvaluator(model).run if "# judge: ONNX's reference" in file.read_text() else lambda _, f, m=model: evaluate(m, f)
            case = folder / f"{file.stem}_{k}"
            reference_cases.write_case(case, model, feeds, judge(None, feeds))
            write_tolerance(case, "float32")


class Runner:
    def __init__(self, metac, evaluator):
        self.metac, self.evaluator = metac, evaluator

    def run(self, folder, kind):
        """{(case, way): detail} of what failed, and of what was refused."""
        failed, refused = {}, {}
        rtol, atol = TOLERANCES[kind]
        for way, options in WAYS.items():
            for case, (status, detail) in reference_cases.verify(self.metac, folder, "--rtol", rtol, "--atol", atol, *options).items():
                if status == "failed":
                    failed[case, way] = detail
                elif status == "skipped" and way == "open":  # what decides a rank
                    refused[case, way] = detail
                elif status == "skipped":
                    failed[case, way] = f"refused: {detail}"
        if self.evaluator and kind == "float32":
            done = subprocess.run([self.evaluator, str(folder)], capture_output=True, text=True)
            for line in done.stdout.splitlines():
                if line.startswith("FAIL "):
                    case, _, detail = line[5:].partition(": ")
                    failed[case, "evaluator"] = detail
        return failed, refused

    def fails(self, graph, steps, seed, way):
        with tempfile.TemporaryDirectory(prefix="metac-fuzz-") as folder:
            write_case(pathlib.Path(folder) / "case", graph, steps, seed)
            rtol, atol = TOLERANCES[graph.float.name]
            if way == "evaluator":
                return "FAIL " in subprocess.run([self.evaluator, folder], capture_output=True, text=True).stdout
            return any(s == "failed" or s == "skipped" and way != "open" for s, _ in reference_cases.verify(self.metac, folder, "--rtol", rtol, "--atol", atol, *WAYS[way]).values())

    def is_nearer(self, folder, kind):
        """Whether a stored answer of 16 bits, which rounds where ONNX's reference does, is worse than metac's."""
        rtol, atol = map(float, TOLERANCES[kind])
        try:
            return kind in ("float16", "bfloat16") and double_answers.compare(self.metac, folder, rtol, atol)[0]
        except Exception:  # the same graph in double, or metac's run of it, is refused
            return False

    def reduce(self, graph, seed, way):
        """Leaves out one step after the other, as long as the rest still fails."""
        steps = list(graph.steps)
        for size in (len(steps) // 2, len(steps) // 4, 1):
            at = 0
            while size > 0 and at < len(steps):
                fewer = steps[:at] + steps[at + size:]
                if fewer and self.fails(graph, fewer, seed, way):
                    steps = fewer
                else:
                    at += size
        return steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--evaluator")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the number of the first graph: a long run in several parts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=12, help="at most so many in a graph")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], help="graphs of these samplers alone: NAME,NAME")
    parser.add_argument("--keep", type=pathlib.Path, default=ROOT / "build/fuzz-failures")
    arguments = parser.parse_args()
    runner, used, types, passed, failed, refusals = Runner(arguments.metac, arguments.evaluator), collections.Counter(), collections.Counter(), 0, 0, collections.Counter()
    if not arguments.only:
        with tempfile.TemporaryDirectory(prefix="metac-found-") as temporary:
            write_found(pathlib.Path(temporary))
            failures, refused = runner.run(pathlib.Path(temporary), "float32")
            for (case, way), detail in sorted((failures | refused).items()):
                print(f"FAIL  {case} ({way}): {detail[:300]}")
            failed += len({case for case, _ in failures | refused})
            passed += len(os.listdir(temporary)) - failed
    batch = 100
    end = arguments.first + arguments.count
    for start in range(arguments.first, end, batch):
        graphs = {}
        with tempfile.TemporaryDirectory(prefix="metac-fuzz-") as temporary:
            for i in range(start, min(start + batch, end)):
                rng = np.random.default_rng([arguments.seed, i])
                graph = Graph([arguments.seed, i], int(rng.integers(2, arguments.nodes + 1)), arguments.only)
                if graph.steps:
                    name = f"seed{arguments.seed}_{i}"
                    write_case(pathlib.Path(temporary) / graph.float.name / name, graph, graph.steps, i)
                    graphs[name] = (graph, i)
                    used.update(graph.used)
                    types.update(v.dtype.name for s in graph.steps for v in s.outputs)
            broken = {}
            for kind in sorted(os.listdir(temporary)):
                failures, refused = runner.run(pathlib.Path(temporary) / kind, kind)
                broken |= failures
                for (case, way), detail in refused.items():
                    refusals[f"{way}: {detail.split('model.onnx: ')[-1][:150]}"] += 1
        wrong = set()
        for (case, way), detail in sorted(broken.items()):
            graph, seed = graphs[case]
            steps = runner.reduce(graph, seed, way)
            folder = arguments.keep / f"graph_{case}_{way}"
            shutil.rmtree(folder, ignore_errors=True)
            write_case(folder, graph, steps, seed)
            if runner.is_nearer(folder, graph.float.name):
                print(f"{case} ({way}): what {', '.join(s.proto.op_type for s in steps)} stored is farther from the same graph in double than metac's answer", flush=True)
                continue
            wrong.add(case)
            print(f"FAIL  {case} ({way}): {detail[:300]}\n      reduced to {', '.join(s.proto.op_type for s in steps)} in {folder}", flush=True)
        passed, failed = passed + len(graphs) - len(wrong), failed + len(wrong)
        if arguments.count > 200:
            print(f"up to graph {min(start + batch, end) - 1}: {passed} passed, {failed} failed", flush=True)
    for text, count in refusals.most_common(20):
        print(f"refused {count} times: {text}")
    known = {s.name for s in onnx.defs.get_all_schemas() if s.domain == "" and not s.deprecated}
    missing = sorted(known - set(LEFT_OUT) - {n.split()[0] for n in used})
    print(f"{sum(used.values())} nodes of {len({n.split()[0] for n in used})} operators" + (f"; none of {', '.join(missing)}" if missing and not arguments.only else ""))
    print("values: " + ", ".join(f"{n} of {t}" for t, n in types.most_common()))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
