"""The networks of train_race.py: those of tests/train/networks.py and larger ones in the same form. Each is a function of the batch."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "train"))
from networks import Network, alexnet, lstm, mobilenet_v2, resnet18, resnet50, vgg19, vit  # noqa: E402


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


def resnet18_224(batch):
    network, output, about = resnet18(batch)
    network.inputs[0]["shape"] = ["N", 3, 224, 224]
    return network, output, about


def vit_small(batch):
    """Half of the blocks of ViT-S/16."""
    return vit(batch, width=384, heads=6, blocks=6, size=224, patch=16)


# Name of a run: the network, its batch.
RUNS = {"mlp": (mlp, 64), "lenet": (lenet, 64), "resnet18-64": (resnet18, 16), "vit": (vit, 32), "vit_small": (vit_small, 8), "lstm": (lstm, 16), "alexnet": (lambda batch: alexnet(), 16), "resnet18": (resnet18_224, 8),
        "mobilenet_v2": (lambda batch: mobilenet_v2(), 8), "resnet50": (lambda batch: resnet50(), 8), "vgg19": (lambda batch: vgg19(), 4)}
