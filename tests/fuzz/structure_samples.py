"""Samplers of more than a node: wide and deep graphs, values read twice a hundred times over, functions of functions, and integers
that other nodes compute."""
import numpy as np

from extremes import is_float
from operator_samples import Unfit, is_int, is_number, sampler


def computed(g, array):
    """These few integers, out of what is known at run time alone."""
    flat, shape = array.reshape(-1), array.shape
    way = g.choice(["sum", "place", "shape", "true", "least"])
    if way == "sum":
        more = g.rng.integers(0, 4, [2, len(flat)])
        rest = flat - more.sum(0) if np.all(flat > -2 ** 62) else flat - 0 * more.sum(0)
        parts = np.stack([*(more if np.all(flat > -2 ** 62) else 0 * more), rest])
        v = g.node("ReduceSum", [g.new_input(parts), g.constant(np.array([0]))], keepdims=0, exact=True)
    elif way == "least":
        v = g.node("ReduceMin", [g.new_input(np.stack([np.maximum(flat, flat + g.int(0, 3)), flat])), g.constant(np.array([0]))], keepdims=0, exact=True)
    elif way == "place" and np.all((flat > -12) & (flat < 12)):
        scores = g.rng.random([len(flat), 12]).astype(np.float32)
        scores[np.arange(len(flat)), np.abs(flat)] = 2
        v = g.node("ArgMax", [g.new_input(scores)], axis=1, keepdims=0, exact=True)
        if np.any(flat < 0):
            v = g.node("Mul", [v, g.constant(np.sign(flat))], exact=True)
    elif way == "true" and len(flat) == 1 and 0 <= flat[0] < 20:
        mask = np.zeros(g.int(int(flat[0]) + 1, 20), np.uint8)
        mask[flat[0]] = 1
        v = g.node("Reshape", [g.node("NonZero", [g.new_input(mask)], exact=True), g.constant(np.array([1]))], exact=True)
    elif way == "shape":
        v = g.pick_value(lambda v: v.ndim > 0)
        dims = g.node("Gather", [g.node("Shape", [v], exact=True), g.constant(g.rng.integers(0, v.ndim, len(flat)))], exact=True)
        if np.any((flat < -2 ** 62) | (flat > 2 ** 62)):
            raise Unfit  # of other extents the sum would wrap around
        v = g.node("Add", [dims, g.constant(flat - dims.array)], exact=True)
    else:
        return g.new_input(array)
    if v.shape == shape and g.chance(0.1):
        return v  # of so many numbers as only a shape says: what decides a rank is refused where that is open
    return g.node("Reshape", [v, g.constant(np.array(shape, np.int64))], exact=True)


@sampler("wide Concat", "wide Sum", "wide Max", "wide Min", "wide Mean")
def wide(g, op):
    op = op.split()[1]
    a = g.pick_value(lambda v: v.size < 40 and (v.ndim > 0 if op == "Concat" else is_float(v) and v.dtype.itemsize > 2 if op in ("Sum", "Mean") else is_number(v)))
    same = [v for v in g.values if v.dtype == a.dtype and v.shape == a.shape and v.wild <= a.wild] + [g.fresh(a.shape, a.dtype) for _ in range(g.int(1, 4))]
    axis = {"axis": g.int(-a.ndim, a.ndim - 1)} if op == "Concat" else {}
    g.node(op, [g.choice(same) for _ in range(g.choice([20, 33, 65, 130, 257, 400]))], exact=op != "Mean", **axis)


