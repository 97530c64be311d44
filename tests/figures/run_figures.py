#!/usr/bin/env python3
"""What metac and what it generates say of themselves is so.

    python3 run_figures.py --build build/ci [--keep DIR] [--only WORD]

Checked: a second run allocates nothing, whatever routines, loops and branches it has. Needs numpy and onnx. Ends with 'N passed, N failed'.
"""
import argparse
import os
import pathlib
import re
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "tools"))
from checks import command, expect, run_checks  # noqa: E402

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL


def value(name, dtype, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def constant(name, array):
    return numpy_helper.from_array(np.asarray(array), name)


def save(path, nodes, inputs, outputs, constants=(), opset=21):
    graph = helper.make_graph(nodes, path.stem, inputs, outputs, list(constants))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), path)
    return path


def growing_loop(trips, keep, grown, stacked):
    """A loop that carries a value which grows by a row an iteration, and stacks another."""
    body = helper.make_graph(
        [helper.make_node("Concat", ["carried", "row"], ["longer"], axis=0), helper.make_node("ReduceSum", ["longer"], ["sum"], keepdims=0),
         helper.make_node("Identity", ["go"], ["go_on"])],
        "body", [value("i", INT64, []), value("go", BOOL, []), value("carried", FLOAT, ["n", 4])],
        [value("go_on", BOOL, []), value("longer", FLOAT, ["m", 4]), value("sum", FLOAT, [])])
    return helper.make_node("Loop", [trips, keep, "row"], [grown, stacked], body=body)


def branches(condition, out):
    then = helper.make_graph([helper.make_node("NonZero", ["x"], ["found_here"])], "then", [], [value("found_here", INT64, [2, None])])
    otherwise = helper.make_graph([helper.make_node("Cast", ["x"], ["whole"], to=INT64)], "otherwise", [], [value("whole", INT64, None)])
    return helper.make_node("If", [condition], [out], then_branch=then, else_branch=otherwise)


def every_routine(path, rows):
    """One model with all routines of the runtime, loops that grow and that count, a branch and a recurrent network."""
    w, r = (np.random.default_rng(k).standard_normal((1, 12, 4)).astype("f4") for k in (1, 2))
    nodes = [
        helper.make_node("TopK", ["x", "three"], ["best", "places"], axis=1),
        helper.make_node("Unique", ["x"], ["distinct", "firsts", "inverse", "counts"], sorted=1),
        helper.make_node("Unique", ["x"], ["by_place", "", "", ""], sorted=0),
        helper.make_node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["kept"]),
        helper.make_node("NonZero", ["x"], ["found"]),
        helper.make_node("BitCast", ["x"], ["bits"], to=TensorProto.INT32),
        helper.make_node("RandomNormalLike", ["x"], ["noise"]),
        helper.make_node("Slice", ["x", "zero", "one"], ["row"]),
        growing_loop("nine", "", "grown", "sums"),
        growing_loop("nine", "always", "grown_too", "sums_too"),
        helper.make_node("ReduceMax", ["x"], ["greatest"], keepdims=0),
        helper.make_node("Greater", ["greatest", "small"], ["condition"]),
        branches("condition", "taken"),
        helper.make_node("Unsqueeze", ["x", "one"], ["sequence"]),
        helper.make_node("GRU", ["sequence", "w", "r"], ["states"], hidden_size=4),
    ]
    outputs = {"best": FLOAT, "places": INT64, "distinct": FLOAT, "firsts": INT64, "inverse": INT64, "counts": INT64, "by_place": FLOAT, "kept": INT64, "found": INT64,
               "bits": TensorProto.INT32, "noise": FLOAT, "grown": FLOAT, "sums": FLOAT, "grown_too": FLOAT, "sums_too": FLOAT, "taken": INT64, "states": FLOAT}
    constants = [constant("three", np.array([3])), constant("most", np.array([4])), constant("overlap", np.array([0.5], "f4")), constant("least", np.array([-0.5], "f4")),
                 constant("zero", np.array([0])), constant("one", np.array([1])), constant("nine", np.array(9)), constant("always", np.array(True)), constant("small", np.array(0.5, "f4")),
                 constant("w", w), constant("r", r)]
    return save(path, nodes, [value("x", FLOAT, [rows, 4]), value("boxes", FLOAT, [1, 12, 4]), value("scores", FLOAT, [1, 2, 12])],
                [value(name, dtype) for name, dtype in outputs.items()], constants, opset=26)


class Checks:
    def __init__(self, work, build):
        self.work, self.metac = work, build / "bin/metac"

    def compile(self, name, model, *options):
        folder = self.work / name / "net"
        folder.parent.mkdir(exist_ok=True)
        command(self.metac, "compile", model, "-o", folder, "--name", "net", *options)
        return folder

    def a_second_run_allocates_nothing(self):
        table = re.findall(r'\{"(\w+)", &\w+\}', (ROOT / "runtime/routines.h").read_text())
        for rows in (5, "rows"):
            folder = self.compile(f"allocations {rows}", every_routine(self.work / f"every_{rows}.onnx", rows))
            steps = (folder / "net.json").read_text()
            expect(len(table) > 5 and all(f'"{routine}"' in steps for routine in table), f"the model has not all routines: {table}")
            program = folder / "count"
            command("cc", "-O1", "-D_GNU_SOURCE", "-I", folder / "include", HERE / "count_allocations.c", "-o", program, folder / "lib/libnet.so", f"-Wl,-rpath,{folder}/lib")
            asked = [int(line) for line in command(program, cwd=folder).split()]
            expect(asked[0] > 0, "the first run of all asked for nothing: the count is wrong")
            expect(asked[1:] == [0, 0, 0], f"{rows} rows: memory was asked for {asked} times in runs 1 to 4")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True, type=pathlib.Path)
    parser.add_argument("--keep", type=pathlib.Path, help="work in this folder and leave it there")
    parser.add_argument("--only", default="")
    o = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        work = (o.keep or pathlib.Path(temporary)).resolve()
        work.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("METAC_CACHE_DIR", str(work / "cache"))
        return run_checks(Checks(work, o.build.resolve()), ("compile",), o.only)


if __name__ == "__main__":
    sys.exit(main())
