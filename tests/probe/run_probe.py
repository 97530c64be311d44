#!/usr/bin/env python3
"""The core's hardest cases against NumPy in float64: convolutions with first and second derivatives, transposed and
quantised convolutions, softmax, layer norm and attention.

    python3 run_probe.py --metac build/release/bin/metac [--only REGEX] [--ways jit,static,symbolic]
    needs: pip install numpy onnx

Each case is a small ONNX model made here; derivatives are nodes of ai.onnx.preview.training's Gradient, so that they are
compiled like any other node. The ways: `jit`, metac run; `static`, a library of exactly these shapes; `symbolic`, a library
whose first dim is open. An output agrees when no element is further off than 1e-5 of the output's largest magnitude
(integers: exactly). Attention, softmax and layer norm must be one kernel each. `verify --grad --order 2` runs on each
differentiable case. One line a case; the last line is 'N passed, N failed', the exit status 1 if any failed.
"""
import argparse
import dataclasses
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper

TOLERANCE = 1e-5
GRADIENT = "ai.onnx.preview.training"


@dataclasses.dataclass
class Case:
    name: str
    nodes: list
    inputs: dict                 # name -> array
    expected: dict               # name -> array
    weights: dict = dataclasses.field(default_factory=dict)
    kernels: int = 0             # how many kernels it must become; 0: not asked
    filtered: bool = False       # a kernel must use minimal filtering
    tiled: bool = False          # a kernel must keep its sums in register tiles
    sliced: bool = False         # steps must repeat over slices of the batch
    words: bool = False          # a kernel must multiply words of small integers; run for several processors
    open_dims: dict = dataclasses.field(default_factory=dict)   # input -> its dims, strings where `symbolic` leaves them open
    differences: bool = False    # small enough for `verify --grad --order 2`

    def model(self, symbolic):
        def value(name, array):
            shape = self.open_dims.get(name, list(array.shape)) if symbolic else list(array.shape)
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), shape)
        outputs = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(v.dtype) if v.dtype != np.float64 else TensorProto.FLOAT, None)
                   for k, v in self.expected.items()]
        graph = helper.make_graph(self.nodes, self.name, [value(k, v) for k, v in self.inputs.items()], outputs,
                                  [numpy_helper.from_array(v, k) for k, v in self.weights.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(GRADIENT, 1)], ir_version=8)


# ---- references ----
def windows(x, kernel, stride, pad):
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    return sliding_window_view(padded, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]


def convolve(x, w, stride, pad):
    return np.einsum("nchwij,mcij->nmhw", windows(x, w.shape[2], stride, pad), w, optimize=True)


def weight_gradient(x, r, kernel, stride, pad):
    return np.einsum("nchwij,nmhw->mcij", windows(x, kernel, stride, pad)[:, :, :r.shape[2], :r.shape[3]], r, optimize=True)


