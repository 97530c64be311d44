"""The networks of compare_curves.py: small ones, and those of models/training on small images.

The same nodes are run by torch_reference.py with PyTorch's operators, so both sides start from the same numbers. Each is a function of the batch
and gives the network, its output, and what its samples are.
"""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models/training"))
from layers import Network  # noqa: E402
from convolutional import alexnet, mobilenet_v2, resnet50, vgg19  # noqa: E402
from sequences import gnmt, ncf  # noqa: E402


def mlp(batch):
    n = Network("mlp", 1)
    x = n.input("x", "float32", [64])
    for k, (i, o) in enumerate([(64, 128), (128, 128)]):
        x = n.node("Relu", [n.linear(x, f"fc{k}", i, o)])
    return n, n.linear(x, "out", 128, 10), {"classes": 10}


def lenet(batch):
    n = Network("lenet", 2)
    x = n.input("x", "float32", [1, 28, 28])
    for k, (i, o) in enumerate([(1, 6), (6, 16)]):
        x = n.node("Tanh", [n.convolution(x, f"conv{k}", i, o, 5)])
        x = n.node("AveragePool", [x], kernel_shape=[2, 2], strides=[2, 2])
    x = n.node("Flatten", [x])
    x = n.node("Tanh", [n.linear(x, "fc0", 16 * 7 * 7, 120)])
    x = n.node("Tanh", [n.linear(x, "fc1", 120, 84)])
    return n, n.linear(x, "out", 84, 10), {"classes": 10}


def resnet18(batch):
    n = Network("resnet18", 3)
    x = n.input("x", "float32", [3, 64, 64])
    x = n.node("Relu", [n.batch_norm(n.convolution(x, "conv1", 3, 64, 7, 2, bias=False), "bn1", 64)])
    x = n.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    width = 64
    for stage, channels in enumerate([64, 128, 256, 512]):
        for block in range(2):
            name, stride = f"layer{stage}.{block}", 2 if stage and not block else 1
            y = n.node("Relu", [n.batch_norm(n.convolution(x, name + ".conv1", width, channels, 3, stride, bias=False), name + ".bn1", channels)])
            y = n.batch_norm(n.convolution(y, name + ".conv2", channels, channels, 3, bias=False), name + ".bn2", channels)
            if stride != 1 or width != channels:
                x = n.batch_norm(n.convolution(x, name + ".down", width, channels, 1, stride, bias=False), name + ".bn3", channels)
            x, width = n.node("Relu", [n.node("Add", [y, x])]), channels
    x = n.node("Flatten", [n.node("GlobalAveragePool", [x])])
    return n, n.linear(x, "fc", 512, 10), {"classes": 10}


def vit(batch, width=64, heads=4, blocks=3, size=32, patch=8):
    n, tokens, taps = Network("vit", 4), (size // patch) ** 2, 3 * patch * patch
    x = n.input("x", "float32", [3, size, size])
    w = n.weight("patch.weight", (width, 3, patch, patch), taps)
    x = n.node("Conv", [x, w, n.weight("patch.bias", (width,), taps)], kernel_shape=[patch] * 2, strides=[patch] * 2)
    x = n.node("Transpose", [n.node("Reshape", [x, n.shape(batch, width, tokens)])], perm=[0, 2, 1])
    x = n.node("Add", [x, n.weight("position", (1, tokens, width), 400)])
    for k in range(blocks):
        y = n.layer_norm(x, f"block{k}.norm1", width)
        parts = []
        for part in "qkv":
            p = n.node("Reshape", [n.project(y, f"block{k}.{part}", width, width), n.shape(batch, tokens, heads, width // heads)])
            parts.append(n.node("Transpose", [p], perm=[0, 2, 3, 1] if part == "k" else [0, 2, 1, 3]))
        scores = n.node("MatMul", parts[:2])
        scale = n.weight("scale", (), value=(width // heads) ** -0.5)
        attended = n.node("MatMul", [n.node("Softmax", [n.node("Mul", [scores, scale])], axis=-1), parts[2]])
        attended = n.node("Reshape", [n.node("Transpose", [attended], perm=[0, 2, 1, 3]), n.shape(batch, tokens, width)])
        x = n.node("Add", [x, n.project(attended, f"block{k}.o", width, width)])
        y = n.project(n.layer_norm(x, f"block{k}.norm2", width), f"block{k}.up", width, 4 * width)
        half, one, root = n.weight("half", (), value=0.5), n.weight("one", (), value=1), n.weight("root", (), value=2 ** 0.5)
        gelu = n.node("Mul", [n.node("Mul", [y, n.node("Add", [n.node("Erf", [n.node("Div", [y, root])]), one])]), half])
        x = n.node("Add", [x, n.project(gelu, f"block{k}.down", 4 * width, width)])
    x = n.node("ReduceMean", [n.layer_norm(x, "norm", width)], axes=[1], keepdims=0)
    return n, n.linear(x, "head", width, 10), {"classes": 10}


def lstm(batch):
    """A language model over bytes: embedding, one LSTM, a score for each next byte."""
    n, vocabulary, width, time = Network("lstm", 5), 64, 96, 24
    x = n.input("x", "int64", [time])
    x = n.node("Gather", [n.weight("embedding", (vocabulary, 32), 32), x], axis=0)
    x = n.node("Transpose", [x], perm=[1, 0, 2])
    operands = [x, n.weight("lstm.weight_ih", (1, 4 * width, 32), width), n.weight("lstm.weight_hh", (1, 4 * width, width), width), n.weight("lstm.bias", (1, 8 * width), width)]
    y = n.node("LSTM", operands, hidden_size=width)
    y = n.node("Transpose", [n.node("Reshape", [y, n.shape(time, batch, width)])], perm=[1, 0, 2])
    return n, n.project(y, "out", width, vocabulary), {"classes": vocabulary, "time": time, "axis": 2}


NETWORKS = {"mlp": mlp, "lenet": lenet, "resnet18": resnet18, "vit": vit, "lstm": lstm, "gnmt": lambda batch: gnmt(batch, width=64, time=10), "ncf": ncf,
            **{f.__name__: lambda batch, size=64, f=f: f(size, 10) for f in (alexnet, vgg19, resnet50, mobilenet_v2)}}
