"""Networks of images for build.py. Each is a function of the side of the image in pixels, the classes, and what part the classifier drops; gives the network, its output and what its samples are."""
from layers import Network


def _head(n, x, width, classes):
    return n, n.linear(n.node("Flatten", [n.node("GlobalAveragePool", [x])]), "fc", width, classes), {"classes": classes}


def _classifier(n, x, sizes, dropout):
    """Linear layers with Relu between them, and Dropout before them where there is some."""
    x = n.node("Flatten", [x])
    for k, (inputs, outputs) in enumerate(zip(sizes, sizes[1:])):
        x = n.node("Relu", [x]) if k else x
        x = n.node("Dropout", [x, n.weight("ratio", (), value=dropout)]) if dropout and k < 2 else x
        x = n.linear(x, f"fc{k}", inputs, outputs)
    return n, x, {"classes": sizes[-1]}


def _plain(n, x, name, inputs, outputs, size, stride=1, pad=0):
    """A convolution from He's start, with a bias, and Relu."""
    w = n.weight(name + ".weight", (outputs, inputs, size, size), inputs * size * size / 6)
    return n.node("Relu", [n.node("Conv", [x, w, n.weight(name + ".bias", (outputs,), value=0)], kernel_shape=[size, size], strides=[stride, stride], pads=[pad] * 4)])


def _pool(n, x, size, stride, pad=0):
    return n.node("MaxPool", [x], kernel_shape=[size, size], strides=[stride, stride], pads=[pad] * 4)


def alexnet(size=224, classes=1000, dropout=0.0):
    """A. Krizhevsky, arXiv:1404.5997."""
    n = Network("alexnet", 5)
    x, width, side = n.input("x", "float32", [3, size, size]), 3, (size - 7) // 4 + 1
    for k, (channels, window, stride, pad, pool) in enumerate([(64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False), (256, 3, 1, 1, False), (256, 3, 1, 1, True)]):
        x = _plain(n, x, f"conv{k}", width, channels, window, stride, pad)
        x, side = (_pool(n, x, 3, 2), (side - 3) // 2 + 1) if pool else (x, side)
        width = channels
    return _classifier(n, x, [256 * side * side, 4096, 4096, classes], dropout)


def vgg19(size=224, classes=1000, dropout=0.0):
    """K. Simonyan, A. Zisserman, arXiv:1409.1556: sixteen convolutions."""
    n = Network("vgg19", 8)
    x, width = n.input("x", "float32", [3, size, size]), 3
    for stage, (channels, blocks) in enumerate([(64, 2), (128, 2), (256, 4), (512, 4), (512, 4)]):
        for block in range(blocks):
            x, width = _plain(n, x, f"conv{stage}.{block}", width, channels, 3, 1, 1), channels
        x = _pool(n, x, 2, 2)
    return _classifier(n, x, [512 * (size // 32) ** 2, 4096, 4096, classes], dropout)


def resnet50(size=224, classes=10, dropout=0.0):
    """K. He et al., arXiv:1512.03385, the stride in the 3x3 convolution."""
    n = Network("resnet50", 6)
    x = n.input("x", "float32", [3, size, size])
    x, width = _pool(n, n.node("Relu", [n.batch_norm(n.convolution(x, "conv1", 3, 64, 7, 2, bias=False), "bn1", 64)]), 3, 2, 1), 64
    for stage, (channels, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        for block in range(blocks):
            name, stride = f"layer{stage}.{block}", 2 if stage and not block else 1
            y = n.node("Relu", [n.batch_norm(n.convolution(x, name + ".conv1", width, channels, 1, bias=False), name + ".bn1", channels)])
            y = n.node("Relu", [n.batch_norm(n.convolution(y, name + ".conv2", channels, channels, 3, stride, bias=False), name + ".bn2", channels)])
            y = n.batch_norm(n.convolution(y, name + ".conv3", channels, 4 * channels, 1, bias=False), name + ".bn3", 4 * channels)
            if block == 0:
                x = n.batch_norm(n.convolution(x, name + ".down", width, 4 * channels, 1, stride, bias=False), name + ".bn4", 4 * channels)
            x, width = n.node("Relu", [n.node("Add", [y, x])]), 4 * channels
    return _head(n, x, width, classes)


def mobilenet_v2(size=224, classes=10, dropout=0.0):
    """M. Sandler et al., arXiv:1801.04381."""
    n = Network("mobilenet_v2", 7)

    def unit(x, name, inputs, outputs, window, stride=1, group=1, activate=True):
        w = n.weight(name + ".weight", (outputs, inputs // group, window, window), inputs // group * window * window / 6)
        x = n.node("Conv", [x, w], kernel_shape=[window, window], strides=[stride, stride], pads=[window // 2] * 4, group=group)
        x = n.batch_norm(x, name + ".bn", outputs)
        return n.node("Clip", [x, n.weight("zero", (), value=0), n.weight("six", (), value=6)]) if activate else x

    x, width = unit(n.input("x", "float32", [3, size, size]), "stem", 3, 32, 3, 2), 32
    for stage, (expand, channels, blocks, stride) in enumerate([(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]):
        for block in range(blocks):
            name, step, hidden = f"block{stage}.{block}", stride if block == 0 else 1, expand * width
            y = unit(x, name + ".expand", width, hidden, 1) if expand > 1 else x
            y = unit(y, name + ".depthwise", hidden, hidden, 3, step, hidden)
            y = unit(y, name + ".project", hidden, channels, 1, activate=False)
            x, width = n.node("Add", [x, y]) if step == 1 and width == channels else y, channels
    return _head(n, unit(x, "head", width, 1280, 1), 1280, classes)
