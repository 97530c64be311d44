#!/usr/bin/env python3
"""Random quantised networks, as quantisers write them, against ONNX Runtime without optimisations.

    python3 quantised_graphs.py --metac build/release/bin/metac [--count 60] [--seed S] [--keep DIR] [-- OPTIONS OF metac verify]
    needs: pip install numpy onnx onnxruntime

Convolutions (dense, grouped, depthwise, strided, dilated), products, additions, concatenations, pools, crops and resizings over values behind pairs of
QuantizeLinear and DequantizeLinear. Some are left out of quantising and read the same values as others: their weights are real numbers, or their results
are. Every value is a whole multiple of a unit, and every scale an odd multiple of one: nothing that is rounded lies half-way, so answers are the same
whatever the order of sums. The last line is 'N passed, N failed'.
"""
import argparse
import math
import pathlib
import sys
import tempfile
from fractions import Fraction

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import reference_cases  # noqa: E402


class Value:
    """A float value of the graph. unit: all elements are whole multiples of it; spread: their typical number of units."""

    def __init__(self, name, shape, unit, spread):
        self.name, self.shape, self.unit, self.spread = name, shape, Fraction(unit), float(spread)


class Network:
    def __init__(self, rng):
        self.rng, self.nodes, self.constants, self.feeds = rng, [], {}, {}
        self.values = []

    def chance(self, p):
        return self.rng.random() < p

    def of(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def add(self, op, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    # ---- quantising ----
    def quantised(self, value):
        """The value behind a pair, with a scale that is an odd multiple of its unit."""
        steps = max(1.0, value.spread / self.of(8, 20, 40))
        scale = value.unit * (2 * int(steps / 2) + 1)
        dtype = self.of(np.uint8, np.uint8, np.int8)
        zero = self.of(0, int(self.rng.integers(1, 30)), 128) if dtype == np.uint8 else self.of(0, int(self.rng.integers(-20, 20)))
        operands = [self.constant(np.float32(scale)), self.constant(dtype(zero))]
        stored = self.add("QuantizeLinear", [value.name, *operands])
        return Value(self.add("DequantizeLinear", [stored, *operands]), value.shape, scale, value.spread / float(scale / value.unit))

    def settled(self, value):
        if self.chance(0.2):
            value = Value(self.add("Relu", [value.name]), value.shape, value.unit, value.spread)
        return self.quantised(value) if self.chance(0.85) or value.spread > 5e4 else value

    def weights(self, shape, axis):
        """(name, unit, spread) of weights with these many elements along `axis`, of which each may have a scale."""
        most = self.of(3, 7, 20)
        numbers = self.rng.integers(-most, most + 1, shape)
        powers = self.rng.integers(3, 6, shape[axis])
        way = self.of("channels", "channels", "one", "bytes", "real")
        if way != "channels":
            powers[:] = powers[0]
        along = [1] * len(shape)
        along[axis] = shape[axis]
        unit, spread = Fraction(1, 2 ** int(powers.max())), most * float(2.0 ** (powers.max() - powers.min())) / 2
        if way == "real":
            return self.constant((numbers * 2.0 ** -powers.reshape(along)).astype(np.float32)), unit, spread
        scales = (2.0 ** -powers).astype(np.float32)
        dtype = np.uint8 if way == "bytes" or (way == "channels" and self.chance(0.3)) else np.int8
        zeros = np.zeros(len(scales), int)
        if dtype == np.uint8:
            zeros[:] = self.of(128, int(self.rng.integers(most, 256 - most)))
            if way == "channels" and self.chance(0.5):
                zeros = self.rng.integers(most, 256 - most, len(scales))
        stored = self.constant((numbers + zeros.reshape(along)).astype(dtype))
        if way == "channels":
            operands, attributes = [self.constant(scales), self.constant(zeros.astype(dtype))], {"axis": axis}
        else:
            operands, attributes = [self.constant(scales[0]), self.constant(dtype(zeros[0]))], {}
        return self.add("DequantizeLinear", [stored, *operands], **attributes), unit, spread

    # ---- layers ----
    def image(self):
        images = [v for v in self.values if len(v.shape) == 4]
        return images[self.rng.integers(len(images))] if self.chance(0.5) else images[-1]

    def convolution(self):
        x = self.image()
        channels = x.shape[1]
        kernel, stride, dilation = self.of(1, 1, 3, 3, 3, 5), self.of(1, 1, 1, 2), self.of(1, 1, 1, 2, 4, 7)
        group = self.of(1, 1, 1, channels, 2 if channels % 2 == 0 else 1, channels // self.of(4, 8) if channels % 8 == 0 else 1)
        out = channels if group == channels or (group > 1 and self.chance(0.7)) else group * int(self.of(1, 3, 8, 16, 24, 36) / group + 1)
        reach = dilation * (kernel - 1)
        pads = self.of([reach // 2] * 4, [0] * 4, [int(n) for n in self.rng.integers(0, reach + 1, 4)])
        size = [(x.shape[2 + k] + pads[k] + pads[2 + k] - reach - 1) // stride + 1 for k in (0, 1)]
        if min(size) < 1:
            return None
        w, unit, spread = self.weights([out, channels // group, kernel, kernel], 0)
        operands = [x.name, w]
        if self.chance(0.5):
            operands.append(self.constant((self.rng.integers(-9, 10, out) * float(x.unit * unit)).astype(np.float32)))
        y = self.add("Conv", operands, strides=[stride] * 2, dilations=[dilation] * 2, pads=pads, group=group)
        terms = channels // group * kernel * kernel
        return self.settled(Value(y, [x.shape[0], out, *size], x.unit * unit, x.spread * spread * terms ** 0.5))

    def transposed_convolution(self):
        x = self.image()
        n, channels, *size = x.shape
        kernel, stride, dilation = self.of(1, 2, 3, 3, 4, 5), self.of(1, 2, 2, 3), self.of(1, 1, 1, 2)
        group = self.of(1, 1, 1, channels, 2 if channels % 2 == 0 else 1)
        out = group * int(self.of(1, 3, 8, 16, 24) / group + 1)
        reach = dilation * (kernel - 1)
        pads = self.of([reach // 2] * 4, [0] * 4, [int(k) for k in self.rng.integers(0, reach + 1, 4)])
        more = [int(self.rng.integers(0, stride)) if self.chance(0.5) else 0 for _ in (0, 1)]
        size = [(size[k] - 1) * stride + reach + 1 - pads[k] - pads[2 + k] + more[k] for k in (0, 1)]
        if min(size) < 1 or np.prod(size) > 1200:
            return None
        w, unit, spread = self.weights([channels, out // group, kernel, kernel], 1)
        y = self.add("ConvTranspose", [x.name, w], strides=[stride] * 2, dilations=[dilation] * 2, pads=pads, group=group, output_padding=more)
        terms = channels // group * (-(-kernel // stride)) ** 2
        return self.settled(Value(y, [n, out, *size], x.unit * unit, x.spread * spread * terms ** 0.5))

    def rearranged(self):
        """Channels become pixels, or pixels channels, or channels change places."""
        x = self.image()
        n, c, h, w = x.shape
        way, block = self.of("DepthToSpace", "SpaceToDepth", "shuffle"), self.of(2, 2, 3)
        if way == "shuffle" and c % block == 0:
            apart, back = (self.constant(np.array(a)) for a in ([n, block, c // block, h, w], x.shape))
            y = self.add("Transpose", [self.add("Reshape", [x.name, apart])], perm=[0, 2, 1, 3, 4])
            return self.settled(Value(self.add("Reshape", [y, back]), x.shape, x.unit, x.spread))
        if way == "DepthToSpace" and c % block ** 2 == 0 and h * w < 200:
            y = self.add(way, [x.name], blocksize=block, mode=self.of("CRD", "CRD", "DCR"))
            return self.settled(Value(y, [n, c // block ** 2, h * block, w * block], x.unit, x.spread))
        if way == "SpaceToDepth" and h % block == w % block == 0 and c < 20:
            return self.settled(Value(self.add(way, [x.name], blocksize=block), [n, c * block ** 2, h // block, w // block], x.unit, x.spread))
        return None

    def addition(self):
        x = self.image()
        alike = [v for v in self.values if v.shape == x.shape]
        y = alike[self.rng.integers(len(alike))]
        unit = Fraction(1, max(x.unit.denominator, y.unit.denominator))
        if unit.denominator & (unit.denominator - 1):
            return None
        spread = x.spread * float(x.unit / unit) + y.spread * float(y.unit / unit)
        return self.settled(Value(self.add("Add", [x.name, y.name]), x.shape, unit, spread))

    def concatenation(self):
        x = self.image()
        alike = [v for v in self.values if len(v.shape) == 4 and v.shape[2:] == x.shape[2:]]
        y = alike[self.rng.integers(len(alike))]
        unit = Fraction(1, max(x.unit.denominator, y.unit.denominator))
        spread = max(x.spread * float(x.unit / unit), y.spread * float(y.unit / unit))
        shape = [x.shape[0], x.shape[1] + y.shape[1], *x.shape[2:]]
        return self.settled(Value(self.add("Concat", [x.name, y.name], axis=1), shape, unit, spread))

    def moved(self):
        x = self.image()
        way = self.of("MaxPool", "AveragePool", "Resize", "Slice")
        n, c, h, w = x.shape
        if way == "Resize":
            if h * w > 300:
                return None
            y = self.add("Resize", [x.name, "", self.constant(np.array([1, 1, 2, 2], np.float32))], mode="nearest", nearest_mode="floor",
                         coordinate_transformation_mode="asymmetric")
            return Value(y, [n, c, 2 * h, 2 * w], x.unit, x.spread)
        if way == "Slice":
            if min(c, h) < 3:
                return None
            y = self.add("Slice", [x.name, *(self.constant(np.array(a)) for a in ([1, 0], [c, h - 1], [1, 2]))])
            return Value(y, [n, c - 1, h - 1, w], x.unit, x.spread)
        if min(h, w) < 2:
            return None
        y = self.add(way, [x.name], kernel_shape=[2, 2], strides=[2, 2])
        unit = x.unit / 4 if way == "AveragePool" else x.unit
        return self.settled(Value(y, [n, c, h // 2, w // 2], unit, x.spread * float(x.unit / unit)))

    def head(self):
        x = self.image()
        y = self.add("Flatten", [x.name], axis=1)
        terms, out = int(np.prod(x.shape[1:])), self.of(1, 7, 32, 40)
        if terms > 4000:
            return None
        transposed = self.chance(0.5)
        w, unit, spread = self.weights([out, terms] if transposed else [terms, out], 0 if transposed else 1)
        y = self.add("Gemm", [y, w], transB=1) if transposed else self.add("MatMul", [y, w])
        return self.settled(Value(y, [x.shape[0], out], x.unit * unit, x.spread * spread * terms ** 0.5))

    def draw(self, layers):
        shape = [self.of(1, 1, 2), self.of(2, 3, 4, 8, 16, 20, 32, 40), int(self.rng.integers(5, 20)), int(self.rng.integers(5, 20))]
        self.feeds["x"] = (self.rng.integers(-40, 41, shape) / 8).astype(np.float32)
        self.values.append(self.quantised(Value("x", shape, Fraction(1, 8), 30)))
        if self.chance(0.3) and (stem := self.convolution()):  # nothing else reads the image
            self.values = [stem]
        while len(self.values) <= layers:
            made = self.of(*[self.convolution] * 3, self.transposed_convolution, self.addition, self.concatenation, self.moved, self.rearranged, self.head)()
            if made and made.spread < 1e6 and np.prod(made.shape) < 60000:
                self.values.append(made)


def draw(rng):
    network = Network(rng)
    network.draw(int(rng.integers(2, 9)))
    read = {name for node in network.nodes for name in node.input}
    outputs = [v for v in network.values if v.name not in read or network.chance(0.1)]
    blank = [helper.make_tensor_value_info(v.name, TensorProto.FLOAT, v.shape) for v in outputs]
    graph = helper.make_graph(network.nodes, "quantised", [reference_cases.port(k, v) for k, v in network.feeds.items()], blank,
                              [numpy_helper.from_array(v, k) for k, v in network.constants.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
    return model, network.feeds, [v.unit for v in outputs]


def exact(array, unit):
    """Whole multiples of the unit: a sum whose terms cancel leaves their rounding behind, where the answer is 0."""
    return (np.rint(array / float(unit)) * float(unit)).astype(np.float32)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("build/quantised-failures"))
    parser.add_argument("options", nargs="*")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="metac-quantised-") as temporary:
        made, folders = {}, {}
        for number in range(arguments.count):
            model, feeds, units = draw(np.random.default_rng([arguments.seed, number]))
            onnx.checker.check_model(model, full_check=True)
            name = f"quantised_{arguments.seed}_{number}"
            made[name] = model
            answers = [exact(a, unit) for a, unit in zip(reference_cases.session_of(model).run(None, feeds), units)]
            # What is rounded wrongly is a unit away at least; sums in another order are not.
            tolerance = 10.0 ** math.floor(math.log10(min(units) / 10))
            folder = pathlib.Path(temporary) / f"{tolerance:.0e}"
            folders[folder] = ["--rtol", "1e-5", "--atol", f"{tolerance:.0e}"]
            reference_cases.write_case(folder / name, model, feeds, answers)
        return reference_cases.verify_drawn(arguments.metac, folders, made, arguments.keep, *arguments.options)


if __name__ == "__main__":
    sys.exit(main())
