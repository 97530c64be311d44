"""metac.Var: a value that is there or is yet to be computed. Nothing runs until one is looked at."""
import builtins
import operator as _operator

from . import _metac, op
from .errors import ArgumentError, DTypeError

_DTYPES = _metac.dtypes


def dtype_name(dtype):
    """The name of a dtype that is given as a name, a NumPy dtype or scalar type, or a type of Python's."""
    if dtype in (builtins.float, builtins.int, builtins.bool):
        return {builtins.float: "float32", builtins.int: "int64", builtins.bool: "bool"}[dtype]
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", str(dtype))
    if name not in _DTYPES:
        raise DTypeError(f"there is no dtype {name!r}; there are {', '.join(_DTYPES)}")
    return name


def array(value, dtype=None):
    """A Var of an array's elements, which are copied. Lists and numbers of Python are float32, int64 or bool, or `dtype`."""
    if isinstance(value, Var):
        return value if dtype is None else value.astype(dtype)
    number = None if dtype is None else _DTYPES[dtype_name(dtype)]
    if isinstance(value, (list, tuple, builtins.int, builtins.float)):
        import numpy
        given = numpy.asarray(value)
        if dtype is None:
            dtype = {"f": "float32", "i": "int64", "b": "bool"}.get(given.dtype.kind)
        if dtype is not None and dtype_name(dtype) != "bfloat16":
            return _metac.array(given.astype(dtype_name(dtype)), -1, False)
        return _metac.array(given.astype("float32"), -1, False).astype(dtype)
    var = _metac.array(value, -1, False)
    return var if number is None else _metac.cast(var, number)


def _axes(axis, rank):
    """The axes as a list, None for all."""
    if axis is None:
        return None
    axes = list(axis) if isinstance(axis, (list, tuple)) else [axis]
    for each in axes:
        if not -rank <= each < rank:
            raise ArgumentError(f"axis {each} of a value of rank {rank}")
    return [each % rank for each in axes]


def _reduction(name):
    function = getattr(op, name)

    counts = name in ("ReduceSum", "ReduceProd")
    averages = name == "ReduceMean"

    def reduced(self, axis=None, keepdims=False):
        if (counts or averages) and self.dtype[:3] not in ("flo", "bfl"):
            if averages:
                self = self.astype("float32")
            elif self.dtype == "bool":
                self = self.astype("int64")
        axes = _axes(axis, self.ndim)
        if axes is None:
            return function(self, keepdims=builtins.int(keepdims))
        return function(self, axes, keepdims=builtins.int(keepdims)) if axes else self
    reduced.__name__ = name
    reduced.__doc__ = (f"{name} over `axis`: a number, several, or all (None). Truths are counted, the mean of integers "
                       "is float32.")
    return reduced


def _unary(name):
    function = getattr(op, name)

    def applied(self):
        return function(self)
    applied.__name__ = name
    applied.__doc__ = f"{name}, element by element."
    return applied


