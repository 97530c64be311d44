"""How random nodes are made: for each operator of ONNX, which operands it takes and with which attributes.

A sampler gets a Graph (tests/fuzz/random_graphs.py) and returns nothing: it picks values and calls graph.node(...). It raises Unfit
where the values at hand do not do.
"""
import numpy as np

from extremes import is_float

FLOATS = [np.float16, np.float32, np.float64]
INTEGERS = [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]


class Unfit(Exception):
    pass


def is_int(v):
    return v.dtype.kind in "iu"


def is_number(v):
    return is_float(v) or is_int(v)


SAMPLERS = {}


def sampler(*names):
    def keep(function):
        for name in names:
            SAMPLERS[name] = (lambda g, n=name, f=function: f(g, n)) if len(names) > 1 else (lambda g, f=function, n=names[0]: f(g, n))
        return function
    return keep


def axis_of(g, v, low=1):
    if v.ndim < low:
        raise Unfit
    return g.int(-v.ndim, v.ndim - 1)


# ---- element-wise ----
@sampler("Abs", "Neg", "Sign", "Relu", "Floor", "Ceil", "Round", "Shrink", "ThresholdedRelu")  # some of them jump
def exact_unary(g, op):
    g.node(op, [g.pick_value(lambda v: is_float(v), exact=True)], exact=True)


@sampler("Exp", "Sigmoid", "Tanh", "Erf", "Sin", "Cos", "Atan", "Sinh", "Asinh", "Softplus", "Softsign", "Mish", "HardSwish", "Gelu", "Selu", "Elu", "Celu", "LeakyRelu", "HardSigmoid")
def float_unary(g, op):
    g.node(op, [g.pick_value(is_float)])


@sampler("Sqrt", "Log", "Reciprocal")
def positive_unary(g, op):
    v = g.pick_value(is_float)
    if v.size and v.array.min() < 0.05:
        v = g.node("Add", [g.node("Abs", [v]), g.constant(np.array(0.5, v.dtype))])
    g.node(op, [v])


@sampler("Add", "Sub", "Mul")
def arithmetic(g, op):
    a = g.pick_value(is_number)
    g.node(op, [a, g.broadcastable(a)], exact=True)


@sampler("Div", "Pow", "Mod")
def quotient(g, op):
    a = g.pick_value(is_number if op != "Pow" else is_float, exact=op == "Mod")
    b = g.constant(np.array(g.choice([1, 2, 3] if op != "Div" or is_int(a) else [0.5, 2, 4]), a.dtype))
    if op == "Pow":
        a = g.node("Abs", [a])
    if op == "Mod" and is_float(a):
        return g.node(op, [a, b], fmod=1, exact=True)
    g.node(op, [a, b], exact=op != "Pow")


@sampler("Min", "Max", "Sum", "Mean")
def variadic(g, op):
    a = g.pick_value(is_float if op in ("Sum", "Mean") else is_number)
    g.node(op, [a] + [g.broadcastable(a) for _ in range(g.int(0, 2))], exact=op != "Mean")


@sampler("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal")
def comparison(g, op):
    a = g.pick_value(is_number, exact=True)
    g.node(op, [a, g.broadcastable(a, exact=True)], exact=True)


@sampler("And", "Or", "Xor")
def logic(g, op):
    a = g.pick_value(lambda v: v.dtype == bool)
    g.node(op, [a, g.broadcastable(a)], exact=True)


@sampler("Not")
def negation(g, op):
    g.node(op, [g.pick_value(lambda v: v.dtype == bool)], exact=True)


