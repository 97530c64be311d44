#!/usr/bin/env python3
"""Sizes, places and counts that only a run knows: every operator that takes such a value, fed from everything that makes one.

    python3 run_time_operands.py --metac build/release/bin/metac [--count 8] [--seed S] [--only REGEX]
    needs: pip install numpy onnx onnxruntime

Each model has some operators whose operands (starts, ends, sizes, counts, diagonals, indices, trip counts) come from inputs, ArgMax, TopK,
NonZero, Shape, reductions and arithmetic on them. Its library is compiled once and run several times with other values: every answer must
be ONNX Runtime's for these values, and never that of the run before. The last line is 'N passed, N failed'.
"""
import argparse
import importlib
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

LONG = 3  # of the axis that values come from: small, so that some results have one extent whatever the values are


class Graph:
    """A model on its way: nodes, inputs and how their values are drawn."""

    def __init__(self):
        self.nodes, self.inputs, self.constants, self.outputs, self.draw = [], [], [], [], {}
        self.count = 0

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def add(self, op, inputs, outputs=1, **attributes):
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, value, dtype=np.int64):
        name = self.name()
        self.constants.append(numpy_helper.from_array(np.array(value, dtype), name))
        return name

    def input(self, dtype, dims, draw):
        name = f"in{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, dtype, dims))
        self.draw[name] = draw
        return name

    def real(self, *dims):
        return self.input(TensorProto.FLOAT, list(dims), lambda rng: rng.standard_normal([d if isinstance(d, int) else int(rng.integers(1, 6)) for d in dims]).astype(np.float32))

    def output(self, value, dtype=TensorProto.FLOAT, rank=1):
        self.outputs.append(helper.make_tensor_value_info(value, dtype, [f"{value}_{k}" for k in range(rank)]))


# ---- what makes an int64[1] in [0, LONG) ----
def given(g):
    return g.input(TensorProto.INT64, [1], lambda rng: rng.integers(0, LONG, 1))


def arg_max(g):
    return g.add("ArgMax", [g.real(LONG)], axis=0, keepdims=1)


def top_k(g):
    return g.add("TopK", [g.real(LONG), g.constant([1])], 2, axis=0)[1]


def non_zero(g):
    places = g.add("NonZero", [g.add("Greater", [g.real(LONG), g.constant(0, np.float32)])])
    return g.add("Mod", [g.add("Slice", [g.add("Shape", [places]), g.constant([1]), g.constant([2])]), g.constant([LONG])])


def shape(g):
    return g.add("Mod", [g.add("Shape", [g.real(g.name())]), g.constant([LONG])])


def reduced(g):
    values = g.input(TensorProto.INT64, [4], lambda rng: rng.integers(0, LONG, 4))
    return g.add(random.choice(["ReduceMax", "ReduceMin"]), [values], keepdims=1) if random.random() < 0.7 else g.add("Mod", [g.add("ReduceSum", [values], keepdims=1), g.constant([LONG])])


SOURCES = [given, arg_max, top_k, non_zero, shape, reduced]


# ---- what takes one ----
def slice_back(g, n):
    g.output(g.add("Slice", [g.real(LONG), n, g.constant([-9]), g.constant([0]), g.constant([-3])]))


def slice_on(g, n):
    g.output(g.add("Slice", [g.real(LONG, 2), n, g.add("Add", [n, g.constant([random.choice([1, 2])])]), g.constant([0])]), rank=2)


def slice_end(g, n):
    g.output(g.add("Slice", [g.real(LONG), g.constant([0]), g.add("Neg", [n])]))


def pad(g, n):
    g.output(g.add("Pad", [g.real(LONG), g.add("Concat", [n, g.constant([1])], axis=0), g.constant(0.5, np.float32)]))


def range_of(g, n):
    scalar = g.add("Squeeze", [n])
    g.output(g.add("Range", [scalar, g.add("Add", [scalar, g.constant(4)]), g.constant(random.choice([1, 2]))]), TensorProto.INT64)


def range_to(g, n):
    g.output(g.add("Range", [g.constant(0), g.add("Squeeze", [n]), g.constant(1)]), TensorProto.INT64)


