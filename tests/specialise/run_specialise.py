#!/usr/bin/env python3
"""Libraries made with `metac compile --jit`, with libmetac and without it.

    python3 run_specialise.py --build build/ci [--keep DIR]

A hot shape reaches its program while the library's own code answers; threads, forks, contexts that go while programs are
made, processes that end then; no libmetac, another version, a broken one, one that cannot work: the library answers as
before and prints nothing. Models with control flow, weights in a file beside them, weights inside the library. What --jit
refuses. Ends with 'N passed, N failed'.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
from checks import command, expect, run_checks  # noqa: E402

ROOT = HERE.parents[1]
DIGITS = ROOT / "models/digits/digits.onnx"

ANOTHER_VERSION = 'const char* metac_version(void) { return "9.9.9"; }\n'
# Of this version, and lacking all but that.
WITHOUT_FUNCTIONS = 'const char* metac_version(void) { return "VERSION"; }\n'
# Whole, and with a session that cannot be opened; or one that fails in every run.
FAILING = WITHOUT_FUNCTIONS + """#include <stddef.h>
const char* metac_last_error(void) { return "it is broken"; }
int metac_session_open_memory(const void* m, size_t b, const void* o, void** s) { *s = (void*)o; return OPENS; }
void metac_session_close(void* s) {}
int metac_session_try_run(void* s, const void* i, int n, void** r) { return 7; }
const void* metac_result_output(const void* r, int i) { return NULL; }
void metac_result_free(void* r) {}
int metac_session_get_report(const void* s, void* r) { return 7; }
"""


def dynamic_model():
    """A table as it is, a product, a branch, a loop, and a size that the data decide."""
    rng = np.random.default_rng(1)
    branch = [helper.make_graph([helper.make_node(op, ["product"], [f"{op}_out"])], op, [],
                                [helper.make_tensor_value_info(f"{op}_out", TensorProto.FLOAT, None)])
              for op in ("Relu", "Tanh")]
    body = helper.make_graph(
        [helper.make_node("Identity", ["on"], ["on_out"]), helper.make_node("Mul", ["sum", "half"], ["smaller"]),
         helper.make_node("Add", ["smaller", "half"], ["sum_out"])], "body",
        [helper.make_tensor_value_info("turn", TensorProto.INT64, []),
         helper.make_tensor_value_info("on", TensorProto.BOOL, []),
         helper.make_tensor_value_info("sum", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("on_out", TensorProto.BOOL, []),
         helper.make_tensor_value_info("sum_out", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.array(0.5, np.float32), "half")])
    nodes = [helper.make_node("Gather", ["table", "ids"], ["rows"]),
             helper.make_node("MatMul", ["rows", "weight"], ["product"]),
             helper.make_node("ReduceSum", ["product"], ["total"], keepdims=0),
             helper.make_node("Greater", ["total", "zero"], ["positive"]),
             helper.make_node("If", ["positive"], ["chosen"], then_branch=branch[0], else_branch=branch[1]),
             helper.make_node("Loop", ["turns", "", "chosen"], ["y"], body=body),
             helper.make_node("Greater", ["product", "zero"], ["above"]), helper.make_node("NonZero", ["above"], ["where"])]
    graph = helper.make_graph(
        nodes, "dynamic",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"]),
         helper.make_tensor_value_info("turns", TensorProto.INT64, [])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 16]),
         helper.make_tensor_value_info("where", TensorProto.INT64, [2, "count"])],
        [numpy_helper.from_array(rng.standard_normal((8, 16)).astype(np.float32), "weight"),
         numpy_helper.from_array(rng.standard_normal((50, 8)).astype(np.float32), "table"),
         numpy_helper.from_array(np.array(0, np.float32), "zero")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def dense_model(rows):
    """A product whose weights are large enough to lie in a file beside the model."""
    weight = np.random.default_rng(2).standard_normal((rows, 256)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "weight"], ["p"]), helper.make_node("Relu", ["p"], ["y"])], "dense",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", rows])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 256])], [numpy_helper.from_array(weight, "weight")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


# What a library of `name` answers, in a process of its own: with libmetac and without, batch by batch.
COMPARE = """
import sys, time
sys.path.insert(0, {python!r})
import numpy as np
from {name} import Model
rng = np.random.default_rng(0)
told = {{"hot": [], "own": []}}
hot = Model(threads=2, log=lambda *line: told["hot"].append(line))
own = Model(threads=2, metac="off", log=lambda *line: told["own"].append(line))
begin = time.time()
for k in range(1000000):
    inputs = ({inputs})(rng, k)
    a, b = hot.run(inputs), own.run(inputs)
    for name in b:
        assert a[name].shape == b[name].shape and a[name].dtype == b[name].dtype, (name, a[name].shape, b[name].shape)
        apart = np.abs(a[name].astype(float) - b[name]).max(initial=0)  # sums of thousands of products, in another order
        assert apart <= 1e-5 * max(1, np.abs(b[name]).max(initial=0)), (name, k, apart)
    report = hot.specialised()
    assert report["problem"] == "", report
    if report["specialised_runs"] >= 40:
        break
    assert time.time() - begin < 120, report
    time.sleep(0.001)
