#!/usr/bin/env python3
"""Matrix products with weights of few bits against float64: MatMulNBits, DequantizeLinear in front of MatMul and Gemm, half
types behind a Cast.

    python3 compare_narrow_weights.py --metac build/release/bin/metac [--samples N] [--seed S] [--keep DIR]
    needs: pip install numpy onnx onnxruntime

Random depths, columns, blocks, zero points, numbers of rows, known and open; of open ones each model runs with few and with
many rows. Where a model allows it (accuracy_level 4), or --precision int8 does, data may be int8, run of steps by run:
answers must then be those of float64 with data rounded so, or without rounding, and some must be rounded. The weights are
parameters, so that `prepare` packs them as they are. A product that shares its weights with a Gather, and one whose weights
vary from matrix to matrix, are among them. One line a failure; the last line is 'N passed, N failed'.
"""
import argparse
import pathlib
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import reference_cases  # noqa: E402


# By number: types of 2 bits are younger than some versions of the package onnx.
ONNX_NUMBERS = {"UINT8": 2, "INT8": 3, "UINT4": 21, "INT4": 22, "UINT2": 25, "INT2": 26}


MULTIPLIES_BYTES = "avx512_vnni" in pathlib.Path("/proc/cpuinfo").read_text()


def packed_bits(numbers, bits):
    """Unsigned numbers along the last axis, 8 / bits in a byte from the low bits on."""
    each = 8 // bits
    padded = np.zeros(numbers.shape[:-1] + (-(-numbers.shape[-1] // each) * each,), np.uint8)
    padded[..., :numbers.shape[-1]] = numbers
    parts = padded.reshape(padded.shape[:-1] + (-1, each)) << (bits * np.arange(each, dtype=np.uint8))
    return np.bitwise_or.reduce(parts, -1).astype(np.uint8)


def run_of(depth, block, steps):
    """Of how many steps of the sum a run is that has one scale and fills words of so many steps; 0: there is none."""
    for run in [depth] + [2 ** p for p in range(12, 3, -1) if 2 ** p < depth and depth % 2 ** p == 0]:
        if (run == depth <= block or block % run == 0) and run % steps == 0:
            return run
    return 0


def rounded(x, run):
    """As int8 with a scale for each run of the last axis."""
    parts = x.reshape(x.shape[:-1] + (-1, run))
    most = np.abs(parts).max(-1, keepdims=True)
    units = np.float32(127) / np.maximum(most, np.float32(2.0 ** -119))
    return (np.rint(parts * units).astype(np.float64) * (most / np.float32(127))).reshape(x.shape)


class Sample:
    """A model whose one product reads narrow weights: nodes, parameters, the weights in float64 [..., depth, columns]."""

    def __init__(self, rng):
        self.rng = rng
        self.nodes, self.parameters = [], {}
        self.depth = int(rng.choice([16, 32, 48, 64, 96, 100, 128, 160, 256, 320, 512, 24, 7, 4096]))
        self.columns = int(rng.choice([1, 3, 16, 17, 31, 32, 48, 50, 64, 96, 130, 200]))
        self.matrices = ()

    def chance(self, p=0.5):
        return self.rng.random() < p

    def scales(self, *shape):
        return (self.rng.uniform(0.5, 1.5, shape) / np.sqrt(self.depth)).astype(np.float32)

    def matmul_n_bits_of_int8(self):
        return self.matmul_n_bits(accuracy_level=4)

    def matmul_n_bits(self, **attributes):
        bits, block = int(self.rng.choice([2, 4, 4, 8])), int(self.rng.choice([16, 32, 64, 128]))
        blocks, most = -(-self.depth // block), 2 ** bits
        numbers = self.rng.integers(0, most, (self.columns, blocks * block), dtype=np.uint8)
        scale = self.scales(self.columns, blocks) * 4 / most
        names = ["x", self.add("b", packed_bits(numbers, bits).reshape(self.columns, blocks, -1)), self.add("scales", scale)]
        zero = np.full((self.columns, blocks), most // 2, np.float64)
        if self.chance():
            whole = self.rng.integers(0, most, (self.columns, blocks), dtype=np.uint8)
            zero = whole.astype(np.float64)
            names.append(self.add("zero_points", packed_bits(whole, bits).reshape(-1)))
        self.nodes.append(helper.make_node("MatMulNBits", names, ["y"], domain="com.microsoft", K=self.depth, N=self.columns,
                                           bits=bits, block_size=block, **attributes))
        # With weights of 8 bits only where an instruction multiplies bytes, and where sums of a run are exact in float32.
        run = run_of(self.depth, block, 32 // bits if bits < 8 else 1) if self.columns > 1 else None  # one has no lanes
        self.run = run if run and (bits < 8 or (run % 4 == 0 and run * 255 * 127 <= 1 << 24)) else None
        self.is_rounded = bool(self.run) and (bits < 8 or MULTIPLIES_BYTES)
        weights = numbers.astype(np.float64).reshape(self.columns, blocks, block) - zero[..., None]
        weights *= scale.astype(np.float64)[..., None]
        return weights.reshape(self.columns, -1)[:, :self.depth].T

    def dequantised(self):
        bits, signed = int(self.rng.choice([8, 4, 4, 2])), self.chance()
        low = -(1 << bits - 1) if signed else 0
        high = low + (1 << bits) - 1
        onnx_type = {(8, True): "INT8", (8, False): "UINT8", (4, True): "INT4", (4, False): "UINT4", (2, True): "INT2",
                     (2, False): "UINT2"}[bits, signed]
        transposed = self.chance()
        shape = (self.columns, self.depth) if transposed else (self.depth, self.columns)
        sum_axis = 1 if transposed else 0
        numbers = self.rng.integers(low, high + 1, shape)
        attributes, kind = {}, self.rng.choice(["tensor", "channel", "block"])
        divisors = [b for b in (8, 16, 32) if self.depth % b == 0]
        if kind == "block" and divisors:
            block = int(self.rng.choice(divisors))
            of_scale = list(shape)
            of_scale[sum_axis] //= block
            attributes = {"axis": sum_axis, "block_size": block}
            widen = lambda a: np.repeat(a, block, sum_axis)  # noqa: E731
        elif kind == "channel":
            of_scale, attributes = [self.columns], {"axis": 1 - sum_axis}
            widen = lambda a: np.expand_dims(a, sum_axis)  # noqa: E731
        else:
            of_scale, widen = [], lambda a: a
        scale = self.scales(*of_scale) / (1 << bits - 1)
        names = [self.add_packed("q", numbers, onnx_type, bits), self.add("scale", scale)]
        zero = np.zeros(of_scale)
        if self.chance():
            zero = self.rng.integers(low // 2, high // 2 + 1, of_scale)
            names.append(self.add_packed("zero", np.asarray(zero), onnx_type, bits))
        self.nodes.append(helper.make_node("DequantizeLinear", names, ["w"], **attributes))
        weights = (numbers.astype(np.float64) - widen(np.asarray(zero, np.float64))) * widen(scale.astype(np.float64))
        if transposed:
            self.nodes.append(helper.make_node("Gemm", ["x", "w"], ["y"], transB=1))
            return weights.T
        self.nodes.append(helper.make_node("MatMul", ["x", "w"], ["y"]))
        return weights

    def half(self):
        if self.chance(0.3):
            self.matrices = (int(self.rng.integers(2, 4)),)
        wide = self.rng.standard_normal(self.matrices + (self.depth, self.columns)) / np.sqrt(self.depth)
        if self.chance():
            stored = numpy_helper.from_array(wide.astype(np.float16), "w16")
            weights = wide.astype(np.float16).astype(np.float64)
        else:
            bits = (wide.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
            stored = helper.make_tensor("w16", TensorProto.BFLOAT16, wide.shape, bits.tobytes(), raw=True)
            weights = (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        self.parameters["w16"] = stored
        self.nodes.append(helper.make_node("Cast", ["w16"], ["w"], to=TensorProto.FLOAT))
        self.nodes.append(helper.make_node("MatMul", ["x", "w"], ["y"]))
        return weights

    def add_packed(self, name, numbers, onnx_type, bits):
        """Integers in ONNX's type of 2, 4 or 8 bits, row-major without gaps."""
        data = packed_bits((numbers.reshape(-1) & (1 << bits) - 1).astype(np.uint8), bits).tobytes()
        tensor = TensorProto(name=name, data_type=ONNX_NUMBERS[onnx_type], dims=numbers.shape, raw_data=data)
        self.parameters[name] = tensor
        return name

    def add(self, name, array):
        self.parameters[name] = numpy_helper.from_array(np.asarray(array), name)
        return name


def build(rng, kind):
    """The model; for each number of rows, inputs, answers, and answers with data rounded to int8 (None: there are none); and
    whether data are rounded."""
    s = Sample(rng)
    weights = getattr(s, kind)()
    shared = "w" in [n.output[0] for n in s.nodes] and not s.matrices and s.chance(0.3)
    rows = "rows" if s.chance(0.6) else int(rng.choice([1, 2, 4, 5, 8, 9, 16, 33, 70]))
    two_axes = kind != "dequantised" and not s.matrices and s.chance(0.4)
    leading = ["batch" if rows == "rows" else 2] if two_axes else list(s.matrices)
    x_type = helper.make_tensor_value_info("x", TensorProto.FLOAT, [*leading, rows, s.depth])
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [*leading, rows, s.columns])]
    if shared:  # single rows of the same weights
        s.nodes.append(helper.make_node("Gather", ["w", "which"], ["row"], axis=0))
        outputs.append(helper.make_tensor_value_info("row", TensorProto.FLOAT, None))
        outputs[-1].ClearField("type")
    inputs = [x_type] + ([helper.make_tensor_value_info("which", TensorProto.INT64, [2])] if shared else [])
    graph = helper.make_graph(s.nodes, "g", inputs, outputs, list(s.parameters.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)],
                              ir_version=10)
    stored = weights.T if any(n.op_type == "Gemm" for n in s.nodes) else weights
    sets = []
    for m in ([1, 3, 8, 9, 40, 300] if rows == "rows" else [rows]):
        shape = [{"batch": 1 + m % 2}.get(d, d) for d in leading] + [m, s.depth]
        x = rng.standard_normal(shape).astype(np.float32)
        x[..., 0, :] *= rng.choice([1, 0, 1e-41])
        x[..., 0, 1:] *= rng.choice([1, 0])  # one number alone
        feeds, answers = {"x": x}, [(x.astype(np.float64) @ weights).astype(np.float32)]
        other = [(rounded(x, s.run) @ weights).astype(np.float32)] if kind.startswith("matmul") and s.run else None
        if shared:
            feeds["which"] = rng.integers(0, stored.shape[0], 2)
            answers.append(stored[feeds["which"]].astype(np.float32))
        sets.append((feeds, answers, other))
    return model, sets, sets[0][2] is not None and s.is_rounded


def write(folder, place, name, model, sets):
    """One case of all numbers of rows, which one program answers, and one of each, whose programs may round or not by themselves."""
    for number, (feeds, answers) in enumerate(sets):
        reference_cases.write_case(folder / "each" / place / f"{name}.{number}", model, feeds, answers)
        if number == 0:
            reference_cases.write_case(folder / "whole" / place / name, model, feeds, answers)
        else:
            reference_cases.write_data_set(folder / "whole" / place / name, model, feeds, answers, number)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--samples", type=int, default=8, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="a new folder for the cases")
    arguments = parser.parse_args()
    failed, passed, may_be_int8, in_int8 = 0, 0, 0, set()
    with tempfile.TemporaryDirectory(prefix="metac-narrow-") as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        for kind in ("matmul_n_bits", "matmul_n_bits_of_int8", "dequantised", "half"):
            for i in range(arguments.samples):
                model, sets, is_rounded = build(np.random.default_rng([arguments.seed, i, *kind.encode()]), kind)
                may_be_int8 += is_rounded
                for place, which in (("plain", 1), ("of_int8" if kind.endswith("int8") else "by_option", 2)):
                    if sets[0][which] is not None:
                        write(folder, place, f"{kind}_{i}", model, [(data[0], data[which]) for data in sets])
        for tree, options in (("each", ["--known", "shapes"]), ("whole", ["--known", "ranks"]), ("whole", ["--known", "ranks", "--cpu", "x86-64-v3"])):
            tolerances = ["--rtol", "1e-4", "--atol", "1e-5", *options]
            rows = reference_cases.verify(arguments.metac, folder / tree / "plain", *tolerances)
            allowed = reference_cases.verify(arguments.metac, folder / tree / "of_int8", *tolerances)
            rows |= {name: row for name, row in allowed.items() if row[0] == "passed"}
            allowed |= reference_cases.verify(arguments.metac, folder / tree / "by_option", "--precision", "int8", *tolerances)
            in_int8 |= {name.partition(".")[0] for name, row in allowed.items() if row[0] == "passed"}
            for name, (status, detail) in rows.items():
                passed += status == "passed"
                failed += status != "passed"
                if status != "passed":
                    print(f"FAIL  {name} {' '.join(options)}: {status}: {detail}")
    if len(in_int8) < may_be_int8:
        failed += 1
        print(f"FAIL  {len(in_int8)} models had their data in int8 of {may_be_int8} that may")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
