"""More samplers (see operator_samples.py): what came to ONNX late, losses, and the rarer element-wise operators."""
import numpy as np

from operator_samples import FLOATS, INTEGERS, Unfit, axis_of, is_float, is_int, is_number, sampler


# ---- element-wise ----
@sampler("Acos", "Asin", "Atanh", "Acosh", "Tan", "Cosh")
def inside_a_range(g, op):
    a = g.node("Tanh", [g.pick_value(is_float)])  # within [-1, 1]
    a = g.node("Mul", [a, g.constant(np.array(0.5, a.dtype))])
    g.node(op, [g.node("Add", [a, g.constant(np.array(2, a.dtype))]) if op == "Acosh" else a])


@sampler("Swish")
def swish(g, op):
    g.node(op, [g.pick_value(is_float)], alpha=g.choice([1.0, 0.5]))


@sampler("SwiGLU")
def gated(g, op):
    a = g.pick_value(is_float)
    g.node(op, [a, g.fresh(a.shape, a.dtype)])


@sampler("PRelu")
def slope(g, op):
    a = g.pick_value(is_float)
    g.node(op, [a, g.broadcastable(a)], exact=True)


@sampler("Identity")
def same(g, op):
    g.node(op, [g.pick_value(lambda v: True)], exact=True)


@sampler("Dropout")
def kept(g, op):
    g.node(op, [g.pick_value(is_float)], outputs=g.int(1, 2), exact=True)


@sampler("CastLike")
def cast_like(g, op):
    a = g.pick_value(lambda v: is_float(v) and (v.size == 0 or float(np.abs(v.array.astype(np.float64)).max()) < 120), exact=True)
    b = g.pick_value(lambda v: is_float(v) or v.dtype.kind == "i" or v.dtype == bool)
    g.node(op, [a, b], exact=True)


@sampler("BitCast")
def same_bits(g, op):
    a = g.pick_value(lambda v: is_int(v) and v.dtype.itemsize in (1, 2, 4, 8))
    to = [t for t in INTEGERS if np.dtype(t).itemsize == a.dtype.itemsize and t != a.dtype]
    g.node(op, [a], to=g.onnx_type(g.choice(to)), exact=True)


@sampler("Constant")
def literal(g, op):
    array = g.random([g.int(1, 3) for _ in range(g.int(0, 2))], g.choice([g.float, np.int64, np.int32, bool]))
    g.node(op, [], value=g.tensor(array), exact=True)


# ---- reductions and normalisations ----
@sampler("ReduceLogSum")
def log_sum(g, op):
    a = g.pick_value(lambda v: is_float(v) and v.ndim > 0)
    positive = g.node("Add", [g.node("Abs", [a]), g.constant(np.array(1, a.dtype))])
    g.node(op, [positive, g.shape_operand([axis_of(g, a)])], keepdims=g.int(0, 1))


@sampler("CumProd")
def cum_prod(g, op):
    a = g.pick_value(lambda v: v.dtype.name in ("float32", "float64") and v.ndim > 0 and max(v.shape, default=0) < 5)
    g.node(op, [a, g.operand(np.array(axis_of(g, a), np.int64))], exclusive=g.int(0, 1), reverse=g.int(0, 1))


@sampler("RMSNormalization")
def rms_norm(g, op):
    a = g.pick_value(lambda v: is_float(v) and v.ndim > 0)
    axis = axis_of(g, a)
    g.node(op, [a, g.fresh(a.shape[axis:], a.dtype)], axis=axis, epsilon=0.1)


@sampler("GroupNormalization")
def group_norm(g, op):
    groups, each = g.int(1, 3), g.int(1, 3)
    a = g.fresh([g.dim(1, 2), groups * each, g.dim(2, 4), g.dim(2, 4)], g.float)
    g.node(op, [a, g.fresh([groups * each], g.float), g.fresh([groups * each], g.float)], num_groups=groups, epsilon=0.1)


@sampler("GlobalLpPool")
def global_lp(g, op):
    g.node(op, [g.fresh([g.dim(1, 2), g.dim(1, 3), g.dim(1, 5), g.dim(1, 5)], np.float32)], p=g.int(1, 3))


