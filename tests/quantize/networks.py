"""Small networks with random weights, as exporters leave them, and data for them."""
import numpy as np
from onnx import TensorProto, checker, helper, numpy_helper, save, shape_inference


class Network:
    """Nodes and weights in the order in which they are written; every call answers with the name of what it makes."""

    def __init__(self, seed, opset=17):
        self.rng = np.random.default_rng(seed)
        self.opset, self.nodes, self.weights, self.inputs, self.outputs = opset, [], [], [], []

    def input(self, name, shape, dtype=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def weight(self, values, dtype=np.float32):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def random(self, *shape):
        return self.weight(self.rng.standard_normal(shape) / np.sqrt(max(1, np.prod(shape[1:]))))

    def __call__(self, op, *inputs, outputs=1, **attributes):
        made = [f"v{len(self.nodes)}" + (f"_{k}" if k else "") for k in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), made, name=f"{op}_{len(self.nodes)}", **attributes))
        return made[0] if outputs == 1 else made

    def conv(self, x, channels, into, size=3, norm=False, bias=True, **attributes):
        groups = attributes.get("group", 1)
        operands = [x, self.random(into, channels // groups, size, size)]
        if bias:
            operands.append(self.weight(self.rng.standard_normal(into) / 10))
        attributes.setdefault("pads", [size // 2] * 4)
        y = self("Conv", *operands, **attributes)
        if norm:
            parts = [self.rng.uniform(0.5, 1.5, into), self.rng.standard_normal(into) / 5, self.rng.standard_normal(into) / 5,
                     self.rng.uniform(0.5, 1.5, into)]
            y = self("BatchNormalization", y, *[self.weight(p) for p in parts])
        return y

    def gemm(self, x, depth, columns, **attributes):
        w = self.rng.standard_normal((columns, depth) if attributes.get("transB") else (depth, columns)) / np.sqrt(depth)
        return self("Gemm", x, self.weight(w), self.weight(self.rng.standard_normal(columns) / 10), **attributes)

    def linear(self, x, depth, columns):
        return self("Add", self("MatMul", x, self.weight(self.rng.standard_normal((depth, columns)) / np.sqrt(depth))),
                    self.weight(self.rng.standard_normal(columns) / 10))

    def save(self, path, **named):
        """named: name of an output = what it is, the result of a node."""
        for name, value in named.items():
            for node in self.nodes:
                node.output[:] = [name if o == value else o for o in node.output]
                node.input[:] = [name if i == value else i for i in node.input]
            self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
        graph = helper.make_graph(self.nodes, "network", self.inputs, self.outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        model = shape_inference.infer_shapes(model)
        checker.check_model(model)
        save(model, str(path))
        return path


def residual_network(path, seed, opset=17):
    """Normalisations, depthwise convolutions, clips, additions, pools, a concatenation."""
    n = Network(seed, opset)
    x = n("Relu", n.conv(n.input("x", ["batch", 3, 16, 16]), 3, 16, norm=True, bias=False))
    low, high = n.weight(0.0), n.weight(6.0)
    for _ in range(2):
        y = n("Clip", n.conv(x, 16, 16, group=16, norm=True), low, high)
        x = n("Relu", n("Add", n.conv(y, 16, 16, size=1, norm=True), x))
    a, b = n("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), n("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2])
    x = n("Relu", n.conv(n("Concat", a, b, axis=1), 32, 24))
    return n.save(path, y=n.gemm(n("Flatten", n("GlobalAveragePool", x)), 24, 10, transB=1))


def upsampling_network(path, seed, opset=17):
    """Transposed convolutions, resizes, gates, squeezes of channels; convolutions as outputs."""
    n = Network(seed, opset)
    x = n("Relu", n.conv(n.input("x", ["batch", 4, 8, 8]), 4, 16))
    gate = n("Relu", n.conv(n("GlobalAveragePool", x), 16, 4, size=1))
    x = n("Mul", x, n("Sigmoid", n.conv(gate, 4, 16, size=1)))
    up = n("ConvTranspose", x, n.random(16, 8, 2, 2), n.weight(n.rng.standard_normal(8) / 10), strides=[2, 2])
    other = n("Resize", x, "", n.weight([1, 1, 2, 2]), mode="nearest", coordinate_transformation_mode="asymmetric")
    both = n("Concat", n("LeakyRelu", up, alpha=0.1), other, axis=1)
    y = n.conv(both, 24, 8)
    swish = n("Mul", y, n("Sigmoid", y))
    return n.save(path, mask=n.conv(swish, 8, 2, size=1), features=y)


def perceptron(path, seed, opset=17, depth=64):
    n = Network(seed, opset)
    x = n("Relu", n.linear(n.input("x", ["batch", depth]), depth, 96))
    x = n("Tanh", n.gemm(x, 96, 64, transB=1, alpha=0.5, beta=2.0))
    return n.save(path, y=n("Softmax", n.gemm(x, 64, 10), axis=-1))


def transformer_block(path, seed, opset=17, width=64, heads=4):
    n = Network(seed, opset)
    x = n.input("x", ["batch", 12, width])
    each = width // heads

    def split(y, order):
        return n("Transpose", n("Reshape", y, n.weight([0, 0, heads, each], np.int64)), perm=order)
    ones, zeros = n.weight(np.ones(width)), n.weight(np.zeros(width))
    y = n("LayerNormalization", x, ones, zeros, axis=-1)
    q, k, v = (split(n.linear(y, width, width), order) for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]))
    scores = n("Softmax", n("Mul", n("MatMul", q, k), n.weight(1 / np.sqrt(each))), axis=-1)
    mixed = n("Reshape", n("Transpose", n("MatMul", scores, v), perm=[0, 2, 1, 3]), n.weight([0, 0, width], np.int64))
    x = n("Add", x, n.linear(mixed, width, width))
    y = n.linear(n("LayerNormalization", x, ones, zeros, axis=-1), width, 4 * width)
    half = n("Mul", n("Mul", y, n.weight(0.5)), n("Add", n("Erf", n("Mul", y, n.weight(np.sqrt(0.5)))), n.weight(1.0)))
    return n.save(path, y=n("Add", x, n.linear(half, 4 * width, width)))


NETWORKS = {"residual": (residual_network, (3, 16, 16)), "upsampling": (upsampling_network, (4, 8, 8)),
            "perceptron": (perceptron, (64,)), "transformer": (transformer_block, (12, 64))}


def samples(shape, count, seed, outliers=0):
    """Smooth values whose channels have sizes of their own; `outliers`: so many elements are twenty times as large."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, *shape)) * rng.uniform(0.5, 1.5, (1, shape[0]) + (1,) * (len(shape) - 1))
    if outliers:
        x.reshape(-1)[rng.integers(0, x.size, outliers)] *= 20
    return x.astype(np.float32)
