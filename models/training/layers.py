"""Networks as nodes of the JSON IR, with weights by name, drawn as PyTorch draws them."""
import base64

import numpy as np


class Network:
    """Every weight is drawn by one generator, in the order of the layers: the same network on every machine."""

    def __init__(self, name, seed):
        self.name, self.random = name, np.random.default_rng(seed)
        self.inputs, self.nodes, self.weights, self.statistics, self.count = [], [], {}, {}, 0

    # ---- building ----
    def input(self, name, dtype, shape):
        self.inputs.append({"name": name, "dtype": dtype, "shape": ["N", *shape]})
        return name

    def weight(self, name, shape, fan_in=None, value=None):
        """Uniform in +-1/sqrt(fan_in), or one value."""
        values = np.full(shape, value) if value is not None else self.random.uniform(-1, 1, shape) / np.sqrt(fan_in)
        self.weights[name] = values.astype(np.float32)
        return name

    def node(self, op, inputs, outputs=1, **attributes):
        self.count += 1
        names = [f"v{self.count}_{k}" for k in range(outputs)] if outputs > 1 else [f"v{self.count}"]
        self.nodes.append({"op": op, "inputs": inputs, "outputs": names, "attributes": attributes})
        return names if outputs > 1 else names[0]

    def shape(self, *dims):
        name = f"shape{len(self.weights)}"
        self.weights[name] = np.array(dims, np.int64)
        return name

    def linear(self, x, name, inputs, outputs):
        return self.node("Gemm", [x, self.weight(name + ".weight", (outputs, inputs), inputs), self.weight(name + ".bias", (outputs,), inputs)], transB=1)

    def project(self, x, name, inputs, outputs):
        """A linear layer on sequences."""
        product = self.node("MatMul", [x, self.weight(name + ".weight", (inputs, outputs), inputs)])
        return self.node("Add", [product, self.weight(name + ".bias", (outputs,), inputs)])

    def convolution(self, x, name, inputs, outputs, size, stride=1, bias=True):
        fan = inputs * size * size / (1 if bias else 6)  # without a bias: He's bound, as ResNets begin
        operands = [x, self.weight(name + ".weight", (outputs, inputs, size, size), fan)] + ([self.weight(name + ".bias", (outputs,), fan)] if bias else [])
        return self.node("Conv", operands, kernel_shape=[size, size], strides=[stride, stride], pads=[size // 2] * 4)

    def batch_norm(self, x, name, channels):
        operands = [self.weight(name + ".weight", (channels,), value=1), self.weight(name + ".bias", (channels,), value=0),
                    self.weight(name + ".running_mean", (channels,), value=0), self.weight(name + ".running_var", (channels,), value=1)]
        self.statistics.update(dict.fromkeys(operands[2:]))
        return self.node("BatchNormalization", [x, *operands], epsilon=1e-5, momentum=0.9)

    def layer_norm(self, x, name, width):
        return self.node("LayerNormalization", [x, self.weight(name + ".weight", (width,), value=1), self.weight(name + ".bias", (width,), value=0)], axis=-1, epsilon=1e-5)

    # ---- as a document ----
    def document(self, output):
        parameters = [{"name": n, "dtype": str(v.dtype), "shape": list(v.shape), "base64": base64.b64encode(np.ascontiguousarray(v).tobytes()).decode()} for n, v in self.weights.items()]
        return {"metac_ir": 1, "opset": 17, "name": self.name, "inputs": self.inputs, "parameters": parameters, "nodes": self.nodes, "outputs": [output]}
