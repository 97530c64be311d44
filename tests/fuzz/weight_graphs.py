#!/usr/bin/env python3
"""Random graphs whose weights are read in odd ways: as they are, with --precision, and behind `metac quantize`.

    python3 weight_graphs.py --build build/ci [--count 40] [--first 0] [--seed 1] [--nodes 6] [--only NAME,NAME]
    needs: pip install numpy onnx onnxruntime

Few weights serve many products: one is read by several, transposed, sliced, reshaped, gathered, put behind another, as a table of
embeddings and as what ends in its rows' scores, from the left, in batches that are broadcast; by MatMul, Gemm with all of its attributes,
Conv and ConvTranspose with groups, strides, dilations and uneven padding. Answers in float32 are those of ONNX Runtime, node by node. Of
what `metac quantize` writes (int8, weights of 4 and 8 bits, half types) metac's answers are ONNX Runtime's, and as near to the float32
model's as such weights are; so are those of --precision. Ends with 'N passed, N failed, N skipped'.
"""
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[0] / "tools"), str(HERE.parents[0] / "conformance")]
import reference_cases  # noqa: E402
from check_graphs import check_graphs  # noqa: E402
from grow_graph import Graph  # noqa: E402
from operator_samples import Unfit  # noqa: E402
from run_steps import differs, model_of  # noqa: E402

LENGTHS = [8, 16, 16, 32, 32, 48, 7]
LAYERS, VIEWS = {}, {}
ELEMENTWISE = ("Relu", "Tanh", "Sigmoid", "Softmax", "LayerNormalization", "Transpose", "Add", "Gelu", "MaxPool", "AveragePool")


def layer(function):
    LAYERS[function.__name__] = function
    return function


def view(function):
    VIEWS[function.__name__] = function
    return function


# ---- a weight [rows, columns] out of what there is ----
@view
def whole(g, rows, columns):
    return g.base(rows, columns)


@view
def turned(g, rows, columns):
    return g.node("Transpose", [g.base(columns, rows)], perm=[1, 0], exact=True, hidden=True)


@view
def reshaped(g, rows, columns):
    shape = g.choice([[1, rows * columns], [columns, rows], [rows, 1, columns]])
    found = [w for w in g.bases if w.size == rows * columns]
    w = g.choice(found) if found and g.chance(0.7) else g.weight(shape)
    return g.node("Reshape", [w, g.constant(np.array([rows, columns]))], exact=True, hidden=True)


@view
def sliced(g, rows, columns):
    found = [w for w in g.bases if w.ndim == 2 and w.shape[0] >= rows and w.shape[1] >= columns]
    w = g.choice(found) if found else g.weight([rows + g.int(0, 5), columns + g.int(0, 9)])
    at = [g.int(0, w.shape[0] - rows), g.int(0, w.shape[1] - columns)]
    ends = [at[0] + rows, at[1] + columns]
    return g.node("Slice", [w, g.constant(np.array(at)), g.constant(np.array(ends)), g.constant(np.array([0, 1]))], exact=True, hidden=True)


@view
def gathered(g, rows, columns):
    w = g.base(g.choice(LENGTHS), columns)
    return g.node("Gather", [w, g.constant(g.rng.integers(0, w.shape[0], rows))], axis=0, exact=True, hidden=True)


@view
def joined(g, rows, columns):
    axis = g.int(0, 1)
    shape = [rows, columns]
    if shape[axis] < 2:
        raise Unfit
    first, second = list(shape), list(shape)
    first[axis] = g.int(1, shape[axis] - 1)
    second[axis] -= first[axis]
    return g.node("Concat", [g.base(*first), g.base(*second)], axis=axis, exact=True, hidden=True)


@view
def parted(g, rows, columns):
    g.node("Split", [g.base(rows, 2 * columns)], outputs=2, axis=1, num_outputs=2, exact=True, hidden=True)
    return g.choice(g.steps[-1].outputs)


@view
def scaled(g, rows, columns):
    return g.node("Mul", [g.base(rows, columns), g.constant(g.rng.choice([0.5, 1, 2], columns if g.chance() else []).astype(np.float32))], hidden=True)


