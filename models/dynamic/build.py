#!/usr/bin/env python3
"""Writes a network whose shapes only the run knows, with seeded random weights: for tests, nothing is downloaded.

    python3 build.py detector|decoder|convolutions OUT.onnx          needs: pip install numpy onnx

detector  input `image` float32 [batch, 3, height, width], height and width multiples of 8 -> `boxes` float32 [found, 4] (y1, x1, y2, x2
          in pixels), `scores` float32 [found], `classes` int64 [found], `batches` int64 [found]. Convolutions, a head per cell, decoded
          boxes, NonMaxSuppression and what it selects: how many are found, the data decides.
decoder   inputs `ids` int64 [batch, steps], `past_key` and `past_value` float32 [layers, batch, heads, past, size] -> `logits` float32
          [batch, steps, words], `key` and `value` float32 [layers, batch, heads, past + steps, size], which are the next call's past;
          it may be empty. Causal attention over a cache that grows from call to call.
convolutions  input `image` float32 [batch, 3, height, width] -> `map` float32 [batch, 1, 4 * rows, 4 * columns] and `scores` float32
          [batch, 10]: every way that convolutions are computed in (minimal filtering, depthwise, narrow and wide groups, strides,
          dilations, no padding, one output channel, transposed), pooling with and without ceil_mode, scales by what is pooled,
          channels put together, residuals.
"""
import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class Writer:
    def __init__(self, seed):
        self.rng, self.nodes, self.weights = np.random.default_rng(seed), [], []

    def constant(self, array):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *numbers):
        return self.constant(np.array(numbers, np.int64))

    def random(self, *shape):
        fan = int(np.prod(shape[1:])) if len(shape) > 2 else shape[0]
        return self.constant((self.rng.standard_normal(shape) / np.sqrt(fan)).astype(np.float32))

    def node(self, op, *inputs, outputs=1, **attributes):
        names = [f"{op.lower()}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def name_result(self, value, name):
        self.nodes.append(helper.make_node("Identity", [value], [name]))

    def model(self, inputs, outputs):
        def ports(rows):
            return [helper.make_tensor_value_info(*row) for row in rows]
        graph = helper.make_graph(self.nodes, "g", ports(inputs), ports(outputs), self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9, producer_name="metac models/dynamic")


def detector(classes=5, channels=16):
    w = Writer(11)
    x, width = "image", 3
    for _ in range(3):
        x = w.node("Conv", x, w.random(channels, width, 3, 3), w.constant(np.zeros(channels, np.float32)), pads=[1, 1, 1, 1], strides=[2, 2])
        x = w.node("Relu", x)
        width = channels
    head = w.node("Conv", x, w.random(4 + classes, channels, 1, 1), w.constant(np.zeros(4 + classes, np.float32)))
    # [batch, 4 + classes, rows, columns] -> [batch, cells, 4 + classes]
    shape = w.node("Shape", head)
    batch, rows, columns = (w.node("Gather", shape, w.constant(np.array(k, np.int64))) for k in (0, 2, 3))
    one = w.ints(0)
    flat = w.node("Concat", w.node("Unsqueeze", batch, one), w.ints(4 + classes, -1), axis=0)
    cells = w.node("Transpose", w.node("Reshape", head, flat), perm=[0, 2, 1])
    place, kinds = w.node("Split", cells, w.ints(4, classes), outputs=2, axis=2)
    # Every cell's box: its centre moved by up to a cell, its size around 24 pixels.
    zero, step = w.constant(np.array(0, np.int64)), w.constant(np.array(1, np.int64))
    ys = w.node("Range", zero, rows, step)
    xs = w.node("Range", zero, columns, step)
    grid_shape = w.node("Concat", w.node("Unsqueeze", rows, one), w.node("Unsqueeze", columns, one), axis=0)
    grid_y = w.node("Expand", w.node("Unsqueeze", ys, w.ints(1)), grid_shape)
    grid_x = w.node("Expand", w.node("Unsqueeze", xs, w.ints(0)), grid_shape)
    grid = w.node("Concat", w.node("Reshape", grid_y, w.ints(-1, 1)), w.node("Reshape", grid_x, w.ints(-1, 1)), axis=1)
    centre, size = w.node("Split", place, w.ints(2, 2), outputs=2, axis=2)
    eight = w.constant(np.array(8, np.float32))
    centre = w.node("Mul", w.node("Add", w.node("Cast", grid, to=FLOAT), w.node("Sigmoid", centre)), eight)
    half = w.node("Mul", w.node("Exp", w.node("Clip", size, w.constant(np.array(-2, np.float32)), w.constant(np.array(2, np.float32)))), w.constant(np.array(12, np.float32)))
    boxes = w.node("Concat", w.node("Sub", centre, half), w.node("Add", centre, half), axis=2)
    scores = w.node("Transpose", w.node("Sigmoid", kinds), perm=[0, 2, 1])
    chosen = w.node("NonMaxSuppression", boxes, scores, w.ints(20), w.constant(np.array([0.5], np.float32)), w.constant(np.array([0.55], np.float32)))
    batches, labels, cell = w.node("Split", chosen, w.ints(1, 1, 1), outputs=3, axis=1)
    w.name_result(w.node("GatherND", boxes, w.node("Concat", batches, cell, axis=1)), "boxes")
    w.name_result(w.node("GatherND", scores, chosen), "scores")
    w.name_result(w.node("Squeeze", labels, w.ints(1)), "classes")
    w.name_result(w.node("Squeeze", batches, w.ints(1)), "batches")
    return w.model([("image", FLOAT, ["batch", 3, "height", "width"])],
                   [("boxes", FLOAT, ["found", 4]), ("scores", FLOAT, ["found"]), ("classes", INT64, ["found"]), ("batches", INT64, ["found"])])


def decoder(layers=2, heads=4, size=8, words=64, most=256):
    w = Writer(12)
    width, one = heads * size, w.ints(0)
    shape, cache = w.node("Shape", "ids"), w.node("Shape", "past_key")
    batch, steps = (w.node("Gather", shape, w.constant(np.array(k, np.int64))) for k in (0, 1))
    past = w.node("Gather", cache, w.constant(np.array(3, np.int64)))
    total = w.node("Add", past, steps)
    zero, step = w.constant(np.array(0, np.int64)), w.constant(np.array(1, np.int64))
    places = w.node("Range", past, total, step)
    x = w.node("Add", w.node("Gather", w.random(words, width), "ids"), w.node("Gather", w.random(most, width), places))
    # A query sees the keys up to its own place.
    seen = w.node("LessOrEqual", w.node("Unsqueeze", w.node("Range", zero, total, step), w.ints(0)), w.node("Unsqueeze", places, w.ints(1)))
    mask = w.node("Where", seen, w.constant(np.array(0, np.float32)), w.constant(np.array(-1e9, np.float32)))
    split = w.node("Concat", w.node("Unsqueeze", batch, one), w.node("Unsqueeze", steps, one), w.ints(heads, size), axis=0)
    merged = w.node("Concat", w.node("Unsqueeze", batch, one), w.node("Unsqueeze", steps, one), w.ints(width), axis=0)
    keys, values = [], []

    def norm(v):
        return w.node("LayerNormalization", v, w.constant(np.ones(width, np.float32)), w.constant(np.zeros(width, np.float32)), axis=-1)

    for layer in range(layers):
        h = norm(x)
        q, k, v = (w.node("Transpose", w.node("Reshape", w.node("MatMul", h, w.random(width, width)), split), perm=[0, 2, 1, 3]) for _ in range(3))
        number = w.constant(np.array(layer, np.int64))
        k = w.node("Concat", w.node("Gather", "past_key", number), k, axis=2)
        v = w.node("Concat", w.node("Gather", "past_value", number), v, axis=2)
        keys.append(w.node("Unsqueeze", k, one))
        values.append(w.node("Unsqueeze", v, one))
        scores = w.node("Mul", w.node("MatMul", q, w.node("Transpose", k, perm=[0, 1, 3, 2])), w.constant(np.array(size ** -0.5, np.float32)))
        weights = w.node("Softmax", w.node("Add", scores, mask), axis=-1)
        y = w.node("Reshape", w.node("Transpose", w.node("MatMul", weights, v), perm=[0, 2, 1, 3]), merged)
        x = w.node("Add", x, w.node("MatMul", y, w.random(width, width)))
        h = w.node("MatMul", norm(x), w.random(width, 4 * width))
        h = w.node("Mul", h, w.node("Sigmoid", h))
        x = w.node("Add", x, w.node("MatMul", h, w.random(4 * width, width)))
    w.name_result(w.node("MatMul", norm(x), w.random(width, words)), "logits")
    w.name_result(w.node("Concat", *keys, axis=0), "key")
    w.name_result(w.node("Concat", *values, axis=0), "value")
    old, new = [layers, "batch", heads, "past", size], [layers, "batch", heads, "total", size]
    return w.model([("ids", INT64, ["batch", "steps"]), ("past_key", FLOAT, old), ("past_value", FLOAT, old)],
                   [("logits", FLOAT, ["batch", "steps", words]), ("key", FLOAT, new), ("value", FLOAT, new)])


def convolutions():
    w = Writer(13)

    def conv(x, into, out, size, group=1, activation="Relu", **attributes):
        attributes.setdefault("pads", [size // 2] * 4)
        y = w.node("Conv", x, w.random(out, into // group, size, size), w.constant(w.rng.standard_normal(out).astype(np.float32) / 8), group=group, **attributes)
        return w.node(activation, y) if activation else y

    x = conv("image", 3, 32, 3, strides=[2, 2])
    x = w.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    x = w.node("Add", x, conv(conv(x, 32, 48, 3), 48, 32, 3, activation="HardSwish"))
    x = conv(conv(x, 32, 72, 1), 72, 72, 5, group=72)
    pooled = w.node("GlobalAveragePool", x)
    x = w.node("Mul", x, conv(conv(pooled, 72, 16, 1), 16, 72, 1, activation="Sigmoid"))
    x = conv(x, 72, 40, 1, activation=None)
    x = w.node("Concat", x, conv(x, 40, 24, 3, dilations=[2, 2], pads=[2] * 4), axis=1)
    x = conv(conv(x, 64, 64, 3, group=16), 64, 64, 3, group=2)
    x = conv(x, 64, 20, 3, pads=[0] * 4, activation="Tanh")
    last = conv(w.node("AveragePool", x, kernel_shape=[2, 2], strides=[2, 2]), 20, 33, 3, strides=[2, 2])
    w.name_result(w.node("Gemm", w.node("Flatten", w.node("GlobalAveragePool", last)), w.random(33, 10)), "scores")
    up = w.node("Relu", w.node("ConvTranspose", x, w.random(20, 24, 2, 2), strides=[2, 2]))
    w.name_result(w.node("Sigmoid", w.node("ConvTranspose", up, w.random(24, 1, 2, 2), strides=[2, 2])), "map")
    return w.model([("image", FLOAT, ["batch", 3, "height", "width"])],
                   [("map", FLOAT, ["batch", 1, "rows", "columns"]), ("scores", FLOAT, ["batch", 10])])


BUILDERS = {"detector": detector, "decoder": decoder, "convolutions": convolutions}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=BUILDERS)
    parser.add_argument("out", type=pathlib.Path, metavar="OUT.onnx")
    arguments = parser.parse_args()
    onnx.save(BUILDERS[arguments.name](), arguments.out)


if __name__ == "__main__":
    main()
