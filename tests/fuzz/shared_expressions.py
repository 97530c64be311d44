#!/usr/bin/env python3
"""Expressions shared sixty deep, behind and before every kind of kernel: every step reads the one before several times.

    python3 shared_expressions.py --metac build/release/bin/metac [--count 40] [--deep 60] [--seed S] [--only REGEX]
    needs: pip install numpy onnx onnxruntime

A walk that takes every path of x*x*..., instead of meeting every node once, does 2^60 steps: the compiler would never end. Each model is a
kernel, a chain and sometimes a kernel behind it, handed to one of the commands: inspect with each fusion, compile for CUDA without building,
derivatives, training programs, and run, whose answer is compared with ONNX Runtime's. None may take --seconds (a hang, not a matter of speed;
the machine may be busy). The last line is 'N passed, N failed'.
"""
import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


class Graph:
    def __init__(self):
        self.nodes, self.inputs, self.constants, self.count = [], [], [], 0

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def add(self, op, inputs, outputs=1, **attributes):
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value, dtype=np.float32):
        name = self.name()
        self.constants.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def weights(self, *shape):
        return self.constant(np.random.default_rng(self.count).standard_normal(shape) / max(1, shape[-1]) ** 0.5)

    def input(self, shape, dtype=F):
        name = f"in{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name


# ---- chains: (x, k) -> the next; of floats ----
def square(g, x, k):
    return g.add("Mul", [x, x])


def double(g, x, k):
    return g.add("Add", [x, x])


def where(g, x, k):
    return g.add("Where", [g.add("Greater", [x, g.constant(0.1 * (k % 7) - 0.3)]), g.add("Mul", [x, g.constant(0.75)]), g.add("Add", [x, g.constant(0.125)])])


def between(g, x, k):
    return g.add("Max", [g.add("Min", [x, g.add("Mul", [x, g.constant(0.5)])]), g.add("Sub", [x, g.constant(1.0)])])


def modulo(g, x, k):
    return g.add("Mod", [g.add("Add", [x, x]), g.constant(1.5)], fmod=1)


def gated(g, x, k):
    return g.add("Mul", [x, g.add("Sigmoid", [x])])


def difference(g, x, k):
    return g.add("Sub", [x, g.add("Mul", [x, g.add("Clip", [x, g.constant(-0.5), g.constant(0.5)])])])


def one_of(g, x, k):  # what a position decides, and what data decide, in turn
    rows = g.add("Where", [g.add("Less", [g.add("Mul", [x, g.constant(2.0)]), x]), g.add("Neg", [x]), x])
    return g.add("Where", [g.constant([k % 3 == 0], bool), g.add("Abs", [rows]), g.add("Mul", [rows, g.constant(0.9)])])


def narrow(g, x, k):
    return g.add("Cast", [g.add("Add", [g.add("Cast", [x], to=TensorProto.DOUBLE), g.add("Cast", [g.add("Cast", [x], to=TensorProto.FLOAT16)], to=TensorProto.DOUBLE)])], to=F)


def whole(g, x, k):  # through int64 and back
    n = g.add("Cast", [x], to=I)
    n = g.add("Where", [g.add("Less", [n, g.constant(5, np.int64)]), g.add("Add", [n, n]), g.add("Mod", [n, g.constant(7, np.int64)])])
    return g.add("Add", [g.add("Cast", [n], to=F), g.add("Mul", [x, g.constant(0.25)])])


def condition(g, x, k):
    a = g.add("Greater", [x, g.constant(0.0)])
    b = g.add("Xor", [a, g.add("Or", [g.add("Not", [a]), g.add("Less", [x, g.constant(0.01 * k)])])])
    return g.add("Where", [g.add("And", [a, g.add("Or", [a, b])]), g.add("Mul", [x, g.constant(0.5)]), g.add("Neg", [x])])


FLOATS = [square, double, where, between, modulo, gated, difference, one_of, narrow, whole, condition]


# ---- of int64 ----
def int_square(g, x, k):
    return g.add("Mul", [x, x])


def int_double(g, x, k):
    return g.add("Add", [x, x])


def int_where(g, x, k):
    return g.add("Where", [g.add("Less", [x, g.constant(3 + k, np.int64)]), g.add("Add", [x, g.constant(1, np.int64)]), g.add("Mod", [x, g.constant(5, np.int64)])])