def link(g, v, kind):
    """One step of a chain that keeps numbers small: what it makes of v."""
    def number(k):
        return g.constant(np.array(k, v.dtype))

    def node(op, *operands, **more):
        return g.node(op, list(operands), exact=True, hidden=True, **more)
    two = 2 if is_int(v) else 0.5
    return {"mean": lambda: node("Add", node("Mul", v, number(0.5)), node("Mul", v, number(0.5))), "max": lambda: node("Max", v, v), "min": lambda: node("Min", v, v),
            "fold": lambda: node("Sub", node("Max", v, number(1)), node("Min", v, number(1))), "choice": lambda: node("Where", node("Less", v, number(1)), v, node("Min", v, number(3))),
            "square": lambda: node("Min", node("Mul", v, v), number(2)), "sum": lambda: node("Mod", node("Add", v, v), number(5), **({"fmod": 1} if is_float(v) else {})),
            "halves": lambda: node("Sub", v, node("Mul", v, number(0.5)) if is_float(v) else node("Div", v, number(two))), "bound": lambda: node("Clip", v, number(0), number(3)),
            "transpose": lambda: node("Transpose", v, perm=list(range(v.ndim))[::-1]), "same": lambda: node("Identity", v)}[kind]()


def chain(g, v, count, kinds):
    """Only the last of its values goes on."""
    known = list(g.values)
    for _ in range(count):
        v = link(g, v, g.choice(kinds))
    g.values[:] = known + [v]
    return v


READ_TWICE = ["mean", "max", "min", "fold", "choice", "square", "sum", "halves"]


def ends(g, v):
    """A kernel of another kind behind a chain."""
    kind = g.choice(["none", "MatMul", "Softmax", "ReduceSum", "ReduceMax", "Gather", "Concat", "TopK", "Conv", "CumSum", "Slice", "Expand", "Scatter"])
    if kind == "MatMul" and is_float(v) and v.ndim:
        g.node("MatMul", [v, g.fresh([v.shape[-1], g.dim(1, 5)], v.dtype)])
    elif kind == "Softmax" and is_float(v) and v.ndim:
        g.node("Softmax", [v], axis=-1)
    elif kind in ("ReduceSum", "ReduceMax"):
        g.node(kind, [v], keepdims=g.int(0, 1), exact=True)
    elif kind == "Gather" and v.ndim and v.shape[0]:
        g.node("Gather", [v, g.operand(g.rng.integers(0, v.shape[0], g.int(1, 3)))], exact=True)
    elif kind == "Concat" and v.ndim:
        g.node("Concat", [v, v], axis=0, exact=True)
    elif kind == "TopK" and v.ndim and v.exact and len(np.unique(v.array)) == v.size:
        g.node("TopK", [v, g.shape_operand([g.int(1, v.shape[-1])])], outputs=2, exact=True)
    elif kind == "Conv" and v.ndim == 3 and is_float(v):
        g.node("Conv", [v, g.fresh([2, v.shape[1], 1], v.dtype)])
    elif kind == "CumSum" and v.ndim and v.dtype.name in ("float32", "float64", "int32", "int64"):
        g.node("CumSum", [v, g.constant(np.array(0))], exact=True)
    elif kind == "Slice" and v.ndim:
        g.node("Slice", [v, g.shape_operand([g.int(-2, 1)]), g.shape_operand([2 ** 63 - 1])], exact=True)
    elif kind == "Expand":
        g.node("Expand", [v, g.shape_operand([g.int(1, 3), *v.shape])], exact=True)
    elif kind == "Scatter" and v.ndim and v.shape[0] and v.dtype == np.float32:
        g.node("ScatterND", [v, g.operand(np.array([[0], [v.shape[0] - 1]])), g.fresh([2, *v.shape[1:]], v.dtype)], reduction="add", exact=True)


def begins(g, kinds):
    """A value behind a kernel of some kind, or any."""
    if g.chance(0.3):
        a = g.fresh([g.extent(4), g.extent(6)], np.float32)
        return g.node("MatMul", [a, g.fresh([a.shape[1], g.extent(4)], np.float32)]) if g.chance() else g.node("ReduceMax", [a, g.constant(np.array([1]))], exact=True)
    return g.pick_value(lambda v: v.dtype.name in kinds and v.size < 300)


