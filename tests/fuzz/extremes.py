"""Numbers at the edges of their types: where wrong code shows first."""
import ml_dtypes
import numpy as np

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
SMALL = 1e3  # of what arithmetic is asked of beyond selections; beyond, sums depend on their order


def is_float(v):
    return v.dtype.kind == "f" or v.dtype == BFLOAT16


def is_exact(array):
    """Whether arithmetic on these numbers rounds nowhere: small multiples of 1/16, NaN and infinities."""
    if not is_float(array):
        return True
    array = array.astype(np.float64)
    finite = array[np.isfinite(array)]
    return bool(np.all(np.abs(finite) < 2 ** 10) and np.all(finite * 16 == np.floor(finite * 16)))


def is_wild(array):
    """Not finite, or large, or so small that it has lost digits."""
    if array.dtype == bool:
        return False
    if not is_float(array):
        return bool(np.any(array > 2 ** 20) or np.any(array < -2 ** 20)) if array.dtype.itemsize > 2 else False
    magnitude = np.abs(array.astype(np.float64))
    return not bool(np.all(magnitude < SMALL))


def edges(dtype, huge=True):
    dtype = np.dtype(dtype)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        found = {info.min, info.min + 1, info.max, info.max - 1, info.max // 2, info.max // 2 + 1, 0, 1}
        found |= {s * e + d for e in (2 ** 31, 2 ** 32, 2 ** 53, 2 ** 62, 2 ** 63) for s in (1, -1) for d in (-1, 0, 1)}
        return np.array(sorted(v for v in found if info.min <= v <= info.max), dtype)
    info = ml_dtypes.finfo(dtype)
    numbers = [np.inf, -np.inf, np.nan, -0.0, 0.0, float(info.smallest_subnormal), -float(info.smallest_subnormal), float(info.smallest_normal)]
    return np.array(numbers + [float(info.max), float(info.min), float(info.max) / 3, 2.0 ** 15] * huge).astype(dtype)


def with_edges(rng, array, share=0.2, huge=True):
    """Some of its elements become edges of the type."""
    if array.dtype == bool or array.size == 0:
        return array
    array = np.array(array)
    found = edges(array.dtype, huge)
    places = rng.random(array.shape) < share
    array[places] = found[rng.integers(0, len(found), int(places.sum()))]
    return array
