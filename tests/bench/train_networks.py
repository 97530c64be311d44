"""The networks of train_race.py: those of tests/train/networks.py and larger ones in the same form. Each is a function of the batch."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))
from networks import Network, lstm, resnet18, vit  # noqa: E402


def mlp(batch):
    n = Network("mlp", 1)
    x = n.input("x", "float32", [784])
    for k, (i, o) in enumerate([(784, 256), (256, 128)]):
        x = n.node("Relu", [n.linear(x, f"fc{k}", i, o)])
    return n, n.linear(x, "out", 128, 10), {"classes": 10}


def lenet(batch):
    n = Network("lenet", 2)
    x = n.input("x", "float32", [1, 28, 28])
    for k, (i, o) in enumerate([(1, 32), (32, 64)]):
        x = n.node("Relu", [n.convolution(x, f"conv{k}", i, o, 3)])
        x = n.node("MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2], pads=[0, 0, 0, 0])
    x = n.node("Relu", [n.linear(n.node("Flatten", [x]), "fc0", 64 * 7 * 7, 128)])
    return n, n.linear(x, "out", 128, 10), {"classes": 10}


def _stem(n):
    x = n.input("x", "float32", [3, 224, 224])
    x = n.node("Relu", [n.batch_norm(n.convolution(x, "conv1", 3, 64, 7, 2, bias=False), "bn1", 64)])
    return n.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])


def resnet18_224(batch):
    network, output, about = resnet18(batch)
    network.inputs[0]["shape"] = ["N", 3, 224, 224]
    return network, output, about


def resnet50(batch):
    n = Network("resnet50", 6)
    x, width = _stem(n), 64
    for stage, (channels, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        for block in range(blocks):
            name, stride = f"layer{stage}.{block}", 2 if stage and not block else 1
            y = n.node("Relu", [n.batch_norm(n.convolution(x, name + ".conv1", width, channels, 1, bias=False), name + ".bn1", channels)])
            y = n.node("Relu", [n.batch_norm(n.convolution(y, name + ".conv2", channels, channels, 3, stride, bias=False), name + ".bn2", channels)])
            y = n.batch_norm(n.convolution(y, name + ".conv3", channels, 4 * channels, 1, bias=False), name + ".bn3", 4 * channels)
            if block == 0:
                x = n.batch_norm(n.convolution(x, name + ".down", width, 4 * channels, 1, stride, bias=False), name + ".bn4", 4 * channels)
            x, width = n.node("Relu", [n.node("Add", [y, x])]), 4 * channels
    return n, n.linear(n.node("Flatten", [n.node("GlobalAveragePool", [x])]), "fc", width, 10), {"classes": 10}


def alexnet(batch):
    n = Network("alexnet", 5)
    x, width = n.input("x", "float32", [3, 224, 224]), 3
    for k, (channels, size, stride, pad, pool) in enumerate([(64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False), (256, 3, 1, 1, False), (256, 3, 1, 1, True)]):
        w = n.weight(f"conv{k}.weight", (channels, width, size, size), width * size * size / 6)
        x = n.node("Relu", [n.node("Conv", [x, w, n.weight(f"conv{k}.bias", (channels,), value=0)], kernel_shape=[size, size], strides=[stride, stride], pads=[pad] * 4)])
        x = n.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[0, 0, 0, 0]) if pool else x
        width = channels
    x = n.node("Flatten", [x])
    for k, (i, o) in enumerate([(256 * 6 * 6, 4096), (4096, 4096)]):
        x = n.node("Relu", [n.linear(x, f"fc{k}", i, o)])
    return n, n.linear(x, "fc2", 4096, 1000), {"classes": 1000}


def mobilenet_v2(batch):
    n = Network("mobilenet_v2", 7)

    def unit(x, name, inputs, outputs, size, stride=1, group=1, activate=True):
        w = n.weight(name + ".weight", (outputs, inputs // group, size, size), inputs // group * size * size / 6)
        x = n.node("Conv", [x, w], kernel_shape=[size, size], strides=[stride, stride], pads=[size // 2] * 4, group=group)
        x = n.batch_norm(x, name + ".bn", outputs)
        return n.node("Clip", [x, n.weight("zero", (), value=0), n.weight("six", (), value=6)]) if activate else x

    x, width = unit(n.input("x", "float32", [3, 224, 224]), "stem", 3, 32, 3, 2), 32
    for stage, (expand, channels, blocks, stride) in enumerate([(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]):
        for block in range(blocks):
            name, step, hidden = f"block{stage}.{block}", stride if block == 0 else 1, expand * width
            y = unit(x, name + ".expand", width, hidden, 1) if expand > 1 else x
            y = unit(y, name + ".depthwise", hidden, hidden, 3, step, hidden)
            y = unit(y, name + ".project", hidden, channels, 1, activate=False)
            x, width = n.node("Add", [x, y]) if step == 1 and width == channels else y, channels
    x = unit(x, "head", width, 1280, 1)
    return n, n.linear(n.node("Flatten", [n.node("GlobalAveragePool", [x])]), "fc", 1280, 10), {"classes": 10}


# Name of a run: the network, its batch.
RUNS = {"mlp": (mlp, 64), "lenet": (lenet, 64), "resnet18-64": (resnet18, 16), "vit": (vit, 32), "lstm": (lstm, 16), "alexnet": (alexnet, 16), "resnet18": (resnet18_224, 8), "mobilenet_v2": (mobilenet_v2, 8),
        "resnet50": (resnet50, 8)}