def input_gradient(r, w, stride, pad, height):
    """Also a transposed convolution of r, whose result has `height` rows and columns."""
    kernel, reach = w.shape[2], height + 2 * pad + stride * 2 + w.shape[2]
    out = np.zeros((r.shape[0], w.shape[1], reach, reach))
    for i in range(kernel):
        for j in range(kernel):
            out[:, :, i:i + stride * r.shape[2]:stride, j:j + stride * r.shape[3]:stride] += np.einsum("nmhw,mc->nchw", r, w[:, :, i, j])
    return out[:, :, pad:pad + height, pad:pad + height]


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# ---- cases ----
def convolution_cases(rng):
    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    for batch, channels, maps, kernel, stride, pad, size in [
            (2, 3, 4, 3, 1, 1, 7), (2, 3, 4, 3, 2, 1, 8), (1, 3, 4, 3, 2, 1, 7), (2, 64, 48, 3, 1, 1, 14), (3, 32, 48, 3, 2, 1, 28),
            (2, 16, 16, 3, 2, 1, 15), (1, 32, 64, 1, 2, 0, 16), (2, 3, 64, 7, 2, 3, 32)]:
        out = (size + 2 * pad - kernel) // stride + 1
        x, w, r, u = normal(batch, channels, size, size), normal(maps, channels, kernel, kernel), normal(batch, maps, out, out), normal(batch, channels, size, size)
        X, W, R, U = (a.astype(np.float64) for a in (x, w, r, u))
        nodes = [helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4),
                 helper.make_node("Mul", ["y", "r"], ["yr"]), helper.make_node("ReduceSum", ["yr"], ["loss"], keepdims=0),
                 helper.make_node("Gradient", ["x", "w"], ["dx", "dw"], domain=GRADIENT, xs=["x", "w"], y="loss"),
                 helper.make_node("Mul", ["dx", "u"], ["dxu"]), helper.make_node("ReduceSum", ["dxu"], ["second"], keepdims=0),
                 helper.make_node("Gradient", ["w", "r"], ["ddw", "ddr"], domain=GRADIENT, xs=["w", "r"], y="second")]
        yield Case(f"conv {kernel}x{kernel} stride {stride} of {batch}x{channels}x{size}x{size} to {maps}, derivatives", nodes, dict(x=x, w=w, r=r, u=u),
                   dict(y=convolve(X, W, stride, pad), dx=input_gradient(R, W, stride, pad, size), dw=weight_gradient(X, R, kernel, stride, pad),
                        ddw=weight_gradient(U, R, kernel, stride, pad), ddr=convolve(U, W, stride, pad)),
                   open_dims=dict(x=["n", *x.shape[1:]], r=["n", *r.shape[1:]], u=["n", *u.shape[1:]]), differences=x.size < 500)
    for batch, channels, maps, kernel, stride, pad, extra, size in [(2, 64, 32, 4, 2, 1, 0, 14), (1, 32, 32, 3, 2, 1, 0, 14), (2, 16, 24, 5, 3, 2, 1, 6), (2, 100, 64, 4, 1, 0, 0, 1)]:
        x, w = normal(batch, channels, size, size), normal(channels, maps, kernel, kernel)
        out = (size - 1) * stride + kernel + extra - 2 * pad
        yield Case(f"transposed conv {kernel}x{kernel} stride {stride} of {batch}x{channels}x{size}x{size} to {maps}",
                   [helper.make_node("ConvTranspose", ["x", "w"], ["y"], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4, output_padding=[extra] * 2)],
                   dict(x=x), dict(y=input_gradient(x.astype(np.float64), w.astype(np.float64), stride, pad, out)), dict(w=w), open_dims=dict(x=["n", *x.shape[1:]]))
    # Few filters; one point of data.
    for channels, maps, kernel, stride, pad, size in [(64, 3, 4, 2, 1, 32), (24, 5, 3, 2, 1, 9), (100, 512, 4, 1, 0, 1)]:
        x, w = normal(1, channels, size, size), normal(channels, maps, kernel, kernel)
        out = (size - 1) * stride + kernel - 2 * pad
        yield Case(f"transposed conv {kernel}x{kernel} stride {stride} of 1x{channels}x{size}x{size} to {maps}, tiled",
                   [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("ConvTranspose", ["r", "w"], ["c"], kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[pad] * 4), helper.make_node("Neg", ["c"], ["y"])],
                   dict(x=x), dict(y=-input_gradient(np.maximum(x.astype(np.float64), 0), w.astype(np.float64), stride, pad, out)), dict(w=w), tiled=True, open_dims=dict(x=["n", *x.shape[1:]]))
    # Taps that never meet the data.
    x, w = normal(1, 32, 14, 14), normal(24, 32, 3, 3)
    yield Case("conv 3x3 dilated by 24 of 1x32x14x14", [helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], dilations=[24] * 2, pads=[24] * 4)], dict(x=x),
               dict(y=convolve(x.astype(np.float64), w[:, :, 1:2, 1:2].astype(np.float64), 1, 0)), dict(w=w), tiled=True, open_dims=dict(x=["n", *x.shape[1:]]))
    for stride in (1, 2):
        x = rng.integers(0, 256, (2, 16, 9, 9)).astype(np.uint8)
        w, b = rng.integers(-128, 128, (8, 16, 3, 3)).astype(np.int8), rng.integers(-3000, 3000, 8).astype(np.int32)
        scale = rng.uniform(0.002, 0.02, 8).astype(np.float32)
        total = convolve(x.astype(np.int64) - 117, w.astype(np.int64), stride, 1) + b[None, :, None, None]
        factor = (np.float32(0.05) * scale / np.float32(4)).astype(np.float32)[None, :, None, None]
        y = np.clip(np.rint(total.astype(np.float32) * factor) + 120, 0, 255).astype(np.uint8)
        yield Case(f"QLinearConv 3x3 stride {stride}", [helper.make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["y"], kernel_shape=[3, 3], strides=[stride] * 2, pads=[1] * 4)],
                   dict(x=x), dict(y=y), dict(xs=np.float32(0.05), xz=np.uint8(117), w=w, ws=scale, wz=np.zeros(8, np.int8), ys=np.float32(4), yz=np.uint8(120), b=b),
                   open_dims=dict(x=["n", *x.shape[1:]]))


