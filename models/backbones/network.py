"""The builder that all networks here share: nodes in the order of execution, and weights drawn by name.

Every method that adds a node returns the name of its result. Channel counts are remembered per value, so that a builder
states only what its paper's table states. Nodes come out as PyTorch's exporter writes them: BatchNorm folded into the
convolution before it, ReLU6 as Clip, SiLU as Sigmoid and Mul, the exact GELU as five nodes around Erf, linear layers on
sequences as MatMul and Add, on vectors as Gemm with transB.
"""
import zlib

import numpy as np
from onnx import TensorProto, helper, numpy_helper


class Network:
    """`width` divides every hidden channel count and `depth` caps the blocks of a stage: for quick tests."""

    def __init__(self, name, size=224, width=1, depth=None):
        self.name, self.size, self.width, self.depth = name, size, width, depth
        self.nodes, self.weights, self.inputs, self.channels, self.taken = [], [], [], {}, {}

    # ---- values ----
    def image(self):
        self.inputs.append(helper.make_tensor_value_info("input", TensorProto.FLOAT, ["batch", 3, self.size, self.size]))
        self.channels["input"] = 3
        return "input"

    def tokens(self, name, length):
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", length]))
        return name

    def narrow(self, channels):
        return max(channels // self.width, 1)

    def stages(self, *counts):
        return [min(n, self.depth or n) for n in counts]

    def weight(self, name, shape, deviation, mean=0.0):
        """Normal numbers from a generator seeded by the name: the same on every machine."""
        generator = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
        return self.constant(name, generator.standard_normal(shape, dtype=np.float32) * np.float32(deviation) + np.float32(mean))

    def constant(self, name, values):
        if name not in self.taken:
            self.taken[name] = len(self.weights)
            self.weights.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    # ---- nodes ----
    def node(self, kind, name, inputs, channels=None, outputs=None, **attributes):
        results = outputs or [f"{name}_out"]
        self.nodes.append(helper.make_node(kind, inputs, results, name, **attributes))
        known = next((self.channels[i] for i in inputs if i in self.channels), None)
        for result in results:
            self.channels[result] = channels or known
        return results[0] if len(results) == 1 else results

    def conv(self, x, name, filters, size, stride=1, pad=None, groups=1, gain=1.0, bias=True):
        channels, pad = self.channels[x], size // 2 if pad is None else pad
        fan_in = channels // groups * size * size
        inputs = [x, self.weight(f"{name}.weight", (filters, channels // groups, size, size), gain * (2 / fan_in) ** 0.5)]
        if bias:
            inputs.append(self.weight(f"{name}.bias", (filters,), 0.1))
        return self.node("Conv", name, inputs, filters, dilations=[1, 1], group=groups, kernel_shape=[size] * 2, pads=[pad] * 4, strides=[stride] * 2)

    def conv_relu(self, x, name, *sizes, **options):
        return self.relu(self.conv(x, name, *sizes, **options), f"{name}.relu")

    def batch_norm(self, x, name):
        n = self.channels[x]
        numbers = [self.weight(f"{name}.{part}", (n,), 0.1, mean) for part, mean in (("weight", 1), ("bias", 0), ("running_mean", 0))]
        variance = self.weight(f"{name}.running_var", (n,), 0.05, 1)
        return self.node("BatchNormalization", name, [x, *numbers, variance], epsilon=1e-5)

    def relu(self, x, name):
        return self.node("Relu", name, [x])

    def relu6(self, x, name):
        return self.node("Clip", name, [x, self.constant("zero", np.float32(0)), self.constant("six", np.float32(6))])

    def silu(self, x, name):
        return self.node("Mul", name, [x, self.node("Sigmoid", f"{name}.sigmoid", [x])])

    def gelu(self, x, name):
        y = self.node("Div", f"{name}.div", [x, self.constant("root_of_two", np.float32(2**0.5))])
        y = self.node("Add", f"{name}.add", [self.node("Erf", f"{name}.erf", [y]), self.constant("one", np.float32(1))])
        return self.node("Mul", name, [self.node("Mul", f"{name}.mul", [x, y]), self.constant("half", np.float32(0.5))])

    def add(self, a, b, name):
        return self.node("Add", name, [a, b])

    def max_pool(self, x, name, size, stride, pad=0, ceil=0):
        return self.node("MaxPool", name, [x], ceil_mode=ceil, kernel_shape=[size] * 2, pads=[pad] * 4, strides=[stride] * 2)

    def average_pool(self, x, name, size, stride, pad=0):
        return self.node("AveragePool", name, [x], count_include_pad=1, kernel_shape=[size] * 2, pads=[pad] * 4, strides=[stride] * 2)

    def global_pool(self, x, name):
        return self.node("GlobalAveragePool", name, [x])

    def flatten(self, x, name="flatten", pixels=1):
        return self.node("Flatten", name, [x], self.channels[x] * pixels, axis=1)

    def gemm(self, x, name, features, output=None):
        inputs = [x, self.weight(f"{name}.weight", (features, self.channels[x]), self.channels[x] ** -0.5), self.weight(f"{name}.bias", (features,), 0.1)]
        return self.node("Gemm", name, inputs, features, [output] if output else None, transB=1)

    def linear(self, x, name, features, gain=1.0, bias=True):
        weight = self.weight(f"{name}.weight", (self.channels[x], features), gain * self.channels[x] ** -0.5)
        y = self.node("MatMul", f"{name}.matmul", [x, weight], features)
        return self.node("Add", name, [y, self.weight(f"{name}.bias", (features,), 0.1)]) if bias else y

    def layer_norm(self, x, name, epsilon=1e-6):
        n = self.channels[x]
        return self.node("LayerNormalization", name, [x, self.weight(f"{name}.weight", (n,), 0.1, 1), self.weight(f"{name}.bias", (n,), 0.1)],
                         axis=-1, epsilon=epsilon)

    def transpose(self, x, name, *order):
        return self.node("Transpose", name, [x], perm=list(order))

    def reshape(self, x, name, *dims, channels=None):
        """0 keeps a dim, -1 takes what is left."""
        shape = self.constant("shape_" + "_".join(map(str, dims)), np.array(dims, np.int64))
        return self.node("Reshape", name, [x, shape], channels)

    def slice(self, x, name, axis, start, end=2**62, step=1):
        numbers = [self.constant(f"integer_{n}", np.array([n], np.int64)) for n in (start, end, axis, step)]
        return self.node("Slice", name, [x, *numbers])

    def pick(self, x, name, index):
        return self.node("Gather", name, [x, self.constant(f"index_{index}", np.int64(index))], axis=0)

    # ---- the model ----
    def classifier(self, x, name="fc"):
        """Ends a convolutional network: the mean of each channel, a linear layer to `output`."""
        self.gemm(self.flatten(self.global_pool(x, "avgpool")), name, 1000, "output")

    def model(self, *outputs):
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in outputs or [("output", ["batch", 1000])]]
        graph = helper.make_graph(self.nodes, self.name, self.inputs, results, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="metac models/backbones", ir_version=8)
