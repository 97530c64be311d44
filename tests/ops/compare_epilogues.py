#!/usr/bin/env python3
"""What follows a sum of products in its kernel: chains of element-wise operators behind products and convolutions, against ONNX Runtime.

    python3 compare_epilogues.py --metac build/release/bin/metac [--count 40] [--seed S] [--keep DIR] [-- OPTIONS OF metac verify]
    needs: pip install numpy onnx onnxruntime

Register tiles compute lanes of four bytes whatever the model's types are, and what they store is masks, narrow integers or half types: comparisons,
logic, selections, casts between all types and arithmetic in each are drawn at random behind MatMul, Gemm, Conv and MatMulInteger, with operands of
all types that are the same everywhere, lie along the columns, or are as large as the result. Numbers are small and whole, so that answers are exact.
The last line is 'N passed, N failed'.
"""
import argparse
import pathlib
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import reference_cases  # noqa: E402

TYPES = ["float32", "float32", "int32", "int64", "int8", "uint8", "float16", "float64", "bool"]


def code(dtype):
    return helper.np_dtype_to_tensor_dtype(np.dtype(dtype))


class Chain:
    def __init__(self, rng):
        self.rng, self.nodes, self.feeds, self.constants = rng, [], {}, {}
        self.shape, self.values = None, []  # names and types of what lies behind the sum

    def name(self):
        return f"v{len(self.nodes)}_{len(self.feeds)}_{len(self.constants)}"

    def numbers(self, shape, dtype):
        if dtype == "bool":
            return self.rng.random(shape) < 0.5
        return self.rng.integers(0 if dtype.startswith("u") else -3, 4, shape).astype(dtype)

    def operand(self, shape, dtype):
        name = f"in{len(self.feeds)}"
        self.feeds[name] = self.numbers(shape, dtype)
        return name

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def add(self, op, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def start(self):
        kind, rows, steps, columns = self.rng.choice(["MatMul", "Gemm", "Conv", "MatMulInteger"]), int(self.rng.integers(1, 40)), int(self.rng.integers(1, 20)), int(self.rng.integers(1, 70))
        if kind == "Conv":
            self.shape = [1, columns, 6, 7]
            y = self.add("Conv", [self.operand([1, 5, 6, 7], "float32"), self.constant(self.numbers([columns, 5, 3, 3], "float32"))], pads=[1, 1, 1, 1])
        else:
            self.shape = [rows, columns]
            of = ("uint8", "int8") if kind == "MatMulInteger" else ("float32", "float32")
            y = self.add(kind, [self.operand([rows, steps], of[0]), self.constant(self.numbers([steps, columns], of[1]))])
        self.values = [(y, "int32" if kind == "MatMulInteger" else "float32")]

    def other(self, dtype):
        """A value of that type: one that was computed, or an operand."""
        made = [n for n, t in self.values if t == dtype]
        if made and self.rng.random() < 0.4:
            return self.rng.choice(made)
        channel = [self.shape[1], 1, 1] if len(self.shape) == 4 else [self.shape[1]]
        shape = [self.shape, channel, [1] * len(channel), []][self.rng.integers(0, 4)]
        return self.operand(shape, dtype) if self.rng.random() < 0.6 else self.constant(self.numbers(shape, dtype))

    def grow(self):
        x, dtype = self.values[-1] if self.rng.random() < 0.75 else self.values[self.rng.integers(0, len(self.values))]
        if self.rng.random() < 0.3:
            to = self.rng.choice([t for t in TYPES if t != dtype])
            if dtype not in ("float32", "float16", "float64") or to not in ("int8", "uint8"):  # what does not fit is nobody's
                return self.add("Cast", [x], to=code(to)), to
        if dtype == "bool":
            op = self.rng.choice(["And", "Or", "Xor", "Not", "Equal", "Where", "Where"])
            if op == "Where":
                to = self.rng.choice([t for t in TYPES if t not in ("bool",)])
                return self.add("Where", [x, self.other(to), self.other(to)]), to
            return self.add(op, [x] if op == "Not" else [x, self.other("bool")]), "bool"
        op = self.rng.choice(["Add", "Sub", "Mul", "Max", "Min", "Less", "LessOrEqual", "Greater", "Equal", "Where", "Abs", "Neg", "Relu", "Clip"])
        if dtype in ("int8", "uint8") and op in ("Add", "Sub", "Mul", "Relu", "Clip", "Neg", "Abs", "Max", "Min"):
            op = "Where"
        if op in ("Less", "LessOrEqual", "Greater", "Equal"):
            return self.add(op, [x, self.other(dtype)]), "bool"
        if op == "Where":
            return self.add("Where", [self.other("bool"), x, self.other(dtype)]), dtype
        if op == "Clip":
            low, high = (np.array(v, dtype) for v in (-2, 5))
            return self.add("Clip", [x, self.constant(low), self.constant(high)]), dtype
        if op == "Mul" and dtype not in ("float32", "float64"):
            op = "Add"
        return self.add(op, [x] if op in ("Abs", "Neg", "Relu") else [x, self.other(dtype)]), dtype


def draw(rng):
    chain = Chain(rng)
    chain.start()
    for _ in range(int(rng.integers(1, 6))):
        chain.values.append(chain.grow())
    outputs = [chain.values[-1]] + ([chain.values[0]] if rng.random() < 0.2 else [])
    inputs = [helper.make_tensor_value_info(k, code(v.dtype), v.shape) for k, v in chain.feeds.items()]
    graph = helper.make_graph(chain.nodes, "epilogue", inputs, [helper.make_tensor_value_info(n, code(t), chain.shape) for n, t in outputs],
                              [numpy_helper.from_array(v, k) for k, v in chain.constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9), chain.feeds


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("build/epilogue-failures"))
    parser.add_argument("options", nargs="*")
    arguments = parser.parse_args()
    passed = failed = left_out = 0
    with tempfile.TemporaryDirectory(prefix="metac-epilogues-") as temporary:
        made, number = {}, 0
        while len(made) < arguments.count and number < 4 * arguments.count:
            model, feeds = draw(np.random.default_rng([arguments.seed, number]))
            number += 1
            try:
                onnx.checker.check_model(model, full_check=True)
                answers = reference_cases.session_of(model).run(None, feeds)
            except Exception:  # ONNX Runtime has no kernel for one of the types
                left_out += 1
                continue
            name = f"epilogue_{arguments.seed}_{number - 1}"
            made[name] = model
            reference_cases.write_case(pathlib.Path(temporary) / name, model, feeds, answers)
        for case, (status, detail) in sorted(reference_cases.verify(arguments.metac, temporary, "--rtol", "1e-5", "--atol", "1e-6", *arguments.options).items()):
            passed, failed = passed + (status == "passed"), failed + (status != "passed")
            if status != "passed":
                arguments.keep.mkdir(parents=True, exist_ok=True)
                onnx.save(made[case], arguments.keep / f"{case}.onnx")
                print(f"FAIL  {case} ({', '.join(n.op_type for n in made[case].graph.node)}): {detail[:250]}", flush=True)
    if left_out:
        print(f"{left_out} drawn for which ONNX Runtime has no kernels")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
