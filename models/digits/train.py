#!/usr/bin/env python3
"""Trains the digits network with plain NumPy and writes digits.onnx and ten sample images beside this file.

    python3 train.py            needs: pip install numpy scikit-learn onnx ; under a minute on one core

The data are the 1797 handwritten digits (8x8 pixels, values 0 to 16) of UCI's "Optical Recognition of Handwritten
Digits" that scikit-learn ships. A fifth of them, chosen by a fixed seed, is never trained on; the accuracy printed and
the samples written are from that fifth.
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

HERE = pathlib.Path(__file__).resolve().parent
SEED, EPOCHS, BATCH, RATE, DECAY = 1, 40, 32, 2e-3, 1e-4


# ---- the layers, each a forward function that returns what its backward function needs ----
def conv3x3(x, w, b):
    """x: [N,C,H,W], w: [M,C,3,3], padding 1. Also returns the unfolded patches [N,H,W,C*9]."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    patches = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))  # [N,C,H,W,3,3]
    patches = patches.transpose(0, 2, 3, 1, 4, 5).reshape(x.shape[0], x.shape[2], x.shape[3], -1)
    return (patches @ w.reshape(len(w), -1).T + b).transpose(0, 3, 1, 2), patches


def conv3x3_backward(dy, patches, w):
    rows = dy.transpose(0, 2, 3, 1).reshape(-1, len(w))
    dw = (rows.T @ patches.reshape(len(rows), -1)).reshape(w.shape)
    dx, _ = conv3x3(dy, w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3), 0)
    return dx, dw, rows.sum(0)


