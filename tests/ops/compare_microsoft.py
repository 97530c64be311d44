#!/usr/bin/env python3
"""The operators of com.microsoft against ONNX Runtime, on random samples of their inputs and attributes.

    python3 compare_microsoft.py --metac build/release/bin/metac [--samples N] [--seed S] [--only REGEX] [--keep DIR]
    needs: pip install numpy onnx onnxruntime

Each sample is a model of one node, answered by ONNX Runtime and run by `metac verify`. Every operator of the domain that
`metac operators` lists must have a generator here. One line a failure; the last line is 'N passed, N failed'.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
from onnx import helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import reference_cases  # noqa: E402

DOMAIN = "com.microsoft"


def multiplies_bytes_exactly():
    """Without VNNI, ONNX Runtime adds pairs of products uint8 x int8 in saturating 16 bits: exact for weights of 7 bits alone."""
    try:
        return "vnni" in pathlib.Path("/proc/cpuinfo").read_text()
    except OSError:
        return False


JUDGE_IS_EXACT = multiplies_bytes_exactly()


class Sample:
    """One random sample: what a generator draws and the node it makes of it."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.feeds, self.inputs = {}, []

    def int(self, low, high):
        return int(self.rng.integers(low, high + 1))

    def chance(self, p=0.5):
        return bool(self.rng.random() < p)

    def pick(self, *choices):
        return choices[self.int(0, len(choices) - 1)]

    def add(self, array, name=None):
        name = name or f"in{len(self.inputs)}"
        self.feeds[name] = np.asarray(array)
        self.inputs.append(name)
        return self.feeds[name]

    def skip(self):
        self.inputs.append("")

    def real(self, *shape, scale=1.0):
        return self.add((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def maybe_real(self, *shape, scale=1.0):
        return self.real(*shape, scale=scale) if self.chance() else self.skip()

    def scale_of(self, *shape):
        return self.add(self.rng.uniform(0.01, 0.1, shape).astype(np.float32))

    def whole(self, dtype, *shape):
        info = np.iinfo(dtype)
        low, high = (info.min, info.max) if dtype != np.int8 or JUDGE_IS_EXACT else (-64, 63)
        return self.add(self.rng.integers(low, high + 1, shape).astype(dtype))

    def quantised(self, dtype, *shape, per=()):
        """A tensor, its scale and its zero point."""
        self.whole(dtype, *shape)
        self.scale_of(*per)
        self.whole(dtype, *per)

    def node(self, op, outputs, **attributes):
        while self.inputs and not self.inputs[-1]:
            self.inputs.pop()
        names = [f"out{i}" for i in range(outputs)]
        return [helper.make_node(op, self.inputs, names, domain=DOMAIN, **attributes)], names


# ---- element-wise, normalisation ----
def gelu(s, op="Gelu"):
    shape = [s.int(1, 5) for _ in range(s.int(1, 3))]
    s.real(*shape, scale=3)
    if op == "BiasGelu" or (op == "FastGelu" and s.chance()):
        s.real(shape[-1])
    attributes = {"alpha": float(s.rng.uniform(0.5, 2))} if op == "QuickGelu" and s.chance() else {}
    return s.node(op, 1, **attributes)


def skip_layer_norm(s, op="SkipLayerNormalization"):
    b, t, d = s.int(1, 3), s.int(1, 4), s.int(2, 9)
    s.real(b, t, d), s.real(b, t, d), s.real(d)
    if op == "SkipLayerNormalization":
        s.maybe_real(d)
    s.maybe_real(d)
    nodes, names = s.node(op, 4 if s.chance() else 1, epsilon=1e-5)
    if len(names) == 4:
        nodes[0].output[1] = nodes[0].output[2] = ""
        names = [names[0], names[3]]
    return nodes, names


def embed_layer_norm(s):
    b, t, d, words, kinds = s.int(1, 3), s.int(1, 6), s.int(2, 8), 11, 2
    s.add(s.rng.integers(0, words, (b, t)).astype(np.int32))
    segments = s.chance()
    s.add(s.rng.integers(0, kinds, (b, t)).astype(np.int32)) if segments else s.skip()
    s.real(words, d), s.real(8, d)
    s.real(kinds, d) if segments else s.skip()
    s.real(d), s.real(d)
    masked = s.chance()
    s.add((np.arange(t)[None] < s.rng.integers(1, t + 1, (b, 1))).astype(np.int32)) if masked else s.skip()
    if s.chance():
        s.add(s.rng.integers(0, 8, (b, t)).astype(np.int32))
    return s.node("EmbedLayerNormalization", 2, epsilon=1e-5, mask_index_type=1 if masked else 0)


# ---- contractions ----
def conv(s, op="FusedConv"):
    n, c, o, group = s.int(1, 2), s.int(1, 3), s.int(1, 3), s.int(1, 2)
    h, w, kh, kw = s.int(4, 8), s.int(4, 8), s.int(1, 3), s.int(1, 3)
    s.real(n, c * group, h, w)
    s.real(o * group, c, kh, kw)
    s.maybe_real(o * group)
    attributes = dict(group=group, strides=[s.int(1, 2), s.int(1, 2)], pads=[s.int(0, 1) for _ in range(4)])
    activation = s.pick(None, "Relu", "Sigmoid", "Tanh", "LeakyRelu", "Clip", "HardSigmoid")
    if activation:
        attributes["activation"] = activation
        parameters = {"LeakyRelu": [0.1], "Clip": [-0.5, 0.7], "HardSigmoid": [0.3, 0.4]}
        if activation in parameters:
            attributes["activation_params"] = parameters[activation]
    return s.node(op, 1, **attributes)


def nhwc_conv(s):
    """ONNX Runtime has it for GPUs alone: its Conv between transposes is the reference."""
    n, c, o, group = s.int(1, 2), s.int(1, 3), s.int(1, 3), s.int(1, 2)
    s.real(n, s.int(4, 8), s.int(4, 8), c * group)
    s.real(o * group, c, s.int(1, 3), s.int(1, 3))
    s.maybe_real(o * group)
    attributes = dict(group=group, strides=[s.int(1, 2), s.int(1, 2)], pads=[s.int(0, 1) for _ in range(4)])
    nodes, names = s.node("NhwcConv", 1, **attributes)
    inputs = list(nodes[0].input)
    plain = [helper.make_node("Transpose", [inputs[0]], ["x"], perm=[0, 3, 1, 2]), helper.make_node("Conv", ["x", *inputs[1:]], ["y"], **attributes),
             helper.make_node("Transpose", ["y"], names, perm=[0, 2, 3, 1])]
    return nodes, names, plain


def fused_matmul(s):
    m, k, n, batch = s.int(1, 5), s.int(1, 5), s.int(1, 5), [s.int(1, 3) for _ in range(s.int(0, 2))]
    a, b, batch_a, batch_b = s.chance(), s.chance(), s.chance(0.3), s.chance(0.3)

    def operand(rows, columns, behind):
        return [rows, *batch, columns] if behind and batch else [*batch, rows, columns]
    s.real(*operand(*((k, m) if a else (m, k)), batch_a))
    s.real(*operand(*((n, k) if b else (k, n)), batch_b))
    return s.node("FusedMatMul", 1, transA=int(a), transB=int(b), transBatchA=int(batch_a), transBatchB=int(batch_b), alpha=float(s.rng.uniform(0.5, 2)))


def matmul_n_bits(s):
    bits, block, n, k = s.pick(4, 4, 8), s.pick(16, 32), s.int(1, 6), s.int(1, 70)
    blocks = -(-k // block)
    s.real(*[s.int(1, 3) for _ in range(s.int(0, 1))], s.int(1, 4), k)
    s.whole(np.uint8, n, blocks, block * bits // 8)
    s.scale_of(n * blocks)
    s.whole(np.uint8, n * (-(-blocks * bits // 8))) if s.chance() else s.skip()
    s.skip()
    s.maybe_real(n)
    return s.node("MatMulNBits", 1, K=k, N=n, bits=bits, block_size=block)


def gather_block_quantized(s):
    bits, block, rows = s.pick(4, 8), s.pick(16, 32), s.int(1, 9)
    columns = s.int(1, 5) * 8
    middle = [s.int(1, 3)] if s.chance(0.3) else []
    blocks = -(-columns // block)
    s.whole(np.uint8, rows, *middle, columns * bits // 8)
    s.add(s.rng.integers(-rows, rows, [s.int(1, 4) for _ in range(s.int(0, 2))]).astype(s.pick(np.int32, np.int64)))
    s.scale_of(rows, *middle, blocks)
    if s.chance():
        s.whole(np.uint8, rows, *middle, -(-blocks * bits // 8))
    return s.node("GatherBlockQuantized", 1, bits=bits, block_size=block, gather_axis=0, quantize_axis=1 + len(middle))


def dynamic_matmul(s):
    m, k, n = s.int(1, 5), s.int(1, 9), s.int(1, 6)
    per = (n,) if s.chance() else (1,)
    s.real(*[s.int(1, 3) for _ in range(s.int(0, 1))], m, k)
    dtype = s.pick(np.int8, np.uint8)
    s.add(s.rng.integers(np.iinfo(dtype).min // 2, np.iinfo(dtype).max // 2, (k, n)).astype(dtype))
    s.scale_of(*per)
    s.add(s.rng.integers(-5, 5, per).astype(np.int8).astype(dtype)) if s.chance() else s.skip()
    s.maybe_real(n)
    return s.node("DynamicQuantizeMatMul", 1)


def integer_matmul_to_float(s):
    m, k, n = s.int(1, 5), s.int(1, 9), s.int(1, 6)
    a, b = np.uint8, s.pick(np.int8, np.uint8)
    s.whole(a, m, k), s.whole(b, k, n), s.scale_of(1), s.scale_of(n)
    s.whole(a, 1), s.whole(b, n)
    s.maybe_real(n)
    return s.node("MatMulIntegerToFloat", 1)


# ---- quantised ----
def quantised_binary(s, op):
    shape = [s.int(1, 5) for _ in range(s.int(1, 3))]
    dtype = s.pick(np.int8, np.uint8)
    s.quantised(dtype, *shape)
    s.quantised(dtype, *[d if s.chance(0.7) else 1 for d in shape])
    s.add(np.float32(0.1)), s.whole(dtype)
    return s.node(op, 1)


def quantised_unary(s, op):
    dtype = s.pick(np.int8, np.uint8)
    s.quantised(dtype, *[s.int(1, 5) for _ in range(s.int(1, 3))])
    s.add(np.float32(0.02)), s.whole(dtype)
    return s.node(op, 1, **({"alpha": 0.2} if op == "QLinearLeakyRelu" else {}))


def quantise(s, op):
    shape, dtype = [s.int(1, 5) for _ in range(s.int(1, 4))], s.pick(np.int8, np.uint8, np.int16, np.uint16)
    axis = s.int(0, len(shape) - 1)
    per = s.pick((), (shape[axis],))
    s.real(*shape) if op == "QuantizeLinear" else s.whole(dtype, *shape)
    s.scale_of(*per)
    s.whole(dtype, *per) if op == "QuantizeLinear" or s.chance(0.8) else s.skip()
    return s.node(op, 1, axis=axis)


def quantised_pool(s, op):
    last, dtype = s.chance(), s.pick(np.int8, np.uint8)
    n, c, h, w = s.int(1, 2), s.int(1, 4), s.int(3, 7), s.int(3, 7)
    s.quantised(dtype, *((n, h, w, c) if last else (n, c, h, w)))
    s.add(np.float32(0.05)), s.whole(dtype)
    attributes = {"channels_last": int(last)}
    if op == "QLinearAveragePool":
        attributes |= dict(kernel_shape=[s.int(1, 3), s.int(1, 3)], strides=[s.int(1, 2), s.int(1, 2)], count_include_pad=int(s.chance()))
    return s.node(op, 1, **attributes)


def quantised_softmax(s):
    shape, dtype = [s.int(2, 5) for _ in range(s.int(1, 3))], s.pick(np.int8, np.uint8)
    s.quantised(dtype, *shape)
    s.add(np.float32(1 / 200))  # ONNX Runtime wraps around where 1 is more than the type holds
    s.add(np.array(-128 if dtype == np.int8 else 0, dtype))
    return s.node("QLinearSoftmax", 1, axis=s.int(-len(shape), len(shape) - 1), opset=13)


def quantised_gemm(s):
    m, k, n, a, b = s.int(1, 5), s.int(1, 9), s.int(1, 6), s.int(0, 1), s.int(0, 1)
    dtype = s.pick(np.int8, np.uint8)
    s.quantised(dtype, *((k, m) if a else (m, k)))
    s.quantised(dtype, *((n, k) if b else (k, n)))
    s.add(s.rng.integers(-50, 50, n).astype(np.int32))
    s.add(np.float32(0.05)), s.whole(dtype)
    return s.node("QGemm", 1, transA=a, transB=b, alpha=1.0)


def quantised_concat(s):
    rank, dtype = s.int(1, 3), s.pick(np.int8, np.uint8)
    axis, shape = s.int(0, rank - 1), [s.int(1, 4) for _ in range(rank)]
    s.add(np.float32(0.1)), s.whole(dtype)
    for _ in range(s.int(1, 3)):
        shape[axis] = s.int(1, 4)
        s.quantised(dtype, *shape)
    return s.node("QLinearConcat", 1, axis=axis)


def dynamic_lstm(s):
    t, b, i, h, d = s.int(1, 6), s.int(1, 3), s.int(1, 9), s.int(1, 9), s.int(1, 2)
    s.real(t, b, i)
    dtype, per = s.pick(np.int8, np.uint8), s.chance()
    w, r = s.whole(dtype, d, i, 4 * h), s.whole(dtype, d, h, 4 * h)
    s.maybe_real(d, 8 * h)
    s.add(s.rng.integers(1, t + 1, b).astype(np.int32)) if s.chance() else s.skip()
    s.maybe_real(d, b, h), s.maybe_real(d, b, h), s.maybe_real(d, 3 * h)
    for _ in range(2):
        s.add(s.rng.uniform(0.001, 0.01, (d, 4 * h) if per else (d,)).astype(np.float32))
        # ONNX Runtime has one zero point for all columns of a direction, 0 if it is signed.
        zero = s.rng.integers(-9, 9, d) if dtype == np.int8 else s.rng.integers(100, 150, d)
        s.add((np.full((d, 4 * h), 0 if dtype == np.int8 else zero[0]) if per else zero).astype(dtype))
    attributes = {"clip": 2.0} if s.chance(0.3) else {}
    return s.node("DynamicQuantizeLSTM", 3, hidden_size=h, direction="bidirectional" if d == 2 else s.pick("forward", "reverse"), input_forget=int(s.chance(0.2)), **attributes)


# ---- attention ----
def add_mask(s, b, t, kinds=("lengths", "keys", "none")):
    kind = s.pick(*kinds)
    if kind == "lengths":
        s.add(s.rng.integers(1, t + 1, b).astype(np.int32))
    elif kind == "keys":
        s.add((np.arange(t)[None] < s.rng.integers(1, t + 1, (b, 1))).astype(np.int32))
    else:
        s.skip()


def attention(s):
    b, t, heads, d, inputs = s.int(1, 3), s.int(1, 5), s.int(1, 3), 4 * s.int(1, 2), s.int(2, 8)
    width, past = heads * d, s.int(1, 3) if s.chance(0.4) else 0
    s.real(b, t, inputs), s.real(inputs, 3 * width, scale=0.5), s.real(3 * width)
    add_mask(s, b, t + past, ("keys", "none") if past else ("lengths", "keys", "none"))
    s.real(2, b, heads, past, d) if past else s.skip()
    if s.chance(0.4):
        s.real(b, heads, t, t + past)
    return s.node("Attention", 2, num_heads=heads, unidirectional=int(s.chance()))


def quantised_attention(s):
    b, t, heads, d, inputs = s.int(1, 3), s.int(1, 5), s.int(1, 3), 4 * s.int(1, 2), s.int(2, 8)
    width = heads * d
    s.whole(np.uint8, b, t, inputs), s.whole(np.int8, inputs, 3 * width), s.real(3 * width)
    s.add(np.float32(0.01)), s.add(np.float32(0.01))
    add_mask(s, b, t, ("lengths", "none"))
    s.whole(np.uint8), s.add(np.int8(3))
    return s.node("QAttention", 1, num_heads=heads, unidirectional=int(s.chance()))


def multi_head_attention(s):
    b, t, l, heads, d = s.int(1, 3), s.int(1, 5), s.int(1, 6), s.int(1, 3), 4 * s.int(1, 2)
    form = s.pick("plain", "packed", "packed pair", "heads")
    if form == "packed":
        l = t
        s.real(b, t, heads, 3, d), s.skip(), s.skip()
    else:
        s.real(b, t, heads * d)
        if form == "packed pair":
            s.real(b, l, heads, 2, d), s.skip()
        elif form == "heads":
            s.real(b, heads, l, d), s.real(b, heads, l, d)
        else:
            s.real(b, l, heads * d), s.real(b, l, heads * d)
    s.maybe_real(3 * heads * d) if form == "plain" else s.skip()
    past = s.int(1, 3) if form == "plain" and s.chance(0.4) else 0
    add_mask(s, b, l + past, ("keys", "none"))
    s.real(b, heads, t, l + past) if s.chance(0.4) else s.skip()
    if past:
        s.real(b, heads, past, d), s.real(b, heads, past, d)
    causal = s.chance() and l == t  # else ONNX Runtime's last query sees all keys
    return s.node("MultiHeadAttention", 3 if past else 1, num_heads=heads, unidirectional=int(causal))


def group_query_attention(s):
    b, kv, group, d = s.int(1, 3), s.int(1, 2), s.int(1, 3), 8 * s.int(1, 2)
    heads, first, rotary = kv * group, s.chance(), s.chance()
    t = s.int(1, 5) if first else 1
    past = 0 if first else s.int(1, 5)
    s.real(b, t, heads * d), s.real(b, t, kv * d), s.real(b, t, kv * d)
    s.real(b, kv, past, d), s.real(b, kv, past, d)
    s.add(np.full(b, t + past - 1, np.int32)), s.add(np.int32(t + past))
    attributes = dict(num_heads=heads, kv_num_heads=kv)
    if rotary:
        s.real(16, d // 2), s.real(16, d // 2)
        attributes |= dict(do_rotary=1, rotary_interleaved=int(s.chance()))
    if s.chance(0.3):
        attributes["local_window_size"] = s.int(1, 4)
    if s.chance(0.3):
        attributes["softcap"] = 5.0
    if s.chance(0.2):
        attributes["smooth_softmax"] = 1
    elif s.chance(0.2):
        for _ in range(11 - (9 if rotary else 7)):
            s.skip()
        s.real(heads)  # a sink for each head
    return s.node("GroupQueryAttention", 3, **attributes)


def rotary_embedding(s):
    b, t, heads, d, most = s.int(1, 3), s.int(1, 5), s.int(1, 3), 4 * s.int(1, 3), 12
    s.real(b, heads, t, d) if s.chance() else s.real(b, t, heads * d)
    s.add(s.rng.integers(0, most, (b, t)).astype(np.int64) if s.chance() else np.array([s.int(0, most - t)], np.int64))
    s.real(most, d // 2), s.real(most, d // 2)
    return s.node("RotaryEmbedding", 1, interleaved=int(s.chance()))


GENERATORS = {
    "Gelu": gelu, "BiasGelu": lambda s: gelu(s, "BiasGelu"), "FastGelu": lambda s: gelu(s, "FastGelu"), "QuickGelu": lambda s: gelu(s, "QuickGelu"),
    "SkipLayerNormalization": skip_layer_norm, "SkipSimplifiedLayerNormalization": lambda s: skip_layer_norm(s, "SkipSimplifiedLayerNormalization"),
    "EmbedLayerNormalization": embed_layer_norm, "FusedConv": conv, "NhwcConv": nhwc_conv, "FusedMatMul": fused_matmul, "MatMulNBits": matmul_n_bits,
    "GatherBlockQuantized": gather_block_quantized,
    **{op: lambda s, op=op: quantise(s, op) for op in ("QuantizeLinear", "DequantizeLinear")},
    "DynamicQuantizeMatMul": dynamic_matmul, "MatMulIntegerToFloat": integer_matmul_to_float, "DynamicQuantizeLSTM": dynamic_lstm,
    "QLinearAdd": lambda s: quantised_binary(s, "QLinearAdd"), "QLinearMul": lambda s: quantised_binary(s, "QLinearMul"),
    "QLinearSigmoid": lambda s: quantised_unary(s, "QLinearSigmoid"), "QLinearLeakyRelu": lambda s: quantised_unary(s, "QLinearLeakyRelu"),
    "QLinearAveragePool": lambda s: quantised_pool(s, "QLinearAveragePool"), "QLinearGlobalAveragePool": lambda s: quantised_pool(s, "QLinearGlobalAveragePool"),
    "QLinearConcat": quantised_concat, "QLinearSoftmax": quantised_softmax, "QGemm": quantised_gemm, "Attention": attention, "QAttention": quantised_attention, "MultiHeadAttention": multi_head_attention,
    "GroupQueryAttention": group_query_attention, "RotaryEmbedding": rotary_embedding,
}


def write_samples(folder, samples, seed, only):
    """Returns how many samples each operator has that ONNX Runtime takes."""
    counts = {}
    for op, generate in GENERATORS.items():
        if not re.search(only, op):
            continue
        counts[op] = 0
        for i in range(4 * samples):  # more than wanted: ONNX Runtime refuses some
            if counts[op] == samples:
                break
            s = Sample([seed, i, *op.encode()])
            nodes, names, *plain = generate(s)
            model = reference_cases.build_model(nodes, s.feeds, names)
            asked = reference_cases.build_model(plain[0], s.feeds, names) if plain else model
            try:
                results = reference_cases.answer(asked, s.feeds)
            except Exception as error:  # a combination that ONNX Runtime refuses
                print(f"ONNX Runtime refuses a sample of {op}: {str(error)[:200]}")
                continue
            for ours, theirs in zip(model.graph.output, asked.graph.output):
                ours.CopyFrom(theirs)
            reference_cases.write_case(folder / f"{op}_{i}", model, s.feeds, results)
            counts[op] += 1
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--samples", type=int, default=4, help="of each operator")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=pathlib.Path, help="a new folder for the cases")
    arguments = parser.parse_args()
    rows = json.loads(subprocess.run([arguments.metac, "operators", "--json"], check=True, capture_output=True, text=True).stdout)
    rows = rows["operators"] if isinstance(rows, dict) else rows
    failed, passed = 0, 0
    for op in sorted({r["name"] for r in rows if r.get("domain") == DOMAIN} ^ set(GENERATORS)):
        failed += 1
        print(f"FAIL  {op} has no generator here, or is not in `metac operators`")
    with tempfile.TemporaryDirectory(prefix="metac-microsoft-") as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        counts = write_samples(folder, arguments.samples, arguments.seed, arguments.only)
        for op, count in counts.items():
            if count == 0:
                failed += 1
                print(f"FAIL  {op}: ONNX Runtime took no sample")
        # A quotient that lies between two 8-bit values may be rounded either way, by the last bit of the scales.
        for name, (status, detail) in reference_cases.verify(arguments.metac, folder, "--atol", "2e-5", "--known", "shapes").items():
            passed += status == "passed"
            failed += status != "passed"
            if status != "passed":
                print(f"FAIL  {name}: {status}: {detail}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
