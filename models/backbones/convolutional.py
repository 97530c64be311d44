"""Plain, residual and dense convolutional networks. Each builder takes a Network and returns the finished model."""


def alexnet(net):
    """A. Krizhevsky, "One weird trick for parallelizing convolutional neural networks", arXiv:1404.5997."""
    x = net.image()
    for i, (filters, size, stride, pool) in enumerate([(64, 11, 4, True), (192, 5, 1, True), (384, 3, 1, False), (256, 3, 1, False), (256, 3, 1, True)]):
        x = net.conv_relu(x, f"features.{i}", net.narrow(filters), size, stride, pad=2 if i == 0 else None)
        if pool:
            x = net.max_pool(x, f"pool.{i}", 3, 2)
    return three_layer_head(net, x, (((net.size - 7) // 4 - 1) // 2 - 1) // 2 // 2)


def three_layer_head(net, x, side):
    """Two hidden layers over all pixels of a side x side image."""
    x = net.flatten(x, pixels=side * side)
    for i in range(2):
        x = net.relu(net.gemm(x, f"classifier.{i}", net.narrow(4096)), f"classifier.{i}.relu")
    net.gemm(x, "classifier.2", 1000, "output")
    return net.model()


def vgg(*counts):
    """K. Simonyan, A. Zisserman, arXiv:1409.1556, table 1: so many 3x3 convolutions before each pooling."""
    def build(net):
        x = net.image()
        for stage, count in enumerate(net.stages(*counts)):
            for i in range(count):
                x = net.conv_relu(x, f"stage{stage}.{i}", net.narrow(64 * min(2**stage, 8)), 3)
            x = net.max_pool(x, f"stage{stage}.pool", 2, 2)
        return three_layer_head(net, x, net.size // 32)
    return build


def squeezenet1_1(net):
    """F. Iandola et al., arXiv:1602.07360; version 1.1 of the authors' repository."""
    x = net.max_pool(net.conv_relu(net.image(), "features.0", net.narrow(64), 3, 2, pad=0), "features.2", 3, 2, ceil=1)
    for i, (squeeze, expand, pool) in enumerate([(16, 64, False), (16, 64, True), (32, 128, False), (32, 128, True), (48, 192, False), (48, 192, False),
                                                 (64, 256, False), (64, 256, False)], 3):
        s = net.conv_relu(x, f"fire{i}.squeeze", net.narrow(squeeze), 1)
        parts = [net.conv_relu(s, f"fire{i}.expand{size}x{size}", net.narrow(expand), size) for size in (1, 3)]
        x = net.node("Concat", f"fire{i}", parts, 2 * net.narrow(expand), axis=1)
        if pool:
            x = net.max_pool(x, f"fire{i}.pool", 3, 2, ceil=1)
    x = net.conv_relu(x, "classifier.1", 1000, 1)
    net.node("Flatten", "flatten", [net.global_pool(x, "avgpool")], outputs=["output"], axis=1)
    return net.model()


def resnet(block, counts, **options):
    """K. He et al., arXiv:1512.03385, table 1; a bottleneck strides in its 3x3 convolution."""
    def build(net):
        x = net.max_pool(net.conv_relu(net.image(), "conv1", net.narrow(64), 7, 2), "maxpool", 3, 2, pad=1)
        for stage, count in enumerate(net.stages(*counts)):
            for i in range(count):
                x = block(net, x, f"layer{stage + 1}.{i}", net.narrow(64) << stage, 2 if stage and not i else 1, first=not i, **options)
        net.classifier(x)
        return net.model()
    return build


def join(net, x, y, name, channels, stride):
    """The sum at the end of a residual block, through a 1x1 convolution where the shapes differ."""
    if net.channels[x] != channels or stride > 1:
        x = net.conv(x, f"{name}.downsample", channels, 1, stride, gain=0.7)
    return net.relu(net.add(y, x, f"{name}.add"), f"{name}.relu")


def basic_block(net, x, name, channels, stride, first):
    y = net.conv_relu(x, f"{name}.conv1", channels, 3, stride)
    return join(net, x, net.conv(y, f"{name}.conv2", channels, 3, gain=0.3), name, channels, stride)  # small gains: residuals add up


def bottleneck(net, x, name, channels, stride, first, groups=1, base=64):
    """With groups ResNeXt (S. Xie et al., arXiv:1611.05431), with base 128 a wide network (S. Zagoruyko, arXiv:1605.07146)."""
    width = channels * base * groups // 64
    y = net.conv_relu(x, f"{name}.conv1", width, 1)
    y = net.conv_relu(y, f"{name}.conv2", width, 3, stride, groups=groups)
    return join(net, x, net.conv(y, f"{name}.conv3", 4 * channels, 1, gain=0.3), name, 4 * channels, stride)


def res2_block(net, x, name, channels, stride, first):
    """S.-H. Gao et al., arXiv:1904.01169: four scales of 26 channels, each convolution adds the one before."""
    width = channels * 26 // 64
    y = net.conv_relu(x, f"{name}.conv1", 4 * width, 1)
    sizes = net.constant(f"split_{width}", [width] * 4)
    parts = net.node("Split", f"{name}.split", [y, sizes], width, [f"{name}.part{i}" for i in range(4)], axis=1)
    scales = []
    for i, part in enumerate(parts[:3]):
        inner = part if first or not i else net.add(scales[-1], part, f"{name}.add{i}")
        scales.append(net.conv_relu(inner, f"{name}.convs.{i}", width, 3, stride))
    scales.append(net.average_pool(parts[3], f"{name}.pool", 3, stride, pad=1) if first else parts[3])
    y = net.node("Concat", f"{name}.concat", scales, 4 * width, axis=1)
    return join(net, x, net.conv(y, f"{name}.conv3", 4 * channels, 1, gain=0.3), name, 4 * channels, stride)


def densenet121(net):
    """G. Huang et al., arXiv:1608.06993, table 1. A layer normalises all that came before it, so that one stays unfolded."""
    growth = net.narrow(32)
    x = net.max_pool(net.conv_relu(net.image(), "conv0", net.narrow(64), 7, 2), "pool0", 3, 2, pad=1)
    for block, count in enumerate(net.stages(6, 12, 24, 16), 1):
        features = [x]
        for i in range(count):
            name = f"denseblock{block}.{i}"
            y = net.node("Concat", f"{name}.concat", features, sum(net.channels[f] for f in features), axis=1)
            y = net.relu(net.batch_norm(y, f"{name}.norm1"), f"{name}.relu1")
            y = net.conv_relu(y, f"{name}.conv1", 4 * growth, 1)
            features.append(net.conv(y, f"{name}.conv2", growth, 3, bias=False))
        x = net.node("Concat", f"denseblock{block}", features, sum(net.channels[f] for f in features), axis=1)
        x = net.relu(net.batch_norm(x, f"norm{block}"), f"relu{block}")
        if block < 4:
            x = net.average_pool(net.conv(x, f"transition{block}", net.channels[x] // 2, 1, bias=False), f"transition{block}.pool", 2, 2)
    net.classifier(x, "classifier")
    return net.model()