def some_largest(g, n):
    g.output(g.add("TopK", [g.real(7), g.add("Add", [n, g.constant([1])])], 2)[0])


def gather(g, n):
    g.output(g.add("Gather", [g.real(LONG, 5), n], axis=0), rank=2)


def one_hot(g, n):
    g.output(g.add("OneHot", [n, g.add("Add", [n, g.constant([2])]), g.constant([0.25, 2], np.float32)]), rank=2)


def expand(g, n):
    g.output(g.add("Expand", [g.real(1, 2), g.add("Concat", [g.add("Add", [n, g.constant([1])]), g.constant([2])], axis=0)]), rank=2)


def reshape(g, n):
    rows = g.add("Add", [n, g.constant([1])])
    g.output(g.add("Reshape", [g.real(12), g.add("Concat", [rows, g.constant([-1])], axis=0)]), rank=2)


def resize(g, n):
    sizes = g.add("Concat", [g.constant([1, 1]), g.add("Add", [n, g.constant([2])]), g.constant([4])], axis=0)
    g.output(g.add("Resize", [g.real(1, 1, 3, 3), "", "", sizes], mode="nearest"), rank=4)


def tile(g, n):
    g.output(g.add("Tile", [g.real(2), n]))


def trilu(g, n):
    g.output(g.add("Trilu", [g.real(4, 4), g.add("Squeeze", [g.add("Sub", [n, g.constant([1])])])], upper=random.randint(0, 1)), rank=2)


def fill(g, n):
    g.output(g.add("ConstantOfShape", [n], value=helper.make_tensor("v", TensorProto.FLOAT, [1], [1.5])))


def gather_nd(g, n):
    g.output(g.add("GatherND", [g.real(LONG, 2), n]))


def scatter(g, n):
    g.output(g.add("ScatterElements", [g.real(LONG), n, g.real(1)], axis=0))


def split(g, n):
    sizes = g.add("Concat", [g.add("Add", [n, g.constant([1])]), g.add("Sub", [g.constant([5]), n])], axis=0)
    for part in g.add("Split", [g.real(6), sizes], 2, axis=0):
        g.output(part)


def loop_of(g, n, trips, carried, build):
    """A Loop whose body is build(body, carried names) -> (next values, rows); names are the body's own."""
    body = Graph()
    names = [f"{n}_carried{k}" for k in range(len(carried))]
    following, rows = build(body, names)
    graph = helper.make_graph(body.nodes, "body", [helper.make_tensor_value_info(f"{n}_i", TensorProto.INT64, []), helper.make_tensor_value_info(f"{n}_go_on", TensorProto.BOOL, [])] + [helper.make_tensor_value_info(c, TensorProto.FLOAT, [None]) for c in names],
                              [helper.make_tensor_value_info(f"{n}_again", TensorProto.BOOL, [])] + [helper.make_tensor_value_info(v, TensorProto.FLOAT, [None]) for v in following + rows], body.constants)
    for node in graph.node:
        for field in (node.input, node.output):
            for k, value in enumerate(field):
                field[k] = value if value.startswith(n + "_") else f"{n}_{value}"
    for value in [*graph.output[1:], *graph.initializer]:
        value.name = f"{n}_{value.name}" if not value.name.startswith(n + "_") else value.name
    graph.node.append(helper.make_node("Identity", [f"{n}_go_on"], [f"{n}_again"]))
    return g.add("Loop", [g.add("Squeeze", [trips]), "", *carried], len(following) + len(rows), body=graph)


def loop(g, n):
    def body(b, carried):
        more = b.add("Add", [carried[0], b.constant(1, np.float32)])
        return [more], [b.add("Neg", [more])]
    last, rows = loop_of(g, n, n, [g.real(1)], body)
    g.output(last)
    g.output(rows, rank=2)


