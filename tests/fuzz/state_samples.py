"""States of random graphs: what a model hands to its next run, and how it makes the next value out of the last one.

A sampler gets a StateGraph (state_graphs.py) and a State and returns the value that is the next run's; it raises Unfit where
the values at hand do not do. UPDATES keep a state's shape, GROWTHS make it longer along State.axis.
"""
import numpy as np

from extremes import is_float
from operator_samples import Unfit, is_int

UPDATES, GROWTHS = {}, {}


def update(function):
    UPDATES[function.__name__] = function
    return function


def growth(function):
    GROWTHS[function.__name__] = function
    return function


def halved(g, v):
    """Of floats half, so that what adds up stays small."""
    return g.node("Mul", [v, g.constant(np.array(0.5, v.dtype))], exact=True, hidden=True) if is_float(v) else v


def like(g, v):
    """A value of this shape: of the graph's, or fresh."""
    found = [o for o in g.values if o.dtype == v.dtype and o.shape == v.shape and o.name != v.name]
    return g.choice(found) if found and g.chance(0.6) else g.fresh(v.shape, v.dtype)


def moving_axis(g, v, least=1):
    axes = [k for k in range(v.ndim) if v.shape[k] >= least]
    return g.choice(axes)


def ends(g, v, axis, first, last):
    """v[first:last] along the axis."""
    numbers = [g.constant(np.array([n], np.int64)) for n in (first, last, axis)]
    return g.node("Slice", [v, *numbers], exact=True, hidden=True)


# ---- element by element ----
@update
def same(g, s):
    return g.node("Identity", [s], exact=True)


@update
def replaced(g, s):
    return g.node("Identity", [like(g, s)], exact=True)


@update
def summed(g, s):
    if s.dtype == bool:
        return g.node(g.choice(["And", "Or", "Xor"]), [s, like(g, s)], exact=True)
    return g.node(g.choice(["Add", "Sub", "Max", "Min"]), [halved(g, s), g.broadcastable(s) if g.chance() else like(g, s)], exact=True)


@update
def counted(g, s):
    if s.dtype == bool:
        return g.node("Not", [s], exact=True)
    return g.node("Add", [s, g.constant(np.array(1, s.dtype))], exact=True)


@update
def chosen(g, s):
    if s.dtype == bool:
        raise Unfit
    return g.node("Where", [g.broadcastable(s, np.dtype(bool)), *(v for v in ([s, like(g, s)] if g.chance() else [like(g, s), s]))], exact=True)


@update
def scaled_by_itself(g, s):
    """By what all of its elements are together."""
    if not is_float(s) or not s.ndim:
        raise Unfit
    axis = g.constant(np.array([moving_axis(g, s)], np.int64))
    mean = g.node("ReduceMean", [s, axis], keepdims=1)
    return g.node("Add", [halved(g, g.node("Sub", [s, mean])), like(g, s)])


# ---- elements that move ----
@update
def reversed_order(g, s):
    axis = moving_axis(g, s)
    numbers = [g.constant(np.array([n], np.int64)) for n in (-1, -2 ** 31, axis, -1)]
    return mixed(g, s, g.node("Slice", [s, *numbers], exact=True))


@update
def transposed(g, s):
    pairs = [(i, k) for i in range(s.ndim) for k in range(i) if s.shape[i] == s.shape[k]]
    i, k = g.choice(pairs)
    perm = list(range(s.ndim))
    perm[i], perm[k] = k, i
    return mixed(g, s, g.node("Transpose", [s], perm=perm, exact=True))


@update
def rolled(g, s):
    axis = moving_axis(g, s, 2)
    at = g.int(1, s.shape[axis] - 1)
    return mixed(g, s, g.node("Concat", [ends(g, s, axis, at, 2 ** 31), ends(g, s, axis, 0, at)], axis=axis, exact=True))


@update
def gathered(g, s):
    axis = moving_axis(g, s)
    places = g.rng.integers(0, s.shape[axis], s.shape[axis]) if g.chance() else g.rng.permutation(s.shape[axis])
    return mixed(g, s, g.node("Gather", [s, g.operand(places)], axis=axis, exact=True))


@update
def summed_along(g, s):
    if not is_float(s) or s.dtype.itemsize < 4 or not s.ndim:
        raise Unfit
    return halved(g, g.node("CumSum", [s, g.constant(np.array(moving_axis(g, s)))]))