def filtering_cases(rng):
    """Shapes that minimal filtering is for, and what is awkward in them: rests of tiles, of lanes and of blocks of rows."""
    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    for batch, channels, maps, height, width, pad, groups, residual in [
            (1, 64, 64, 56, 56, 1, 1, False), (3, 40, 72, 13, 17, 1, 1, True), (2, 128, 100, 30, 22, 0, 1, False), (9, 96, 33, 15, 9, 1, 1, True),
            (2, 128, 128, 20, 21, 1, 2, False), (1, 16, 17, 40, 200, 1, 1, True)]:
        x, w = normal(batch, channels, height, width), normal(maps, channels // groups, 3, 3) / np.float32(channels ** 0.5)
        b, p = normal(maps), normal(channels)[:, None, None]
        X = np.maximum(x.astype(np.float64) + p, 0)
        padded = np.pad(X, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        out = np.concatenate([np.einsum("nchwij,mcij->nmhw", sliding_window_view(part, (3, 3), (2, 3)), kernels.astype(np.float64), optimize=True)
                              for part, kernels in zip(np.split(padded, groups, 1), np.split(w, groups, 0))], 1) + b[:, None, None]
        r = normal(*out.shape)
        nodes = [helper.make_node("Add", ["x", "p"], ["xp"]), helper.make_node("Relu", ["xp"], ["xr"]),
                 helper.make_node("Conv", ["xr", "w", "b"], ["c"], kernel_shape=[3, 3], pads=[pad] * 4, group=groups)]
        nodes += [helper.make_node("Add", ["c", "r"], ["cr"])] if residual else [helper.make_node("Identity", ["c"], ["cr"])]
        nodes.append(helper.make_node("Relu", ["cr"], ["y"]))
        feeds = dict(x=x, r=r) if residual else dict(x=x)
        yield Case(f"filtered conv of {batch}x{channels}x{height}x{width} to {maps}, {groups} groups, pad {pad}", nodes, feeds,
                   dict(y=np.maximum(out + (r if residual else 0), 0)), dict(w=w, b=b, p=p), filtered=True,
                   open_dims={k: ["n", *v.shape[1:]] for k, v in feeds.items()})


def few_filter_cases(rng):
    """So few filters that lanes run along the rows of the data: rests of lanes, rows shorter than a vector, padding unlike on each side."""
    for batch, channels, maps, (rows, columns), height, width, (top, left, bottom, right) in [
            (1, 8, 8, (3, 39), 20, 70, (1, 19, 1, 19)), (2, 32, 1, (7, 3), 19, 88, (3, 1, 3, 1)), (3, 5, 3, (5, 5), 11, 37, (2, 2, 2, 2)), (1, 33, 1, (3, 3), 9, 13, (0, 2, 1, 0)),
            (2, 6, 7, (1, 1), 10, 33, (0, 0, 0, 0)), (1, 16, 2, (4, 2), 8, 129, (0, 0, 0, 0))]:
        x = rng.standard_normal((batch, channels, height, width)).astype(np.float32)
        w = rng.standard_normal((maps, channels, rows, columns)).astype(np.float32)
        padded = np.pad(np.maximum(x.astype(np.float64), 0), ((0, 0), (0, 0), (top, bottom), (left, right)))
        y = np.einsum("nchwij,mcij->nmhw", sliding_window_view(padded, (rows, columns), (2, 3)), w.astype(np.float64), optimize=True)
        nodes = [helper.make_node("Relu", ["x"], ["xr"]), helper.make_node("Conv", ["xr", "w"], ["c"], kernel_shape=[rows, columns], pads=[top, left, bottom, right]),
                 helper.make_node("Neg", ["c"], ["y"])]
        yield Case(f"conv {rows}x{columns} of {batch}x{channels}x{height}x{width} to {maps} filters", nodes, dict(x=x), dict(y=-y), dict(w=w), open_dims=dict(x=["n", *x.shape[1:]]))


def dilated_cases(rng):
    """Windows that reach far beyond the data."""
    for batch, channels, maps, length, kernel, dilation in [(1, 32, 48, 400, 3, 128), (2, 16, 32, 90, 3, 37), (1, 16, 16, 150, 5, 64)]:
        x, w = rng.standard_normal((batch, channels, length)).astype(np.float32), rng.standard_normal((maps, channels, kernel)).astype(np.float32)
        pad = dilation * (kernel // 2)
        padded = np.pad(np.maximum(x.astype(np.float64), 0), ((0, 0), (0, 0), (pad, pad)))
        y = sum(np.einsum("ncl,mc->nml", padded[:, :, t * dilation:t * dilation + length], w[:, :, t].astype(np.float64)) for t in range(kernel))
        nodes = [helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Conv", ["r", "w"], ["c"], kernel_shape=[kernel], dilations=[dilation], pads=[pad] * 2), helper.make_node("Neg", ["c"], ["y"])]
        yield Case(f"conv {kernel} dilated by {dilation} of {batch}x{channels}x{length} to {maps}", nodes, dict(x=x), dict(y=-y), dict(w=w), tiled=True, open_dims=dict(x=["n", channels, length]))


def slice_cases(rng):
    """Chains whose values outgrow the cache: convolutions with a residual across them, and rows that were flattened."""
    x = rng.standard_normal((8, 16, 160, 152)).astype(np.float32)
    w, v = (rng.standard_normal((16, 16, k, k)).astype(np.float32) / np.float32(4 * k) for k in (3, 1))
    X = np.maximum(x.astype(np.float64), 0)
    a = np.maximum(convolve(X, w.astype(np.float64), 1, 1), 0)
    y = convolve(a, v.astype(np.float64), 1, 0) + X
    yield Case("slices of a batch of 8 images", [
        helper.make_node("Relu", ["x"], ["r"]), helper.make_node("Conv", ["r", "w"], ["c"], kernel_shape=[3, 3], pads=[1] * 4), helper.make_node("Relu", ["c"], ["a"]),
        helper.make_node("Conv", ["a", "v"], ["d"], kernel_shape=[1, 1]), helper.make_node("Add", ["d", "r"], ["y"])], dict(x=x), dict(y=y), dict(w=w, v=v), sliced=True)
    x = rng.standard_normal((24, 200, 128)).astype(np.float32)
    w, v = rng.standard_normal((128, 1024)).astype(np.float32) / np.float32(11), rng.standard_normal((1024, 128)).astype(np.float32) / np.float32(32)
    X = x.astype(np.float64)
    yield Case("slices of a batch of 24 sequences, flattened", [
        helper.make_node("Reshape", ["x", "rows"], ["xf"]), helper.make_node("MatMul", ["xf", "w"], ["h"]), helper.make_node("Relu", ["h"], ["hr"]),
        helper.make_node("MatMul", ["hr", "v"], ["of"]), helper.make_node("Reshape", ["of", "back"], ["o"]), helper.make_node("Add", ["o", "x"], ["s"]),
        helper.make_node("Softmax", ["s"], ["y"], axis=-1)], dict(x=x), dict(y=softmax(np.maximum(X @ w, 0) @ v + X)),
        dict(w=w, v=v, rows=np.array([4800, 128]), back=np.array([24, 200, 128])), sliced=True)


def integer_cases(rng):
    """Sums of products of small integers: which bytes, which zero points, how many channels, and QDQ pairs around a float operator."""
    def whole(dtype, *shape):
        return rng.integers(np.iinfo(dtype).min, int(np.iinfo(dtype).max) + 1, shape).astype(dtype)

    # x's type and zero point, w's type and zero point, channels, maps, size, groups, kernel, pad, stride, words
    for xt, xz, wt, wz, channels, maps, size, groups, kernel, pad, stride, words in [
            (np.uint8, 117, np.int8, 0, 64, 48, 14, 1, 3, 1, 1, True), (np.uint8, 0, np.int8, 0, 3, 32, 15, 1, 7, 3, 2, True),
            (np.uint8, 255, np.uint8, 128, 16, 33, 9, 1, 1, 0, 1, True), (np.uint8, 9, np.uint8, 131, 18, 32, 9, 1, 3, 1, 1, True),
            (np.int8, -7, np.int8, 0, 21, 40, 8, 1, 3, 1, 1, True), (np.int8, 5, np.int8, -3, 6, 32, 8, 1, 3, 2, 1, True),
            (np.uint8, 100, np.int8, 0, 64, 64, 9, 2, 3, 1, 1, True), (np.uint8, 100, np.int8, 0, 48, 48, 13, 48, 3, 1, 1, False),
            (np.uint8, 3, np.int8, 0, 24, 40, 7, 4, 3, 1, 1, False)]:
        x, w = whole(xt, 2, channels, size, size), whole(wt, maps, channels // groups, kernel, kernel)
        parts = zip(np.split(x.astype(np.int64) - xz, groups, 1), np.split(w.astype(np.int64) - wz, groups, 0))
        y = np.concatenate([convolve(a, b, stride, pad) for a, b in parts], 1).astype(np.int32)
        yield Case(f"ConvInteger {kernel}x{kernel} of {np.dtype(xt)} less {xz} by {np.dtype(wt)} less {wz}, {channels} to {maps} in {groups} groups",
                   [helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], group=groups, pads=[pad] * 4, strides=[stride] * 2)],
                   dict(x=x), dict(y=y), dict(w=w, xz=xt(xz), wz=wt(wz)), words=words, open_dims=dict(x=["n", *x.shape[1:]]))
    for xt, wt, rows, depth, columns, lines, constant in [(np.uint8, np.int8, 37, 45, 53, False, False), (np.int8, np.uint8, 16, 64, 32, True, False),
                                                          (np.uint8, np.int8, 5, 130, 70, False, True), (np.int8, np.int8, 3, 31, 40, True, True)]:
        a, b = whole(xt, rows, depth), whole(wt, depth, columns)
        az, bz = (whole(xt, rows, 1), whole(wt, columns)) if lines else (xt(11), wt(3))
        feeds, weights = dict(a=a, az=az), dict(b=b, bz=bz)
        if not constant:
            feeds, weights = {**feeds, **weights}, {}
        yield Case(f"MatMulInteger {rows}x{depth}x{columns} of {np.dtype(xt)} by {np.dtype(wt)}, zero points {'by line' if lines else 'of one'}{', weights' if constant else ''}",
                   [helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"])], feeds,
                   dict(y=((a.astype(np.int64) - az) @ (b.astype(np.int64) - bz)).astype(np.int32)), weights, words=True)
    for channels, maps, residual in [(32, 48, False), (17, 32, True)]:
        x = rng.standard_normal((2, channels, 10, 10)).astype(np.float32)
        w, b = whole(np.int8, maps, channels, 3, 3), rng.standard_normal(maps).astype(np.float32)
        v, c = whole(np.int8, maps, maps, 1, 1), rng.standard_normal(maps).astype(np.float32)
        scale = rng.uniform(0.001, 0.01, maps).astype(np.float32)

        def quantised(values, zero):
            return (np.clip(np.rint(values / np.float32(0.03)) + zero, 0, 255) - zero) * 0.03
        X = quantised(x, 120)
        Y = convolve(X, w * scale.astype(np.float64)[:, None, None, None], 1, 1) + b[:, None, None]
        Y = quantised(np.maximum(Y.astype(np.float32), 0), 0)
        Z = convolve(Y, v * scale.astype(np.float64)[:, None, None, None], 1, 0) + c[:, None, None] + (Y if residual else 0)
        pair = lambda before, after, zero: [helper.make_node("QuantizeLinear", [before, "s", zero], [after + "_q"]), helper.make_node("DequantizeLinear", [after + "_q", "s", zero], [after])]
        nodes = [*pair("x", "xq", "z"), helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=0), helper.make_node("Conv", ["xq", "wf", "b"], ["c1"], pads=[1] * 4),
                 helper.make_node("Relu", ["c1"], ["r1"]), *pair("r1", "yq", "zero"), helper.make_node("DequantizeLinear", ["v", "ws", "wz"], ["vf"], axis=0),
                 helper.make_node("Conv", ["yq", "vf", "c"], ["c2"])]
        nodes.append(helper.make_node("Add", ["c2", "yq"], ["out"]) if residual else helper.make_node("Identity", ["c2"], ["out"]))
        yield Case(f"dequantised convs of {channels} to {maps}{', residual' if residual else ''}", nodes, dict(x=x), dict(out=Z),
                   dict(w=w, v=v, b=b, c=c, ws=scale, wz=np.zeros(maps, np.int8), s=np.float32(0.03), z=np.uint8(120), zero=np.uint8(0)), words=True,
                   open_dims=dict(x=["n", *x.shape[1:]]))


def row_cases(rng):
    x = rng.standard_normal((4, 37, 96)).astype(np.float32)
    X = x.astype(np.float64)
    yield Case("softmax of 4x37x96", [helper.make_node("Softmax", ["x"], ["y"], axis=-1)], dict(x=x), dict(y=softmax(X)), kernels=1, open_dims=dict(x=["n", 37, 96]))
    scale, bias = rng.standard_normal((2, 96)).astype(np.float32)
    mean = X.mean(-1, keepdims=True)
    normal = (X - mean) / np.sqrt(((X - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * scale + bias
    yield Case("layer norm of 4x37x96", [helper.make_node("LayerNormalization", ["x", "scale", "bias"], ["y"], axis=-1, epsilon=1e-5)], dict(x=x), dict(y=normal),
               dict(scale=scale, bias=bias), kernels=1, open_dims=dict(x=["n", 37, 96]))
    for batch, heads, rows, columns, depth, out, mask in [(1, 12, 197, 197, 64, 64, None), (2, 3, 33, 50, 40, 24, "columns"), (1, 2, 100, 77, 16, 20, "all"),
                                                          (2, 2, 65, 300, 33, 48, "columns"), (1, 1, 16, 1, 8, 8, None)]:
        feeds = dict(q=rng.standard_normal((batch, heads, rows, depth)), k=rng.standard_normal((batch, heads, columns, depth)), v=rng.standard_normal((batch, heads, columns, out)))
        nodes = [helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "kt"], ["s"]), helper.make_node("Mul", ["s", "scale"], ["t"])]
        if mask:
            feeds["m"] = rng.standard_normal((batch, 1, 1 if mask == "columns" else rows, columns))
            nodes.append(helper.make_node("Add", ["t", "m"], ["tm"]))
        nodes += [helper.make_node("Softmax", ["tm" if mask else "t"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["o"]), helper.make_node("Transpose", ["o"], ["y"], perm=[0, 2, 1, 3])]
        feeds = {name: a.astype(np.float32) for name, a in feeds.items()}
        exact = {name: a.astype(np.float64) for name, a in feeds.items()}
        weight = softmax(np.einsum("bhqd,bhkd->bhqk", exact["q"], exact["k"]) / np.sqrt(depth) + exact.get("m", 0))
        y = np.einsum("bhqk,bhkd->bqhd", weight, exact["v"])
        opened = dict(q=["n", heads, "q", depth], k=["n", heads, "k", depth], v=["n", heads, "k", out], m=["n", 1, 1 if mask == "columns" else "q", "k"])
        yield Case(f"attention of {batch}x{heads} heads, {rows} rows, {columns} columns, mask {mask}", nodes, feeds, dict(y=y), dict(scale=np.float32(1 / np.sqrt(depth))),
                   kernels=1, open_dims={name: opened[name] for name in feeds})


def packed_attention_cases(rng):
    """Queries, keys and values are parts of one value, and positions make the mask, as exporters of language models write it."""
    for batch, heads, rows, depth in [(1, 6, 128, 64), (2, 2, 37, 24)]:
        x = rng.standard_normal((3, batch, heads, rows, depth)).astype(np.float32)
        nodes = [helper.make_node("Split", ["x"], ["q1", "k1", "v1"], axis=0)]
        nodes += [helper.make_node("Squeeze", [p + "1", "first"], [p]) for p in "qkv"]
        nodes += [helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "kt"], ["s"]), helper.make_node("Mul", ["s", "scale"], ["t"]),
                  helper.make_node("Expand", ["low", "square"], ["all"]), helper.make_node("Trilu", ["all", "one"], ["m"], upper=1), helper.make_node("Add", ["t", "m"], ["tm"]),
                  helper.make_node("Softmax", ["tm"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v"], ["y"])]
        q, k, v = x.astype(np.float64)
        mask = np.triu(np.full((rows, rows), -np.inf), 1)
        y = softmax(q @ k.swapaxes(-1, -2) / np.sqrt(depth) + mask) @ v
        yield Case(f"causal attention of {batch}x{heads} heads packed, {rows} rows", nodes, dict(x=x), dict(y=y),
                   dict(first=np.array([0]), scale=np.float32(1 / np.sqrt(depth)), low=np.float32(-np.inf), square=np.array([rows, rows]), one=np.array(1)),
                   kernels=1, open_dims=dict(x=[3, "n", heads, rows, depth]))


# ---- ways ----
def checked(argv):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(f"{pathlib.Path(str(argv[0])).name} {argv[1]}: status {done.returncode}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout + done.stderr


def run(case, way, metac, work):
    model = work / "case.onnx"
    onnx.save(case.model(way == "symbolic"), model)
    given = []
    for name, value in case.inputs.items():
        np.save(work / f"in_{name}.npy", value)
        given += ["--input", f"{name}={work / f'in_{name}.npy'}"]
    if way == "grad":
        return checked([metac, "verify", "--grad", "--order", "2", model])
    if case.filtered:
        shown = checked([metac, "compile", model, "-o", work / "shown", "--no-build", "--emit", "loops"])
        if "minimal filtering" not in shown:
            raise RuntimeError("no kernel uses minimal filtering")
    if case.tiled:
        shown = checked([metac, "compile", model, "-o", work / "shown", "--no-build", "--emit", "loops"])
        if "tile: " not in shown:
            raise RuntimeError("no kernel keeps its sums in register tiles")
    if case.sliced:
        shown = checked([metac, "compile", model, "-o", work / "shown", "--no-build", "--print-after", "build_program"])
        if "repeat from step" not in shown:
            raise RuntimeError("no steps repeat over slices of the batch")
    if case.words:
        shown = checked([metac, "compile", model, "-o", work / "shown", "--no-build", "--emit", "fused"])
        if "dot_" not in shown:
            raise RuntimeError("no kernel multiplies words")
    if case.words and way == "jit":
        for cpu in ("x86-64", "x86-64-v3"):
            checked([metac, "run", model, *given, "--output-dir", work / "out", "--cpu", cpu])
            compare(case, work)
    if case.kernels:
        shown = checked([metac, "compile", model, "-o", work / "shown", "--no-build", "--emit", "fused"])
        if shown.count("kernel sharing") != case.kernels:
            raise RuntimeError(f"{shown.count('kernel sharing')} kernels instead of {case.kernels}")
    if way == "jit":
        checked([metac, "run", model, *given, "--output-dir", work / "out"])
    else:
        checked([metac, "compile", model, "-o", work / "library", "--name", "net"])
        checked([work / "library/bin/net_run", *given, "--output-dir", work / "out"])
    return compare(case, work)


def compare(case, work):
    worst = 0.0
    for name, expected in case.expected.items():
        got = np.load(work / "out" / f"{name}.npy")
        if got.shape != expected.shape:
            raise RuntimeError(f"{name} has shape {got.shape}, expected {expected.shape}")
        if expected.dtype.kind in "iu":
            if not np.array_equal(got, expected):
                raise RuntimeError(f"{name}: {np.count_nonzero(got != expected)} of {got.size} elements differ")
            continue
        worst = max(worst, float(np.max(np.abs(got - expected)) / np.max(np.abs(expected))))
    if worst > TOLERANCE or worst != worst:
        raise RuntimeError(f"largest error {worst:.1e}")
    return f"largest error {worst:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="", help="regular expression on the case and the way")
    parser.add_argument("--ways", default="jit,static,symbolic,grad")
    arguments = parser.parse_args()
    metac = arguments.metac.resolve()
    rng = np.random.default_rng(7)
    passed = failed = 0
    for case in [*convolution_cases(rng), *filtering_cases(rng), *row_cases(rng), *few_filter_cases(rng), *dilated_cases(rng), *packed_attention_cases(rng), *slice_cases(rng), *integer_cases(rng)]:
        for way in arguments.ways.split(","):
            title = f"{case.name}, {way}"
            if (way == "grad" and not case.differences) or not re.search(arguments.only, title):
                continue
            with tempfile.TemporaryDirectory() as work:
                try:
                    detail, good = run(case, way, metac, pathlib.Path(work)), True
                except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
                    detail, good = str(error), False
            passed, failed = passed + good, failed + (not good)
            print(f"{'pass' if good else 'FAIL'}  {title:90s} {detail.strip().splitlines()[-1] if detail.strip() else ''}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