@sampler("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def loss(g, op):
    n, c, more = g.int(1, 4), g.int(2, 5), [g.int(1, 3) for _ in range(g.int(0, 2))]
    scores, labels = g.fresh([n, c, *more], np.float32), g.rng.integers(0, c, [n, *more])
    labels.reshape(-1)[0] = 0
    operands, attributes = [scores, g.operand(labels.astype(g.choice([np.int32, np.int64])))], {}
    if g.chance():
        operands.append(g.operand(g.rng.integers(1, 5, c).astype(np.float32)))
    if g.chance():
        attributes["ignore_index"] = g.int(1, c - 1)
    g.node(op, operands, outputs=g.int(1, 2) if op[0] == "S" else 1, reduction=g.choice(["mean", "sum", "none"]), **attributes)


# ---- windows ----
@sampler("MaxUnpool")
def unpool(g, op):
    h, w, c = 2 * g.int(1, 3), 2 * g.int(1, 3), g.int(1, 2)
    x = g.fresh_distinct([g.int(1, 2), c, h, w], np.float32)
    g.node("MaxPool", [x], outputs=2, kernel_shape=[2, 2], strides=[2, 2])
    pooled, places = g.steps[-1].outputs
    g.node(op, [pooled, places], kernel_shape=[2, 2], strides=[2, 2], exact=True)


@sampler("DeformConv")
def deformed(g, op):
    n, c, o, h, w, k = g.int(1, 2), 2 * g.int(1, 2), g.int(1, 3), g.int(3, 6), g.int(3, 6), [g.int(1, 3), g.int(1, 3)]
    pads, offset_group = [g.int(0, 1) for _ in range(4)], g.int(1, 2)
    out = [h + pads[0] + pads[2] - k[0] + 1, w + pads[1] + pads[3] - k[1] + 1]
    offset = g.new_input((g.rng.random([n, 2 * offset_group * k[0] * k[1], *out]) * 2 - 1).astype(np.float32))
    operands = [g.fresh([n, c, h, w], np.float32), g.fresh([o, c, *k], np.float32), offset]
    if g.chance():
        operands += [g.fresh([o], np.float32), g.new_input(g.rng.random([n, offset_group * k[0] * k[1], *out]).astype(np.float32))]
    g.node(op, operands, pads=pads, offset_group=offset_group, kernel_shape=k)


@sampler("STFT")
def spectrogram(g, op):
    length, frame = g.int(16, 40), g.choice([4, 8, 15])
    signal = g.fresh([g.dim(1, 2), length, 1], np.float32)
    window = g.operand((0.5 + g.rng.random(frame)).astype(np.float32)) if g.chance() else None
    g.node(op, [signal, g.operand(np.array(g.int(1, 6), np.int64)), window, g.constant(np.array(frame, np.int64))], onesided=1)


# ---- transformers ----
@sampler("Attention")
def attention(g, op):
    n, heads, more, q, kv, d, e = g.dim(1, 2), g.int(1, 2), g.int(1, 2), g.dim(1, 5), g.int(1, 6), g.choice([2, 4, 8]), g.choice([2, 4, 8])
    t, attributes, operands = g.float, {}, []
    shapes = [[n, heads * more, q, d], [n, heads, kv, d], [n, heads, kv, e]]
    if g.chance(0.4):
        shapes = [[n, s[2], s[1] * s[3]] for s in shapes]
        attributes |= {"q_num_heads": heads * more, "kv_num_heads": heads}
    operands = [g.fresh(s, t) for s in shapes]
    past = g.int(1, 3) if g.chance(0.3) else 0
    if g.chance(0.4):
        bias = g.rng.random([q, kv + past]) < 0.7
        bias[:, 0] = True  # of rows in which nothing is left, each has its own idea
        operands.append(g.operand(bias) if g.chance() else g.fresh(g.choice([[q, kv + past], [n, 1, q, kv + past], [1, heads * more, q, kv + past]]), t))
    if past:
        operands += [None] * (4 - len(operands)) + [g.fresh([n, heads, past, d], t), g.fresh([n, heads, past, e], t)]
    if g.chance(0.3) and q == kv and not past:  # else ONNX Runtime begins the diagonal elsewhere than ONNX's reference
        attributes["is_causal"] = 1
    if g.chance(0.2):
        attributes["softcap"] = 2.0
    if g.chance(0.3):
        attributes["scale"] = 0.3
    g.node(op, operands, outputs=3 if past else 1, **attributes)


@sampler("RotaryEmbedding")
def rotary(g, op):
    n, heads, length, d, most = g.dim(1, 2), g.int(1, 3), g.dim(1, 4), g.choice([4, 8]), g.int(4, 6)
    flat, part = g.chance(0.4), g.choice([0, 4])
    x = g.fresh([n, length, heads * d] if flat else [n, heads, length, d], g.float)
    half = (part or d) // 2
    caches = [g.fresh([most, half] , g.float) for _ in range(2)]
    places = g.operand(g.rng.integers(0, most, [n, length]))
    g.node(op, [x, *caches, places], interleaved=g.int(0, 1), rotary_embedding_dim=part, **({"num_heads": heads} if flat else {}))


@sampler("TensorScatter")
def cache_update(g, op):
    n, length, fresh, d = g.int(1, 3), g.int(3, 6), g.int(1, 3), g.int(1, 4)
    mode = g.choice(["linear", "circular"])
    t = g.choice([g.float, np.int32, np.int8])
    at = g.rng.integers(0, length if mode == "circular" else length - fresh + 1, n)
    g.node(op, [g.fresh([n, 2, length, d], t), g.fresh([n, 2, fresh, d], t), g.operand(at)], mode=mode, exact=True)


@sampler("CausalConvWithState")
def causal_conv(g, op):
    n, c, length, k = g.dim(1, 2), g.int(1, 4), g.dim(1, 6), g.int(1, 4)
    operands = [g.fresh([n, c, length], g.float), g.fresh([c, 1, k], g.float)]
    if g.chance():
        operands += [g.fresh([c], g.float), g.fresh([n, c, k - 1], g.float)] if k > 1 else [g.fresh([c], g.float)]
    g.node(op, operands, outputs=2, activation=g.choice(["none", "silu"]))


@sampler("LinearAttention")
def linear_attention(g, op):
    n, heads, length, d, e = g.int(1, 2), g.int(1, 2), g.int(1, 4), g.choice([2, 4]), g.choice([2, 4])
    rule = g.choice(["linear", "gated", "delta", "gated_delta"])
    operands = [g.fresh([n, length, heads * k], np.float32) for k in (d, d, e)] + [g.fresh([n, heads, d, e], np.float32) if g.chance() else None]
    if "gated" in rule:
        operands.append(g.new_input(-g.rng.random([n, length, heads]).astype(np.float32)))
    elif "delta" in rule:
        operands.append(None)
    if "delta" in rule:
        operands.append(g.new_input(g.rng.random([n, length, heads]).astype(np.float32)))
    g.node(op, operands, outputs=2, q_num_heads=heads, kv_num_heads=heads, update_rule=rule, scale=0.25)


# ---- integers in products ----
@sampler("MatMul of integers")
def integer_matmul(g, op):
    t = g.choice([np.int32, np.int64, np.uint32, np.uint64])
    m, k, n = g.extent(5), g.extent(9), g.extent(5)
    g.node("MatMul", [g.fresh([m, k], t), g.fresh([k, n], t)], exact=True)


# ---- other types of what operator_samples.py draws with floats ----
@sampler("Abs of integers", "Sign of integers", "Neg of integers", "Relu of integers")
def integer_unary(g, op):
    g.node(op.split()[0], [g.pick_value(lambda v: v.dtype.kind == "i" if op[0] in "NR" else is_int(v))], exact=True)


@sampler("Mod of integers")
def remainder(g, op):
    a = g.pick_value(is_int)
    b = g.rng.integers(1, 4, a.shape) * (g.rng.choice([-1, 1], a.shape) if a.dtype.kind == "i" else 1)
    g.node("Mod", [a, g.operand(b.astype(a.dtype))], fmod=g.int(0, 1) if a.dtype.kind == "i" else 0, exact=True)


@sampler("Div of integers")
def whole_quotient(g, op):
    a = g.pick_value(is_int)
    b = g.rng.integers(1, 4, a.shape) * (g.rng.choice([-1, 1], a.shape) if a.dtype.kind == "i" else 1)
    g.node("Div", [a, g.operand(b.astype(a.dtype))], exact=True)


@sampler("ReduceMax of small integers", "ReduceMin of small integers", "ReduceSum of integers", "ReduceProd of integers", "ReduceL1 of integers", "ReduceSumSquare of integers")
def integer_reduction(g, op):
    kinds = ("int8", "uint8") if "small" in op else ("int32", "int64", "uint32", "uint64")
    a = g.pick_value(lambda v: v.dtype.name in kinds and v.ndim > 0)
    axis = axis_of(g, a)
    if "Prod" in op and np.abs(a.array.astype(np.float64).prod(axis)).max() > np.iinfo(a.dtype).max:
        raise Unfit  # beyond the type: ONNX Runtime saturates, ONNX's reference and metac wrap around
    g.node(op.split()[0], [a, g.shape_operand([axis])], keepdims=g.int(0, 1), exact=True)


@sampler("ScatterND with a reduction")
def scattered(g, op):
    a = g.pick_value(lambda v: is_number(v) and v.ndim > 0)
    rows = g.rng.integers(0, a.shape[0], [g.int(1, 4), 1])
    g.node("ScatterND", [a, g.operand(rows), g.fresh([len(rows), *a.shape[1:]], a.dtype)], reduction=g.choice(["add", "max", "min", "mul"]), exact=True)


@sampler("GatherND with batches")
def batched_gather(g, op):
    a = g.pick_value(lambda v: v.ndim > 1)
    m, count = g.int(1, a.ndim - 1), g.int(1, 3)
    index = np.stack([g.rng.integers(-a.shape[k + 1], a.shape[k + 1], [a.shape[0], count]) for k in range(m)], -1)
    g.node("GatherND", [a, g.operand(index)], batch_dims=1, exact=True)


@sampler("ConstantOfShape of a type")
def filled(g, op):
    value = g.tensor(np.array([1], g.choice([*INTEGERS, *FLOATS, bool])))
    g.node("ConstantOfShape", [g.shape_operand([g.dim(1, 3) for _ in range(g.int(0, 3))])], value=value, exact=True)


@sampler("Split in equal parts")
def parts(g, op):
    a = g.pick_value(lambda v: v.ndim > 0 and max(v.shape, default=0) > 1)
    axis = g.choice([k for k in range(a.ndim) if a.shape[k] > 1])
    g.node("Split", [a], outputs=2, axis=axis, num_outputs=2, exact=True)


@sampler("MaxPool of bytes")
def byte_pool(g, op):
    x = g.fresh([1, g.int(1, 18 if g.large else 3), g.int(4, 8), g.int(4, 8)], g.choice([np.int8, np.uint8]))
    g.node("MaxPool", [x], kernel_shape=[2, 2], strides=[g.int(1, 2), 1], pads=[g.int(0, 1)] * 4, exact=True)


@sampler("QuantizeLinear per axis")
def quantize_axis(g, op):
    a = g.pick_value(lambda v: v.dtype == np.float32 and v.ndim > 0, exact=True)
    axis = axis_of(g, a)
    t = g.choice([np.int8, np.uint8, np.int16, np.uint16] if g.opset >= 21 else [np.int8, np.uint8])
    scale = (2.0 ** g.rng.integers(-2, 1, a.shape[axis])).astype(np.float32)
    point = g.operand(g.rng.integers(0, 9, a.shape[axis]).astype(t))
    scales = g.operand(scale)
    q = g.node(op.split()[0], [a, scales, point], axis=axis, exact=True)
    g.node("DequantizeLinear", [q, scales, point], axis=axis, exact=True)


@sampler("Where of any type")
def any_where(g, op):
    a = g.pick_value(lambda v: True)
    if a.dtype == bool:
        raise Unfit
    g.node("Where", [g.broadcastable(a, np.dtype(bool)), a, g.broadcastable(a)], exact=True)


@sampler("Cast to any type")
def any_cast(g, op):
    a = g.pick_value(lambda v: v.dtype == bool or v.size == 0 or (0 <= v.array.astype(np.float64).min() and v.array.astype(np.float64).max() < 120), exact=True)
    g.node("Cast", [a], to=g.onnx_type(g.choice([*INTEGERS, *FLOATS, bool])), exact=True)
