#!/usr/bin/env python3
"""Does `metac bench A --against B` see a slow-down of a few percent, and does it cry wolf?

    python3 slow_down_trials.py --metac build/ci/bin/metac [--trials 100] [--layers 33] [--seconds 3] [--threads 1]

Three folders are compiled: a chain of equal layers, the same once more, and a chain that is one layer longer (3 % more work
with 33). A trial compares the longer with the first, another the twin with the first. Printed: what a long comparison says
of the true difference, in how many trials it was found (`slower`), in how many the twin was (a false alarm), and how long a
trial took. Ends with status 1 where fewer than 95 % are found or more than 2 % are false.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def write_chain(path, layers, rows=64, width=256):
    draw = np.random.default_rng(1)
    nodes, weights, value = [], [], "x"
    for i in range(layers):
        weights.append(numpy_helper.from_array((draw.standard_normal((width, width)) / width ** 0.5).astype(np.float32), f"w{i}"))
        nodes += [helper.make_node("MatMul", [value, f"w{i}"], [f"m{i}"]), helper.make_node("Tanh" if i % 8 == 7 else "Relu", [f"m{i}"], [f"v{i}"])]
        value = f"v{i}"
    shape = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "chain", [shape("x", TensorProto.FLOAT, [rows, width])], [shape(value, TensorProto.FLOAT, [rows, width])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def compare(metac, newer, older, seconds, threads):
    done = subprocess.run([metac, "bench", newer, "--against", older, "--json", "--seconds", str(seconds), "--threads", str(threads)], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise SystemExit(f"bench: status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--metac", type=pathlib.Path, required=True)
    p.add_argument("--trials", type=int, default=100)
    p.add_argument("--layers", type=int, default=33)
    p.add_argument("--seconds", type=float, default=3)
    p.add_argument("--threads", type=int, default=1)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as work:
        folders = {}
        for name, layers in (("first", a.layers), ("twin", a.layers), ("longer", a.layers + 1)):
            model = pathlib.Path(work) / f"{name}.onnx"
            write_chain(model, layers)
            folders[name] = str(model.with_suffix(""))
            subprocess.run([a.metac, "compile", model, "-o", folders[name], "--name", "chain", "--cpu", "native"], check=True, capture_output=True)
        found = {"twin": 0, "longer": 0}
        for name in found:
            truth = compare(a.metac, folders[name], folders["first"], 10 * a.seconds, a.threads)
            print(f"{name}: {truth}", flush=True)
        start = time.monotonic()
        for k in range(a.trials):
            for name in found:
                seen = compare(a.metac, folders[name], folders["first"], a.seconds, a.threads)
                found[name] += seen["slower"]
                if seen["slower"] != (name == "longer"):
                    print(f"trial {k}, {name}: {seen}", flush=True)
        print(f"found {found['longer']} of {a.trials}, false alarms {found['twin']} of {a.trials}, {(time.monotonic() - start) / a.trials / 2:.1f} s each")
        return 1 if found["longer"] < 0.95 * a.trials or found["twin"] > 0.02 * a.trials else 0


if __name__ == "__main__":
    sys.exit(main())
