"""x[key] for Vars, with NumPy's basic indices: numbers, slices, ..., None; and one Var, array or list of integers.

Of a value that is yet to be computed, slices are part of the structure, so that they fuse. Of one that exists, such as the
images of a data set, what is taken is data: a loop over batches x[i:i + 32] repeats one program.
"""
from . import _metac, op
from .errors import ArgumentError, DTypeError


def indexed(x, key):
    from .var import Var, array
    keys = _expanded(key, x.ndim)
    exists = _metac.exists(x)
    slices = []    # (axis, start, stop, step) of what is cut out
    takes = []     # (axis, start, step, count) of what is taken by data
    numbers = []   # axes that go
    lists = []     # (axis, Var)
    new_axes = []  # in the result
    axis = place = 0
    for each in keys:
        if each is None:
            new_axes.append(place)
            place += 1
            continue
        dim = x.shape[axis]
        if isinstance(each, slice):
            start, stop, step = each.indices(dim)
            count = len(range(start, stop, step))
            if (count, step) != (dim, 1):
                (takes if exists and count else slices).append((axis, start, step, count))
            place += 1
        elif isinstance(each, (Var, list)) or getattr(each, "ndim", 0):
            index = array(each)
            lists.append((axis, index))
            place += index.ndim
        else:
            number = _position(each, dim, axis)
            (takes if exists else slices).append((axis, number, 1, 1))
            numbers.append(axis)
        axis += 1
    if len(lists) > 1:
        raise ArgumentError("an index has more than one list or Var")
    if slices:
        x = op.Slice(x, [start for _, start, _, _ in slices], [_end(*each) for each in slices],
                     [axis for axis, *_ in slices], [step for _, _, step, _ in slices])
    for axis, start, step, count in takes:
        x = op.Gather(x, _data_range(start, step, count), axis=axis)
    if numbers:
        x = op.Squeeze(x, numbers)
    for axis, index in lists:
        x = op.Gather(x, index, axis=axis - sum(1 for number in numbers if number < axis))
    return op.Unsqueeze(x, new_axes) if new_axes else x


def _expanded(key, rank):
    """One entry for each axis, and None where one is new."""
    keys = list(key) if isinstance(key, tuple) else [key]
    dots = [k for k, each in enumerate(keys) if each is Ellipsis]
    if len(dots) > 1:
        raise ArgumentError("an index has more than one ...")
    used = sum(1 for each in keys if each is not None and each is not Ellipsis)
    if used > rank:
        raise ArgumentError(f"an index of {used} axes; the value has {rank}")
    fill = [slice(None)] * (rank - used)
    return keys[:dots[0]] + fill + keys[dots[0] + 1:] if dots else keys + fill


def _position(number, dim, axis):
    try:
        number = number.__index__()
    except AttributeError:
        raise DTypeError(f"an index of type {type(number).__name__}") from None
    if not -dim <= number < dim:
        raise IndexError(f"index {number} along axis {axis}, which has {dim}")
    return number % dim


def _end(axis, start, step, count):
    """Where Slice stops; below 0 means from the end, so that "before the first" is a number that nothing reaches."""
    end = start + step * count
    return end if end >= 0 else -(2 ** 62)


def _data_range(first, step, count):
    """Indices as data, so that another place is the same program."""
    import numpy
    return _metac.array(numpy.arange(first, first + step * count, step, dtype=numpy.int64), -1, False)
