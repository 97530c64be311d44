#!/usr/bin/env python3
"""Nodes with hundreds of inputs or outputs, chains of hundreds of nodes and regions within regions, against ONNX Runtime.

    python3 compare_wide.py --metac build/release/bin/metac [--count N] [--seed S] [--only REGEX] [--seconds S] [--keep DIR] [-- OPTIONS OF metac verify]
    needs: pip install numpy onnx onnxruntime

Each model is checked with as many inputs, nodes or levels as --count says (default 300) and must be answered within --seconds. The last line is
'N passed, N failed, 0 skipped'.
"""
import argparse
import pathlib
import re
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import reference_cases  # noqa: E402

MODELS = {}


def model(*names):
    def keep(function):
        for name in names:
            MODELS[name] = (lambda b, f=function, n=name: f(b, n)) if len(names) > 1 else function
        return function
    return keep


class Builder:
    """Nodes, inputs and outputs of a model in the making."""

    def __init__(self, count, seed):
        self.count, self.rng = count, np.random.default_rng(seed)
        self.nodes, self.feeds, self.weights, self.outputs, self.names = [], {}, {}, [], 0

    def name(self):
        self.names += 1
        return f"v{self.names}"

    def input(self, *shape):
        name = self.name()
        self.feeds[name] = self.rng.uniform(-2, 2, shape).astype(np.float32)
        return name

    def weight(self, array):
        name = self.name()
        self.weights[name] = np.asarray(array)
        return name

    def node(self, op, inputs, outputs=1, **attributes):
        names = [self.name() for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attributes))
        return names[0] if outputs == 1 else names

    def inputs(self, rows=3):
        """As many as wanted, of one to five columns."""
        return [self.input(rows, int(self.rng.integers(1, 6))) for _ in range(self.count)]


# ---- wide ----
@model("Concat of inputs", "Concat along rows", "Concat and what follows", "Concat of computed values", "Concat twice", "Sequence of inputs")
def concat(b, name):
    if name in ("Concat along rows", "Sequence of inputs"):
        parts = [b.input(int(b.rng.integers(1, 4)), 5) for _ in range(b.count)]
    else:
        parts = b.inputs()
    axis = 0 if name in ("Concat along rows", "Sequence of inputs") else 1
    if name == "Concat of computed values":
        parts = [b.node(("Relu", "Abs", "Neg", "Tanh")[k % 4], [p]) for k, p in enumerate(parts)]
    if name == "Sequence of inputs":
        y = b.node("ConcatFromSequence", [b.node("SequenceConstruct", parts)], axis=axis)
    else:
        y = b.node("Concat", parts, axis=axis)
    if name == "Concat and what follows":
        y = b.node("Sigmoid", [b.node("Add", [y, b.node("Exp", [y])])])
        b.outputs.append(b.node("ReduceSum", [y]))
    if name == "Concat twice":
        y = b.node("Concat", [y, b.node("Concat", [b.node("Neg", [p]) for p in parts[::-1]], axis=1), y], axis=1)
    b.outputs.append(y)


@model("Concat of empty parts")
def concat_of_empty_parts(b):
    b.outputs.append(b.node("Concat", [b.input(3, 0 if k % 3 else 2) for k in range(b.count)], axis=1))


@model("Concat of one input")
def concat_of_one_input(b):
    x = b.input(2, 3)
    b.outputs.append(b.node("Concat", [x] * b.count, axis=0))


@model("Split", "Split and Concat in reverse", "Split and all of them used")
def split(b, name):
    parts = b.node("Split", [b.input(3, 2 * b.count)], b.count, axis=1, num_outputs=b.count)
    if name == "Split":
        b.outputs += parts
    elif name == "Split and Concat in reverse":
        b.outputs.append(b.node("Concat", parts[::-1], axis=1))
    else:
        b.outputs.append(b.node("Sum", [b.node(("Relu", "Neg")[k % 2], [p]) for k, p in enumerate(parts)]))


