#!/usr/bin/env python3
"""Writes ResNet-50 (v1.5, as exporters write it: Conv with BatchNorm folded) with seeded random weights.

    python3 build.py OUT.onnx            needs: pip install onnx numpy

For benchmarks: the arithmetic is that of the trained network, nothing is downloaded, and every machine gets the same
file. K. He et al., "Deep Residual Learning for Image Recognition", arXiv:1512.03385, table 1, with the stride of a
bottleneck in its 3x3 convolution. Input `input` float32 [batch, 3, 224, 224], output `output` [batch, 1000].
"""
import sys
import zlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Network:
    """Nodes and weights in the order of execution; every method returns the name of its result."""

    def __init__(self):
        self.nodes, self.weights = [], []

    def weight(self, name, shape, deviation):
        generator = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
        values = generator.standard_normal(shape, dtype=np.float32) * np.float32(deviation)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def node(self, kind, name, inputs, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [f"{name}_out"], name, **attributes))
        return f"{name}_out"

    def conv(self, x, name, channels, filters, size, stride, gain=1.0):
        fan_in = channels * size * size
        weight = self.weight(f"{name}.weight", (filters, channels, size, size), gain * (2 / fan_in) ** 0.5)
        bias = self.weight(f"{name}.bias", (filters,), 0.1)
        return self.node("Conv", name, [x, weight, bias], kernel_shape=[size, size], strides=[stride, stride], pads=[size // 2] * 4)

    def bottleneck(self, x, name, channels, width, stride):
        y = self.node("Relu", f"{name}.relu1", [self.conv(x, f"{name}.conv1", channels, width, 1, 1)])
        y = self.node("Relu", f"{name}.relu2", [self.conv(y, f"{name}.conv2", width, width, 3, stride)])
        y = self.conv(y, f"{name}.conv3", width, 4 * width, 1, 1, gain=0.3)  # small, so that 16 residuals do not overflow
        if channels != 4 * width:
            x = self.conv(x, f"{name}.downsample", channels, 4 * width, 1, stride, gain=0.7)
        return self.node("Relu", f"{name}.relu3", [self.node("Add", f"{name}.add", [y, x])])


def build():
    net = Network()
    x = net.node("Relu", "relu", [net.conv("input", "conv1", 3, 64, 7, 2)])
    x = net.node("MaxPool", "maxpool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    channels = 64
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], 1):
        for block in range(blocks):
            x = net.bottleneck(x, f"layer{stage}.{block}", channels, width, 2 if stage > 1 and block == 0 else 1)
            channels = 4 * width
    x = net.node("Flatten", "flatten", [net.node("GlobalAveragePool", "avgpool", [x])], axis=1)
    weight, bias = net.weight("fc.weight", (1000, channels), channels**-0.5), net.weight("fc.bias", (1000,), 0.1)
    net.nodes.append(helper.make_node("Gemm", [x, weight, bias], ["output"], "fc", transB=1))
    graph = helper.make_graph(
        net.nodes, "resnet50", [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 3, 224, 224])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, ["batch", 1000])], net.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="metac models/resnet50/build.py", ir_version=8)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    model = build()
    onnx.checker.check_model(model)
    onnx.save(model, sys.argv[1])
    print(f"{sys.argv[1]}: {sum(np.prod(t.dims) for t in model.graph.initializer) / 1e6:.1f} million weights")
