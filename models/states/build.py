#!/usr/bin/env python3
"""Writes a network that hands values from run to run, with seeded random weights: for tests, nothing is downloaded.

    python3 build.py decoder|padded|grouped|operator|scattered|multihead|transcriber|stack|recurrent|stream OUT.onnx          needs: pip install numpy onnx

decoder      a Llama-like decoder as PyTorch exports it: inputs `ids` int64 [batch, steps], `past_key_values.N.key` and `.value` float32
             [batch, heads, past, size] -> `logits` float32 [batch, steps, words], `present.N.key` and `.value`, which are Concats.
padded       the same with `attention_mask` and `position_ids` int64, so that texts of a batch may begin later than others.
grouped      the first by GroupQueryAttention with rotary positions, as ONNX Runtime GenAI exports it: with `seqlens_k` int32 [batch] and
             `total_sequence_length` int32 [].
operator     one layer by ONNX's own Attention (opset 23): `query`, `key`, `value` float32 [batch, heads, steps, size].
scattered    one layer with a cache of 32 steps that TensorScatter (opset 24) writes into: with `write_indices` and `valid` int64 [batch].
multihead    one layer by MultiHeadAttention (com.microsoft): `query`, `key`, `value` float32 [batch, steps, width].
transcriber  a Whisper-like decoder: caches of its own keys that grow (`past_key_values.N.decoder.key`), and of the encoder's, which do
             not (`past_key_values.N.encoder.key`, handed on as they are).
stack        `x` float32 [1, rows, 5] is put in front of `cache_in`, float32 [1, kept, 5], which comes out as `cache_out`.
recurrent    an LSTM whose `h` and `c` [1, batch, size] come out as `hn` and `cn`, step by step: `x` float32 [steps, batch, features].
stream       two convolutions over time that keep the end of what they have read: `x` float32 [1, channels, 8], `cache_in_0` float32
             [1, channels, 2] -> `y`, `cache_out_0`.
"""
import argparse
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT32, INT64 = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
WORDS, HEADS, SIZE, LAYERS = 64, 4, 16, 2


class Writer:
    def __init__(self, seed):
        self.rng, self.nodes, self.weights, self.inputs, self.outputs, self.domains = np.random.default_rng(seed), [], [], [], [], {"": 18}

    def constant(self, array):
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def ints(self, *numbers):
        return self.constant(np.array(numbers, np.int64))

    def random(self, *shape):
        return self.constant((self.rng.standard_normal(shape) / np.sqrt(shape[-2] if len(shape) > 1 else 4)).astype(np.float32))

    def node(self, op, *inputs, outputs=1, names=None, **attributes):
        names = names or [f"{op.lower()}{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if len(names) == 1 else names

    def input(self, name, dtype, shape):
        self.inputs.append(helper.make_tensor_value_info(name, dtype, shape))
        return name

    def output(self, name, dtype, shape):
        self.outputs.append(helper.make_tensor_value_info(name, dtype, shape))

    def model(self):
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.weights)
        opsets = [helper.make_opsetid(domain, version) for domain, version in self.domains.items()]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9, producer_name="metac models/states")

    def normalised(self, x, width):
        mean = self.node("ReduceMean", self.node("Mul", x, x), self.ints(-1))
        return self.node("Mul", self.node("Div", x, self.node("Sqrt", self.node("Add", mean, self.constant(np.float32(1e-5))))), self.random(width))

    def gated(self, x, width, inner):
        gate, up = self.node("MatMul", x, self.random(width, inner)), self.node("MatMul", x, self.random(width, inner))
        return self.node("MatMul", self.node("Mul", self.node("Mul", gate, self.node("Sigmoid", gate)), up), self.random(inner, width))

    def by_heads(self, x, heads, size):
        return self.node("Transpose", self.node("Reshape", x, self.ints(0, 0, heads, size)), perm=[0, 2, 1, 3])

    def merged(self, x, heads, size):
        return self.node("Reshape", self.node("Transpose", x, perm=[0, 2, 1, 3]), self.ints(0, 0, heads * size))

    def attention(self, q, k, v, size, mask=None):
        scores = self.node("Mul", self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2])), self.constant(np.float32(size ** -0.5)))
        return self.node("MatMul", self.node("Softmax", self.node("Add", scores, mask) if mask else scores, axis=-1), v)

    def causal_mask(self, key, ids):
        """[steps, past + steps]: 0 where a key is no later than the query, -1e9 elsewhere."""
        scalar = self.constant(np.int64(0))
        steps = self.node("Gather", self.node("Shape", ids), self.constant(np.int64(1)))
        past = self.node("Gather", self.node("Shape", key), self.constant(np.int64(2)))
        one = self.constant(np.int64(1))
        total = self.node("Add", past, steps)
        queries = self.node("Unsqueeze", self.node("Range", past, total, one), self.ints(1))
        keys = self.node("Unsqueeze", self.node("Range", scalar, total, one), self.ints(0))
        return self.node("Where", self.node("LessOrEqual", keys, queries), self.constant(np.float32(0)), self.constant(np.float32(-1e9)))