@model("Sum", "Max", "Min", "Mean")
def variadic(b, op):
    b.outputs.append(b.node(op, [b.input(*((3, 4), (4,), (3, 1), ())[k % 4]) for k in range(b.count)]))


@model("Einsum")
def einsum(b):
    operands = [b.input(3) if k % 2 else b.input(2, 3) for k in range(30)]
    b.outputs.append(b.node("Einsum", operands, equation=",".join("j" if k % 2 else "ij" for k in range(30)) + "->ij"))


@model("many outputs")
def many_outputs(b):
    x = b.input(4, 5)
    b.outputs += [b.node("Add", [x, b.weight(np.float32(k))]) for k in range(b.count)]


@model("many readers")
def many_readers(b):
    x = b.node("Exp", [b.input(4, 5)])
    b.outputs.append(b.node("Max", [b.node("Mul", [x, b.weight(np.float32(np.sin(k)))]) for k in range(b.count)]))


# ---- deep ----
@model("Concat behind Concat", "Concat in front of Concat")
def concat_chain(b, name):
    y = b.input(3, 2)
    for k in range(b.count):
        pair = [y, b.input(3, 1)]
        y = b.node("Concat", pair if name == "Concat behind Concat" else pair[::-1], axis=1)
    b.outputs.append(y)


STEPS = {
    "Add": lambda b, y, k: b.node("Add", [y, b.weight(np.float32(0.01 * k))]), "Relu": lambda b, y, k: b.node(("Relu", "Neg", "Tanh")[k % 3], [y]),
    "Where": lambda b, y, k: b.node("Where", [b.node("Greater", [y, b.weight(np.float32(np.sin(k)))]), y, b.weight(np.float32(np.cos(k)))]),
    "Transpose": lambda b, y, k: b.node("Transpose", [y], perm=[1, 0]), "Reshape": lambda b, y, k: b.node("Reshape", [y, b.weight(np.int64([[4, 6], [2, 12], [3, 8]][k % 3]))]),
    "Pad": lambda b, y, k: b.node("Pad", [y, b.weight(np.int64([k % 2, 0, 0, 1 - k % 2]))]),
    "Pad and Slice": lambda b, y, k: b.node("Slice", [b.node("Pad", [y, b.weight(np.int64([1, k % 2, 0, 0]))]), b.weight(np.int64([0, 0])), b.weight(np.int64([4, 6]))]),
    "Gather": lambda b, y, k: b.node("Gather", [y, b.weight(np.int64([(k + i) % 4 for i in range(4)]))]),
    "Softmax": lambda b, y, k: b.node("Softmax", [y], axis=k % 2), "MatMul": lambda b, y, k: b.node("Tanh", [b.node("MatMul", [y, b.weight(np.float32(np.eye(6)[::-1]))])]),
    "ReduceMax": lambda b, y, k: b.node("Sub", [y, b.node("ReduceMax", [y, b.weight(np.int64([k % 2]))], keepdims=1)]),
    "Cast": lambda b, y, k: b.node("Cast", [b.node("Cast", [y], to=(TensorProto.DOUBLE, TensorProto.FLOAT16)[k % 2])], to=TensorProto.FLOAT),
    "Square": lambda b, y, k: b.node("Tanh", [b.node("Mul", [y, y])]), "Clip": lambda b, y, k: b.node("Clip", [y, b.weight(np.float32(-2 - k)), b.weight(np.float32(2 + k))]),
}


@model(*(f"chain of {step}" for step in STEPS))
def chain(b, name):
    y = b.input(4, 6)
    for k in range(b.count):
        y = STEPS[name.removeprefix("chain of ")](b, y, k)
    b.outputs.append(y)


@model("SequenceInsert")
def insertions(b):
    s = b.node("SequenceEmpty", [])
    for _ in range(b.count):
        s = b.node("SequenceInsert", [s, b.input(2, 3)])
    b.outputs.append(b.node("ConcatFromSequence", [s], axis=0))


