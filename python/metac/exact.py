"""Lists and numbers of Python as arrays. They have no dtype of their own, so they become what the model wants where that
changes no value, and are refused where it would."""
from .errors import DTypeError


def array_of(value, dtype, what):
    """An object with the buffer protocol for `value`, which has neither that nor DLPack.

    dtype: the model's word for its elements, such as "float32" or "bfloat16", whose bits come back as uint16; None where
    the model does not say. what: 'input "x"', for messages. Raises DTypeError.
    """
    plain = isinstance(value, (list, tuple, int, float))
    if not plain and not hasattr(value, "__array__"):
        raise DTypeError(f"{what} is of type {type(value).__name__}, which is no array: it has neither "
                         "the buffer protocol nor __dlpack__")
    try:
        import numpy
    except ImportError:
        raise DTypeError(f"{what} is of type {type(value).__name__}: lists and numbers are taken where NumPy is installed; "
                         "array.array and memoryview need nothing") from None
    try:
        given = numpy.asarray(value)
    except ValueError as error:  # lists of different lengths
        raise DTypeError(f"{what} is no array: {error}") from None
    if given.dtype.kind not in "biuf":
        raise DTypeError(f"{what} holds {given.dtype}, the model wants {dtype or 'numbers or truth values'}")
    if not plain or dtype is None:
        return given
    if dtype == "bfloat16":
        bits = _exact(numpy, given, "float32", dtype, what).view(numpy.uint32)
        _refuse(numpy, bits & 0xFFFF != 0, given, dtype, what)
        return (bits >> 16).astype(numpy.uint16)
    return _exact(numpy, given, dtype, dtype, what)


def _exact(numpy, given, dtype, named, what):
    wanted = numpy.dtype(dtype)
    if given.size == 0 or given.dtype == wanted:
        return given.astype(wanted)
    if (given.dtype.kind == "b") != (wanted.kind == "b") or given.dtype.kind == "f" and wanted.kind != "f":
        raise DTypeError(f"{what} is a list or number of {given.dtype}, the model wants {named}")
    with numpy.errstate(all="ignore"):
        converted = given.astype(wanted)
    if given.dtype.kind == "f":
        differ = (converted != given) & ~numpy.isnan(given)
    elif wanted.kind == "f":  # compared as integers: as floats both would be rounded alike
        pairs = zip(converted.ravel().tolist(), given.ravel().tolist())
        differ = numpy.array([c in (float("inf"), float("-inf")) or int(c) != g for c, g in pairs]).reshape(given.shape)
    else:
        limits = numpy.iinfo(wanted)
        differ = (given < limits.min) | (given > limits.max)
    _refuse(numpy, differ, given, named, what)
    return converted


def _refuse(numpy, differ, given, named, what):
    if differ.any():
        first = tuple(int(k) for k in numpy.argwhere(differ)[0])
        raise DTypeError(f"{what}: its element {list(first)}, {given[first]}, is not exact in the model's {named}; "
                         f"give an array of {named} if it may be rounded")