def cache_ports(w, layer, kind, batch, heads, length, longer, size, middle=""):
    shape, grown = [batch, heads, length, size], [batch, heads, longer, size]
    name = w.input(f"past_key_values.{layer}.{middle}{kind}", FLOAT, shape)
    w.output(f"present.{layer}.{middle}{kind}", FLOAT, grown)
    return name


def decoder(layers=LAYERS, heads=HEADS, size=SIZE, words=WORDS, inner=128, padded=False, longest=256):
    w, width = Writer(5), heads * size
    ids = w.input("ids", INT64, ["batch", "steps"])
    w.output("logits", FLOAT, ["batch", "steps", words])
    x, mask = w.node("Gather", w.random(words, width), ids), None
    if padded:
        used, positions = w.input("attention_mask", INT64, ["batch", "total"]), w.input("position_ids", INT64, ["batch", "steps"])
        x = w.node("Add", x, w.node("Gather", w.random(longest, width), positions))
        nothing = w.node("Equal", used, w.constant(np.int64(0)))
        padding = w.node("Unsqueeze", w.node("Where", nothing, w.constant(np.float32(-1e9)), w.constant(np.float32(0))), w.ints(1, 2))
    for layer in range(layers):
        past = [cache_ports(w, layer, kind, "batch", heads, "past", "total", size) for kind in ("key", "value")]
        if mask is None:
            mask = w.causal_mask(past[0], ids)
            mask = w.node("Add", mask, padding) if padded else mask
        n = w.normalised(x, width)
        q, k, v = (w.by_heads(w.node("MatMul", n, w.random(width, width)), heads, size) for _ in range(3))
        k = w.node("Concat", past[0], k, axis=2, names=[f"present.{layer}.key"])
        v = w.node("Concat", past[1], v, axis=-2, names=[f"present.{layer}.value"])
        x = w.node("Add", x, w.node("MatMul", w.merged(w.attention(q, k, v, size, mask), heads, size), w.random(width, width)))
        x = w.node("Add", x, w.gated(w.normalised(x, width), width, inner))
    w.node("MatMul", w.normalised(x, width), w.random(width, words), names=["logits"])
    return w.model()


