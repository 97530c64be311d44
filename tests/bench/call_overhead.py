#!/usr/bin/env python3
"""Measures what a call costs beside the arithmetic: tiny models through the C interface on one thread.

    python3 call_overhead.py --metac build/release/bin/metac [--limit-ns 2000]
    needs: a C compiler, pip install numpy onnx

One line a model with the ns of a call; the exit status is 1 if one is above --limit-ns.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SOURCE = pathlib.Path(__file__).with_name("call_overhead.c")


def model(nodes, inputs, outputs, weights=()):
    def values(ports):
        return [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in ports]
    graph = helper.make_graph(nodes, "tiny", values(inputs), values(outputs), [numpy_helper.from_array(w, n) for n, w in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def models():
    add = [helper.make_node("Add", ["a", "b"], ["y"])]
    yield "a sum of four numbers", model(add, [("a", [4]), ("b", [4])], [("y", [4])])
    yield "the same with an open batch", model(add, [("a", ["batch", 4]), ("b", ["batch", 4])], [("y", ["batch", 4])])
    rng = np.random.default_rng(1)
    nodes, weights, x = [], [], "x"
    for i in range(3):
        weights += [(f"w{i}", rng.standard_normal((16, 16), np.float32)), (f"b{i}", rng.standard_normal(16, np.float32))]
        nodes += [helper.make_node("Gemm", [x, f"w{i}", f"b{i}"], [f"g{i}"]), helper.make_node("Relu", [f"g{i}"], [f"y{i}"])]
        x = f"y{i}"
    for batch in (1, "batch"):
        yield f"three layers of 16 neurons, batch {batch}", model(nodes, [("x", [batch, 16])], [("y2", [batch, 16])], weights)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--limit-ns", type=float, default=2000)
    arguments = parser.parse_args()
    slow = 0
    for name, what in models():
        with tempfile.TemporaryDirectory(prefix="metac-overhead-") as folder:
            work = pathlib.Path(folder)
            onnx.save(what, work / "tiny.onnx")
            library = work / "library"
            subprocess.run([arguments.metac, "compile", str(work / "tiny.onnx"), "-o", str(library), "--name", "net", "--cpu", "native"], check=True, stdout=subprocess.DEVNULL)
            subprocess.run(["cc", "-std=c99", "-D_GNU_SOURCE", "-O2", str(SOURCE), "-o", str(work / "call"), f"-I{library}/include", f"-L{library}/lib", "-lnet", f"-Wl,-rpath,{library}/lib"],
                           check=True)
            ns = float(subprocess.run([str(work / "call")], check=True, capture_output=True, text=True).stdout)
        slow += ns > arguments.limit_ns
        print(f"{name}: {ns:.0f} ns", flush=True)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