@sampler("shared")
def shared(g, op):
    """v = f(v, v), 60 deep: 2^60 readings of the first."""
    v = begins(g, ("float32", "float64", "int32", "int64"))
    kinds = [k for k in READ_TWICE if v.exact or k not in ("choice", "sum", "fold", "bound", "square")]  # squares double a rounding each
    if is_int(v):
        kinds = [k for k in kinds if k not in ("mean", "square", "sum")]
    if v.wild:
        kinds = [k for k in kinds if k in ("max", "min", "choice")]
    ends(g, chain(g, v, g.choice([20, 60, 60, 61]), [g.choice(kinds) for _ in range(g.int(1, 3))]))


@sampler("deep")
def deep(g, op):
    v = begins(g, ("float32", "int32", "int64"))
    kinds = ["max", "halves", "bound", "same"] + (["transpose"] if 2 <= v.ndim and max(v.shape, default=0) < 9 else []) + (["mean"] if is_float(v) else [])
    if v.wild:
        kinds = ["max", "bound", "same"]
    ends(g, chain(g, v, g.choice([30, 100, 250]), kinds))


@sampler("composed")
def composed(g, op):
    """Two or three functions of one another, on values of 1 to 100 elements, of which nothing but the last is stored."""
    dtype = np.dtype(g.choice([np.float32] * 4 + [np.float64, np.int32, np.int64, np.uint8, np.int8, np.uint64]))
    shape = g.choice([[g.int(1, 100)], [g.int(1, 100)], [g.int(1, 10), g.int(1, 33)], []])
    v = g.fresh(shape, dtype)
    exact = ["Abs", "Sign", "Max", "Min", "Where", "Clip", "Less", "Add", "Sub", "Mul", "Identity", "IsNaN"]
    if dtype.kind != "u":
        exact += ["Neg", "Relu"]
    rounded = []
    if is_float(v):
        exact += ["Floor", "Ceil", "Round", "Not less"]
        rounded = ["Exp", "Tanh", "Sigmoid", "Sqrt of Abs", "LeakyRelu", "Elu", "Softplus", "HardSigmoid", "Erf", "Atan", "Div"]
    for _ in range(g.int(2, 4)):
        name = g.choice(exact + rounded if v.exact else ["Max", "Min", "Abs", "Neg", "Relu", "Clip", "Add", "Mul", *rounded])
        v = compose(g, name, v, shape)
    if v.ndim and g.chance(0.3) and is_number(v) and not (v.wild and is_float(v)):
        reductions = ["ReduceSum", "ReduceMax", "ReduceMin"] + ["ReduceL1", "ReduceMean"] * is_float(v)
        if v.dtype.itemsize > 2 and v.dtype.kind != "u":
            v = g.node(g.choice(reductions), [v], keepdims=g.int(0, 1), exact=True)
            if is_float(v) or v.dtype.kind == "i":
                g.node(g.choice(["Relu", "Abs", "Neg"]), [v], exact=True)


def compose(g, name, v, shape):
    def other():
        return g.choice([v, g.constant(np.array(g.int(0, 3), v.dtype)), g.constant(np.array(0, v.dtype)), g.fresh(g.choice([shape, [1] * len(shape), []]), v.dtype)])

    def node(op, *operands, **more):
        return g.node(op, list(operands), exact=True, hidden=g.chance(0.9), **more)
    if name in ("Max", "Min", "Add", "Sub", "Mul"):
        return node(name, *(pair if g.chance() else pair[::-1])) if (pair := [v, other()]) else None
    if name == "Div":
        return node("Div", v, g.constant(np.array(g.choice([2, 4, -0.5]), v.dtype)))
    if name == "Where":
        return node("Where", g.fresh(shape, bool), *([v, other()] if g.chance() else [other(), v]))
    if name == "Less":
        return node("Where", node(g.choice(["Less", "Greater", "LessOrEqual", "GreaterOrEqual", "Equal"]), v, other()), v, other())
    if name == "Not less":
        return node("Where", node("Not", node("Less", other(), v)), other(), v)
    if name == "IsNaN":
        return node("Where", node("IsNaN", v), other(), v) if v.dtype == np.float32 else v
    if name == "Clip":
        low, high = sorted([g.int(0, 3), g.int(0, 3)])
        return node("Clip", v, g.constant(np.array(low, v.dtype)), None if not v.wild and g.chance() else g.constant(np.array(high, v.dtype)))  # without, ONNX Runtime makes the largest finite number of infinity
    if name == "Sqrt of Abs":
        return node("Sqrt", node("Abs", v))
    return node(name, v)


