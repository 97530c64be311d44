#!/usr/bin/env python3
"""Integers at the edges of their types, as data and as what shapes an answer, against plain Python integers.

    python3 compare_integers.py --metac build/release/bin/metac [--samples N] [--seed S] [--only REGEX] [--known ranks|shapes|values] [--keep DIR]
    needs: pip install numpy onnx onnxruntime

Data wraps around, quotients and remainders by 0 are 0, and shifts by the width or more give 0 (compiler/ir/scalar_functions.def). Every operand
is a constant in some samples and known only at run time in others. One line a failure; the last line is 'N passed, N failed'.
"""
import argparse
import pathlib
import random
import re
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import reference_cases  # noqa: E402

DTYPES = [np.dtype(t) for t in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")]
MIN, MAX = -(2**63), 2**63 - 1


def extremes(dtype):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    near = [0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, 2**63]
    all_of_them = {low, low + 1, high - 1, high} | {s * n for n in near for s in (1, -1)} | {-3}
    return sorted(v for v in all_of_them if low <= v <= high)


def wrap(value, dtype):
    bits, signed = dtype.itemsize * 8, dtype.kind == "i"
    value &= 2**bits - 1
    return value - 2**bits if signed and value >> (bits - 1) else value


def truncated(a, b):
    quotient = abs(a) // abs(b) if b else 0
    return -quotient if (a < 0) != (b < 0) else quotient


# ---- functions of elements: name -> (on Python integers, the types that ONNX has them for) ----
ANY, SIGNED, UNSIGNED = "iu", "i", "u"
UNARY = {"Neg": (lambda a: -a, SIGNED), "Abs": (abs, ANY), "Sign": (lambda a: (a > 0) - (a < 0), ANY), "BitwiseNot": (lambda a: ~a, ANY)}
BINARY = {
    "Add": (lambda a, b: a + b, ANY), "Sub": (lambda a, b: a - b, ANY), "Mul": (lambda a, b: a * b, ANY), "Div": (truncated, ANY),
    "Mod": (lambda a, b: a % b if b else 0, ANY), "Fmod": (lambda a, b: a - truncated(a, b) * b if b else 0, ANY),
    "Min": (min, ANY), "Max": (max, ANY), "BitwiseAnd": (lambda a, b: a & b, ANY), "BitwiseOr": (lambda a, b: a | b, ANY),
    "BitwiseXor": (lambda a, b: a ^ b, ANY), "BitShiftLeft": (lambda a, b: a << b if b < 64 else 0, UNSIGNED),
    "BitShiftRight": (lambda a, b: a >> b, UNSIGNED),
}
COMPARISONS = {
    "Equal": lambda a, b: a == b, "Less": lambda a, b: a < b, "LessOrEqual": lambda a, b: a <= b, "Greater": lambda a, b: a > b,
    "GreaterOrEqual": lambda a, b: a >= b,
}
ATTRIBUTES = {"Fmod": ("Mod", {"fmod": 1}), "BitShiftLeft": ("BitShift", {"direction": "LEFT"}), "BitShiftRight": ("BitShift", {"direction": "RIGHT"})}


DIVISIONS = ("Div", "Mod", "Fmod")


def refused(s, divisor):
    """A constant divisor of 0 is the model's mistake, also where it is computed: scalars are constants here."""
    return (divisor[0] in s.weights or divisor[1].ndim == 0) and not np.all(divisor[1])


class Sample:
    """A model as it grows, with the answers of its values beside it."""

    def __init__(self, rng):
        self.rng, self.nodes, self.feeds, self.weights, self.answers, self.count = rng, [], {}, {}, {}, 0

    def name(self):
        self.count += 1
        return f"v{self.count}"

    def value(self, array, constant=None):
        """An input or a constant; without `constant`: either."""
        name, array = self.name(), np.asarray(array)
        target = self.weights if (self.rng.random() < 0.5 if constant is None else constant) else self.feeds
        target[name] = array
        return name, array

    def node(self, op, inputs, answer, **attributes):
        out = self.name()
        op, more = ATTRIBUTES.get(op, (op, {}))
        self.nodes.append(helper.make_node(op, inputs, [out], **more, **attributes))
        self.answers[out] = answer
        return out, answer

    def apply(self, op, *operands):
        """A function of elements of (name, array) pairs."""
        names, arrays = [n for n, _ in operands], [a for _, a in operands]
        dtype = np.dtype(bool) if op in COMPARISONS else arrays[0].dtype
        function = COMPARISONS.get(op) or (UNARY.get(op) or BINARY.get(op))[0]
        rows = [function(*map(int, row)) for row in zip(*(a.ravel() for a in np.broadcast_arrays(*arrays)))]
        rows = rows if op in COMPARISONS else [wrap(r, dtype) for r in rows]
        return self.node(op, names, np.array(rows, dtype).reshape(np.broadcast_shapes(*(a.shape for a in arrays))))


def functions_of(dtype, table):
    return [op for op, (_, kinds) in table.items() if dtype.kind in kinds]


def element_functions(s, dtype):
    """One function on every pair of extremes: both at run time, each a constant, both constants."""
    values = np.array(extremes(dtype), dtype)
    op = s.rng.choice(functions_of(dtype, UNARY) + functions_of(dtype, BINARY) + 3 * list(COMPARISONS))
    if op in UNARY:
        s.apply(op, s.value(values, False)), s.apply(op, s.value(values, True))
        return
    data = s.value(values, False)
    s.apply(op, (data[0], data[1]), s.value(values[:, None], False))
    some = values[values != 0][:8] if op in DIVISIONS else values[:8]
    s.apply(op, s.value(some, True), s.value(some[:, None], True))
    for v in values:
        one = s.value(np.array(v, dtype), True)
        s.apply(op, one, data)
        if not (op in DIVISIONS and refused(s, one)):
            s.apply(op, data, one)


def chains(s, dtype):
    """Functions of functions, which fuse and simplify, and what a comparison of them picks."""
    values = extremes(dtype)
    leaves = [s.value(np.array([s.rng.choice(values) for _ in range(40)], dtype), False) for _ in range(2)]

    def tree(depth):
        if depth == 0 or s.rng.random() < 0.15:
            return s.rng.choice(leaves) if s.rng.random() < 0.6 else s.value(np.array(s.rng.choice(values), dtype), True)
        op = s.rng.choice(functions_of(dtype, UNARY) + 2 * functions_of(dtype, BINARY))
        operands = [tree(depth - 1) for _ in range(1 if op in UNARY else 2)]
        return operands[0] if op in DIVISIONS and refused(s, operands[1]) else s.apply(op, *operands)

    for _ in range(6):
        a, b, c = tree(2), tree(2), tree(1)
        test = s.apply(s.rng.choice(list(COMPARISONS)), a, b)
        picked = np.where(test[1], a[1], c[1])
        s.node("Where", [test[0], a[0], c[0]], picked)


def clips(s, dtype):
    values = extremes(dtype)
    data = s.value(np.array(values, dtype), False)
    for _ in range(6):
        low, high = (s.value(np.array(s.rng.choice(values), dtype)) for _ in range(2))
        s.node("Clip", [data[0], low[0], high[0]], np.minimum(np.maximum(data[1], low[1]), high[1]))


def casts(s, dtype):
    data = s.value(np.array(extremes(dtype), dtype))
    for to in DTYPES:
        answer = np.array([wrap(int(v), to) for v in data[1]], to)
        s.node("Cast", [data[0]], answer, to=helper.np_dtype_to_tensor_dtype(to))
    there = DTYPES[s.rng.randrange(len(DTYPES))]
    narrow = s.node("Cast", [data[0]], np.array([wrap(int(v), there) for v in data[1]], there), to=helper.np_dtype_to_tensor_dtype(there))
    back = s.node("Cast", [narrow[0]], np.array([wrap(int(v), dtype) for v in narrow[1]], dtype), to=helper.np_dtype_to_tensor_dtype(dtype))
    for op in COMPARISONS:
        s.apply(op, data, back)


def reductions(s, dtype):
    """What begins with the least or the greatest value; sums and products that wrap; orders."""
    dtype = s.rng.choice([np.dtype("int32"), np.dtype("int64")])
    values = extremes(dtype)
    rows = [[min(values)] * 9, [max(values)] * 9] + [[s.rng.choice(values) for _ in range(9)] for _ in range(4)]
    x = s.value(np.array(rows, dtype), False)
    axes = s.value(np.array([s.rng.choice([1, -1])], np.int64))[0]
    s.node("ReduceMin", [x[0], axes], x[1].min(1), keepdims=0)
    s.node("ReduceMax", [x[0], axes], x[1].max(1), keepdims=0)
    s.node("ReduceSum", [x[0], axes], np.array([wrap(sum(r), dtype) for r in rows], dtype), keepdims=0)
    product = [1] * len(rows)
    for k, row in enumerate(rows):
        for v in row:
            product[k] *= v
    s.node("ReduceProd", [x[0], axes], np.array([wrap(p, dtype) for p in product], dtype), keepdims=0)
    s.node("ArgMax", [x[0]], x[1].argmax(1), axis=1, keepdims=0)
    s.node("ArgMin", [x[0]], x[1].argmin(1), axis=1, keepdims=0)
    sums = [[wrap(sum(r[: k + 1]), dtype) for k in range(9)] for r in rows]
    s.node("CumSum", [x[0], s.value(np.array(s.rng.choice([1, -1]), np.int64))[0]], np.array(sums, dtype))
    largest = s.rng.random() < 0.5
    k = s.rng.randint(1, 9)
    top, order = s.name(), s.name()
    s.nodes.append(helper.make_node("TopK", [x[0], s.value(np.array([k], np.int64))[0]], [top, order], axis=1, largest=int(largest)))
    s.answers[top] = np.array([sorted(r, reverse=largest)[:k] for r in rows], dtype)


# ---- integers that shape an answer ----
def near(rng, extent):
    """A position, in or out of an extent, or as far out as 64 bits go."""
    return rng.choice([MIN, MIN + 1, -(2**62), -(2**31), MAX, MAX - 1, 2**62, 2**31, *range(-extent - 2, extent + 3)])


def positions(extent, start, end, step):
    """The elements that Slice takes, as ONNX defines it."""
    start, end = (v + extent if v < 0 else v for v in (start, end))
    low, high = (0, extent) if step > 0 else (-1, extent - 1)
    start = min(max(start, 0), high)
    end = min(max(end, low), extent)
    return list(range(start, end, step)) if extent else []


def slices(s, _):
    shape = [s.rng.randint(1, 6) for _ in range(s.rng.randint(1, 3))]
    data = s.value(np.arange(np.prod(shape)).reshape(shape).astype(np.float32), False)
    for _ in range(3):
        axes = sorted(s.rng.sample(range(len(shape)), s.rng.randint(1, len(shape))))
        starts, ends = ([near(s.rng, shape[a]) for a in axes] for _ in range(2))
        steps = [s.rng.choice([1, 1, -1, -1, 2, -3, MAX, MIN, MIN + 1, 2**40]) for _ in axes]
        answer = data[1]
        for a, *bounds in zip(axes, starts, ends, steps):
            answer = np.take(answer, np.array(positions(shape[a], *bounds), np.int64), a)
        operands = [s.value(np.array(v, np.int64))[0] for v in (starts, ends)]
        operands += [s.value(np.array([a - s.rng.choice([0, len(shape)]) for a in axes], np.int64), s.rng.random() < 0.7)[0]]
        operands += [s.value(np.array(steps, np.int64))[0]] if steps != [1] * len(axes) else []
        s.node("Slice", [data[0], *operands], answer)


def triangles(s, _):
    rows, columns = s.rng.randint(1, 5), s.rng.randint(1, 5)
    data = s.value(np.arange(1, rows * columns + 1).reshape(rows, columns).astype(np.float32), False)
    for upper in (0, 1):
        k = near(s.rng, 4)
        keep = np.array([[j - i >= k if upper else j - i <= k for j in range(columns)] for i in range(rows)])
        s.node("Trilu", [data[0], s.value(np.array(k, np.int64))[0]], np.where(keep, data[1], np.float32(0)), upper=upper)
    k = near(s.rng, 4)
    eye = np.array([[float(j - i == k) for j in range(columns)] for i in range(rows)], np.float32).reshape(rows, columns)
    s.node("EyeLike", [data[0]], eye, k=k)


def ranges(s, _):
    for _ in range(3):
        count, delta = s.rng.randint(0, 6), s.rng.choice([1, -1, 5, -7, 2**31, 2**61, -(2**61)])
        low, high = (MIN, MAX - count * delta) if delta > 0 else (MIN - count * delta, MAX)
        start = s.rng.choice([low, high, 0, 1, -1]) if low < 0 < high else low
        limit = start + count * delta
        if not MIN <= limit <= MAX or not MIN <= start <= MAX:
            continue
        operands = [s.value(np.array(v, np.int64))[0] for v in (start, limit, delta)]
        s.node("Range", operands, np.array([start + k * delta for k in range(count)], np.int64))


def narrowed_dims(s, _):
    """A dim that a narrow type does not hold wraps around before it shapes an answer."""
    extent, dtype = s.rng.choice([3, 127, 128, 129, 255, 256, 257, 300]), s.rng.choice([np.int8, np.uint8])
    x = s.value(np.zeros(extent, np.float32), False)
    count = wrap(extent, np.dtype(dtype))
    dims = s.node("Shape", [x[0]], np.array([extent], np.int64))
    narrow = s.node("Cast", [dims[0]], np.array([count], dtype), to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
    wide = s.node("Cast", [narrow[0]], np.array([count], np.int64), to=TensorProto.INT64)
    s.node("Slice", [x[0], s.value(np.array([0], np.int64), True)[0], wide[0]], x[1][:count])


def one_hots(s, _):
    depth = s.rng.randint(1, 5)
    index = s.value(np.array([near(s.rng, depth) for _ in range(8)], np.int64))
    answer = np.array([[1.0 if -depth <= i < depth and i % depth == k else 0.0 for k in range(depth)] for i in map(int, index[1])], np.float32)
    s.node("OneHot", [index[0], s.value(np.array(depth, np.int64))[0], s.value(np.array([0, 1], np.float32))[0]], answer)


def filled(s, dtype):
    value = np.array([s.rng.choice(extremes(dtype))], dtype)
    shape = [s.rng.randint(1, 4), s.rng.randint(0, 3)]
    tensor = helper.make_tensor("value", helper.np_dtype_to_tensor_dtype(dtype), [1], value.tobytes(), raw=True)
    s.node("ConstantOfShape", [s.value(np.array(shape, np.int64))[0]], np.full(shape, value[0], dtype), value=tensor)


KINDS = {f.__name__: f for f in (element_functions, chains, clips, casts, reductions, slices, triangles, ranges, narrowed_dims, one_hots, filled)}
OF_TYPES = (element_functions, chains, clips, casts, filled)  # others ask for no dtype


def write_samples(folder, count, seed, only):
    written = 0
    for kind, generator in KINDS.items():
        for k in range(count):
            dtype = DTYPES[(seed + k) % len(DTYPES)]
            name = f"{kind}_{dtype}_{k}" if generator in OF_TYPES else f"{kind}_{k}"
            if only and not re.search(only, name):
                continue
            s = Sample(random.Random(f"{seed} {name}"))
            generator(s, dtype)
            if not s.nodes:
                continue
            model = reference_cases.build_model(s.nodes, s.feeds, list(s.answers), opset=18, weights=s.weights)
            for output, answer in zip(model.graph.output, s.answers.values()):
                output.CopyFrom(helper.make_tensor_value_info(output.name, helper.np_dtype_to_tensor_dtype(answer.dtype), [None] * answer.ndim))
            reference_cases.write_case(folder / name, model, s.feeds, list(s.answers.values()))
            written += 1
    return written


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--samples", type=int, default=4, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--known", choices=["ranks", "shapes", "values"], action="append", help="default: all three")
    parser.add_argument("--keep", type=pathlib.Path, help="a new folder for the cases")
    arguments = parser.parse_args()
    passed, failed = 0, 0
    with tempfile.TemporaryDirectory(prefix="metac-integers-") as temporary:
        folder = arguments.keep or pathlib.Path(temporary)
        write_samples(folder, arguments.samples, arguments.seed, arguments.only)
        for known in arguments.known or ["values", "shapes", "ranks"]:
            for name, (status, detail) in reference_cases.verify(arguments.metac, folder, "--known", known).items():
                passed += status == "passed"
                failed += status != "passed"
                if status != "passed":
                    print(f"FAIL  {name} --known {known}: {status}: {detail}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