@update
def multiplied(g, s):
    """h = tanh(h w + x), as recurrent networks have it."""
    if not is_float(s) or not 1 <= s.ndim <= 3:
        raise Unfit
    w = g.constant(g.random([s.shape[-1], s.shape[-1]], s.dtype) / np.array(4, s.dtype))
    return g.node("Tanh", [g.node("Add", [g.node("MatMul", [s, w]), like(g, s)])])


@update
def recurrent(g, s):
    if s.dtype != np.float32 or s.ndim != 3 or s.shape[0] != 1:
        raise Unfit
    hidden, size, length = s.shape[2], g.int(1, 3), g.int(1, 3)
    x = g.fresh([length, s.shape[1], size], s.dtype)
    w, r = (g.constant(g.random([1, 3 * hidden, k], s.dtype) / np.float32(4)) for k in (size, hidden))
    g.node("GRU", [x, w, r, None, None, s], outputs=2, hidden_size=hidden, linear_before_reset=1)
    return g.steps[-1].outputs[1]


def mixed(g, s, moved):
    """Alone, or with something new."""
    if g.chance(0.4) or s.dtype == bool:
        return moved
    return g.node("Add", [halved(g, moved), g.choice([s, like(g, s)]) if not is_float(s) or g.chance() else halved(g, s)], exact=True)


# ---- windows ----
@update
def shifted(g, s):
    """The last samples: old ones go out in front."""
    axis = moving_axis(g, s)
    shape = list(s.shape)
    if g.chance():  # as many as come
        whole = g.node("Concat", [s, g.chunk(shape, axis, s.dtype)], axis=axis, exact=True)
        return ends(g, whole, axis, -s.shape[axis], 2 ** 31)
    shape[axis] = g.int(1, s.shape[axis])
    return g.node("Concat", [ends(g, s, axis, shape[axis], 2 ** 31), g.fresh(shape, s.dtype)], axis=axis, exact=True)