def int_between(g, x, k):
    return g.add("Max", [g.add("Min", [x, g.constant(100 - k, np.int64)]), g.add("Sub", [x, g.constant(2, np.int64)])])


def int_divided(g, x, k):
    return g.add("Div", [g.add("Add", [x, g.add("Mod", [x, g.constant(3, np.int64)])]), g.constant(1 + k % 2, np.int64)])


INTEGERS = [int_square, int_double, int_where, int_between, int_divided]


# ---- kernels: float [1, 8, 6, 6] to float of some shape ----
def matmul(g, x):
    return g.add("MatMul", [x, g.weights(6, 6)])


def gemm(g, x):
    return g.add("Gemm", [g.add("Reshape", [x, g.constant([8, 36], np.int64)]), g.weights(36, 16), g.weights(16)])


def conv(g, x):
    return g.add("Conv", [x, g.weights(16, 8, 3, 3), g.weights(16)], pads=[1, 1, 1, 1])


def strided(g, x):
    return g.add("Conv", [x, g.weights(4, 8, 3, 3)], strides=[2, 2])


def depthwise(g, x):
    return g.add("Conv", [x, g.weights(8, 1, 3, 3)], group=8, pads=[1, 1, 1, 1])


def grouped(g, x):
    return g.add("Conv", [x, g.weights(8, 4, 3, 3)], group=2)


def transposed(g, x):
    return g.add("ConvTranspose", [x, g.weights(8, 4, 3, 3)], strides=[2, 2])


def row_sum(g, x):
    return g.add("ReduceSum", [x, g.constant([-1], np.int64)])


def row_max(g, x):
    return g.add("ReduceMax", [x], axes=[1, 2])


def row_product(g, x):
    return g.add("ReduceProd", [x], axes=[3])


def softmax(g, x):
    return g.add("Softmax", [x], axis=-1)


def layer_norm(g, x):
    return g.add("LayerNormalization", [x, g.weights(6), g.weights(6)], axis=-1)


def attention(g, x):
    scores = g.add("Softmax", [g.add("MatMul", [x, g.add("Transpose", [x], perm=[0, 1, 3, 2])])], axis=-1)
    return g.add("MatMul", [scores, x])


def max_pool(g, x):
    return g.add("MaxPool", [x], kernel_shape=[2, 2])