def grouped(layers=LAYERS, heads=HEADS, size=SIZE, words=WORDS, inner=128, kv=2, longest=4096):
    w, width = Writer(6), heads * size
    w.domains["com.microsoft"] = 1
    ids = w.input("ids", INT64, ["batch", "steps"])
    lengths, total = w.input("seqlens_k", INT32, ["batch"]), w.input("total_sequence_length", INT32, [])
    w.output("logits", FLOAT, ["batch", "steps", words])
    angles = np.outer(np.arange(longest), 10000.0 ** (-np.arange(size // 2) / (size // 2)))
    tables = [w.constant(f(angles).astype(np.float32)) for f in (np.cos, np.sin)]
    x = w.node("Gather", w.random(words, width), ids)
    for layer in range(layers):
        past = [cache_ports(w, layer, kind, "batch", kv, "past", "total", size) for kind in ("key", "value")]
        n = w.normalised(x, width)
        q, k, v = (w.node("MatMul", n, w.random(width, count * size)) for count in (heads, kv, kv))
        names = [f"attended{layer}", f"present.{layer}.key", f"present.{layer}.value"]
        w.node("GroupQueryAttention", q, k, v, *past, lengths, total, *tables, names=names, domain="com.microsoft", num_heads=heads, kv_num_heads=kv, do_rotary=1)
        x = w.node("Add", x, w.node("MatMul", names[0], w.random(width, width)))
        x = w.node("Add", x, w.gated(w.normalised(x, width), width, inner))
    w.node("MatMul", w.normalised(x, width), w.random(width, words), names=["logits"])
    return w.model()


def operator(heads=HEADS, size=SIZE):
    w = Writer(10)
    w.domains[""] = 23
    parts = [w.input(name, FLOAT, ["batch", heads, "steps", size]) for name in ("query", "key", "value")]
    past = [cache_ports(w, 0, kind, "batch", heads, "past", "total", size) for kind in ("key", "value")]
    w.output("y", FLOAT, ["batch", heads, "steps", size])
    w.node("Attention", *parts, "", *past, names=["y", "present.0.key", "present.0.value"], is_causal=1)
    return w.model()


def scattered(heads=HEADS, size=SIZE, longest=32):
    w = Writer(12)
    w.domains[""] = 24
    parts = [w.input(name, FLOAT, ["batch", heads, "steps", size]) for name in ("query", "key", "value")]
    at, valid = (w.input(name, INT64, ["batch"]) for name in ("write_indices", "valid"))
    past = [cache_ports(w, 0, kind, "batch", heads, longest, longest, size) for kind in ("key", "value")]
    w.output("y", FLOAT, ["batch", heads, "steps", size])
    k, v = (w.node("TensorScatter", p, new, at, names=[f"present.0.{kind}"]) for p, new, kind in zip(past, parts[1:], ("key", "value")))
    w.node("Attention", parts[0], k, v, "", "", "", valid, names=["y"])
    return w.model()


def multihead(heads=HEADS, size=SIZE):
    w, width = Writer(11), heads * size
    w.domains["com.microsoft"] = 1
    parts = [w.input(name, FLOAT, ["batch", "steps", width]) for name in ("query", "key", "value")]
    past = [cache_ports(w, 0, kind, "batch", heads, "past", "total", size) for kind in ("key", "value")]
    w.output("y", FLOAT, ["batch", "steps", width])
    w.node("MultiHeadAttention", *parts, "", "", "", *past, names=["y", "present.0.key", "present.0.value"], domain="com.microsoft", num_heads=heads)
    return w.model()


def transcriber(layers=LAYERS, heads=HEADS, size=SIZE, words=WORDS):
    w, width = Writer(7), heads * size
    ids = w.input("ids", INT64, ["batch", "steps"])
    w.output("logits", FLOAT, ["batch", "steps", words])
    x, mask = w.node("Gather", w.random(words, width), ids), None
    for layer in range(layers):
        own = [cache_ports(w, layer, kind, "batch", heads, "past", "total", size, "decoder.") for kind in ("key", "value")]
        other = [cache_ports(w, layer, kind, "batch", heads, "heard", "heard", size, "encoder.") for kind in ("key", "value")]
        mask = mask or w.causal_mask(own[0], ids)
        n = w.normalised(x, width)
        q, k, v = (w.by_heads(w.node("MatMul", n, w.random(width, width)), heads, size) for _ in range(3))
        k = w.node("Concat", own[0], k, axis=2, names=[f"present.{layer}.decoder.key"])
        v = w.node("Concat", own[1], v, axis=2, names=[f"present.{layer}.decoder.value"])
        x = w.node("Add", x, w.node("MatMul", w.merged(w.attention(q, k, v, size, mask), heads, size), w.random(width, width)))
        q = w.by_heads(w.node("MatMul", w.normalised(x, width), w.random(width, width)), heads, size)
        x = w.node("Add", x, w.node("MatMul", w.merged(w.attention(q, *other, size), heads, size), w.random(width, width)))
        for name, kind in zip(other, ("key", "value")):
            w.node("Identity", name, names=[f"present.{layer}.encoder.{kind}"])
    w.node("MatMul", w.normalised(x, width), w.random(width, words), names=["logits"])
    return w.model()


def stack():
    w = Writer(13)
    x, cache = w.input("x", FLOAT, [1, "rows", 5]), w.input("cache_in", FLOAT, [1, "kept", 5])
    w.output("y", FLOAT, [1, 1, 5])
    w.output("cache_out", FLOAT, [1, "total", 5])
    w.node("Concat", x, cache, axis=1, names=["cache_out"])
    w.node("ReduceMean", "cache_out", w.ints(1), names=["y"])
    return w.model()


def recurrent(features=24, size=32):
    w = Writer(8)
    w.input("x", FLOAT, ["steps", "batch", features])
    h, c = (w.input(name, FLOAT, [1, name, size]) for name in ("h", "c"))  # each dim has a name of its own, as exporters leave them
    w.output("y", FLOAT, ["steps", "batch", 10])
    for name in ("hn", "cn"):
        w.output(name, FLOAT, [1, "batch", size])
    weights = [w.random(1, 4 * size, features), w.random(1, 4 * size, size), w.constant(np.zeros((1, 8 * size), np.float32))]
    w.node("LSTM", "x", *weights, "", h, c, names=["all", "hn", "cn"], hidden_size=size)
    w.node("MatMul", w.node("Squeeze", "all", w.ints(1)), w.random(size, 10), names=["y"])
    return w.model()


def stream(channels=8, steps=8):
    w = Writer(9)
    x = w.input("x", FLOAT, [1, channels, steps])
    for k in range(2):
        cache = w.input(f"cache_in_{k}", FLOAT, [1, channels, 2])
        w.output(f"cache_out_{k}", FLOAT, [1, channels, 2])
        joined = w.node("Concat", cache, x, axis=2)
        w.node("Slice", joined, w.ints(-2), w.ints(2 ** 31), w.ints(2), names=[f"cache_out_{k}"])
        x = w.node("Relu", w.node("Conv", joined, w.constant((w.rng.standard_normal((channels, channels, 3)) / 5).astype(np.float32))))
    w.node("Identity", x, names=["y"])
    w.output("y", FLOAT, [1, channels, steps])
    return w.model()


BUILDERS = {"decoder": decoder, "padded": lambda: decoder(padded=True), "grouped": grouped, "operator": operator, "scattered": scattered, "multihead": multihead, "transcriber": transcriber, "stack": stack, "recurrent": recurrent, "stream": stream}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=BUILDERS)
    parser.add_argument("out", type=pathlib.Path)
    arguments = parser.parse_args()
    onnx.save(BUILDERS[arguments.which](), arguments.out)
