"""Transformers on images and on text."""
import numpy as np


def heads_of(net, channels):
    """So many heads of 64 channels; at least two, so that a narrow test network has the same structure."""
    return max(channels // 64, 2)


def attention(net, q, k, v, name, heads, masks=()):
    """q, k, v: [batch, heads, length, channels of a head]. Each mask is a callable from scores to masked scores."""
    scores = net.node("MatMul", f"{name}.scores", [q, net.transpose(k, f"{name}.k_transposed", 0, 1, 3, 2)])
    for mask in masks:
        scores = mask(scores)
    mixed = net.node("MatMul", f"{name}.mixed", [net.node("Softmax", f"{name}.softmax", [scores], axis=-1), v])
    return net.transpose(mixed, f"{name}.merged", 0, 2, 1, 3)


def fused_attention(net, x, name, heads, length, masks=()):
    """One linear layer for queries, keys and values of [batch, length, channels]."""
    channels = net.channels[x]
    y = net.reshape(net.linear(x, f"{name}.qkv", 3 * channels), f"{name}.split", -1, length, 3, heads, channels // heads)
    y = net.transpose(y, f"{name}.heads", 2, 0, 3, 1, 4)
    q, k, v = (net.pick(y, f"{name}.{part}", i) for i, part in enumerate("qkv"))
    scale = net.constant(f"scale_{channels // heads}", np.float32((channels // heads) ** -0.5))
    y = attention(net, net.node("Mul", f"{name}.scaled", [q, scale]), k, v, name, heads, masks)
    return net.linear(net.reshape(y, f"{name}.joined", -1, length, channels, channels=channels), f"{name}.proj", channels)


def perceptron(net, x, name):
    channels = net.channels[x]
    return net.linear(net.gelu(net.linear(x, f"{name}.fc1", 4 * channels), f"{name}.gelu"), f"{name}.fc2", channels)


def vit_b_16(net):
    """A. Dosovitskiy et al., arXiv:2010.11929, ViT-B/16: normalisation before attention and perceptron."""
    channels, length = net.narrow(768), (net.size // 16) ** 2
    x = net.conv(net.image(), "patches", channels, 16, 16, pad=0)
    x = net.transpose(net.reshape(x, "patches.flat", 0, channels, length), "patches.last", 0, 2, 1)
    batch = net.slice(net.node("Shape", "shape", ["input"]), "batch", 0, 0, 1)
    shape = net.node("Concat", "class_shape", [batch, net.constant("one_token", np.array([1, channels], np.int64))], axis=0)
    token = net.node("Expand", "class_tokens", [net.weight("class_token", (1, 1, channels), 0.5), shape])
    x = net.node("Concat", "tokens", [token, x], channels, axis=1)
    x = net.add(x, net.weight("positions", (1, length + 1, channels), 0.5), "embedded")
    for i in range(net.stages(12)[0]):
        x = net.add(fused_attention(net, net.layer_norm(x, f"layer{i}.norm1"), f"layer{i}.attention", heads_of(net, channels), length + 1), x, f"layer{i}.add1")
        x = net.add(perceptron(net, net.layer_norm(x, f"layer{i}.norm2"), f"layer{i}.mlp"), x, f"layer{i}.add2")
    x = net.node("Gather", "class", [net.layer_norm(x, "norm"), net.constant("index_0", np.int64(0))], channels, axis=1)
    net.gemm(x, "head", 1000, "output")
    return net.model()


def bert_base(net, length=128):
    """J. Devlin et al., arXiv:1810.04805, the base size: normalisation after attention and perceptron; a padding mask."""
    channels, words = net.narrow(768), net.narrow(30522)
    ids, mask = net.tokens("input_ids", length), net.tokens("attention_mask", length)
    x = net.node("Gather", "words", [net.weight("word_embeddings", (words, channels), 0.5), ids], channels, axis=0)
    x = net.layer_norm(net.add(x, net.weight("position_embeddings", (1, length, channels), 0.5), "embedded"), "embedded.norm", 1e-12)
    hidden = net.node("Cast", "mask.float", [net.node("Unsqueeze", "mask.wide", [mask, net.constant("axes_1_2", np.array([1, 2], np.int64))])], to=1)
    hidden = net.node("Sub", "mask.inverted", [net.constant("one", np.float32(1)), hidden])
    hidden = net.node("Mul", "mask.added", [hidden, net.constant("lowest", np.float32(np.finfo(np.float32).min))])
    heads = heads_of(net, channels)
    for i in range(net.stages(12)[0]):
        name = f"layer{i}"
        split = {part: net.reshape(net.linear(x, f"{name}.{part}", channels), f"{name}.{part}.split", 0, length, heads, channels // heads) for part in "qkv"}
        q, k, v = (net.transpose(split[part], f"{name}.{part}.heads", 0, 2, 1, 3) for part in "qkv")
        root = net.constant("root_of_head", np.float32((channels // heads) ** 0.5))
        y = attention(net, q, k, v, name, heads, [lambda s: net.node("Div", f"{name}.scaled", [s, root]), lambda s: net.add(s, hidden, f"{name}.masked")])
        y = net.linear(net.reshape(y, f"{name}.joined", 0, length, channels, channels=channels), f"{name}.out", channels)
        x = net.layer_norm(net.add(y, x, f"{name}.add1"), f"{name}.norm1", 1e-12)
        x = net.layer_norm(net.add(perceptron(net, x, f"{name}.mlp"), x, f"{name}.add2"), f"{name}.norm2", 1e-12)
    first = net.node("Gather", "first", [x, net.constant("index_0", np.int64(0))], channels, axis=1)
    net.node("Tanh", "pooler.tanh", [net.gemm(first, "pooler", channels)], outputs=["pooled"])
    net.node("Identity", "last", [x], outputs=["last_hidden_state"])
    return net.model(("last_hidden_state", ["batch", length, channels]), ("pooled", ["batch", channels]))


def swin_t(net):
    """Z. Liu et al., arXiv:2103.14030: attention within 32 x 32 windows of the image, every other block shifted by half of one."""
    side, window = net.size // 4, net.size // 32
    x = net.conv(net.image(), "patches", net.narrow(96), 4, 4, pad=0)
    x = net.layer_norm(net.transpose(x, "patches.last", 0, 2, 3, 1), "patches.norm", 1e-5)
    for stage, count in enumerate(net.stages(2, 2, 6, 2)):
        if stage:
            x, side = merge_patches(net, x, f"merge{stage}"), side // 2
        for i in range(count):
            name = f"stage{stage}.{i}"
            shift = window // 2 if i % 2 and side > window else 0
            y = window_attention(net, net.layer_norm(x, f"{name}.norm1", 1e-5), f"{name}.attention", side, window, shift)
            x = net.add(x, y, f"{name}.add1")
            x = net.add(x, perceptron(net, net.layer_norm(x, f"{name}.norm2", 1e-5), f"{name}.mlp"), f"{name}.add2")
    x = net.transpose(net.layer_norm(x, "norm", 1e-5), "norm.first", 0, 3, 1, 2)
    net.classifier(x, "head")
    return net.model()


def merge_patches(net, x, name):
    """The pixels of each 2x2 square as channels of one, then half of those."""
    channels = net.channels[x]
    parts = [net.slice(net.slice(x, f"{name}.rows{r}{c}", 1, r, step=2), f"{name}.square{r}{c}", 2, c, step=2) for c in (0, 1) for r in (0, 1)]
    x = net.node("Concat", f"{name}.concat", parts, 4 * channels, axis=-1)
    return net.linear(net.layer_norm(x, f"{name}.norm", 1e-5), name, 2 * channels, bias=False)


def roll(net, x, name, by):
    """Rows and columns moved by `by` places towards the start, around the edge."""
    for axis in (1, 2):
        x = net.node("Concat", f"{name}.axis{axis}", [net.slice(x, f"{name}.late{axis}", axis, by), net.slice(x, f"{name}.early{axis}", axis, 0, by)], axis=axis)
    return x


def window_attention(net, x, name, side, window, shift):
    channels, count, length = net.channels[x], side // window, window * window
    heads = max(channels // 32, 1)
    if shift:
        x = roll(net, x, f"{name}.roll", shift)
    x = net.transpose(net.reshape(x, f"{name}.grid", -1, count, window, count, window, channels), f"{name}.windows", 0, 1, 3, 2, 4, 5)
    x = net.reshape(x, f"{name}.flat", -1, length, channels, channels=channels)
    masks = [lambda s: net.add(s, net.weight(f"{name}.position_bias", (1, heads, length, length), 0.2), f"{name}.biased")]
    if shift:
        region = np.digitize(np.arange(side), [side - window, side - shift])  # pixels of different regions met only by rolling
        region = (region[:, None] * 3 + region).reshape(count, window, count, window).transpose(0, 2, 1, 3).reshape(-1, length)
        mask = np.where(region[:, None, :] == region[:, :, None], 0, -100).astype(np.float32)[None, :, None]

        def hide(scores):
            y = net.reshape(scores, f"{name}.by_image", -1, count * count, heads, length, length)
            y = net.add(y, net.constant(f"mask_{side}", mask), f"{name}.masked")
            return net.reshape(y, f"{name}.by_window", -1, heads, length, length)
        masks.append(hide)
    x = fused_attention(net, x, name, heads, length, masks)
    x = net.transpose(net.reshape(x, f"{name}.ungrid", -1, count, count, window, window, channels), f"{name}.image", 0, 1, 3, 2, 4, 5)
    x = net.reshape(x, f"{name}.whole", -1, side, side, channels, channels=channels)
    return roll(net, x, f"{name}.unroll", -shift) if shift else x
