#!/usr/bin/env python3
"""Models by NNSmith (PyPI's nnsmith), which solves for graphs that are valid and lets PyTorch export them: metac against ONNX Runtime.

    python3 run_nnsmith.py --metac build/release/bin/metac --python PROGRAM [--count 200] [--first 0] [--seed 1] [--nodes 10] [--cache .cache/nnsmith]
    needs: pip install numpy onnx onnxruntime; PROGRAM is the Python of an environment with NNSmith (../tools/pytorch.txt)

Each model runs with static shapes, as a library would and with open ranks, under fusions, processors and numbers of threads that are drawn, as in
random_graphs.py, with two sets of inputs. Left out, and counted: what NNSmith or PyTorch does not make, what ONNX Runtime refuses, and models
of which a millionth of an input decides the answer (a floor, a comparison of what was rounded).
Failures are kept in build/fuzz-failures/. Ends with 'N passed, N failed, N skipped'; skipped is what was left out, or 1 where the environment is not there.
"""
import argparse
import collections
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "conformance"))
import reference_cases  # noqa: E402
from fuzz_cases import TOLERANCES  # noqa: E402
from grow_graph import evaluate  # noqa: E402
from random_graphs import ROOT, Runner, draw_ways  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent


def kind_of(model):
    """The narrowest float in it, which decides how far answers may be apart."""
    return "float16" if any(v.data_type == onnx.TensorProto.FLOAT16 for v in model.graph.initializer) or any(
        v.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16 for v in onnx.shape_inference.infer_shapes(model).graph.value_info) or any(
        v.type.tensor_type.elem_type == onnx.TensorProto.FLOAT16 for v in [*model.graph.input, *model.graph.output]) else "float32"


def is_close(a, b, kind):
    if a.dtype.kind != "f":
        return np.array_equal(a, b)
    rtol, atol = map(float, TOLERANCES[kind])
    with np.errstate(all="ignore"):
        return a.shape == b.shape and bool(np.all((np.abs(a.astype(np.float64) - b) <= atol + rtol * np.abs(b.astype(np.float64))) | (a == b) | np.isnan(a) & np.isnan(b)))


def nudged(array, rng):
    """Every number a millionth off (at 16 bits: one bit)."""
    if array.dtype.kind != "f":
        return array
    return np.asarray(array * (1 + rng.choice([-1, 1], array.shape) * max(1e-6, float(np.finfo(array.dtype).eps))).astype(array.dtype), array.dtype)


def nudge_weights(model, rng):
    other = onnx.ModelProto()
    other.CopyFrom(model)
    for weight in other.graph.initializer:
        weight.CopyFrom(numpy_helper.from_array(np.asarray(nudged(numpy_helper.to_array(weight), rng)), weight.name))
    return other


def write_case(source, cases, seed):
    """None, or why the model is left out."""
    rng, model = np.random.default_rng(seed), onnx.load(source / "model.onnx")
    kind = kind_of(model)
    folder = cases / kind / source.name
    with np.load(source / "inputs.npz") as file:
        first = {v.name: file[v.name] for v in model.graph.input}
    other = {k: rng.permutation(v.reshape(-1)).reshape(v.shape) for k, v in first.items()}
    try:
        neighbour = nudge_weights(model, rng)
        with np.errstate(all="ignore"):
            answers = [evaluate(model, feeds) for feeds in (first, other)]
            near = [evaluate(neighbour, {k: nudged(v, rng) for k, v in feeds.items()}) for feeds in (first, other)]
    except Exception as error:
        return f"neither ONNX Runtime nor ONNX's reference has an answer: {str(error).splitlines()[0][-100:]}"
    if not all(is_close(np.asarray(a), np.asarray(b), kind) for x, y in zip(answers, near) for a, b in zip(x, y)):
        return "a millionth of an input decides"
    reference_cases.write_case(folder, model, first, answers[0])
    reference_cases.write_data_set(folder, model, other, answers[1], 1)
    reference_cases.write_data_set(folder, model, first, answers[0], 2)
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=10, help="at most so many operators in a model")
    parser.add_argument("--jobs", type=int, default=0, help="models at once; 0: one per CPU")
    parser.add_argument("--cache", type=pathlib.Path, default=ROOT / ".cache/nnsmith")
    parser.add_argument("--python", required=True, type=pathlib.Path, help="of an environment that has NNSmith")
    parser.add_argument("--keep", type=pathlib.Path, default=ROOT / "build/fuzz-failures")
    arguments = parser.parse_args()
    if not arguments.python.exists():
        print(f"skipped: there is no {arguments.python}\n0 passed, 0 failed, 1 skipped")
        return 0
    runner = Runner(arguments.metac, None, arguments.jobs, 120)
    cpus, left_out, passed, failed = runner.cpus(), collections.Counter(), 0, 0
    environment = os.environ | {"XDG_CACHE_HOME": str(arguments.cache.resolve() / "asked")}
    with tempfile.TemporaryDirectory(prefix="metac-nnsmith-") as temporary:
        made, cases = pathlib.Path(temporary) / "made", pathlib.Path(temporary) / "cases"
        made.mkdir(), cases.mkdir()
        done = subprocess.run([str(arguments.python), str(HERE / "nnsmith_models.py"), "--out", str(made), "--nodes", str(arguments.nodes),
                               "--first", str(arguments.first), "--count", str(arguments.count), "--seed", str(arguments.seed)],
                              env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        folders = sorted(made.iterdir())
        if not folders:
            print(f"NNSmith made no model: {done.stdout[-2000:]}\n0 passed, 1 failed")
            return 1
        left_out["no model by NNSmith and PyTorch"] = arguments.count - len(folders)
        for k, folder in enumerate(folders):
            if reason := write_case(folder, cases, arguments.seed * 100000 + k):
                left_out[reason] += 1
        broken = {}
        for way, options in draw_ways(np.random.default_rng([arguments.seed, arguments.first, 6]), cpus).items():
            for kind in os.listdir(cases):
                failures, refused = runner.run(cases / kind, kind, {way: options})
                for (case, _), detail in (failures | refused).items():
                    broken.setdefault((kind, case), []).append(f"({way}): {detail[:300]}")
        for (kind, case), details in sorted(broken.items()):
            if runner.is_nearer(cases / kind / case, kind):
                left_out["ONNX Runtime is farther from the same graph in double than metac"] += 1
                continue
            failed += 1
            shutil.copytree(cases / kind / case, arguments.keep / case, dirs_exist_ok=True)
            print(f"FAIL  {case} in {arguments.keep / case}\n      " + "\n      ".join(details), flush=True)
        passed = sum(1 for _ in cases.glob("*/*")) - len(broken)
    for text, count in left_out.most_common(12):
        print(f"left out {count} times: {text}")
    print(f"{passed} passed, {failed} failed, {sum(left_out.values())} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
