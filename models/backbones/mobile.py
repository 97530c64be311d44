"""Networks of inverted residuals: expand with 1x1, filter each channel by itself, project with 1x1."""


def mobilenet_v2(net):
    """M. Sandler et al., arXiv:1801.04381, table 2."""
    x = net.relu6(net.conv(net.image(), "features.0", net.narrow(32), 3, 2), "features.0.relu6")
    for stage, (expand, channels, count, stride) in enumerate([(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]):
        for i in range(net.stages(count)[0]):
            x = inverted_residual(net, x, f"stage{stage}.{i}", expand, net.narrow(channels), 3, 1 if i else stride, net.relu6)
    net.classifier(net.relu6(net.conv(x, "features.18", net.narrow(1280), 1), "features.18.relu6"), "classifier")
    return net.model()


def efficientnet_b0(net):
    """M. Tan, Q. Le, arXiv:1905.11946, table 1: with squeeze and excitation, to a quarter of the block's input channels."""
    x = net.silu(net.conv(net.image(), "features.0", net.narrow(32), 3, 2), "features.0.silu")
    for stage, (expand, size, stride, channels, count) in enumerate([(1, 3, 1, 16, 1), (6, 3, 2, 24, 2), (6, 5, 2, 40, 2), (6, 3, 2, 80, 3), (6, 5, 1, 112, 3), (6, 5, 2, 192, 4),
                                                                     (6, 3, 1, 320, 1)]):
        for i in range(net.stages(count)[0]):
            x = inverted_residual(net, x, f"stage{stage}.{i}", expand, net.narrow(channels), size, 1 if i else stride, net.silu, squeeze=True)
    net.classifier(net.silu(net.conv(x, "features.8", net.narrow(1280), 1), "features.8.silu"), "classifier")
    return net.model()


def inverted_residual(net, x, name, expand, channels, size, stride, activation, squeeze=False):
    y, hidden, few = x, net.channels[x] * expand, max(net.channels[x] // 4, 1)
    gain = 1.1 if activation == net.silu else 1.0  # what the activation takes from the variance, and below what the gate takes
    if expand > 1:
        y = activation(net.conv(y, f"{name}.expand", hidden, 1, gain=gain), f"{name}.expand.activation")
    y = activation(net.conv(y, f"{name}.depthwise", hidden, size, stride, groups=hidden, gain=gain), f"{name}.depthwise.activation")
    if squeeze:
        s = activation(net.conv(net.global_pool(y, f"{name}.pool"), f"{name}.squeeze", few, 1), f"{name}.squeeze.activation")
        s = net.node("Sigmoid", f"{name}.gate", [net.conv(s, f"{name}.excite", hidden, 1)])
        y = net.node("Mul", f"{name}.scale", [s, y])
    y = net.conv(y, f"{name}.project", channels, 1, gain=1.0 if squeeze else 0.7)
    return net.add(x, y, f"{name}.add") if stride == 1 and channels == net.channels[x] else y


def convnext_tiny(net):
    """Z. Liu et al., arXiv:2201.03545, as torchvision writes it: channels last between the depthwise convolutions."""
    x = normalise(net, net.conv(net.image(), "stem", net.narrow(96), 4, 4, pad=0), "stem.norm")
    for stage, count in enumerate(net.stages(3, 3, 9, 3)):
        if stage:
            x = net.conv(normalise(net, x, f"downsample{stage}.norm"), f"downsample{stage}", net.narrow(96) << stage, 2, 2, pad=0)
        for i in range(count):
            name, channels = f"stage{stage}.{i}", net.channels[x]
            y = net.transpose(net.conv(x, f"{name}.depthwise", channels, 7, groups=channels), f"{name}.last", 0, 2, 3, 1)
            y = net.gelu(net.linear(net.layer_norm(y, f"{name}.norm"), f"{name}.fc1", 4 * channels), f"{name}.gelu")
            y = net.transpose(net.linear(y, f"{name}.fc2", channels), f"{name}.first", 0, 3, 1, 2)
            y = net.node("Mul", f"{name}.scaled", [net.weight(f"{name}.layer_scale", (channels, 1, 1), 0.05, 0.1), y])
            x = net.add(y, x, f"{name}.add")
    x = net.flatten(normalise(net, net.global_pool(x, "avgpool"), "classifier.norm"))
    net.gemm(x, "classifier", 1000, "output")
    return net.model()


def normalise(net, x, name):
    """Layer normalisation over the channels of an image."""
    return net.transpose(net.layer_norm(net.transpose(x, f"{name}.last", 0, 2, 3, 1), name), f"{name}.first", 0, 3, 1, 2)