@sampler("grouped")
def grouped(g, op):
    """An image whose channels are flattened with its points, in groups, and back: normalised, reduced, or computed element by element
    in between."""
    if g.opset < 18:  # axes are inputs from here on
        raise Unfit
    groups, size = g.choice([(4, 4), (8, 2), (2, 8), (16, 2), (8, 4), (3, 5), (1, 16), (6, 1)])
    images, channels, height, width = g.int(1, 3), groups * size, g.int(1, 17), g.int(1, 17)
    v = g.fresh([images, 3, height, width], np.float32)
    if v.wild:
        raise Unfit
    v = g.node("Conv", [v, g.constant(g.random([channels, 3, 1, 1], np.dtype(np.float32)))]) if g.chance(0.7) else g.fresh([images, channels, height, width], np.float32)
    if v.wild:
        raise Unfit
    shape = g.node("Shape", [v], exact=True, hidden=True)
    if g.chance(0.3):
        v = g.node("Relu", [v], hidden=True)
    flat = g.node("Reshape", [v, g.constant(np.array(g.choice([[0, groups, -1], [images, groups, -1], [0, groups, size, -1], [-1, size * height * width]])))], hidden=g.chance())
    last = {"axis": -1}
    axes = g.constant(np.array([-1]))
    kind = g.choice(["norm", "deviation", "deviation", "Softmax", "ReduceMax", "ReduceSum", "Mul"])
    if kind == "norm" and flat.ndim > 2:
        flat = g.node("InstanceNormalization", [flat, g.fresh([groups], np.float32), g.fresh([groups], np.float32)], hidden=g.chance())
    elif kind in ("norm", "deviation"):
        apart = g.node("Sub", [flat, g.node("ReduceMean", [flat, axes], hidden=True)], hidden=g.chance())
        square = g.node("ReduceMean", [g.node("Mul", [apart, apart], hidden=True), axes], hidden=g.chance())
        flat = g.node("Div", [apart, g.node("Sqrt", [g.node("Add", [square, g.constant(np.array(0.1, np.float32))], hidden=True)], hidden=True)], hidden=g.chance())
    elif kind == "Softmax":
        flat = g.node("Softmax", [flat], hidden=g.chance(), **last)
    else:
        other = flat if kind == "Mul" else g.node(kind, [flat, axes], hidden=g.chance())
        flat = g.node("Mul" if kind == "Mul" else "Sub", [flat, other], hidden=g.chance())
    v = g.node("Reshape", [flat, shape], hidden=g.chance())
    if g.chance(0.8):
        v = g.node("Mul", [v, g.fresh([channels, 1, 1], np.float32)], hidden=g.chance())
        v = g.node("Add", [v, g.operand(g.random([channels, 1, 1], np.dtype(np.float32)))], hidden=g.chance())
    end = g.choice(["none", "Relu", "pool", "Conv", "tokens"])
    if end == "Relu":
        g.node("Mul", [v, g.node("Sigmoid", [v], hidden=True)])
    elif end == "pool":
        g.node("ReduceMean", [v, g.constant(np.array([2, 3]))])
    elif end == "Conv":
        g.node("Conv", [v, g.constant(g.random([4, channels, 3, 3], np.dtype(np.float32)))], pads=[1, 1, 1, 1])
    elif end == "tokens":
        rows = g.node("Transpose", [g.node("Reshape", [v, g.constant(np.array([0, channels, -1]))], hidden=True)], hidden=g.chance(), perm=[0, 2, 1])
        g.node("MatMul", [rows, g.constant(g.random([channels, 5], np.dtype(np.float32)))])