assert own.specialised()["specialised_runs"] == 0
about = {{name: [line for line in lines if "shapes that come again" in line[1]] for name, lines in told.items()}}
assert [level for level, text in about["hot"]] == ["info"] and "by 0." in about["hot"][0][1], about
assert [level for level, text in about["own"]] == ["warning"] and "switched off" in about["own"][0][1], about
"""

DAMAGED = """
import sys, time
sys.path.insert(0, {python!r})
import numpy as np
from dense import Model
model, x = Model(), np.ones((3, 4096), np.float32)
answer = model.run(x)["y"]
for k in range(500):
    assert (model.run(x)["y"] == answer).all()
    if model.specialised()["problem"]:
        break
    time.sleep(0.005)
assert "is damaged" in model.specialised()["problem"], model.specialised()
assert (model.run(x)["y"] == answer).all() and model.specialised()["specialised_runs"] == 0
"""


class Checks:
    """Every method is a check, run in this order; what one makes, the next ones use."""

    def __init__(self, work, build):
        self.work, self.build = work, build
        self.metac = build / "bin/metac"
        self.library = next((build / "lib").glob("libmetac.so.*.*.*"))
        self.program = work / "scenarios"

    def _compile(self, model, name, *options):
        cpu = () if "--cpu" in options else ("--cpu", "native")
        command(self.metac, "compile", model, "-o", self.work / name, "--name", name, "--jit", *cpu, *options)
        return self.work / name

    def _scenario(self, name, *arguments, library=None, cache=None, **environment):
        """Nothing may be printed, whatever happens."""
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.work)) if cache is None else cache
        environment = {**os.environ, "METAC_CACHE_DIR": str(folder), "METAC_LIBRARY": str(library or self.library),
                       **environment}
        environment = {key: value for key, value in environment.items() if value is not None}
        printed = command(self.program, name, *arguments, env=environment)
        expect(not printed, f"{name} {' '.join(map(str, arguments))} printed: {printed}")

    def _fake(self, name, text, *flags):
        version = json.loads((self.work / "digits/digits.json").read_text())["metac"]
        source, path = self.work / f"{name}.c", self.work / f"{name}.so"
        source.write_text(text.replace("VERSION", version))
        command("cc", "-shared", "-fPIC", "-w", *flags, source, "-o", path)
        return path

    def library_of_digits(self):
        folder = self._compile(DIGITS, "digits")
        needed = command("readelf", "-d", folder / "lib/libdigits.so")
        expect(not any(name in needed for name in ("libmetac", "libstdc++", "LLVM")), f"the library needs more:\n{needed}")
        about = json.loads((folder / "digits.json").read_text())
        expect(about["options"].get("jit") == "on" and about["jit"]["carried_bytes"] > about["jit"]["graph_bytes"] > 0,
               f"the manifest says {about['options']}, {about.get('jit')}")
        command("c++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", HERE / "scenarios.cpp", f"-I{folder}/include",
                f"-L{folder}/lib", "-ldigits", f"-Wl,-rpath,{folder}/lib", "-pthread", "-o", self.program)

    def a_hot_shape_gets_its_program_and_no_call_waits(self):
        self._scenario("hot_shapes")

    def programs_are_bounded(self):
        self._scenario("few_programs")

    def eight_threads(self):
        self._scenario("threads_share")

    def contexts_that_go_while_programs_are_made(self):
        self._scenario("destroyed_while_compiling")

    def forks(self):
        self._scenario("fork_behind")
        self._scenario("fork_before")

    def processes_that_end_while_programs_are_made(self):
        """At moments all over the first compilation of a process, in which LLVM makes its statics."""
        for milliseconds in range(0, 500, 25):
            self._scenario("exit_while_compiling", milliseconds)
        for _ in range(4):
            self._scenario("exit_while_opening")

    def mistakes_and_memory_of_the_caller(self):
        self._scenario("errors_and_memory")

    def weights_that_are_set_or_written(self):
        self._scenario("other_weights", self.work)

    def libmetac_is_found_beside_the_library(self):
        beside = self.work / "digits/lib" / ".".join(self.library.name.split(".")[:-1])
        beside.symlink_to(self.library)
        try:
            self._scenario("errors_and_memory", METAC_LIBRARY=None)
        finally:
            beside.unlink()

    def without_libmetac(self):
        nowhere = {"LD_LIBRARY_PATH": ""}
        self._scenario("alone", "libmetac.so", METAC_LIBRARY=None, **nowhere)
        self._scenario("alone", "cannot open", library=self.work / "nowhere/libmetac.so")
        self._scenario("alone", "switched off", library="off")

    def another_version(self):
        self._scenario("alone", "is metac 9.9.9", library=self._fake("another_version", ANOTHER_VERSION))

    def broken_libraries(self):
        for share in (0.0, 0.0001, 0.3, 0.9):
            cut = self.work / "cut.so"
            cut.write_bytes(self.library.read_bytes()[: int(self.library.stat().st_size * share)])
            self._scenario("alone", "cut short", library=cut)
        folder = self.work / "folder.so"
        folder.mkdir()
        self._scenario("alone", "no shared library", library=folder)
        self._scenario("alone", "no function metac_last_error", library=self._fake("bare", WITHOUT_FUNCTIONS))
        self._scenario("alone", "it is broken", library=self._fake("refuses", FAILING, "-DOPENS=7"))
        self._scenario("alone", "failed on calls", library=self._fake("fails", FAILING, "-DOPENS=0"))

    def a_cache_that_cannot_be_written(self):
        blocked = self.work / "no folder"
        blocked.write_text("")
        self._scenario("errors_and_memory", cache=blocked)

    def _compare(self, name, inputs):
        script = self.work / f"compare_{name}.py"
        script.write_text(COMPARE.format(python=str(self.work / name / "python"), name=name, inputs=inputs))
        command(sys.executable, script, env={**os.environ, "METAC_LIBRARY": str(self.library)})

    def control_flow_and_sizes_that_data_decide(self):
        onnx.save(dynamic_model(), self.work / "dynamic.onnx")
        self._compile(self.work / "dynamic.onnx", "dynamic")
        self._compare("dynamic", "lambda rng, k: {'ids': rng.integers(0, 50, [5, 9][k % 2]), 'turns': np.array(k % 4)}")

    def weights_in_a_file_beside_the_model(self):
        onnx.save_model(dense_model(4096), self.work / "dense.onnx", save_as_external_data=True, location="dense.data")
        folder = self._compile(self.work / "dense.onnx", "dense", "--dim", "n=1..64")
        (self.work / "dense.data").unlink()  # the library has them
        self._compare("dense", "lambda rng, k: {'x': rng.standard_normal((3, 4096), dtype=np.float32)}")
        carried = json.loads((folder / "dense.json").read_text())["jit"]
        expect(carried["graph_bytes"] < 4096, f"the graph has weights in it: {carried}")

    def damage_in_what_is_carried(self):
        """The library's own code does not read it; what opens a session does, and finds it."""
        path = self.work / "dense/dense.weights"
        whole = path.read_bytes()
        at = len(whole) - json.loads((self.work / "dense/dense.json").read_text())["jit"]["carried_bytes"] // 2
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1:])
        script = self.work / "damage.py"
        script.write_text(DAMAGED.format(python=str(self.work / "dense/python")))
        command(sys.executable, script, env={**os.environ, "METAC_LIBRARY": str(self.library)})
        path.write_bytes(whole)

    def weights_inside_the_library(self):
        onnx.save(dense_model(64), self.work / "inside.onnx")
        folder = self._compile(self.work / "inside.onnx", "inside", "--embed-weights", "--cpu", "x86-64-v3,x86-64")
        (folder / "inside.weights").unlink()
        self._compare("inside", "lambda rng, k: {'x': rng.standard_normal((3, 64), dtype=np.float32)}")

    def every_compiler_builds_it(self):
        """As cmake does, strictly, and by clang++."""
        for compiler in ("g++", "clang++-19"):
            if not shutil.which(compiler):
                continue
            build = self.work / f"cmake {compiler}"
            command("cmake", "-G", "Ninja", "-S", self.work / "inside", "-B", build, f"-DCMAKE_CXX_COMPILER={compiler}",
                    "-DINSIDE_EMBED_WEIGHTS=OFF", "-DCMAKE_CXX_FLAGS=-Werror")
            command("cmake", "--build", build)

    def what_is_refused(self):
        fixed = dense_model(16)
        fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 4
        onnx.save(fixed, self.work / "fixed.onnx")
        draws = helper.make_model(helper.make_graph(
            [helper.make_node("RandomNormalLike", ["x"], ["y"])], "draws",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n"])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])]),
            opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(draws, self.work / "draws.onnx")
        for model, status, reason, options in (
                ("fixed.onnx", 1, "every dim of the inputs is fixed", []), ("draws.onnx", 1, "draws random numbers", []),
                (DIGITS, 2, "--jit is not for --winograd", ["--winograd", "0"]),
                (DIGITS, 2, "--jit is not for --fusion", ["--fusion", "paper"]),
                (DIGITS, 1, "--jit is for --target cpu", ["--target", "cuda"])):
            printed = command(self.metac, "compile", model, "-o", self.work / "refused", "--jit", "--no-build", *options,
                              status=status, cwd=self.work)
            expect(reason in printed and not (self.work / "refused").exists(), f"{model} {options}: {printed}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="metac's build folder")
    parser.add_argument("--keep", type=pathlib.Path, help="work here and leave it")
    parser.add_argument("--only", default="", help="the checks with this in their name")
    arguments = parser.parse_args()
    work = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="metac-specialise-"))
    work = work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    checks = Checks(work, arguments.build.resolve())
    status = run_checks(checks, only=arguments.only, always={"library_of_digits"})
    if not arguments.keep:
        shutil.rmtree(work, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
