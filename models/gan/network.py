"""Networks of the JSON IR with random weights, and the generators and discriminators that build.py puts together."""
import base64
import zlib

import numpy as np


class Network:
    """Nodes and weights; every weight is drawn by a generator that its name seeds."""

    def __init__(self, name):
        self.name, self.inputs, self.nodes, self.weights, self.count = name, [], [], {}, 0

    def input(self, name, *shape):
        self.inputs.append({"name": name, "dtype": "float32", "shape": ["N", *shape]})
        return name

    def weight(self, name, *shape, mean=0.0, deviation=0.0):
        random = np.random.default_rng(zlib.crc32(f"{self.name}/{name}".encode()))
        self.weights[name] = (mean + deviation * random.standard_normal(shape)).astype(np.float32)
        return name

    def node(self, op, inputs, **attributes):
        self.count += 1
        self.nodes.append({"op": op, "inputs": inputs, "outputs": [f"v{self.count}"], "attributes": attributes})
        return f"v{self.count}"

    def linear(self, x, name, inputs, outputs):
        return self.node("Gemm", [x, self.weight(name + ".weight", outputs, inputs, deviation=0.02), self.weight(name + ".bias", outputs)], transB=1)

    def convolution(self, x, name, inputs, outputs, size=3, stride=1, pad=1, bias=True):
        operands = [x, self.weight(name + ".weight", outputs, inputs, size, size, deviation=0.02)] + ([self.weight(name + ".bias", outputs)] if bias else [])
        return self.node("Conv", operands, kernel_shape=[size, size], strides=[stride, stride], pads=[pad] * 4)

    def batch_norm(self, x, name, channels):
        operands = [self.weight(name + ".weight", channels, mean=1.0, deviation=0.02), self.weight(name + ".bias", channels), self.weight(name + ".running_mean", channels),
                    self.weight(name + ".running_var", channels, mean=1.0)]
        return self.node("BatchNormalization", [x, *operands], epsilon=1e-5, momentum=0.9)

    def instance_norm(self, x, name, channels):
        return self.node("InstanceNormalization", [x, self.weight(name + ".weight", channels, mean=1.0), self.weight(name + ".bias", channels)], epsilon=1e-5)

    def leaky(self, x):
        return self.node("LeakyRelu", [x], alpha=0.2)

    def twice_as_large(self, x):
        self.weights["twice"] = np.array([1, 1, 2, 2], np.float32)
        return self.node("Resize", [x, "", "twice"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")

    def document(self, output):
        parameters = [{"name": n, "dtype": str(v.dtype), "shape": list(v.shape), "base64": base64.b64encode(np.ascontiguousarray(v).tobytes()).decode()} for n, v in self.weights.items()]
        return {"metac_ir": 1, "opset": 17, "name": self.name, "inputs": self.inputs, "parameters": parameters, "nodes": self.nodes, "outputs": [output]}


def generator(size, channels, noise, narrower=1):
    """Noise to images by two enlargements: the generator of DCGAN as it is commonly written, after A. Radford et al., arXiv:1511.06434. Its channels are divided by `narrower`."""
    n, start, wide, narrow = Network("generator"), size // 4, 128 // narrower, 64 // narrower
    n.weights["start"] = np.array([-1, wide, start, start], np.int64)
    x = n.node("Reshape", [n.linear(n.input("noise", noise), "project", noise, wide * start * start), "start"])
    x = n.batch_norm(x, "norm0", wide)
    x = n.leaky(n.batch_norm(n.convolution(n.twice_as_large(x), "conv1", wide, wide), "norm1", wide))
    x = n.leaky(n.batch_norm(n.convolution(n.twice_as_large(x), "conv2", wide, narrow), "norm2", narrow))
    return n.document(n.node("Tanh", [n.convolution(x, "conv3", narrow, channels)]))


def discriminator(size, channels, normalised=True, narrower=1):
    """Images to scores (logits) by four strided convolutions."""
    n = Network("discriminator")
    x, width = n.input("image", channels, size, size), channels
    for k, outputs in enumerate(wide // narrower for wide in (16, 32, 64, 128)):
        x = n.leaky(n.convolution(x, f"conv{k}", width, outputs, stride=2))
        x, width = n.batch_norm(x, f"norm{k}", outputs) if normalised and k else x, outputs
    return n.document(n.linear(n.node("Flatten", [x]), "score", width * (size // 16) ** 2, 1))


def translator(name, size, channels, blocks, narrower=1):
    """Images to images: the generator of CycleGAN, J.-Y. Zhu et al., arXiv:1703.10593, with zeros where it reflects."""
    n, (few, several, many) = Network(name), (wide // narrower for wide in (64, 128, 256))

    def unit(x, at, inputs, outputs, extent=3, stride=1, active=True):
        x = n.instance_norm(n.convolution(x, at, inputs, outputs, extent, stride, extent // 2), at + ".norm", outputs)
        return n.node("Relu", [x]) if active else x

    x = unit(n.input("image", channels, size, size), "in", channels, few, 7)
    x = unit(unit(x, "down0", few, several, stride=2), "down1", several, many, stride=2)
    for k in range(blocks):
        x = n.node("Add", [x, unit(unit(x, f"block{k}.0", many, many), f"block{k}.1", many, many, active=False)])
    x = unit(n.twice_as_large(x), "up0", many, several)
    x = unit(n.twice_as_large(x), "up1", several, few)
    return n.document(n.node("Tanh", [n.convolution(x, "out", few, channels, 7, 1, 3)]))


def patch_discriminator(name, size, channels, narrower=1):
    """Images to a score for every patch."""
    n, (width, *wider) = Network(name), (wide // narrower for wide in (64, 128, 256, 512))
    x = n.leaky(n.convolution(n.input("image", channels, size, size), "conv0", channels, width, 4, 2))
    for k, outputs in enumerate(wider, 1):
        x, width = n.leaky(n.instance_norm(n.convolution(x, f"conv{k}", width, outputs, 4, 2), f"norm{k}", outputs)), outputs
    return n.document(n.convolution(x, "score", width, 1, 3))