class Var(_metac.VarBase):
    """A value of fixed shape and dtype. Made by metac.array() and by operators; looked at by numpy(), item() or print()."""

    __slots__ = ()
    __array_ufunc__ = None  # an array of NumPy's beside a Var leaves the operator to the Var

    # ---- looking
    def numpy(self, copy=False):
        """The elements as an array of NumPy's; without `copy` it lies in the Var's memory and cannot be written."""
        import numpy
        made = numpy.asarray(_metac.read(self))
        if copy:
            return made.copy()
        made.flags.writeable = False
        return made

    def __array__(self, dtype=None, copy=None):
        made = self.numpy(copy=bool(copy))
        return made if dtype is None else made.astype(dtype)

    def item(self):
        """The only element, as a number of Python's."""
        if self.size != 1:
            raise ArgumentError(f"item() of a Var of shape {self.shape}, which has {self.size} elements")
        return self.astype("float32").item() if self.dtype == "bfloat16" else self.numpy().item()

    def tolist(self):
        """The elements as nested lists."""
        return self.astype("float32").tolist() if self.dtype == "bfloat16" else self.numpy().tolist()

    def evaluate(self):
        """Has it computed, and returns it."""
        _metac.evaluate((self,))
        return self

    def __float__(self):
        return float(self.item())

    def __int__(self):
        return int(self.item())

    def __bool__(self):
        return bool(self.item())

    def __index__(self):
        return _operator.index(self.item())

    def __repr__(self):
        import numpy
        values = self.astype("float32").numpy() if self.dtype == "bfloat16" else self.numpy()
        text = numpy.array2string(values, separator=", ", precision=4, threshold=100, prefix="metac.Var(")
        return f"metac.Var({text}, shape={self.shape}, dtype={self.dtype})"

    # ---- shape
    @property
    def size(self):
        """The number of elements."""
        count = 1
        for dim in self.shape:
            count *= dim
        return count

    @property
    def T(self):
        """With its axes in reverse order."""
        return op.Transpose(self)

    def __len__(self):
        if not self.ndim:
            raise TypeError("len() of a Var of rank 0")
        return self.shape[0]

    def __iter__(self):
        return (self[k] for k in range(len(self)))

    def reshape(self, *shape):
        """The same elements in another shape, one dim of which may be -1."""
        if len(shape) == 1 and isinstance(shape[0], (list, tuple)):
            shape = shape[0]
        return op.Reshape(self, [builtins.int(dim) for dim in shape], allowzero=1)

    def flatten(self, start=0):
        """The axes from `start` on as one."""
        return self.reshape(*self.shape[:start], -1)

    def transpose(self, *axes):
        """Axes in another order; without any, in reverse order."""
        if len(axes) == 1 and isinstance(axes[0], (list, tuple)):
            axes = axes[0]
        return op.Transpose(self, perm=[axis % self.ndim for axis in axes]) if axes else self.T

    def unsqueeze(self, axis):
        """With an axis of length 1 there."""
        return op.Unsqueeze(self, [axis])

    def squeeze(self, axis=None):
        """Without axes of length 1."""
        axes = _axes(axis, self.ndim)
        return op.Squeeze(self) if axes is None else op.Squeeze(self, axes)

    def broadcast_to(self, *shape):
        """Repeated along axes of length 1."""
        if len(shape) == 1 and isinstance(shape[0], (list, tuple)):
            shape = shape[0]
        return op.Expand(self, list(shape))

    def astype(self, dtype):
        """In another dtype."""
        return _metac.cast(self, _DTYPES[dtype_name(dtype)])

    def __getitem__(self, key):
        from .indexing import indexed
        return indexed(self, key)

    # ---- meta-operators (docs/json_ir.md), in whose bodies i0, i1, ... are indices
    def reindex(self, shape, indices, **more):
        """out[i] = self[indices(i)] for i over `shape`, 0 where an index is outside: reindex((n, 3), ("i0", "2-i1"))."""
        return op.metac.reindex(self, shape=[str(dim) for dim in shape], indices=list(indices), **more)

    def reindex_reduce(self, shape, indices, reduce="add", **more):
        """out[indices(j)] += self[j] for j over this shape, or another `reduce`: mul, max, min."""
        return op.metac.reindex_reduce(self, shape=[str(dim) for dim in shape], indices=list(indices), reduce=reduce, **more)

    # ---- derivatives and versions
    def assign(self, value):
        """Becomes `value`, through which no derivative passes: the next version of a weight. Shape and dtype stay."""
        _metac.assign(self, value if isinstance(value, Var) else array(value, self.dtype))
        return self

    def stop_grad(self):
        """The same value, which no derivative passes."""
        return op.metac.stop_gradient(self)

    def stop_fuse(self):
        """The same value, across which nothing is fused: it lies in memory."""
        return op.metac.stop_fuse(self)

    # ---- reductions
    sum, mean, max, min, prod = (_reduction("Reduce" + name) for name in ("Sum", "Mean", "Max", "Min", "Prod"))

    def var(self, axis=None, keepdims=False, correction=0):
        """The variance over `axis`."""
        deviation = self - self.mean(axis, keepdims=True)
        squares = deviation * deviation
        if not correction:
            return squares.mean(axis, keepdims)
        count = self.size
        if axis is not None:
            count = 1
            for each in _axes(axis, self.ndim):
                count *= self.shape[each]
        return squares.sum(axis, keepdims) / builtins.float(count - correction)

    def argmax(self, axis=None, keepdims=False):
        """The index of the greatest element along `axis`, or of all."""
        return self.flatten().argmax(0) if axis is None else op.ArgMax(self, axis=axis, keepdims=builtins.int(keepdims))

    def argmin(self, axis=None, keepdims=False):
        """The index of the least element along `axis`, or of all."""
        return self.flatten().argmin(0) if axis is None else op.ArgMin(self, axis=axis, keepdims=builtins.int(keepdims))

    def softmax(self, axis=-1):
        """exp(x) over its sum along `axis`."""
        return op.Softmax(self, axis=axis)

    def log_softmax(self, axis=-1):
        """The logarithm of softmax."""
        return op.LogSoftmax(self, axis=axis)

    # ---- element by element
    exp, log, sqrt, tanh, sigmoid, relu, sin, cos, abs, floor, ceil, round, sign, erf, softplus = (
        _unary(name) for name in ("Exp", "Log", "Sqrt", "Tanh", "Sigmoid", "Relu", "Sin", "Cos", "Abs", "Floor", "Ceil",
                                  "Round", "Sign", "Erf", "Softplus"))

    def clip(self, least=None, most=None):
        """No less than `least` and no more than `most`."""
        return op.Clip(self, least, most)