def growing(g, n):
    """What is carried grows; a row before and one after it did, in loops of one iteration or none."""
    def body(b, carried):
        more = b.add("Concat", [carried[0], b.constant([7], np.float32)], axis=0)
        return [more], [b.add("Neg", [carried[0]]), b.add("Abs", [more])]
    last, before, after = loop_of(g, n, g.add("Min", [n, g.constant([1])]), [g.real(g.name())], body)
    g.output(last)
    g.output(before, rank=2)
    g.output(after, rank=2)


def swapping(g, n):
    """Values of different lengths that trade places."""
    def body(b, carried):
        return [b.add("Neg", [carried[1]]), b.add("Abs", [carried[0]])], []
    for out in loop_of(g, n, n, [g.real(2), g.real(g.name())], body):
        g.output(out)


def branch(g, n):
    def side(op):
        out = g.name()
        part = g.add("Identity", [n])
        return helper.make_graph([helper.make_node("Slice", [data, part, g.constant([LONG])], [out + "s"]), helper.make_node(op, [out + "s"], [out])], op, [], [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)])
    data = g.real(LONG)
    chosen = g.add("Greater", [g.add("ReduceSum", [data], keepdims=0), g.constant(0, np.float32)])
    g.output(g.add("If", [chosen], then_branch=side("Neg"), else_branch=side("Abs")))


TAKERS = [slice_back, slice_on, slice_end, pad, range_of, range_to, some_largest, gather, one_hot, expand, reshape, resize, tile, trilu, fill, gather_nd, scatter, split, loop, growing, swapping, branch]


def build(pairs):
    g = Graph()
    for source, taker in pairs:
        taker(g, source(g))
    return g, helper.make_model(helper.make_graph(g.nodes, "operands", g.inputs, g.outputs, g.constants), opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def differ(ours, expected):
    for name, value in expected.items():
        got = np.asarray(ours[name])
        if value.size == 0 and got.size == 0 and got.ndim == value.ndim:
            continue  # what rows a loop without iterations would have had, nobody says
        if got.shape != value.shape or got.dtype != value.dtype:
            return f"{name} is {got.dtype}{list(got.shape)}, expected {value.dtype}{list(value.shape)}"
        if not np.allclose(got, value, rtol=1e-5, atol=1e-5):
            return f"{name} differs: {got.ravel()[:8]}, expected {value.ravel()[:8]}"
    return None


def check(metac, work, number, pairs, seed, runs):
    g, model = build(pairs)
    onnx.checker.check_model(model, full_check=True)
    file = work / f"operands{number}.onnx"
    onnx.save(model, file)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    reference = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    done = subprocess.run([metac, "compile", str(file), "-o", str(work / f"out{number}"), "--name", f"operands{number}_{seed}", "--cpu", "native"], capture_output=True, text=True)
    if done.returncode:
        return f"metac compile: {done.stderr.strip()[-300:]}"
    sys.path.insert(0, str(work / f"out{number}/python"))
    library = importlib.import_module(f"operands{number}_{seed}").Model(threads=2)
    for run in range(runs):
        rng = np.random.default_rng([seed, number, run])
        feeds = {name: draw(rng) for name, draw in g.draw.items()}
        expected = dict(zip([o.name for o in reference.get_outputs()], reference.run(None, feeds)))
        if problem := differ({k: np.array(v) for k, v in library.run(feeds).items()}, expected):
            return f"run {run}: {problem}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--count", type=int, default=8, help="models")
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    # Every operator in turn, each with a source of its own; then more of them.
    pairs = [(random.choice(SOURCES), taker) for _ in range(1 + arguments.count * 5 // len(TAKERS)) for taker in random.sample(TAKERS, len(TAKERS))]
    pairs = [p for p in pairs if re.search(arguments.only, p[1].__name__)]
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="metac-operands-") as work:
        for number in range(arguments.count):
            chosen = pairs[number * 5:number * 5 + 5]
            if not chosen:
                break
            title = ", ".join(f"{t.__name__} of {s.__name__}" for s, t in chosen)
            problem = check(arguments.metac, pathlib.Path(work), number, chosen, arguments.seed, arguments.runs)
            passed, failed = passed + (problem is None), failed + (problem is not None)
            print(f"{'pass' if problem is None else 'FAIL'}  {title}{': ' + problem if problem else ''}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