# ---- what reads weights ----
def matrix(g):
    return g.pick_value(lambda v: v.dtype == np.float32 and v.ndim >= 2 and v.size and v.shape[-1] > 1 and v.name not in g.constants and v.name not in g.of_weights)


@layer
def product(g):
    x = matrix(g)
    g.node("MatMul", [x, g.view(x.shape[-1], g.choice(LENGTHS))])


@layer
def product_from_the_left(g):
    x = matrix(g)
    g.node("MatMul", [g.view(g.choice(LENGTHS), x.shape[-2]), x])


@layer
def product_of_batches(g):
    x = matrix(g)
    w = g.view(x.shape[-1], g.choice(LENGTHS))
    if g.chance():
        w = g.node("Unsqueeze", [w, g.constant(np.array([0]))], exact=True, hidden=True)
        w = g.node("Expand", [w, g.constant(np.array([x.shape[0] if x.ndim > 2 else g.int(1, 3), 1, 1]))], exact=True, hidden=True)
    else:
        w = g.weight([x.shape[0] if x.ndim > 2 else g.int(2, 3), *w.shape])
    g.node("MatMul", [x, w])


@layer
def gemm(g):
    x = g.pick_value(lambda v: v.dtype == np.float32 and v.ndim == 2 and v.size and v.name not in g.constants and v.name not in g.of_weights)
    turns, from_left = [g.int(0, 1), g.int(0, 1)], g.chance(0.2)
    k = x.shape[0 if turns[0] else 1] if not from_left else x.shape[1 if turns[1] else 0]
    n = g.choice(LENGTHS)
    if from_left:
        operands = [g.view(*([k, n] if turns[0] else [n, k])), x]
        shape = [n, x.shape[0 if turns[1] else 1]]
    else:
        operands = [x, g.view(*([n, k] if turns[1] else [k, n]))]
        shape = [x.shape[1 if turns[0] else 0], n]
    if g.chance(0.6):
        operands.append(g.constant(g.random(g.choice([shape, shape[1:], [1, shape[1]], [shape[0], 1], []]), np.float32)))
    g.node("Gemm", operands, transA=turns[0], transB=turns[1], alpha=g.choice([1.0, 0.5, -2.0]), beta=g.choice([1.0, 0.25, -1.0]))