def grad(y, xs):
    """The derivatives of the sum of y by each of xs, a list of Vars (or one Var: then one derivative is returned).

    They are Vars like others: grad() of them is the next order. Raises ArgumentError where y does not depend on one of xs.
    """
    return _metac.gradient(y, (xs,))[0] if isinstance(xs, Var) else list(_metac.gradient(y, tuple(xs)))


def vjp(y, xs, seed):
    """The products of `seed`, which has the shape of y, with the derivatives of y by each of xs."""
    return grad(y * seed, xs)


def jvp(y, xs, tangents):
    """The derivative of y along `tangents`, which have the shapes of xs."""
    one = isinstance(xs, Var)
    xs, tangents = ([xs], [tangents]) if one else (xs, tangents)
    seed = op.Expand(array(0, y.dtype), list(y.shape))
    products = grad(y * seed, xs)  # linear in the seed, so that its derivative by it is the product asked for
    along = None
    for product, tangent in zip(products, tangents):
        term = (product * tangent).sum()
        along = term if along is None else along + term
    return grad(along, seed)


def checkpoint(function, *inputs):
    """function(*inputs), whose inner values derivatives compute again instead of keeping them: less memory for more time.

    What lies between the inputs that are Vars and the results, a Var or several, is computed a second time. Random
    operators (Dropout) and recurrent layers are kept: they run once."""
    results = function(*inputs)
    one = isinstance(results, Var)
    made = tuple(results) if isinstance(results, (list, tuple)) else (results,)
    for each in made:
        if not isinstance(each, Var):
            raise DTypeError(f"the function of checkpoint() returned a {type(each).__name__}; it must return Vars")
    given = [each for each in inputs if isinstance(each, Var)]
    same = op.metac.checkpoint(*made, *given, results=len(made), outputs=len(made))
    return same[0] if one else same


def evaluate(*vars):
    """Has all of these computed, in one program where they share something."""
    _metac.evaluate(vars[0] if len(vars) == 1 and isinstance(vars[0], (list, tuple)) else vars)


def fetch(*vars_and_callback):
    """fetch(loss, accuracy, callback) calls callback(loss, accuracy), with arrays of NumPy's, once a look has computed all of
    these, and at once where they are there: a loop hears its losses without waiting for them.

    Calls come on the thread that looks, those of one look in the order of fetch(); what the callback raises is printed and
    goes no further. The Vars are held until then; sync() has everything computed that is waited for."""
    *vars, callback = vars_and_callback
    if not vars or not callable(callback):
        raise DTypeError("fetch() takes Vars and, last, a function")

    def done(arrays):
        import numpy
        made = [numpy.asarray(each) for each in arrays]
        for each in made:
            each.flags.writeable = False
        callback(*made)
    _metac.fetch(vars, done)


def sync():
    """Has everything computed that fetch() waits for."""
    _metac.sync()


class no_grad:
    """with metac.no_grad(): no derivative passes what this thread writes in the block."""

    def __enter__(self):
        self._before = _metac.no_grad(True)
        return self

    def __exit__(self, *_):
        _metac.no_grad(self._before)


import os as _os  # noqa: E402

_metac.use_var_type(Var, _os.path.dirname(_os.path.abspath(__file__)) + _os.sep)