@sampler("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bits(g, op):
    a = g.pick_value(is_int)
    g.node(op, [a, g.broadcastable(a)], exact=True)


@sampler("BitwiseNot")
def inversion(g, op):
    g.node(op, [g.pick_value(lambda v: v.dtype.kind == "i")], exact=True)


@sampler("BitShift")
def shift(g, op):
    a = g.pick_value(lambda v: v.dtype.kind == "u")
    g.node(op, [a, g.constant(np.array(g.int(0, 3), a.dtype))], direction=g.choice(["LEFT", "RIGHT"]), exact=True)


@sampler("IsNaN", "IsInf")
def classes(g, op):
    g.node(op, [g.pick_value(lambda v: v.dtype == np.float32)], exact=True)


@sampler("Where")
def where(g, op):
    a = g.pick_value(is_number)
    g.node(op, [g.broadcastable(a, np.dtype(bool)), a, g.broadcastable(a)], exact=True)


@sampler("Clip")
def clip(g, op):
    a = g.pick_value(is_number)
    low, high = sorted([g.int(0, 3), g.int(0, 3)])
    g.node(op, [a, g.operand(np.array(low, a.dtype)), g.operand(np.array(high, a.dtype))], exact=True)


@sampler("Cast")
def cast(g, op):
    a = g.pick_value(lambda v: True, exact=True)
    to = np.dtype(g.choice([g.float, bool, np.int8, np.uint8, np.int32, np.int64]))
    if to.kind == "u" and a.size and a.array.astype(np.float64).min() < 0:
        raise Unfit
    if to.itemsize == 1 and a.size and abs(a.array.astype(np.float64)).max() > 120:
        raise Unfit
    g.node(op, [a], to=g.onnx_type(to), exact=True)


# ---- moves ----
@sampler("Transpose")
def transpose(g, op):
    a = g.pick_value(lambda v: v.ndim > 1)
    g.node(op, [a], perm=[int(k) for k in g.rng.permutation(a.ndim)], exact=True)


@sampler("Reshape")
def reshape(g, op):
    a = g.pick_value(lambda v: True)
    dims, left = [], a.size
    if left == 0:
        g.node(op, [a, g.shape_operand(list(a.shape))], allowzero=1, exact=True)
        return
    while left > 1 and len(dims) < 3:
        d = g.choice([k for k in range(1, left + 1) if left % k == 0])
        dims.append(d)
        left //= d
    dims.append(left)
    if g.chance(0.4):
        dims[g.int(0, len(dims) - 1)] = -1
    elif g.chance(0.3) and a.ndim and dims[0] == a.shape[0]:
        dims[0] = 0
    g.node(op, [a, g.shape_operand(dims)], exact=True)


@sampler("Flatten")
def flatten(g, op):
    a = g.pick_value(lambda v: v.ndim > 0)
    g.node(op, [a], axis=g.int(-a.ndim, a.ndim), exact=True)


@sampler("Squeeze")
def squeeze(g, op):
    a = g.pick_value(lambda v: 1 in v.shape)
    axes = [k for k in range(a.ndim) if a.shape[k] == 1]
    axes = axes[:g.int(1, len(axes))]
    g.node(op, [a, g.shape_operand([k - a.ndim if g.chance() else k for k in axes])], exact=True)


@sampler("Unsqueeze")
def unsqueeze(g, op):
    a = g.pick_value(lambda v: v.ndim < 4)
    count = g.int(1, 2)
    g.node(op, [a, g.shape_operand([int(k) for k in g.rng.choice(a.ndim + count, count, replace=False)])], exact=True)


@sampler("Expand")
def expand(g, op):
    a = g.pick_value(lambda v: v.ndim < 4 and v.size < 200)
    shape = [g.dim(1, 3) if d == 1 else d for d in a.shape]
    g.node(op, [a, g.shape_operand([g.int(1, 3)] * g.int(0, 1) + shape)], exact=True)


@sampler("Tile")
def tile(g, op):
    a = g.pick_value(lambda v: v.ndim > 0 and v.size < 200)
    g.node(op, [a, g.shape_operand([g.dim(1, 2) for _ in a.shape])], exact=True)


@sampler("Concat")
def concat(g, op):
    a = g.pick_value(lambda v: v.ndim > 0)
    axis = axis_of(g, a)
    parts = [a]
    for _ in range(g.int(1, 2)):
        shape = list(a.shape)
        shape[axis] = g.dim(1, 3)
        parts.append(g.fresh(shape, a.dtype) if g.chance() else g.choice([v for v in g.values if v.dtype == a.dtype and v.shape == a.shape]))
    g.node(op, [parts[k] for k in g.rng.permutation(len(parts))], axis=axis, exact=True)


@sampler("Split")
def split(g, op):
    a = g.pick_value(lambda v: v.ndim > 0 and max(v.shape, default=0) > 1)
    axis = g.choice([k for k in range(a.ndim) if a.shape[k] > 1])
    first = g.int(1, a.shape[axis] - 1)
    g.node(op, [a, g.shape_operand([first, a.shape[axis] - first])], outputs=2, axis=axis, exact=True)


@sampler("Slice")
def cut(g, op):
    a = g.pick_value(lambda v: v.ndim > 0)
    axes = [int(k) for k in g.rng.choice(a.ndim, g.int(1, a.ndim), replace=False)]
    starts, ends, steps = [], [], []
    for k in axes:
        d = a.shape[k]
        far = [s * e for e in (2 ** 31, 2 ** 62, 2 ** 63 - 1) for s in (1, -1)] + [-2 ** 63]
        steps.append(g.choice([1, 1, 2, -1, -2, -3, g.choice(far)]))
        starts.append(g.choice([g.int(-d - 1, d + 1)] * 3 + far[:: g.int(1, 3)])), ends.append(g.choice([g.int(-d - 1, d + 1), 2 ** 31 - 1 if steps[-1] > 0 else -2 ** 31, g.choice(far)]))
    if not g.zeros and g.chance(0.9):
        for i, k in enumerate(axes):
            if len(range(*slice(starts[i], ends[i], steps[i]).indices(a.shape[k]))) == 0:
                starts[i], ends[i], steps[i] = 0, 2 ** 31 - 1, 1
    g.node(op, [a, g.shape_operand(starts), g.shape_operand(ends), g.shape_operand([k - a.ndim if g.chance(0.3) else k for k in axes]), g.shape_operand(steps)], exact=True)


@sampler("Pad")
def pad(g, op):
    a = g.pick_value(lambda v: v.ndim > 0 and v.size < 300)
    mode = g.choice(["constant", "constant", "edge", "reflect", "wrap"])
    most = min(a.shape) - 1 if mode == "reflect" else 2
    least = -1 if min(a.shape) > (4 if mode == "reflect" else 2) and g.chance(0.4) else 0
    pads = [g.int(least, min(2, most)) for _ in range(2 * a.ndim)]
    g.node(op, [a, g.shape_operand(pads)] + ([g.operand(np.array(1, a.dtype))] if mode == "constant" and g.chance() else []), mode=mode, exact=True)


@sampler("DepthToSpace", "SpaceToDepth")
def space(g, op):
    b = 2
    a = g.fresh([g.dim(1, 2), 4 * g.dim(1, 2), 2 * g.dim(1, 2), 2 * g.dim(1, 2)], g.float)
    g.node(op, [a], blocksize=b, exact=True)


@sampler("Trilu")
def triangle(g, op):
    a = g.pick_value(lambda v: v.ndim >= 2)
    g.node(op, [a, g.operand(np.array(g.choice([-2, -1, 0, 1, 2, 2 ** 63 - 1, -2 ** 63]), np.int64))], upper=g.int(0, 1), exact=True)


@sampler("ReverseSequence")
def reverse(g, op):
    a = g.pick_value(lambda v: v.ndim >= 2)
    g.node(op, [a, g.operand(np.array([g.int(1, a.shape[0]) for _ in range(a.shape[1])], np.int64))], time_axis=0, batch_axis=1, exact=True)


# ---- gathers and scatters ----
@sampler("Gather")
def gather(g, op):
    a = g.pick_value(lambda v: v.ndim > 0 and v.ndim < 4)
    axis = axis_of(g, a)
    d = a.shape[axis]
    g.node(op, [a, g.operand(g.rng.integers(-d, d, [g.dim(1, 3) for _ in range(g.int(0, 2))]).astype(g.choice([np.int32, np.int64])))], axis=axis, exact=True)


@sampler("GatherElements")
def gather_elements(g, op):
    a = g.pick_value(lambda v: v.ndim > 0)
    axis = axis_of(g, a)
    d, shape = a.shape[axis], [g.int(1, k) for k in a.shape]
    g.node(op, [a, g.operand(g.rng.integers(-d, d, shape))], axis=axis, exact=True)


@sampler("GatherND")
def gather_nd(g, op):
    a = g.pick_value(lambda v: v.ndim > 0)
    m = g.int(1, a.ndim)
    index = np.stack([g.rng.integers(-a.shape[k], a.shape[k], [g.int(1, 3)] if k == 0 else None) if k == 0 else None for k in range(1)], -1)
    count = index.shape[0]
    index = np.stack([g.rng.integers(-a.shape[k], a.shape[k], count) for k in range(m)], -1)
    g.node(op, [a, g.operand(index.astype(np.int64))], exact=True)


@sampler("ScatterElements")
def scatter_elements(g, op):
    a = g.pick_value(lambda v: is_number(v) and v.ndim > 0)
    axis = axis_of(g, a)
    shape = list(a.shape)
    reduction = g.choice(["none", "add", "max", "min"]) if a.dtype == np.float32 else "none"
    if reduction == "none":
        order = np.argsort(g.rng.random(shape), axis)  # no place twice
        g.node(op, [a, g.operand(order.astype(np.int64)), g.fresh(shape, a.dtype)], axis=axis, exact=True)
    else:
        g.node(op, [a, g.operand(g.rng.integers(-a.shape[axis], a.shape[axis], shape)), g.fresh(shape, a.dtype)], axis=axis, reduction=reduction, exact=True)


@sampler("ScatterND")
def scatter_nd(g, op):
    a = g.pick_value(lambda v: is_number(v) and v.ndim > 0)
    count = g.int(1, a.shape[0])
    rows = g.rng.permutation(a.shape[0])[:count].reshape(count, 1)
    g.node(op, [a, g.operand(rows.astype(np.int64)), g.fresh([count, *a.shape[1:]], a.dtype)], exact=True)


@sampler("OneHot")
def one_hot(g, op):
    depth = g.int(1, 5)
    index = g.operand(g.rng.integers(-depth, depth, [g.dim(1, 3) for _ in range(g.int(1, 2))]))
    g.node(op, [index, g.operand(np.array(depth, np.int64)), g.constant(np.array([0, 1], np.float32))], axis=g.int(-1, index.ndim), exact=True)


@sampler("Compress")
def compress(g, op):
    a = g.pick_value(lambda v: v.ndim > 0)
    axis = axis_of(g, a)
    keep = g.rng.random(a.shape[axis]) < 0.6
    if not g.zeros and len(keep):
        keep[0] = True
    g.node(op, [a, g.operand(keep)], axis=axis, exact=True)


@sampler("NonZero")
def non_zero(g, op):
    a = g.pick_value(lambda v: v.ndim > 0 and v.dtype.name in ("float32", "int32", "int64", "bool", "uint8"), exact=True)
    g.node(op, [a], exact=True)


@sampler("Unique")
def unique(g, op):
    a = g.pick_value(lambda v: v.dtype.name in ("float32", "int64", "int8"), exact=True)
    attributes = {"axis": axis_of(g, a)} if a.ndim and g.chance() else {}
    g.node(op, [a], outputs=g.choice([1, 4]), exact=True, **attributes)


@sampler("TopK")
def top_k(g, op):
    a = g.pick_value(lambda v: v.dtype.name in ("float32", "int64", "int32") and v.ndim > 0, exact=True)
    axis = axis_of(g, a)
    if len(np.unique(a.array)) < a.size:  # ties have no order
        a = g.fresh_distinct(a.shape, a.dtype)
    g.node(op, [a, g.shape_operand([g.dim(1, a.shape[axis])])], outputs=2, axis=axis, largest=g.int(0, 1), exact=True)


@sampler("ArgMax", "ArgMin")
def extreme_index(g, op):
    a = g.pick_value(lambda v: v.dtype.name in ("float32", "int32", "float64") and v.ndim > 0, exact=True)
    g.node(op, [a], axis=axis_of(g, a), keepdims=g.int(0, 1), select_last_index=g.int(0, 1), exact=True)


@sampler("Shape", "Size")
def shape_of(g, op):
    g.node(op, [g.pick_value(lambda v: True)], exact=True)


@sampler("ConstantOfShape")
def constant_of_shape(g, op):
    g.node(op, [g.shape_operand([g.dim(1, 3) for _ in range(g.int(0, 3))])], exact=True)


@sampler("Range")
def count(g, op):
    t = g.choice([np.int64, np.float32, np.int32])
    g.node(op, [g.operand(np.array(g.int(-3, 3), t)), g.operand(np.array(g.int(4, 9), t)), g.operand(np.array(g.int(1, 3), t))], exact=True)


@sampler("EyeLike")
def eye(g, op):
    g.node(op, [g.pick_value(lambda v: v.ndim == 2 and is_number(v))], k=g.int(-1, 1), exact=True)


# ---- reductions ----
@sampler("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSumExp")
def reduction(g, op):
    a = g.pick_value(lambda v: (is_float(v) or v.dtype.name in ("int32", "int64") and op in ("ReduceSum", "ReduceMax", "ReduceMin")))
    axes = [int(k) for k in g.rng.permutation(a.ndim)[:g.int(1, a.ndim)]]
    exact = op in ("ReduceSum", "ReduceMax", "ReduceMin")
    operands = [a] + ([g.shape_operand([k - a.ndim if g.chance(0.3) else k for k in axes])] if g.chance(0.8) else [])
    g.node(op, operands, keepdims=g.int(0, 1), exact=exact)


@sampler("CumSum")
def cum_sum(g, op):
    a = g.pick_value(lambda v: v.dtype.name in ("float32", "float64", "int32", "int64") and v.ndim > 0)
    g.node(op, [a, g.operand(np.array(axis_of(g, a), np.int64))], exclusive=g.int(0, 1), reverse=g.int(0, 1), exact=True)


@sampler("Softmax", "LogSoftmax", "Hardmax")
def soft(g, op):
    a = g.pick_value(lambda v: is_float(v) and v.ndim > 0, exact=op == "Hardmax")
    g.node(op, [a], axis=axis_of(g, a))


@sampler("LayerNormalization")
def layer_norm(g, op):
    a = g.pick_value(lambda v: is_float(v) and v.ndim > 0 and v.shape[-1] > 1)
    g.node(op, [a, g.fresh([a.shape[-1]], a.dtype), g.fresh([a.shape[-1]], a.dtype)], axis=-1, epsilon=0.1)


@sampler("LpNormalization")
def lp_norm(g, op):
    a = g.pick_value(lambda v: is_float(v) and v.ndim > 0)
    g.node(op, [g.node("Add", [g.node("Abs", [a]), g.constant(np.array(1, a.dtype))])], axis=axis_of(g, a), p=g.int(1, 2))


@sampler("BatchNormalization", "InstanceNormalization")
def batch_norm(g, op):
    c, t = g.int(1, 4), g.float
    a = g.fresh([g.dim(1, 3), c, g.dim(2, 5), g.dim(1, 4)], t)
    more = [g.fresh([c], t), g.constant(np.abs(g.random([c], t)) + np.dtype(t).type(0.5))] if op[0] == "B" else []
    g.node(op, [a, g.fresh([c], t), g.fresh([c], t), *more], epsilon=0.1)


@sampler("LRN")
def lrn(g, op):
    g.node(op, [g.fresh([1, g.dim(1, 6), g.dim(1, 3), g.dim(1, 3)], np.float32)], size=3)


# ---- contractions and windows ----
@sampler("MatMul")
def matmul(g, op):
    a = g.pick_value(lambda v: is_float(v) and 1 <= v.ndim <= 3)
    k = a.shape[-1]
    b = [k, g.extent(5)] if a.ndim < 3 or g.chance() else [a.shape[0], k, g.extent(5)]
    g.node(op, [a, g.fresh(b, a.dtype)])


@sampler("Gemm")
def gemm(g, op):
    m, k, n, a, b = g.extent(6), g.extent(8), g.extent(6), g.int(0, 1), g.int(0, 1)
    operands = [g.fresh([k, m] if a else [m, k], g.float), g.fresh([n, k] if b else [k, n], g.float)]
    if g.chance(0.7):
        operands.append(g.fresh(g.choice([[n], [1, n], [m, n], [m, 1], []]), g.float))
    g.node(op, operands, transA=a, transB=b, alpha=0.5, beta=2.0)


@sampler("Einsum")
def einsum(g, op):
    equation = g.choice(["ij,jk->ik", "bij,bjk->bik", "i,j->ij", "ij->ji", "bij->b", "ij,ij->i", "abc,cd->abd"])
    dims = {c: g.dim(1, 4) for c in "abcdijk"}
    g.node(op, [g.fresh([dims[c] for c in term], g.float) for term in equation.split("->")[0].split(",")], equation=equation)


@sampler("Conv", "ConvTranspose")
def conv(g, op):
    spatial, group, c, o = g.int(1, 2), g.int(1, 2), g.int(1, 17 if g.large else 3), g.int(1, 20 if g.large else 4)
    kernel = [g.int(1, 3) for _ in range(spatial)]
    x = g.fresh([g.dim(1, 2), group * c, *[g.int(5, 9) for _ in range(spatial)]], g.float)
    w = g.fresh([group * o, c, *kernel] if op == "Conv" else [group * c, o, *kernel], g.float)
    operands = [x, w] + ([g.fresh([group * o], g.float)] if g.chance() else [])
    dilations = [g.int(1, 2) for _ in kernel]
    g.node(op, operands, group=group, strides=[g.int(1, 2) for _ in kernel], dilations=dilations, pads=[g.int(0, 1) for _ in range(2 * spatial)])


@sampler("MaxPool", "AveragePool", "LpPool")
def pool(g, op):
    if op == "MaxPool" and g.float not in (np.float32, np.float64):
        raise Unfit  # ONNX Runtime has no kernel, and ONNX's reference gives another answer than it in float32 in a quarter of 400 samples
    spatial = g.int(1, 2)
    x = g.fresh([g.dim(1, 2), g.dim(1, 18 if g.large else 3), *[g.int(4, 8) for _ in range(spatial)]], g.float)
    kernel = [g.int(2, 3) for _ in range(spatial)]
    attributes = {"ceil_mode": g.int(0, 1)} if op != "LpPool" else {}
    if op == "AveragePool":
        attributes["count_include_pad"] = g.int(0, 1)
    g.node(op, [x], kernel_shape=kernel, strides=[g.int(1, 2) for _ in kernel], pads=[g.int(0, 1) for _ in range(2 * spatial)], **attributes)


@sampler("GlobalAveragePool", "GlobalMaxPool")
def global_pool(g, op):
    g.node(op, [g.fresh([g.dim(1, 2), g.dim(1, 3), g.dim(1, 5), g.dim(1, 5)], g.float)])


@sampler("Resize")
def resize(g, op):
    h, w = g.int(2, 5), g.int(2, 5)
    x = g.fresh([1, g.dim(1, 2), h, w], np.float32)
    mode = g.choice(["nearest", "linear", "cubic"])
    # Not pytorch_half_pixel: where one element is left, ONNX Runtime looks elsewhere than ONNX's reference.
    how = {"coordinate_transformation_mode": g.choice(["half_pixel", "asymmetric", "align_corners"]), "mode": mode}
    if mode == "nearest":
        how |= {"nearest_mode": g.choice(["floor", "round_prefer_floor"]), "coordinate_transformation_mode": "asymmetric"}
    sizes = [x.shape[0], x.shape[1], g.int(1, 9), g.int(1, 9)]
    if g.chance():
        g.node(op, [x, None, None, g.shape_operand(sizes)], **how)
    else:
        # Where half of an odd length is a fraction, the corners that are aligned lie elsewhere for ONNX Runtime than for ONNX's reference.
        smaller = [0.5] if h % 2 == 0 or how["coordinate_transformation_mode"] != "align_corners" else []
        g.node(op, [x, None, g.operand(np.array([1, 1, g.choice([*smaller, 2, 3]), g.choice([1, 2, 4])], np.float32))], **how)


@sampler("LSTM", "GRU", "RNN")
def recurrent(g, op):
    t, b, i, h, gates = g.dim(1, 4), g.dim(1, 3), g.dim(1, 4), g.int(1, 4), {"LSTM": 4, "GRU": 3, "RNN": 1}[op]
    direction = g.choice(["forward", "reverse", "bidirectional"])
    d = 2 if direction == "bidirectional" else 1
    operands = [g.fresh([t, b, i], np.float32), g.fresh([d, gates * h, i], np.float32), g.fresh([d, gates * h, h], np.float32)]
    if g.chance():
        operands.append(g.fresh([d, 2 * gates * h], np.float32))
        if g.chance():
            operands.append(g.operand(g.rng.integers(1, t + 1, b).astype(np.int32)))
    attributes = {"linear_before_reset": g.int(0, 1)} if op == "GRU" else {}
    g.node(op, operands, outputs=2, hidden_size=h, direction=direction, **attributes)


# ---- quantised ----
@sampler("QuantizeLinear")
def quantize(g, op):
    a = g.pick_value(lambda v: v.dtype == np.float32, exact=True)
    g.node(op, [a, g.operand(np.array(0.5, np.float32)), g.operand(np.array(g.int(0, 9), g.choice([np.int8, np.uint8])))], exact=True)


@sampler("DequantizeLinear")
def dequantize(g, op):
    a = g.pick_value(lambda v: v.dtype.name in ("int8", "uint8"))
    g.node(op, [a, g.operand(np.array(0.25, np.float32)), g.operand(np.array(g.int(0, 9), a.dtype))], exact=True)


@sampler("MatMulInteger")
def matmul_integer(g, op):
    m, k, n = g.extent(5), g.extent(9), g.extent(5)
    a, b = np.uint8, g.choice([np.int8, np.uint8])
    operands = [g.fresh([m, k], a), g.fresh([k, n], b)]
    if g.chance():
        operands += [g.operand(np.array(g.int(0, 5), a)), g.operand(np.array(g.int(0, 5), b))]
    g.node(op, operands, exact=True)


@sampler("DynamicQuantizeLinear")
def dynamic_quantize(g, op):
    a = g.pick_value(lambda v: v.dtype == np.float32 and v.size > 0 and v.array.max() != v.array.min(), exact=True)
    g.node(op, [a], outputs=3)


# ---- control flow ----
@sampler("If")
def branch(g, op):
    a = g.pick_value(lambda v: is_float(v))
    g.branch(g.operand(np.array(g.chance())), a)


@sampler("Loop")
def loop(g, op):
    a = g.pick_value(lambda v: v.dtype == np.float32 and v.size < 100)
    g.loop(g.shape_operand([g.dim(1, 4)], scalar=True), a)



@sampler("Scan")
def scan(g, op):
    a = g.pick_value(lambda v: v.dtype == np.float32 and v.ndim > 0 and v.size < 200)
    g.scan(a, g.fresh(a.shape[1:], a.dtype))


# ---- images ----
@sampler("GridSample")
def grid_sample(g, op):
    n, h, w = g.dim(1, 2), g.dim(1, 5), g.dim(1, 5)
    x = g.fresh([n, g.dim(1, 3), g.dim(2, 6), g.dim(2, 6)], np.float32)
    grid = g.new_input((g.rng.random((n, h, w, 2)) * 2.4 - 1.2).astype(np.float32))
    mode = g.choice(["linear", "cubic"])  # at borders ONNX Runtime moves both coordinates where one is outside: seen with four taps
    g.node(op, [x, grid], mode=mode, padding_mode=g.choice(["zeros", "reflection"] if mode == "cubic" else ["zeros", "border", "reflection"]), align_corners=g.int(0, 1))


@sampler("AffineGrid")
def affine_grid(g, op):
    n = g.int(1, 2)
    g.node(op, [g.fresh([n, 2, 3], np.float32), g.shape_operand([n, 1, g.int(2, 5), g.int(2, 5)])], align_corners=g.int(0, 1))


@sampler("RoiAlign")
def roi_align(g, op):
    n, count = g.int(1, 2), g.dim(1, 3)
    pixels = g.int if count else g.dim  # rectangles of an image without pixels are refused
    x = g.fresh([n, g.dim(1, 3), pixels(3, 7), pixels(3, 7)], np.float32)
    low = g.rng.random((count, 2)) * 3
    rois = g.new_input(np.concatenate([low, low + 0.3 + 3 * g.rng.random((count, 2))], 1).astype(np.float32))
    g.node(op, [x, rois, g.operand(g.rng.integers(0, n, count))], output_height=g.int(1, 3), output_width=g.int(1, 3), sampling_ratio=g.int(0, 3), mode=g.choice(["avg", "max"]),
           spatial_scale=g.choice([1.0, 0.5]), coordinate_transformation_mode=g.choice(["half_pixel", "output_half_pixel"]))


@sampler("MaxRoiPool")
def max_roi_pool(g, op):
    n, count = g.int(1, 2), g.dim(1, 3)
    pixels = g.int if count else g.dim
    x = g.fresh([n, g.dim(1, 3), pixels(3, 7), pixels(3, 7)], np.float32)
    low = g.rng.integers(0, 3, (count, 2))
    rois = np.concatenate([g.rng.integers(0, n, (count, 1)), low, low + g.rng.integers(0, 4, (count, 2))], 1)
    g.node(op, [x, g.new_input(rois.astype(np.float32))], pooled_shape=[g.int(1, 3), g.int(1, 3)], exact=True)


@sampler("NonMaxSuppression")
def non_max_suppression(g, op):
    n, classes, boxes = g.dim(1, 2), g.dim(1, 3), g.dim(1, 8)
    low = g.rng.integers(0, 8, (n, boxes, 2))
    corners = np.concatenate([low, low + g.rng.integers(1, 6, (n, boxes, 2))], 2).astype(np.float32)
    scores = (g.rng.permutation(n * classes * boxes).reshape(n, classes, boxes) / 64 + 0.25).astype(np.float32)
    g.node(op, [g.new_input(corners), g.new_input(scores), g.shape_operand([g.int(1, 4)]), g.operand(np.array([0.45], np.float32)), g.operand(np.array([0.2], np.float32))], exact=True)


@sampler("Col2Im")
def col_to_im(g, op):
    c, kernel, image = g.int(1, 2), [g.int(1, 2), g.int(1, 3)], [g.int(3, 5), g.int(3, 5)]
    blocks = (image[0] - kernel[0] + 1) * (image[1] - kernel[1] + 1)
    g.node(op, [g.fresh([1, c * kernel[0] * kernel[1], blocks], np.float32), g.shape_operand(image), g.shape_operand(kernel)], exact=True)


@sampler("CenterCropPad")
def center_crop_pad(g, op):
    a = g.pick_value(lambda v: v.ndim > 0 and v.size < 200)
    g.node(op, [a, g.shape_operand([g.int(1, 5) for _ in a.shape])], exact=True)


# ---- signals and matrices ----
@sampler("DFT")
def dft(g, op):
    x = g.fresh([g.dim(1, 2), g.extent(6, 2), g.dim(1, 3), g.dim(1, 2)], np.float32)
    g.node(op, [x, None, g.operand(np.array(g.choice([1, 2, -2, -3]), np.int64))], inverse=g.int(0, 1))


@sampler("HannWindow", "HammingWindow", "BlackmanWindow")
def window(g, op):
    g.node(op, [g.operand(np.array(g.int(2, 9), np.int64))], periodic=g.int(0, 1))


@sampler("MelWeightMatrix")
def mel(g, op):
    bins, length = g.int(2, 6), g.choice([16, 32])
    g.node(op, [g.operand(np.array(v, t)) for v, t in ((bins, np.int64), (length, np.int64), (8000, np.int64), (10.0, np.float32), (3900.0, np.float32))])


@sampler("Det")
def det(g, op):
    n = g.int(1, 3)
    g.node(op, [g.fresh([g.dim(1, 3), n, n], np.float32)])


@sampler("MeanVarianceNormalization")
def mean_variance(g, op):
    g.node(op, [g.fresh([g.dim(2, 3), g.dim(1, 3), g.dim(2, 5), g.dim(2, 4)], np.float32)])


@sampler("TfIdfVectorizer")
def n_grams(g, op):
    x = g.operand(g.rng.integers(0, 4, [g.int(1, 3), g.int(1, 8)] if g.chance() else [g.int(1, 8)]))
    pool, pairs = [0, 2, 3], [int(k) for k in g.rng.permutation(16)[:3]]
    g.node(op, [x], mode=g.choice(["TF", "IDF", "TFIDF"]), pool_int64s=pool + [t for p in pairs for t in (p // 4, p % 4)], ngram_counts=[0, 3], ngram_indexes=[int(k) for k in g.rng.permutation(6)],
           min_gram_length=1, max_gram_length=g.int(1, 2), max_skip_count=g.int(0, 2), weights=[0.5 * k for k in range(1, 7)])


@sampler("QLinearMatMul")
def quantised_matmul(g, op):
    m, k, n, t = g.extent(5), g.extent(9), g.extent(5), g.choice([np.uint8, np.int8])
    def scale(v):
        return g.operand(np.array(v, np.float32))
    g.node(op, [g.fresh([m, k], t), scale(0.5), g.operand(np.array(1, t)), g.fresh([k, n], t), scale(0.25), g.operand(np.array(2, t)), scale(0.5), g.operand(np.array(3, t))], exact=True)


@sampler("ConvInteger", "QLinearConv")
def quantised_conv(g, op):
    c, o = g.int(1, 18 if g.large else 3), g.int(1, 4)
    x, w = g.fresh([g.dim(1, 2), c, g.int(4, 8), g.int(4, 8)], np.uint8), g.fresh([o, c, g.int(1, 3), g.int(1, 3)], np.uint8)
    def number(v, t=np.uint8):
        return g.operand(np.array(v, t))
    if op == "ConvInteger":
        return g.node(op, [x, w, number(1), number(2)], pads=[1, 0, 0, 1], exact=True)
    g.node(op, [x, number(0.5, np.float32), number(1), w, number(0.25, np.float32), number(2), number(0.5, np.float32), number(3)], strides=[g.int(1, 2), 1], exact=True)