@layer
def convolution(g):
    x = g.pick_value(lambda v: v.dtype == np.float32 and v.ndim == 4 and min(v.shape) > 0 and v.size < 1200)
    c, kernel = x.shape[1], [g.int(1, 3), g.int(1, 3)]
    group = g.choice([n for n in (1, 1, 2, 3, 4, c) if c % n == 0])
    each, transposed = g.int(1, 4), g.chance(0.35)
    shape = [c, each, *kernel] if transposed else [each * group, c // group, *kernel]
    w = g.view(shape[0], int(np.prod(shape[1:]))) if g.chance() else None
    w = g.node("Reshape", [w, g.constant(np.array(shape))], exact=True, hidden=True) if w is not None else g.weight(shape)
    more = {"dilations": [g.int(1, 2), 1], "strides": [g.int(1, 2), g.int(1, 2)], "pads": [g.int(0, 2) for _ in range(4)], "group": group}
    if transposed:
        more["pads"] = [g.int(0, 1) for _ in range(4)]
        more["output_padding"] = [g.int(0, s - 1) for s in more["strides"]]
    bias = [g.constant(g.random([each * group], np.float32))] if g.chance() else []
    g.node("ConvTranspose" if transposed else "Conv", [x, w, *bias], **more)


@layer
def embedded(g):
    """A table whose rows are taken, and which gives every row's score."""
    table = g.base(g.choice([16, 33, 200]), g.choice(LENGTHS))
    words = g.new_input(g.rng.integers(0, table.shape[0], [g.int(1, 2), g.int(1, 4)]), data=False)
    g.node("Gather", [table, words], axis=0, exact=True)
    g.tables.append(table)


@layer
def scored(g):
    table = g.choice(g.tables)
    x = g.pick_value(lambda v: v.dtype == np.float32 and v.ndim >= 2 and v.size and v.shape[-1] == table.shape[1] and v.name not in g.constants)
    g.node("MatMul", [x, g.node("Transpose", [table], perm=[1, 0], exact=True, hidden=True)])


@layer
def of_weights_alone(g):
    x, k = matrix(g), g.choice(LENGTHS)
    w = g.node("MatMul", [g.view(x.shape[-1], k), g.view(k, g.choice(LENGTHS))], hidden=True)
    g.of_weights.add(w.name)
    g.node("MatMul", [x, w])


@layer
def added(g):
    x = matrix(g)
    g.node(g.choice(["Add", "Mul"]), [x, g.view(x.shape[-2], x.shape[-1])])


class WeightGraph(Graph):
    def __init__(self, seed, nodes, only):
        super().__init__(seed, 0, without=("composed",))
        self.float, self.large, self.zeros, self.hides = np.dtype(np.float32), False, False, 0.6
        self.states, self.state_names, self.open = [], set(), {}
        self.bases, self.tables, self.of_weights, self.values = [], [], set(), []
        for _ in range(self.int(1, 2)):
            self.fresh(self.choice([[self.int(1, 9), self.choice(LENGTHS)], [2, self.int(1, 5), self.choice(LENGTHS)]]), np.float32)
        self.fresh([self.int(1, 2), self.choice([1, 2, 3, 4, 6, 8]), self.int(3, 7), self.int(3, 7)], np.float32)
        self.values += self.inputs[-3:]
        names = sorted(n for n in LAYERS if not only or n in only)
        for _ in range(30 * nodes):
            if sum(self.used.values()) >= nodes:
                break
            steps, values, inputs, bases = len(self.steps), len(self.values), len(self.inputs), len(self.bases)
            self.sampler = self.choice(names)
            try:
                LAYERS[self.sampler](self)
                self.used[self.sampler] += 1
                if self.chance(0.4):
                    self.draw_nodes(1, ELEMENTWISE)
                    self.used[self.sampler] -= 1
            except (Unfit, ValueError):
                del self.steps[steps:], self.values[values:], self.inputs[inputs:], self.bases[bases:]

    def takes_edges(self, dtype):
        return False

    def weight(self, shape):
        """Quarters of a power of two, of 4 bits; in most lines there is a largest one."""
        numbers = self.rng.integers(-7, 8, shape)
        numbers = np.where(self.rng.random(shape) < 0.3, 7 * self.rng.choice([-1, 1], shape), numbers)
        depth = max(1, shape[0] if len(shape) == 2 else int(np.prod(shape[1:])))
        w = self.constant((numbers * 2.0 ** -(2 + np.ceil(np.log2(depth) / 2))).astype(np.float32))
        self.bases.append(w)
        return w

    def base(self, rows, columns):
        found = [w for w in self.bases if w.shape == (rows, columns)]
        return self.choice(found) if found and self.chance(0.7) else self.weight([rows, columns])

    def view(self, rows, columns):
        made = VIEWS[self.choice(sorted(VIEWS) + ["whole", "whole", "turned"])](self, rows, columns)
        self.of_weights |= {made.name}
        return made


def grow(seed, number, nodes, only, without):
    try:
        return WeightGraph([seed, number], nodes, only)
    except Unfit:
        return None


def decibels(exact, found):
    """The signal to the noise; None where one of them is no answer to compare."""
    exact, found = exact.astype(np.float64), np.asarray(found).astype(np.float64)
    noise, signal = np.sum((exact - found) ** 2), np.sum(exact ** 2)
    return np.inf if noise <= 1e-12 * max(signal, 1e-6) else 10 * np.log10(max(signal, 1e-12) / noise)


# Options of `metac quantize`, and least decibels: to the float32 model.
QUANTISED = {("--weights", "int8"): 30, ("--weights", "int4"): 12, ("--weights", "int4", "--block", "16"): 12,
             ("--to", "float16"): 40, ("--to", "bfloat16"): 25, ("data",): 12, ("data", "--per-tensor", "--activations", "int8"): 10}
PRECISIONS = {"bfloat16": 25, "auto": 25, "int8": 20}


def check(graph, rng, metac):
    """What differs, or None; "" where there is nothing to see."""
    import metac as module
    model, outputs, needed = model_of(graph)
    feeds = {v.name: v.array for v in graph.inputs if v.name in needed}
    made = {v.name: v.array for s in graph.steps for v in s.outputs}
    exact = {n: made[n] for n in outputs}
    about = f"; {' '.join(s.proto.op_type for s in graph.steps)}"
    for value in model.graph.input:
        array = feeds[value.name]
        if array.ndim > 1 and array.size and array.dtype == np.float32 and rng.random() < 0.3:
            value.type.tensor_type.shape.dim[0].dim_param = f"first_{value.name}"
    policy = str(rng.choice(["eager", "never"]))

    def run(what, **options):
        source = what.SerializeToString() if isinstance(what, onnx.ModelProto) else what
        return module.Session(source, specialise=policy, threads=int(rng.integers(1, 3)), **options).run(feeds)

    def noise(found, least):
        for n in outputs:
            if np.asarray(found[n]).shape != exact[n].shape:
                return f"{n} is {np.asarray(found[n]).shape}, expected {exact[n].shape}"
            if not decibels(exact[n], found[n]) >= least:
                return f"{n} has {decibels(exact[n], found[n]):.1f} dB, {least} are expected"
        return None
    try:
        plain = run(model)
        if told := next(filter(None, (differs(n, plain[n], exact[n], "float32") for n in outputs)), None):
            return f"{policy}: {told}{about}"
        precision = str(rng.choice(sorted(PRECISIONS)))
        if told := noise(run(model, precision=precision), PRECISIONS[precision]):
            return f"--precision {precision}, {policy}: {told}{about}"
    except module.Error as error:
        return f"{policy}: {type(error).__name__}: {error}{about}"
    ways = sorted(QUANTISED)
    with tempfile.TemporaryDirectory(prefix="metac-weights-") as folder:
        onnx.save(model, f"{folder}/m.onnx")
        np.savez(f"{folder}/data.npz", **feeds)
        (pathlib.Path(folder) / "data").mkdir()
        np.savez(f"{folder}/data/0.npz", **feeds)
        for way in [ways[k] for k in rng.permutation(len(ways))[:2]]:
            options = [part for o in way for part in (("--data", f"{folder}/data") if o == "data" else (o,))]
            done = subprocess.run([metac, "quantize", f"{folder}/m.onnx", "-o", f"{folder}/q.onnx", *options], capture_output=True, text=True)
            if done.returncode:
                if any(told in done.stderr for told in ("nothing to", "samples where another", "do not broadcast")):  # with other batches
                    continue
                return f"quantize {' '.join(way)}: {done.stderr.strip()[-300:]}{about}"
            try:
                ours = run(f"{folder}/q.onnx")
                narrow = run(f"{folder}/q.onnx", precision="int8")
            except module.Error as error:
                return f"{' '.join(way)}, {policy}: {type(error).__name__}: {error}{about}"
            if told := noise(ours, QUANTISED[way]) or noise(narrow, QUANTISED[way] - 5):
                return f"{' '.join(way)}, {policy}: {told}{about}"
            try:
                theirs = dict(zip(outputs, reference_cases.session_of(onnx.load(f"{folder}/q.onnx")).run(outputs, feeds)))
            except Exception:  # ONNX Runtime has no such kernel
                continue
            for n in outputs:
                if not decibels(theirs[n], ours[n]) >= QUANTISED[way] + 10:
                    return f"{' '.join(way)}, {policy}: {n} is {decibels(theirs[n], ours[n]):.1f} dB from ONNX Runtime's{about}"
    return None


if __name__ == "__main__":
    sys.exit(check_graphs(__doc__, check, salt=23, every_other=(), nodes=6, make=grow, libraries=1))
