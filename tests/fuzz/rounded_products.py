#!/usr/bin/env python3
"""Random networks of products, with derivatives and without, whose operands bfloat16 holds exactly: --precision bfloat16 must change nothing.

    python3 rounded_products.py --metac build/release/bin/metac [--count 60] [--seed S] [--keep DIR] [-- OPTIONS OF metac verify]
    needs: pip install numpy onnx

Convolutions (dense, grouped, strided, dilated, transposed), matrix products with weights and of two values, residuals, pools and moves over small whole
numbers; weights have few entries other than zero, so sums stay small. Weights are constants of the model or its inputs, as training has them; then the
derivatives by some of them are results. Expected is what metac computes in float32 for the oldest processor, whose operators and derivatives other
stages compare with others' answers; minimal filtering is that of 2 x 2, which is exact in such numbers too. A processor without such products computes in
float32. The last line is 'N passed, N failed'.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import reference_cases  # noqa: E402

LARGEST = 24  # of a value: sums of a few such have at most 8 binary digits
EXACT = ["--winograd", "2"]  # F(4 x 4, 3 x 3) divides by 6 and 24, and what is almost zero is on either side of a Relu
CHANNELS = [16, 24, 37, 64, 96, 100, 112, 128]


class Network:
    def __init__(self, rng):
        self.rng, self.nodes, self.constants, self.feeds, self.parameters = rng, [], {}, {}, []
        self.trains = self.chance(0.6)

    def chance(self, p):
        return self.rng.random() < p

    def of(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def add(self, op, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attributes))
        return name

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(array)
        return name

    def input(self, shape):
        name = f"x{len(self.feeds)}"
        self.feeds[name] = self.rng.integers(-2, 3, shape).astype(np.float32)
        return name

    def weight(self, shape, per_output):
        """Of [outputs, ...]: about `per_output` entries of each output are 1 or -1."""
        values = np.zeros((shape[0], int(np.prod(shape[1:]))), np.float32)
        for row in values:
            row[self.rng.integers(0, len(row), per_output)] = self.of(-1, 1)
        values = values.reshape(shape)
        if not self.trains and self.chance(0.8):
            return self.constant(values)
        name = f"w{len(self.feeds)}"
        self.feeds[name] = values
        self.parameters.append(name)
        return name

    def bounded(self, x):
        return self.add("Clip", [x, self.constant(np.float32(-LARGEST)), self.constant(np.float32(LARGEST))])

    # ---- layers: value and shape to value and shape ----
    def convolution(self, x, shape):
        n, c, h, w = shape
        k, group = self.of(1, 1, 2, 3, 3, 5), self.of(1, 1, 1, 2) if c % 2 == 0 else 1
        stride, dilation, out = self.of(1, 1, 2), self.of(1, 1, 1, 2, 5), self.of(*CHANNELS)
        if out % group:
            group = 1
        pad = self.of(0, k // 2, k - 1, dilation * (k - 1) // 2)
        reach = dilation * (k - 1)
        if min(h, w) + 2 * pad <= reach:
            pad = reach // 2 + 1
        y = self.add("Conv", [x, self.weight([out, c // group, k, k], 3)], kernel_shape=[k, k], strides=[stride] * 2, dilations=[dilation] * 2, pads=[pad] * 4, group=group)
        return y, [n, out, *((e + 2 * pad - reach - 1) // stride + 1 for e in (h, w))]

    def transposed(self, x, shape):
        n, c, h, w = shape
        k, stride, out = self.of(2, 3), self.of(1, 2), self.of(*CHANNELS[:5])
        y = self.add("ConvTranspose", [x, self.weight([c, out, k, k], 2)], kernel_shape=[k, k], strides=[stride] * 2)
        return y, [n, out, *((e - 1) * stride + k for e in (h, w))]

    def pooled(self, x, shape):
        n, c, h, w = shape
        if min(h, w) < 4:
            return x, shape
        window = self.of([1, 2], [2, 1]) if self.trains else [2, 2]  # of three equal values each would have a third of the derivative
        return self.add("MaxPool", [x], kernel_shape=window, strides=window), [n, c, h // window[0], w // window[1]]

    def rows(self, x, shape):
        """A product with a matrix, of rows, batches of them, or heads."""
        out = self.of(*CHANNELS)
        w = self.weight([out, shape[-1]], 3)
        y = self.add("MatMul", [x, self.add("Transpose", [w], perm=[1, 0])]) if self.chance(0.7) or len(shape) != 2 else self.add("Gemm", [x, w], transB=1)
        return y, [*shape[:-1], out]

    def scores(self, x, shape):
        """Products of all rows with each other."""
        axes = [*range(len(shape) - 2), len(shape) - 1, len(shape) - 2]
        return self.add("MatMul", [x, self.add("Transpose", [x], perm=axes)]), [*shape[:-1], shape[-2]]

    def residual(self, x, shape):
        y, after = (self.convolution if len(shape) == 4 else self.rows)(self.add("Relu", [x]), shape)
        return (self.bounded(self.add("Add", [x, y])), shape) if after == shape else (self.bounded(y), after)


def draw(rng):
    n = Network(rng)
    batch = n.of(1, 2, 3, 4, 8)
    images = n.chance(0.6)
    shape = [batch, n.of(*CHANNELS[:6]), *(int(e) for e in rng.integers(5, 15, 2))] if images else [*n.of([batch * 9], [batch, 18], [batch, 2, 12]), n.of(*CHANNELS)]
    x = n.input(shape)
    for _ in range(int(rng.integers(1, 4))):
        layer = n.of(n.convolution, n.convolution, n.convolution, n.transposed, n.pooled, n.residual) if images else n.of(n.rows, n.rows, n.rows, n.residual, n.scores)
        if not images and len(shape) > 2 and n.chance(0.25):
            x = n.add("MatMul", [n.weight([shape[-2], shape[-2]], 2), x])
        x, shape = layer(x, shape)
        x = n.of(lambda v: n.bounded(v), lambda v: n.bounded(n.add("Relu", [v])))(x)
    results = {x: shape}
    if n.trains and n.parameters:
        weights = n.constant(rng.integers(-1, 2, shape).astype(np.float32))
        loss = n.add("ReduceSum", [n.add("Mul", [x, weights])], keepdims=0)
        of = [name for name in n.feeds if name in n.parameters or n.chance(0.5)]
        n.nodes.append(helper.make_node("Gradient", of, [f"d{name}" for name in of], domain="ai.onnx.preview.training", xs=of, y=loss))
        results.update({f"d{name}": n.feeds[name].shape for name in of})
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(value.shape)) for name, value in n.feeds.items()]
    graph = helper.make_graph(n.nodes, "products", infos, [helper.make_tensor_value_info(name, TensorProto.FLOAT, list(s)) for name, s in results.items()],
                              [numpy_helper.from_array(value, name) for name, value in n.constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.preview.training", 1)], ir_version=8), n.feeds


def answers(metac, model, feeds, folder):
    """What float32 gives."""
    folder.mkdir()
    onnx.save(model, folder / "model.onnx")
    given = []
    for name, value in feeds.items():
        np.save(folder / f"{name}.npy", value)
        given += ["--input", f"{name}={folder / name}.npy"]
    subprocess.run([metac, "run", folder / "model.onnx", "--cpu", "x86-64", *EXACT, "--output-dir", folder, *given], check=True, stdout=subprocess.DEVNULL)
    return [np.load(folder / f"{port.name}.npy") for port in model.graph.output]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("build/rounded-failures"))
    parser.add_argument("options", nargs="*")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="metac-rounded-") as temporary:
        made, cases = {}, pathlib.Path(temporary) / "cases"
        for number in range(arguments.count):
            model, feeds = draw(np.random.default_rng([arguments.seed, number]))
            name = f"rounded_{arguments.seed}_{number}"
            made[name] = model
            reference_cases.write_case(cases / name, model, feeds, answers(arguments.metac, model, feeds, pathlib.Path(temporary) / name))
        options = ["--precision", "bfloat16", *EXACT, "--rtol", "1e-3", "--atol", "1e-2", *arguments.options]
        return reference_cases.verify_drawn(arguments.metac, {cases: []}, made, arguments.keep, *options)


if __name__ == "__main__":
    sys.exit(main())