def branch(b, level, x, condition):
    """A graph without inputs: an If at each level but the last."""
    out, left = f"o{level}", f"p{level}"
    step = helper.make_node("Add" if level % 2 else "Mul", [x, f"c{level}"], [left])
    constant = helper.make_node("Constant", [], [f"c{level}"], value=helper.make_tensor("", TensorProto.FLOAT, [], [1 + 0.01 * level]))
    if level == 0:
        return helper.make_graph([constant, step], f"g{level}", [], [helper.make_tensor_value_info(left, TensorProto.FLOAT, None)])
    other = helper.make_graph([helper.make_node("Neg", [left], [f"n{level}"])], f"h{level}", [], [helper.make_tensor_value_info(f"n{level}", TensorProto.FLOAT, None)])
    nested = helper.make_node("If", [condition], [out], then_branch=branch(b, level - 1, left, condition), else_branch=other)
    return helper.make_graph([constant, step, nested], f"g{level}", [], [helper.make_tensor_value_info(out, TensorProto.FLOAT, None)])


@model("If in If")
def nested_branches(b):
    x = b.input(2, 3)
    condition = b.node("Greater", [b.node("ReduceSum", [x], keepdims=0), b.weight(np.float32(-100))])
    b.outputs.append(b.node("If", [condition], then_branch=branch(b, min(b.count, 24), x, condition),
                            else_branch=helper.make_graph([helper.make_node("Neg", [x], ["z"])], "e", [], [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])))


def loop_body(level):
    y, nodes = f"y{level}", [helper.make_node("Identity", [f"k{level}"], [f"l{level}"])]
    if level == 0:
        nodes.append(helper.make_node("Mul", ["x0", "half"], [y]))
    else:
        nodes.append(helper.make_node("Loop", ["two", "", f"x{level}"], [y], body=loop_body(level - 1)))
    return helper.make_graph(nodes, f"b{level}", [helper.make_tensor_value_info(f"i{level}", TensorProto.INT64, []), helper.make_tensor_value_info(f"k{level}", TensorProto.BOOL, []),
                             helper.make_tensor_value_info(f"x{level}", TensorProto.FLOAT, None)],
                             [helper.make_tensor_value_info(f"l{level}", TensorProto.BOOL, []), helper.make_tensor_value_info(y, TensorProto.FLOAT, None)])


@model("Loop in Loop")
def nested_loops(b):
    b.weights |= {"two": np.array(2, np.int64), "half": np.float32(0.999)}
    b.outputs.append(b.node("Loop", ["two", "", b.input(2, 3)], body=loop_body(min(b.count, 8))))


@model("Loops side by side")
def many_loops(b):
    y = b.input(2, 3)
    b.weights |= {"two": np.array(2, np.int64), "half": np.float32(0.999)}
    for _ in range(min(b.count, 50)):
        y = b.node("Loop", ["two", "", y], body=loop_body(0))
    b.outputs.append(y)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, help="this many models, drawn by --seed, instead of all")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("options", nargs="*", help="further options of metac verify, behind --")
    arguments = parser.parse_args()
    chosen = [name for name in MODELS if re.search(arguments.only, name)]
    if arguments.sample and arguments.sample < len(chosen):
        chosen = [chosen[k] for k in np.random.default_rng(arguments.seed).permutation(len(chosen))[:arguments.sample]]
    with tempfile.TemporaryDirectory(prefix="metac-wide-") as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        for name in chosen:
            b = Builder(arguments.count, arguments.seed)
            MODELS[name](b)
            proto = reference_cases.build_model(b.nodes, b.feeds, b.outputs, opset=18, weights=b.weights)
            reference_cases.write_case(folder / name.replace(" ", "_"), proto, b.feeds, reference_cases.answer(proto, b.feeds))
        verdicts = reference_cases.verify(arguments.metac, folder, "--threads", "1", "--timeout", str(arguments.seconds), "--atol", "1e-5", *arguments.options)
    failed = 0
    for name in chosen:
        status, detail = verdicts.get(name.replace(" ", "_"), ("failed", "no verdict"))
        if status != "passed":
            failed += 1
            print(f"FAIL  {name}: {status}: {detail}")
    print(f"{len(chosen) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