def average_pool(g, x):
    return g.add("AveragePool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def winograd(g, x):
    wide = g.add("Resize", [x, "", g.constant([1, 2, 4, 4])], mode="nearest")
    return g.add("Conv", [wide, g.weights(16, 16, 3, 3)], pads=[1, 1, 1, 1])


def scatter(g, x):
    return g.add("ScatterElements", [x, g.constant(np.full((1, 8, 6, 2), 3), np.int64), g.add("Slice", [x, g.constant([0], np.int64), g.constant([2], np.int64), g.constant([3], np.int64)])], axis=3, reduction="add")


def gather(g, x):
    return g.add("Gather", [x, g.constant([3, 0, 5], np.int64)], axis=2)


def resize(g, x):
    return g.add("Resize", [x, "", g.constant([1, 1, 1.5, 1.5])], mode="linear")


def concat(g, x):
    return g.add("Concat", [x, g.add("Neg", [x]), g.add("Slice", [x, g.constant([1], np.int64), g.constant([4], np.int64), g.constant([1], np.int64)])], axis=1)


def pad(g, x):
    return g.add("Pad", [x, g.constant([0, 0, 1, 1, 0, 0, 1, 1], np.int64)], mode="reflect")


def largest(g, x):
    return g.add("TopK", [x, g.constant([2], np.int64)], 2, axis=-1)[0]


def quantised(g, x):
    q, scale, zero = g.add("DynamicQuantizeLinear", [x], 3)
    product = g.add("MatMulInteger", [q, g.constant(np.arange(36).reshape(6, 6) % 11 - 5, np.int8), zero])
    return g.add("Mul", [g.add("Cast", [product], to=F), scale])


def cumulative(g, x):
    return g.add("CumSum", [x, g.constant(3, np.int64)])


def turned(g, x):
    return g.add("Transpose", [x], perm=[0, 2, 3, 1])


KERNELS = [matmul, gemm, conv, strided, depthwise, grouped, transposed, row_sum, row_max, row_product, softmax, layer_norm, attention, max_pool, average_pool, winograd, scatter, gather, resize, concat, pad,
           largest, quantised, cumulative, turned]



def chain(g, x, step, deep):
    for k in range(deep):
        x = step(g, x, k)
    return x


# ---- where chains stand: each gives the output's dtype ----
def behind(g, kernel, step, deep, more):
    y = chain(g, kernel(g, g.input([1, 8, 6, 6])), step, deep)
    return g.add("ReduceMax", [y], keepdims=1) if more else y


def before(g, kernel, step, deep, more):
    x = g.input([1, 8, 6, 6])
    return kernel(g, chain(g, g.add("Transpose", [x], perm=[0, 1, 3, 2]) if more else x, step, deep))


def looped(g, kernel, step, deep, more):
    body = Graph()
    body.count = 1000
    y = chain(body, kernel(body, "carried"), step, deep)
    last = body.add("Reshape", [body.add("ReduceMax", [y], keepdims=0), body.constant([1, 1, 1, 1], np.int64)])
    carried = body.add("Add", ["carried", last])
    again = body.add("Identity", ["go_on"])
    graph = helper.make_graph(body.nodes, "body", [helper.make_tensor_value_info("i", I, []), helper.make_tensor_value_info("go_on", B, []), helper.make_tensor_value_info("carried", F, [1, 8, 6, 6])],
                              [helper.make_tensor_value_info(again, B, []), helper.make_tensor_value_info(carried, F, [1, 8, 6, 6])], body.constants)
    return g.add("Loop", [g.constant(9, np.int64), "", g.input([1, 8, 6, 6])], body=graph)


def indices(g, kernel, step, deep, more):
    """Places made by a chain of integers: of a Range, or of data."""
    n = g.add("Range", [g.constant(0, np.int64), g.constant(6, np.int64), g.constant(1, np.int64)]) if more else g.input([6], I)
    n = chain(g, n, step, deep)
    n = g.add("Mod", [g.add("Abs", [n]), g.constant(6, np.int64)])
    return kernel(g, g.add("Gather", [g.input([1, 8, 6, 6]), n], axis=2))


def sizes(g, kernel, step, deep, more):
    """An extent that is worked out in many steps."""
    x = g.input([1, 8, "rows", 6])
    n = chain(g, g.add("Shape", [x], start=2, end=3), step, deep)
    n = g.add("Add", [g.add("Mod", [g.add("Abs", [n]), g.constant([4], np.int64)]), g.constant([1], np.int64)])
    return g.add("Expand", [g.add("ReduceMax", [x], keepdims=1, axes=[2]), g.add("Concat", [g.constant([1, 8], np.int64), n, g.constant([6], np.int64)], axis=0)])


def positions(g, kernel, step, deep, more):
    """A value made of its place, added to a kernel's result."""
    n = chain(g, g.add("Range", [g.constant(0, np.int64), g.constant(6, np.int64), g.constant(1, np.int64)]), step, deep)
    y = kernel(g, g.add("Add", [g.input([1, 8, 6, 6]), g.add("Cast", [g.add("Mod", [n, g.constant(3, np.int64)])], to=F)]))
    return g.add("Mul", [y, y])


PLACES = {behind: FLOATS, before: FLOATS, looped: FLOATS, indices: INTEGERS, sizes: INTEGERS, positions: INTEGERS}


def build(place, kernel, step, deep, more):
    g = Graph()
    y = place(g, kernel, step, deep, more)
    model = helper.make_model(helper.make_graph(g.nodes, "shared", g.inputs, [helper.make_tensor_value_info(y, F, None)], g.constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


# ---- what is done with a model: the rest of the command line ----
WAYS = {
    "inspect": ["inspect", "MODEL"],
    "paper": ["inspect", "MODEL", "--fusion", "paper"],
    "greedy": ["inspect", "MODEL", "--fusion", "greedy"],
    "cuda": ["compile", "MODEL", "-o", "OUT", "--target", "cuda", "--no-build"],
    "grad": ["compile", "MODEL", "-o", "OUT", "--grad", "--derivatives", "vjp", "--no-build"],
    "hvp": ["compile", "MODEL", "-o", "OUT", "--grad", "--derivatives", "hvp", "--no-build"],
    "train": ["compile", "MODEL", "-o", "OUT", "--train", "RECIPE", "--no-build"],
    "meta": ["compile", "MODEL", "-o", "OUT", "--emit", "meta", "--no-build"],
    "run": None,
}
RECIPE = {"batch": 1, "loss": "mse", "optimizer": {"kind": "adam"}}
# Nothing to differentiate by, no function of real numbers, or a batch of 1 that is shorter than constants say.
REFUSED = re.compile(r"no (input|parameter|derivative)|derivative|cotangent|differentiate|recipe|loss|target|batch|train|out of range", re.IGNORECASE)


def run(metac, arguments, seconds):
    try:
        return subprocess.run([metac, *arguments], capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None


def check(metac, work, model, way, seconds):
    file, out = work / "model.onnx", work / "out"
    onnx.save(model, file)
    (work / "recipe.json").write_text(json.dumps(RECIPE))
    if WAYS[way]:
        names = {"MODEL": str(file), "OUT": str(out), "RECIPE": str(work / "recipe.json")}
        done = run(metac, [names.get(a, a) for a in WAYS[way]], seconds)
        if done is None:
            return f"not done after {seconds} s"
        if done.returncode == 1 and way in ("grad", "hvp", "train", "cuda") and REFUSED.search(done.stderr):
            return None
        return None if done.returncode == 0 else f"status {done.returncode}: {done.stderr.strip()[-300:]}"
    rng = np.random.default_rng(len(model.graph.node))
    feeds = {}
    for value in model.graph.input:
        shape = [d.dim_value or 3 for d in value.type.tensor_type.shape.dim]
        feeds[value.name] = rng.integers(0, 6, shape) if value.type.tensor_type.elem_type == I else rng.standard_normal(shape).astype(np.float32)
    arguments = ["run", str(file), "--output-dir", str(work / "answers")]
    for name, value in feeds.items():
        np.save(work / f"{name}.npy", value)
        arguments += ["--input", f"{name}={work / name}.npy"]
    done = run(metac, arguments, seconds)
    if done is None:
        return f"not done after {seconds} s"
    if done.returncode:
        return f"status {done.returncode}: {done.stderr.strip()[-300:]}"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    with np.errstate(all="ignore"):
        expected = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    found = np.load(next((work / "answers").glob("*.npy")))
    scale = float(np.max(np.abs(expected), where=np.isfinite(expected), initial=1e-2))
    if found.shape != expected.shape:
        return f"the answer is {list(found.shape)}, expected {list(expected.shape)}"
    if scale < 1e6 and np.isfinite(expected).all() and not np.allclose(found, expected, rtol=1e-3, atol=1e-3 * scale):
        return f"the answer differs by {float(np.max(np.abs(found - expected))):.3g} of {scale:.3g}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--deep", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--only", default="", help="of titles such as 'run where behind matmul'")
    arguments = parser.parse_args()
    choose = random.Random(arguments.seed)
    everything = [(way, step, place, kernel) for way in WAYS for place, steps in PLACES.items() for step in steps for kernel in KERNELS]
    everything = [c for c in everything if re.search(arguments.only, f"{c[0]} {c[1].__name__} {c[2].__name__} {c[3].__name__}")]
    chosen = choose.sample(everything, min(arguments.count, len(everything)))
    passed = failed = 0
    for way, step, place, kernel in chosen:
        # What chains of roundings amplify is only asked for an answer where it stays what it is.
        deep = 6 if way == "run" and step in (square, double, gated, difference, narrow) else arguments.deep
        if way == "run" and step is int_square and place is positions:
            deep = 4  # positions are whole numbers, which do not wrap as data do: their squares stay within 64 bits
        # A recipe makes the batch 1: of places that are an input only one would be left, and kernels would not fit behind it.
        title = f"{way} {step.__name__} {place.__name__} {kernel.__name__}"
        with tempfile.TemporaryDirectory(prefix="metac-shared-") as work:
            problem = check(arguments.metac, pathlib.Path(work), build(place, kernel, step, deep, choose.random() < 0.5 or way == "train"), way, arguments.seconds)
        passed, failed = passed + (problem is None), failed + (problem is not None)
        if problem:
            print(f"FAIL  {title}: {problem}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