@update
def convolved(g, s):
    """What a streaming convolution keeps: the last kernel - 1 samples."""
    if s.ndim != 3 or not is_float(s) or not s.size:
        raise Unfit
    n, c, kept = s.shape
    x = g.chunk([n, c, 3], 2, s.dtype)
    whole = g.node("Concat", [s, x], axis=2, exact=True)
    groups = c if g.chance(0.4) else 1
    g.node("Conv", [whole, g.constant(g.random([c if groups > 1 else g.int(1, 4), c // groups, kept + 1], s.dtype))], group=groups)
    return ends(g, whole, 2, -kept, 2 ** 31)


# ---- some elements are written ----
@update
def written_nd(g, s):
    axis = 0
    if not s.ndim or not s.shape[axis]:
        raise Unfit
    rows = g.rng.permutation(s.shape[0])[:g.int(1, s.shape[0])].reshape(-1, 1)
    return g.node("ScatterND", [s, g.operand(rows), g.fresh([len(rows), *s.shape[1:]], s.dtype)], exact=True)


@update
def written_elements(g, s):
    axis = moving_axis(g, s)
    places = g.rng.permutation(s.shape[axis])[:g.int(1, s.shape[axis])]
    shape = [len(places) if k == axis else d for k, d in enumerate(s.shape)]
    index = np.broadcast_to(places.reshape([-1 if k == axis else 1 for k in range(s.ndim)]), shape).copy()
    return g.node("ScatterElements", [s, g.operand(index), g.fresh(shape, s.dtype)], axis=axis, exact=True)


@update
def written_ring(g, s):
    if s.ndim != 4 or not all(s.shape) or g.opset < 24:
        raise Unfit
    fresh = g.int(1, s.shape[2])
    return g.node("TensorScatter", [s, g.fresh([s.shape[0], s.shape[1], fresh, s.shape[3]], s.dtype), g.operand(g.rng.integers(0, s.shape[2], s.shape[0]))],
                  mode="circular", exact=True)


@update
def written_where_counted(g, s):
    """A ring whose place another state counts."""
    counter = g.choice([v for v in g.values if v.dtype == np.int64 and v.size == 1 and v.name in g.state_names])
    if s.ndim < 1 or not s.shape[0]:
        raise Unfit
    place = g.node("Mod", [g.node("Reshape", [counter, g.constant(np.array([1, 1]))], exact=True), g.constant(np.array(s.shape[0]))], exact=True)
    return g.node("ScatterND", [s, place, g.fresh([1, *s.shape[1:]], s.dtype)], exact=True)


# ---- longer ----
@growth
def behind(g, s):
    return g.node("Concat", [s, g.more(s)], axis=s.axis, exact=True)


@growth
def negative_axis(g, s):
    return g.node("Concat", [s, g.more(s)], axis=s.axis - s.ndim, exact=True)


@growth
def in_front(g, s):
    return g.node("Concat", [g.more(s), s], axis=s.axis, exact=True)


@growth
def computed_behind(g, s):
    """What is put behind it is made in the graph, now and then out of the state itself."""
    x = g.more(s)
    if is_float(s) and s.axis != s.ndim - 1 and g.chance():
        x = g.node("MatMul", [x, g.constant(g.random([s.shape[-1], s.shape[-1]], s.dtype) / np.array(4, s.dtype))])
    else:
        x = g.node("Neg", [x], exact=True) if s.dtype.kind != "b" and s.dtype.kind != "u" else g.node("Identity", [x], exact=True)
    if is_float(s) and g.chance(0.3):
        x = g.node("Add", [x, g.node("ReduceSum", [halved(g, s), g.constant(np.array([s.axis]))], keepdims=1)])
    return g.node("Concat", [s, x], axis=s.axis, exact=True)


@growth
def changed_behind(g, s):
    """The old part is not what it was."""
    if s.dtype == bool:
        raise Unfit
    old = halved(g, s) if is_float(s) else g.node("Max", [s, g.constant(np.array(1, s.dtype))], exact=True)
    return g.node("Concat", [old, g.more(s)], axis=s.axis, exact=True)


@growth
def changed_afterwards(g, s):
    whole = g.node("Concat", [s, g.more(s)], axis=s.axis, exact=True)
    return g.node("Identity", [whole], exact=True) if g.chance() or not is_float(s) else halved(g, whole)


@growth
def of_another_view(g, s):
    """A Transpose before the Concat, and one behind it."""
    perm = [int(k) for k in g.rng.permutation(s.ndim)]
    back = [perm.index(k) for k in range(s.ndim)]
    parts = [g.node("Transpose", [v], perm=perm, exact=True, hidden=True) for v in (s, g.more(s))]
    whole = g.node("Concat", parts, axis=back[s.axis], exact=True)
    return g.node("Transpose", [whole], perm=back, exact=True)


# ---- what reads a state that grows ----
def read_grown(g, v, axis):
    """Readers that do for any length."""
    kind = g.choice(["sum", "max", "scores", "softmax", "last", "first", "scaled", "transposed", "counted", "windows", "all but the last", "twice"])
    if kind == "sum" and is_float(v):
        g.node(g.choice(["ReduceSum", "ReduceMean"]), [v, g.constant(np.array([axis]))], keepdims=g.int(0, 1))
    elif kind == "max" and not v.dtype == bool:
        g.node("ReduceMax", [v, g.constant(np.array([axis]))], keepdims=g.int(0, 1), exact=True)
    elif kind == "scores" and is_float(v) and v.ndim > 1:
        along = v.ndim - 1 if axis != v.ndim - 1 else v.ndim - 2
        turned = g.node("Transpose", [v], perm=[*(k for k in range(v.ndim) if k not in (along, axis)), along, axis], exact=True, hidden=True)
        q = g.fresh([*turned.shape[:-2], g.int(1, 3), turned.shape[-2]], v.dtype)
        scores = g.node("Softmax", [g.node("MatMul", [q, turned])], axis=-1)
        g.node("MatMul", [scores, g.node("Transpose", [turned], perm=[*range(turned.ndim - 2), turned.ndim - 1, turned.ndim - 2], exact=True, hidden=True)])
    elif kind == "softmax" and is_float(v):
        g.node("Softmax", [v], axis=axis)
    elif kind in ("last", "first"):
        g.node("Gather", [v, g.constant(np.array([-1] if kind == "last" else [0]))], axis=axis, exact=True)
    elif kind == "scaled" and (is_float(v) or is_int(v)):
        g.node("Mul", [v, g.fresh([1] * v.ndim, v.dtype)], exact=True)
    elif kind == "transposed" and v.ndim > 1:
        g.node("Transpose", [v], perm=[int(k) for k in g.rng.permutation(v.ndim)], exact=True)
    elif kind == "counted" and v.dtype.name in ("float32", "int32", "int64"):
        g.node("CumSum", [v, g.constant(np.array(axis))], exact=True)
    elif kind == "windows" and v.ndim == 3 and axis == 2 and is_float(v):
        g.node("Conv", [v, g.constant(g.random([2, v.shape[1], 1], v.dtype))])
    elif kind == "all but the last":
        ends(g, v, axis, 0, -1)
    elif kind == "twice":
        g.node("Concat", [v, v], axis=g.int(0, v.ndim - 1), exact=True)
