"""NumPy's functions and indices in C++ beside the methods of Python's Vars, and the text that Vars print beside NumPy's."""
import pathlib
import tempfile

import metac
import numpy as np
from cxx_programs import answer_of, built
from expectations import expect
from metac import op
from metac.nn.module import load_weights, save_weights

HERE = pathlib.Path(__file__).resolve().parent
RNG = np.random.default_rng(43)

# The results of functions.cpp that are not a method of the same name with these arguments, by name.
ARGUMENTS = {
    "sum of an axis": (1,), "sum of axes": ([0, -1], True), "sum of all, kept": (None, True), "sum of none": ([],),
    "mean": (2,), "max": ([1, 2],), "var": (1,), "var, corrected": ([0, 2], True, 1), "argmax of an axis": (-1,),
    "argmin": (0, True), "softmax of an axis": (1,), "clip": (-0.5, 0.5), "clip above": (None, 1), "reshape": (4, -1),
    "flatten": (1,), "flatten all": (), "transpose by axes": (0, -1, 1), "unsqueeze": (1,),
}


def functions(x, y, whole, mask):
    """Those that are of other Vars than x, or no methods."""
    positive = x.abs() + 0.5
    return {
        "sum of truths": mask.sum(), "mean of integers": whole.mean(), "prod": whole.prod(0), "log": positive.log(),
        "sqrt": positive.sqrt(), "floor": (x * 3).floor(), "ceil": (x * 3).ceil(), "round": (x * 3).round(),
        "clip of integers": whole.clip(1), "reshape to none": x.sum().reshape(()), "squeeze": x.unsqueeze(1).squeeze(),
        "squeeze an axis": x.unsqueeze(1).squeeze(1), "broadcast_to": y.broadcast_to(2, 3, 4),
        "astype": whole.astype("float64"), "concatenate": op.Concat(x, x * 2, axis=-1), "where": op.Where(mask, x, x * 2),
        "where with a number": op.Where(mask, x * 0, x), "where else a number": op.Where(mask, x, x * 0 - 1.5),
        "reindex": whole.reindex((3, 2), ("i1", "i0")), "reindex_reduce": whole.reindex_reduce((2,), ("i0",), "max"),
        "not": ~mask, "complement": ~whole, "and": mask & (x > 0), "or": mask | (x > 0), "xor": mask ^ (x > 0),
        "modulo": whole % 2, "floor_divide": whole // 2, "floor_divide by a Var": whole // (whole + 7),
        "pow": positive ** x, "pow of a number": 2 ** x, "vjp": metac.vjp(x.tanh(), [x], x * 2)[0],
        "jvp": metac.jvp(x.sin() * y, [x, y], [x, y * 2]),
    }


def printed_arrays():
    f4, f8 = (lambda values: np.array(values, "f4")), np.array
    normal = RNG.standard_normal
    return [f4(1.0), f8(-0.1), f4([]), np.zeros((0, 3), "f4"), f4([1, 2, 3]), f4([1.5, -2.25, 100]), f4([[0.5], [-10]]),
            f8([1e8, 1]), f8([1e-5, 1]), f4([1e-5, 1, -2]), f8([1e300, -1e-300]), f8([1e300, 1, np.inf]),
            f4([1 / 3, 2 / 3]), f8([1 / 3, 1e3, 0]),
            f4([np.nan, 1, -1]), f4([np.inf, -np.inf, 0.125]), f8([np.nan, np.inf]), f4([0, -0.0]), f4([0.00012, 0.1]),
            f8([99999.99999, 123.4]), f8([0.00005, 0.04]), f4([3.4e38, 1.2e-38]), f4([1e-4, 1e-2]),
            f4([999999, 1e4]), f4([1e6, 1e4]), np.array([True, False]), np.array(True),
            np.array([[1, -20], [300, 4]], "i4"), np.array(7, "i8"), np.array([2 ** 63], "u8"), np.array([-128, 127], "i1"),
            np.arange(40), np.arange(100), np.arange(101), np.arange(2000).reshape(2, 10, 100),
            np.arange(120).reshape(2, 3, 4, 5),
            normal(30).astype("f4"), normal((3, 12)), normal((2, 3, 40)).astype("f4"), normal((2, 2, 2, 2)), normal((60, 2)),
            normal(12) * 1e9, normal((4, 8)).astype("f4") * 1e-6, np.arange(8).reshape(8, 1) * 1.0,
            np.zeros((7, 20), "?"),
            np.float32(16777216) * np.arange(3, dtype="f4"), normal((1, 1, 1, 1, 101)), np.arange(104.0).reshape(4, 26)]


class CxxFunctionChecks:
    def __init__(self, build):
        self._build = build

    def functions_in_cxx(self):
        inputs = {"x": RNG.standard_normal((2, 3, 4)).astype("f4"), "y": RNG.standard_normal((3, 1)).astype("f4"),
                  "whole": np.array([[-3, 0, 1], [2, 5, -4]]), "mask": RNG.random((2, 3, 4)) < 0.5}
        arrays = printed_arrays()
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            save_weights(folder / "inputs.safetensors", {name: metac.array(value) for name, value in inputs.items()})
            save_weights(folder / "prints.safetensors", {str(k): metac.array(value) for k, value in enumerate(arrays)})
            answer_of(built(self._build, HERE / "cxx/functions.cpp", folder / "functions"), folder)
            got, printed = load_weights(folder / "functions.safetensors"), (folder / "printed").read_text().split("\0")
        own = {name: metac.array(value) for name, value in inputs.items()}
        wanted, x = functions(**own), inputs["x"]
        for name, value in got.items():
            if "[" in name:
                value_wanted = eval("x" + name[name.index("["):], {"x": x, "np": np})
            elif name in wanted:
                value_wanted = wanted.pop(name).numpy()
            elif name == "transpose":
                value_wanted = own["x"].T.numpy()
            else:
                value_wanted = getattr(own["x"], name.split(",")[0].split(" ")[0])(*ARGUMENTS.get(name, ())).numpy()
            same = value.shape == value_wanted.shape and value.dtype == value_wanted.dtype
            expect(same and np.allclose(value, value_wanted, rtol=1e-6, atol=1e-6), f"{name}: {value} for {value_wanted}")
        expect(not wanted, f"functions.cpp lacks {list(wanted)}")
        self._prints(arrays, printed)
        return f"{len(got)} results, {len(arrays)} texts"

    def _prints(self, arrays, printed):
        expect(len(printed) == len(arrays) + 1, f"{len(printed)} texts")
        for array, text in zip(arrays, printed):
            values = np.array2string(array, separator=", ", precision=4, threshold=100, prefix="metac::Var(")
            wanted = f"metac::Var({values}, shape={array.shape}, dtype={array.dtype})"
            expect(text == wanted, f"\n{text}\nfor\n{wanted}")
