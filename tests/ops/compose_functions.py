#!/usr/bin/env python3
"""Functions of elements composed in pairs and triples, bit by bit beside NumPy: what an optimiser makes of two of them together.

    python3 compose_functions.py --metac build/ci/bin/metac [--seed 1] [--ways jit,library,g++,clang++] [--cpu LEVEL,LEVEL] [--only float64] [--share 16] [--all]

Every function of an operand, of an operand and a constant, and every condition is composed with every other: g(f(x)), and f(x) with g(x) through
Max, Min, Where, And, Or and Xor; longer ones are drawn. Operands hold NaN, infinities, zeros of both signs, subnormal and extreme numbers, in 1 to
100 elements: fewer than a vector has, whole vectors and rests. Each function rounds once or not at all, so the answer must be NumPy's, evaluated one
function at a time; of two zeros of different sign Max and Min may take either. Ways: the in-process compiler with fixed shapes and as a library knows them,
and libraries whose kernels the C++ compiler of that name compiles, left out with a message where it is not installed. One expression in --share runs,
those with Abs all, as half of what optimisers know of comparisons is about it; in libraries fewer. --all: all of them, and more triples. Ends with 'N passed, N failed, N skipped', expressions each.
"""
import argparse
import itertools
import pathlib
import shutil
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
from onnx import helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
import reference_cases  # noqa: E402

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
EACH = 48  # expressions of a model
LENGTHS = [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 23, 31, 32, 33, 48, 63, 64, 65, 100]
FLOATS = [np.dtype(np.float32), np.dtype(np.float64)]
HALVES = [np.dtype(np.float16), BFLOAT16]  # with what does not round alone
INTEGERS = [np.dtype(t) for t in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")]


def is_real(dtype):
    return dtype.kind == "f" or dtype == BFLOAT16


def first_of_equals(a, b, better):
    """Max and Min: a NaN in either wins; of equals the first."""
    return np.where(a != a, a, np.where(b != b, b, np.where(better(b, a), b, a)))


def last_of_equals(a, b, better):
    return np.where(a != a, a, np.where(b != b, b, np.where(better(a, b), a, b)))


def divide(a, b):
    """As generated code has it: towards zero, 0 for a divisor of 0."""
    if is_real(a.dtype):
        return a / b
    safe = np.where(b == 0, np.ones_like(b), b)
    quotient = a // safe
    return np.where(b == 0, np.zeros_like(a), quotient + ((quotient < 0) & (quotient * safe != a)).astype(a.dtype))


class Function:
    """An operator of ONNX with its constants; `of(pick, *arrays)` is its answer, pick being first_of_equals or last_of_equals."""

    def __init__(self, text, op, of, constants=(), first=False, condition=False, **attributes):
        self.text, self.op, self.of, self.constants, self.first, self.condition, self.attributes = text, op, of, constants, first, condition, attributes


def functions(dtype):
    """Those of one operand."""
    def number(v):
        return np.array(v, dtype)
    found = []
    if is_real(dtype):
        some = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, float(ml_dtypes.finfo(dtype).smallest_normal)]
        found += [Function("IsNaN", "IsNaN", lambda p, x: x != x, condition=True), Function("IsInf", "IsInf", lambda p, x: np.isinf(x), condition=True),
                  Function("IsInf+", "IsInf", lambda p, x: x == np.inf, condition=True, detect_negative=0)]
        found += [Function(op, op, of) for op, of in (("Floor", lambda p, x: np.floor(x)), ("Ceil", lambda p, x: np.ceil(x)), ("Round", lambda p, x: np.rint(x)))]
        if dtype in FLOATS:
            found += [Function("Sqrt", "Sqrt", lambda p, x: np.sqrt(x)), Function("Reciprocal", "Reciprocal", lambda p, x: dtype.type(1) / x)]
    else:
        limits = np.iinfo(dtype)
        some = sorted({0, 1, 7, limits.min, limits.max, limits.max // 2 + 1} | ({-1, -7} if limits.min < 0 else set()))
        found.append(Function("BitwiseNot", "BitwiseNot", lambda p, x: ~x))
    found.append(Function("Relu", "Relu", lambda p, x: p(x, np.zeros_like(x), np.greater)) if is_real(dtype) or dtype.kind == "i" else Function("Max0", "Max", lambda p, x: x, (number(0),)))
    if dtype.kind != "u":
        found += [Function("Abs", "Abs", lambda p, x: np.abs(x)), Function("Neg", "Neg", lambda p, x: -x), Function("Sign", "Sign", lambda p, x: np.where(x > 0, number(1), np.where(x < 0, number(-1), x)))]
    for value in some:
        c = number(value)
        for op, better in (("Max", np.greater), ("Min", np.less)):
            found.append(Function(f"{op}(., {value})", op, lambda p, x, c=c, b=better: p(x, c, b), (c,)))
            found.append(Function(f"{op}({value}, .)", op, lambda p, x, c=c, b=better: p(c, x, b), (c,), first=True))
        for op, compare in (("Less", np.less), ("LessOrEqual", np.less_equal), ("Greater", np.greater), ("GreaterOrEqual", np.greater_equal), ("Equal", np.equal)):
            found.append(Function(f"{op}(., {value})", op, lambda p, x, c=c, f=compare: f(x, c), (c,), condition=True))
        if dtype not in HALVES:
            for op, of in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", divide)):
                if op != "Div" or value != 0 or is_real(dtype):  # an integer divided by a constant 0 is refused
                    found.append(Function(f"{op}(., {value})", op, lambda p, x, c=c, f=of: f(x, c), (c,)))
        if not is_real(dtype):
            for op, of in (("BitwiseAnd", np.bitwise_and), ("BitwiseOr", np.bitwise_or), ("BitwiseXor", np.bitwise_xor)):
                found.append(Function(f"{op}(., {value})", op, lambda p, x, c=c, f=of: f(x, c), (c,)))
    return found


JOINS = {"Max": lambda p, a, b: p(a, b, np.greater), "Min": lambda p, a, b: p(a, b, np.less)}
LOGIC = {"And": np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor}


class Expression:
    """A tree: ("x",), (Function, tree), ("Max", tree, tree), ("Where", condition, tree, tree), ("And", condition, condition), ("Not", condition)."""

    def __init__(self, tree, condition):
        self.tree, self.condition = tree, condition

    def text(self, tree=None):
        tree = tree or self.tree
        if tree[0] == "x":
            return "x"
        head = tree[0].text if isinstance(tree[0], Function) else tree[0]
        return f"{head}({', '.join(self.text(t) for t in tree[1:])})"

    def size(self, tree=None):
        return sum(self.size(t) for t in (tree or self.tree)[1:]) + ((tree or self.tree)[0] != "x")

    def value(self, x, pick, tree=None):
        tree = tree or self.tree
        if tree[0] == "x":
            return x
        args = [self.value(x, pick, t) for t in tree[1:]]
        if isinstance(tree[0], Function):
            made = tree[0].of(pick, *args)
            return made if tree[0].condition else made.astype(x.dtype)
        if tree[0] == "Where":
            return np.where(*args)
        return JOINS[tree[0]](pick, *args) if tree[0] in JOINS else LOGIC[tree[0]](*args) if tree[0] in LOGIC else ~args[0]

    def nodes(self, made, constants, number, tree=None):
        """Appends its nodes to `made`, those of expression `number`; the name of its value."""
        tree = tree or self.tree
        if tree[0] == "x":
            return f"x{number}"
        names = [self.nodes(made, constants, number, t) for t in tree[1:]]
        attributes, op = {}, tree[0]
        if isinstance(op, Function):
            held = []
            for c in op.constants:
                held.append(f"c{len(constants)}")
                constants[held[-1]] = c
            names, attributes, op = (held + names if op.first else names + held), op.attributes, op.op
        made.append(helper.make_node(op, names, [f"v{number}_{len(made)}"], **attributes))
        return made[-1].output[0]


def pairs(dtype):
    """Every function with every other."""
    all_of = functions(dtype)
    values, conditions = [f for f in all_of if not f.condition], [f for f in all_of if f.condition]
    for inner, outer in itertools.product(values, all_of):
        yield Expression((outer, (inner, ("x",))), outer.condition)
    for c in conditions:
        for f in values:
            yield Expression(("Where", (c, ("x",)), (f, ("x",)), ("x",)), False)


def draw(rng, dtype, all_of, depth, condition):
    """One that is drawn, of `depth` functions along a path."""
    def one(wanted, left):
        if left == 0 and not wanted:
            return ("x",)
        fits = [f for f in all_of if f.condition == wanted]
        roll = rng.random()
        if wanted and left > 1 and roll < 0.4:
            name = list(LOGIC)[rng.integers(3)]
            return (name, one(True, left - 1), one(True, left - 1))
        if wanted and left > 1 and roll < 0.5:
            return ("Not", one(True, left - 1))
        if not wanted and left > 1 and roll < 0.25:
            return ("Where", one(True, left - 1), one(False, left - 1), one(False, int(rng.integers(left))))
        if not wanted and left > 1 and roll < 0.45:
            return (list(JOINS)[rng.integers(2)], one(False, left - 1), one(False, int(rng.integers(left))))
        return (fits[rng.integers(len(fits))], one(False, max(left - 1, 0)))
    return Expression(one(condition, depth), condition)


def numbers(rng, dtype, length):
    if is_real(dtype):
        info = ml_dtypes.finfo(dtype)
        special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 7.25, -7.25, np.inf, -np.inf, np.nan, float(info.max), -float(info.max), float(info.smallest_normal),
                   -float(info.smallest_normal), float(info.smallest_subnormal), -float(info.smallest_subnormal), 3.0, -3.0, 100.0, -100.0]
    else:
        info = np.iinfo(dtype)
        special = [0, 1, 2, 7, 100, info.max, info.max - 1, info.min, info.min + 1, info.max // 2, info.max // 2 + 1] + ([-1, -2, -7, -100] if info.min < 0 else [])
    return np.array([special[k] for k in rng.permutation(np.resize(np.arange(len(special)), max(length, len(special))))[:length]], dtype)


def agrees(a, b):
    """The same values, NaN where NaN is; zeros whatever their sign."""
    return a.shape == b.shape and a.dtype == b.dtype and bool(np.all((a == b) | ((a != a) & (b != b))))


def expected_of(expression, x):
    with np.errstate(all="ignore"):
        return [expression.value(x, pick) for pick in (first_of_equals, last_of_equals)]


class Batch:
    """Expressions of one model, each of an operand of its own: what several share is compiled otherwise."""

    def __init__(self, name, dtype, expressions, rng):
        self.name, self.expressions, length = name, expressions, int(rng.choice(LENGTHS))
        self.feeds = {f"x{k}": numbers(rng, dtype, length) for k in range(len(expressions))}
        made, constants, outputs = [], {}, []
        for k, expression in enumerate(expressions):
            outputs.append(expression.nodes(made, constants, k))
        self.expected = [expected_of(e, x) for e, x in zip(expressions, self.feeds.values())]
        graph = helper.make_graph(made, "g", [reference_cases.port(name, x) for name, x in self.feeds.items()], [reference_cases.port(name, e[0]) for name, e in zip(outputs, self.expected)],
                                  [numpy_helper.from_array(c, n) for n, c in constants.items()])
        self.model, self.outputs = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), outputs

    def write(self, folder):
        reference_cases.write_case(folder / self.name, self.model, self.feeds, [e[0] for e in self.expected])

    def wrong(self, metac, options, folder):
        """Looks at every answer: {number of the expression: text}. `metac verify` failed, perhaps over a zero's sign."""
        model, out = folder / self.name / "model.onnx", folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        inputs = [word for k, name in enumerate(self.feeds) for word in ("--input", f"{name}={folder / self.name}/test_data_set_0/input_{k}.pb")]
        done = subprocess.run([metac, "run", model, *inputs, "--output-dir", out, *options], capture_output=True, text=True)
        if done.returncode:
            return {0: done.stderr.strip()[-300:]}
        found = {}
        for k, (name, x, expected) in enumerate(zip(self.outputs, self.feeds.values(), self.expected)):
            answer = np.load(out / f"{name}.npy")
            if expected[0].dtype == BFLOAT16 != answer.dtype:
                answer = answer.view(BFLOAT16) if answer.itemsize == 2 else answer.astype(BFLOAT16)
            right = np.array([any(agrees(answer[i:i + 1], e[i:i + 1]) for e in expected) for i in range(len(x))])
            if not right.all():
                at = int(np.argmin(right))
                found[k] = f"{self.expressions[k].text()} of {x.dtype} {x[at]} (element {at} of {len(x)}): {answer[at]}, expected {expected[0][at]}"
        return found


def ways_of(names, cpus, everything):
    """{name: (options of verify, those of run, how many times fewer expressions)}"""
    ways = {}
    for name in names:
        if name in ("jit", "library"):
            for cpu in cpus:
                known = [] if name == "jit" else ["--known", "shapes"]
                ways[f"{name} {cpu}"] = (known + ["--cpu", cpu], ["--cpu", cpu], 1 if everything or name == "jit" and cpu == cpus[0] else 4)
        elif shutil.which(name):
            ways[name] = (["--aot", "--cxx", name], None, 1 if everything else 16)
        else:
            ways[name] = None
    return ways


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", help="one type")
    parser.add_argument("--share", type=int, default=16)
    parser.add_argument("--ways", type=lambda text: text.split(","), default=["jit", "library", "g++", "clang++"])
    parser.add_argument("--cpu", type=lambda text: text.split(","), default=["native", "x86-64"])
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    passed = failed = skipped = 0
    for name, way in ways_of(arguments.ways, arguments.cpu, arguments.all).items():
        if way is None:
            print(f"skipped: {name} is not installed")
            skipped += 1
            continue
        options, run_options, fewer = way
        share = 1 if arguments.all else arguments.share
        rng, batches = np.random.default_rng([arguments.seed, *name.encode()]), {}
        for dtype in FLOATS + HALVES + INTEGERS:
            if arguments.only not in (None, dtype.name):
                continue
            all_of = functions(dtype)
            expressions = list(pairs(dtype))
            expressions += [draw(rng, dtype, all_of, 3, rng.random() < 0.4) for _ in range(2 * len(expressions))]
            rng.shuffle(expressions)
            times = fewer * share * (1 if dtype in FLOATS or share == 1 else 4)
            expressions = [e for k, e in enumerate(expressions) if k % times == 0 or (dtype in FLOATS and k % fewer == 0 and e.size() == 2 and "Abs" in e.text())]
            for start in range(0, len(expressions), EACH):
                batch = Batch(f"{dtype.name}_{start}", dtype, expressions[start:start + EACH], rng)
                batches[batch.name] = batch
        with tempfile.TemporaryDirectory(prefix="metac-compose-") as temporary:
            folder = pathlib.Path(temporary)
            for batch in batches.values():
                batch.write(folder)
            count = wrong = 0
            for case, (status, detail) in reference_cases.verify(arguments.metac, folder, "--max-ulp", "0", *options).items():
                batch = batches[case]
                count += len(batch.expressions)
                if status == "passed":
                    continue
                found = batch.wrong(arguments.metac, run_options, folder) if run_options is not None else {0: detail}
                for text in found.values():
                    print(f"FAIL  {name}: {text}", flush=True)
                wrong += len(found)
            print(f"{name}: {count} expressions in {len(batches)} models, {wrong} wrong", flush=True)
            passed, failed = passed + count - wrong, failed + wrong
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