def max_pool(x):
    n, c, h, w = x.shape
    cells = x.reshape(n, c, h // 2, 2, w // 2, 2)
    y = cells.max((3, 5))
    mask = cells == y[:, :, :, None, :, None]
    return y, mask / mask.sum((3, 5), keepdims=True)


def max_pool_backward(dy, mask):
    n, c, h, _, w, _ = mask.shape
    return (mask * dy[:, :, :, None, :, None]).reshape(n, c, 2 * h, 2 * w)


def forward(p, x):
    a1, patches1 = conv3x3(x / 16, p["conv1.weight"], p["conv1.bias"])
    r1 = np.maximum(a1, 0)
    a2, patches2 = conv3x3(r1, p["conv2.weight"], p["conv2.bias"])
    m2, mask2 = max_pool(np.maximum(a2, 0))
    a3, patches3 = conv3x3(m2, p["conv3.weight"], p["conv3.bias"])
    m3, mask3 = max_pool(np.maximum(a3, 0))
    flat = m3.reshape(len(x), -1)
    logits = flat @ p["fc.weight"].T + p["fc.bias"]
    return logits, (a1, patches1, a2, patches2, mask2, a3, patches3, mask3, flat, m3.shape)


def gradients(p, x, labels):
    logits, (a1, patches1, a2, patches2, mask2, a3, patches3, mask3, flat, shape3) = forward(p, x)
    e = np.exp(logits - logits.max(1, keepdims=True))
    d = e / e.sum(1, keepdims=True)
    d[np.arange(len(x)), labels] -= 1
    d /= len(x)
    g = {"fc.weight": d.T @ flat, "fc.bias": d.sum(0)}
    d = max_pool_backward((d @ p["fc.weight"]).reshape(shape3), mask3) * (a3 > 0)
    d, g["conv3.weight"], g["conv3.bias"] = conv3x3_backward(d, patches3, p["conv3.weight"])
    d = max_pool_backward(d, mask2) * (a2 > 0)
    d, g["conv2.weight"], g["conv2.bias"] = conv3x3_backward(d, patches2, p["conv2.weight"])
    _, g["conv1.weight"], g["conv1.bias"] = conv3x3_backward(d * (a1 > 0), patches1, p["conv1.weight"])
    return g


def train(x, labels, rng):
    def drawn(*shape):
        return (rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype(np.float32)

    p = {"conv1.weight": drawn(16, 1, 3, 3), "conv2.weight": drawn(32, 16, 3, 3), "conv3.weight": drawn(32, 32, 3, 3), "fc.weight": drawn(10, 128)}
    p |= {name.replace("weight", "bias"): np.zeros(len(w), np.float32) for name, w in p.items()}
    mean = {k: np.zeros_like(v) for k, v in p.items()}
    square = {k: np.zeros_like(v) for k, v in p.items()}
    step, steps = 0, EPOCHS * (len(x) // BATCH)
    for epoch in range(EPOCHS):
        order = rng.permutation(len(x))
        for start in range(0, len(x) - BATCH + 1, BATCH):
            pick = order[start:start + BATCH]
            shift = rng.integers(-1, 2, 2)  # a pixel up, down, left or right, so that position matters less
            g = gradients(p, np.roll(x[pick], shift, (2, 3)), labels[pick])
            step += 1
            rate = RATE * 0.5 * (1 + np.cos(np.pi * step / steps))
            for k in p:  # Adam with decoupled weight decay
                mean[k] = 0.9 * mean[k] + 0.1 * g[k]
                square[k] = 0.999 * square[k] + 0.001 * g[k] ** 2
                update = mean[k] / (1 - 0.9**step) / (np.sqrt(square[k] / (1 - 0.999**step)) + 1e-8)
                p[k] -= (rate * (update + DECAY * p[k])).astype(np.float32)
        print(f"epoch {epoch + 1}/{EPOCHS}: {100 * np.mean(forward(p, x)[0].argmax(1) == labels):.2f} % of the training images right")
    return p


def write_onnx(p, path):
    def conv(name, source, target):
        return helper.make_node("Conv", [source, f"{name}.weight", f"{name}.bias"], [target], name, kernel_shape=[3, 3], pads=[1, 1, 1, 1])

    def pool(name, source, target):
        return helper.make_node("MaxPool", [source], [target], name, kernel_shape=[2, 2], strides=[2, 2])

    nodes = [
        helper.make_node("Div", ["image", "white"], ["scaled"], "scale"),
        conv("conv1", "scaled", "a1"), helper.make_node("Relu", ["a1"], ["r1"], "relu1"),
        conv("conv2", "r1", "a2"), helper.make_node("Relu", ["a2"], ["r2"], "relu2"), pool("pool2", "r2", "m2"),
        conv("conv3", "m2", "a3"), helper.make_node("Relu", ["a3"], ["r3"], "relu3"), pool("pool3", "r3", "m3"),
        helper.make_node("Flatten", ["m3"], ["flat"], "flatten", axis=1),
        helper.make_node("Gemm", ["flat", "fc.weight", "fc.bias"], ["logits"], "fc", transB=1),
        helper.make_node("Softmax", ["logits"], ["probabilities"], "softmax", axis=1),
    ]
    weights = [numpy_helper.from_array(v.astype(np.float32), k) for k, v in p.items()]
    weights.append(numpy_helper.from_array(np.float32(16), "white"))
    graph = helper.make_graph(
        nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", 10])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="metac models/digits/train.py", ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())


def write_samples(x, labels):
    """The first unseen image of every digit: digit_N.npy for programs, digit_N.pgm (grey, 0 is black) for people."""
    for digit in range(10):
        image = x[np.flatnonzero(labels == digit)[0]]
        np.save(HERE / f"digit_{digit}.npy", image[None].astype(np.float32))
        rows = "\n".join(" ".join(f"{int(v):2d}" for v in row) for row in image[0])
        (HERE / f"digit_{digit}.pgm").write_text(f"P2\n# a handwritten {digit}\n8 8\n16\n{rows}\n")


def main():
    rng = np.random.default_rng(SEED)
    data = load_digits()
    order = rng.permutation(len(data.target))
    x, labels = data.images[order][:, None].astype(np.float32), data.target[order]
    unseen = len(x) // 5
    p = train(x[unseen:], labels[unseen:], rng)
    right = forward(p, x[:unseen])[0].argmax(1) == labels[:unseen]
    print(f"{right.sum()} of {unseen} unseen images right ({100 * right.mean():.2f} %)")
    write_onnx(p, HERE / "digits.onnx")
    write_samples(x[:unseen], labels[:unseen])


if __name__ == "__main__":
    main()
