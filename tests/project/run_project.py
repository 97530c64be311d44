#!/usr/bin/env python3
"""Compiles models to libraries and does with them what users do.

    python3 run_project.py --build build/ci [--keep DIR] [--only WORD]

Checked: stock cmake builds the sources with every compiler found, warnings being errors, and all builds answer the same
bits; OpenMP; weights inside the library; two libraries and several contexts in one program under ThreadSanitizer; every
allocation failing; the Python module; batching queues; damaged and foreign weights; hostile names in the model. Needs numpy
(and onnx for the hostile names and the queues). Ends with 'N passed, N failed'.
"""
import argparse
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
from checks import cmake, command, expect, run_checks  # noqa: E402
from call_checks import CallChecks  # noqa: E402
from command_checks import CommandChecks  # noqa: E402
from cpu_checks import CpuChecks  # noqa: E402
from damage_checks import DamageChecks  # noqa: E402
from hook_checks import HookChecks  # noqa: E402
from interface_checks import InterfaceChecks  # noqa: E402
from package_checks import PackageChecks  # noqa: E402
from queue_checks import QueueChecks  # noqa: E402
from schedule_checks import ScheduleChecks  # noqa: E402
from thread_checks import ThreadChecks  # noqa: E402

DIGITS = HERE.parents[1] / "models/digits"
QUICK = HERE.parent / "tools/quick"


HOSTILE = ["*/ int main() {", 'x\n#include <evil.h>\n', '"); evil("', "??/", "../../escape", "int", "a.b", "a_b", "a/b", "A" * (1 << 20), "\u202eRTL", "%s%n",
           "$(touch evil)", "`touch evil`", "'''\nimport evil", "\\", "{}", "k000_add"]


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.seen = [], set()

    def handle_starttag(self, tag, attributes):
        self.seen.add(tag)
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        expect(self.open and self.open.pop() == tag, f"</{tag}> closes nothing")


class Checks(QueueChecks, PackageChecks, ScheduleChecks, InterfaceChecks, CommandChecks, DamageChecks, ThreadChecks,
             CpuChecks, CallChecks, HookChecks):
    """Every method is a check, run in this order; what one makes, the next ones use."""

    def __init__(self, work, metac):
        self.work, self.metac = work, metac
        self.first, self.second, self.rival = work / "first", work / "second", work / "rival"

    def compile(self, folder, *options, model=DIGITS / "digits.onnx", name=None, optimised=False, env=os.environ, **more):
        """`optimised`: what lies around the kernels too, as for users; kernels always are."""
        cpu = () if "--cpu" in options else ("--cpu", "native")
        surroundings = env if optimised else {**env, "PATH": f"{QUICK}:{env['PATH']}"}
        return command(self.metac, "compile", model, "-o", folder, "--name", name or folder.name, *cpu, *options, env=surroundings, **more)

    def answer(self, program, *options, where=None):
        out = self.work / "answer"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        command(program, "--input", DIGITS / "digit_3.npy", "--output-dir", out, *options, cwd=where)
        return (out / "probabilities.npy").read_bytes()

    def metac_builds(self):
        self.compile(self.first, optimised=True)
        self.compile(self.second, "--cpu", "native,x86-64")  # of both the same bits: it runs for the same processor
        self.expected = self.answer(self.first / "bin/first_run")
        expect(self.answer(self.first / "bin/first_run", "--threads", "7", "--pin") == self.expected, "other bits with other threads")

    def bench_of_a_folder_and_of_its_model(self):
        folder = self.work / "timed"
        self.compile(folder, "--shape", "image=4x1x8x8")
        kernels = {k["name"] for k in json.loads((folder / "timed.json").read_text())["kernels"]}
        reports = [json.loads(command(self.metac, "bench", what, *options, "--seconds", "0.2", "--profile", "--json"))
                   for what, options in ((folder, []), (DIGITS / "digits.onnx", ["--shape", "image=4x1x8x8"]))]
        for r in reports:
            expect(0 < r["min_ms"] <= r["median_ms"] <= r["p90_ms"] <= r["p99_ms"] and r["runs"] >= 5, f"times {r}")
            expect(r["operations"] > 0 and r["bound_ms"] > 0 and r["gflops"] > 0 and r["peak"]["gflops"] > 0, f"limits {r}")
            expect(r["memory"]["arena_bytes"] >= r["memory"]["live_set_bytes"] > 0, f"memory {r['memory']}")
            expect({row["kernel"] for row in r["profile"]} & kernels, f"no kernel in the profile {r['profile']}")
        expect(reports[0]["operations"] == reports[1]["operations"], "a folder and its model differ in their operations")
        expect(reports[0]["memory"]["peak_resident_bytes"] > 1 << 20, "resident memory")
        by_dim = json.loads(command(self.metac, "bench", self.first, "--dim", "batch=4", "--seconds", "0.05", "--json"))
        expect(by_dim["operations"] == reports[0]["operations"], "--dim does not give the open dim its size")
        said = command(self.metac, "bench", folder, "--winograd", "2", status=2)
        expect("--winograd" in said and "is compiled already" in said, said)

    def numbers_of_the_machine(self):
        """What --peak measures is named as in the table of costs, in its order, so that it can be a row; no number is absurd."""
        table = re.sub(r"//.*", "", (HERE.parents[1] / "compiler/machine/cpu_costs.h").read_text())
        members = re.findall(r"[a-z_]+(?= = )", table)
        costs = json.loads(command(self.metac, "bench", "--peak", "--json"))["costs"]
        expect(list(costs) == [name for name in members if name in costs] and len(costs) == 16, f"{list(costs)} of {members}")
        for name, cost in costs.items():
            least = 0 if name in ("panel_line", "short_piece", "middle_piece", "slice_launch") else 1e-4  # 0: cannot be told from none
            expect(cost["measured"] is None or least <= cost["measured"] < 1e9, f"{name}: {cost}")
        expect(all(costs[name]["measured"] for name in ("multiply_adds", "multiply_latency", "loads_a_cycle", "stream_near")), f"{costs}")
        alone = command(self.metac, "bench", "--peak", "--threads", "1", "--cpu", "x86-64")
        expect(re.search(r"^  \.slice_launch = 2e\+04, +// the table: 2e\+04; not measured here$", alone, re.M), alone)

    def kernels_by_the_system_compiler(self):
        for compiler in filter(shutil.which, ["g++", "clang++"]):
            folder = self.work / "other" / "first"
            folder.parent.mkdir(exist_ok=True)
            self.compile(folder, "--cxx", compiler)
            expect(self.answer(folder / "bin/first_run") == self.expected, f"other bits when built by {compiler}")
            expect((folder / "lib/libfirst.so").read_bytes() != (self.first / "lib/libfirst.so").read_bytes(), f"--cxx {compiler} made no difference")

    def rebuilding_makes_the_same_bytes(self):
        folder, names = self.work / "again" / "first", ("lib/libfirst.so", "lib/libfirst.a", "bin/first_run")
        folder.parent.mkdir(exist_ok=True)
        for options in ([], ["--cxx", "c++"]):
            builds = []
            for cache in ("one", "two", "two"):  # the last one finds all objects
                self.compile(folder, *options, optimised=True, env={**os.environ, "METAC_CACHE_DIR": str(self.work / f"cache {cache}")})
                builds.append([(folder / name).read_bytes() for name in names])
            for k, name in enumerate(names):
                expect(builds[0][k] == builds[1][k] == builds[2][k], f"{name} has other bytes {options}")

    def stock_cmake_with_every_compiler(self):
        expect("-Werror" not in (self.first / "CMakeLists.txt").read_text(), "a warning of a compiler that comes later ends a user's build")
        for compiler in filter(shutil.which, ["g++", "clang++", "g++-11", "clang++-19"]):
            build = self.work / f"build {compiler}"
            cmake(self.first, build, f"-DCMAKE_CXX_COMPILER={compiler}")
            expect(self.answer(build / "first_run") == self.expected, f"other bits when built by {compiler}")

    def openmp(self):
        cmake(self.first, self.work / "build openmp", "-DFIRST_OPENMP=ON")
        expect(self.answer(self.work / "build openmp/first_run") == self.expected, "other bits with OpenMP")

    def embedded_weights(self):
        folder = self.work / "inside"
        self.compile(folder, "--embed-weights")
        (folder / "inside.weights").unlink()
        shutil.copy(folder / "bin/inside_run", self.work / "alone")
        expect(self.answer(self.work / "alone") == self.expected, "other bits with the weights inside")

    def code_for_certain_dims(self):
        """Calls with these dims answer like the library for them alone, others like the one for all; weights reach all programs."""
        folder = self.work / "certain"
        self.compile(folder, "--dim", "batch=1,3", "--grad=inputs")
        for batch in (1, 3):
            self.compile(self.work / f"alone{batch}", "--shape", f"image={batch}x1x8x8", "--grad=inputs")
        self.compile(self.work / "every", "--grad=inputs")
        script = """
import numpy as np, certain, alone1, alone3, every
digits = np.concatenate([np.load(%r %% k) for k in range(5)])
m = certain.Model()
values = {p.name: np.random.default_rng(1).random(p.shape, p.dtype) / 10 for p in m.parameters}
for turn in range(2):
    for batch, alone in ((1, alone1), (3, alone3), (2, every), (5, every), (3, alone3)):
        x, other = digits[:batch], alone.Model()
        if turn:
            other.set_weights(values)
        y, expected = m.run({"image": x})["probabilities"], other.run({"image": x})["probabilities"]
        assert np.array_equal(y, expected), (turn, batch, np.abs(y - expected).max())
        ours, theirs = (net.vjp({"image": x}, {"probabilities": y}) for net in (m, other))
        assert all(np.array_equal(a["image"], b["image"]) for a, b in zip(ours, theirs) if "image" in a), (turn, batch)
    m.set_weights(values)
try:
    m.run({"image": digits[:, :, :7]})
    raise SystemExit("a wrong shape was taken")
except certain.Error as error:
    assert "dim 2" in str(error), error
""" % str(DIGITS / "digit_%d.npy")
        folders = [folder, self.work / "alone1", self.work / "alone3", self.work / "every"]
        command(sys.executable, "-c", script, env={**os.environ, "PYTHONPATH": os.pathsep.join(str(f / "python") for f in folders)}, cwd=self.work)

    def many_contexts_under_thread_sanitizer(self):
        self.compile(self.rival, "--grad=inputs")
        build = self.build_programs("build threads", "-O1 -DNDEBUG -fsanitize=thread -g1", "contexts", "rivals", "pools")
        expect(command(build / "contexts").strip() == "same", "answers differ")
        for program in ("rivals", "pools"):  # a fork from several threads is nothing that ThreadSanitizer goes along with
            expect(command(build / program, cwd=build).strip() == "right", program)

    def build_programs(self, name, flags, *programs):
        """Programs of this folder and the projects in them; rivals.cpp is told which functions take a context."""
        build = self.work / name
        build.mkdir(exist_ok=True)
        header = (self.rival / "include/rival.h").read_text()
        functions = [name for name, arguments in re.findall(r"RIVAL_API\s[^;]*?\brival_(\w+)\s*\(([^;]*)\);", header) if "rival_context*" in arguments]
        expect({"run", "hvp", "profile_row", "last_error"} <= set(functions), f"functions of the header: {functions}")
        (build / "context_functions.inc").write_text("".join(f'"{f}",\n' for f in functions))
        cmake(HERE, build, "-DCMAKE_BUILD_TYPE=None", f"-DFIRST={self.first}", f"-DSECOND={self.second}", f"-DRIVAL={self.rival}", f"-DCMAKE_CXX_FLAGS={flags}", f"-DCMAKE_EXE_LINKER_FLAGS={flags}",
              f"-DCMAKE_SHARED_LINKER_FLAGS={flags}", targets=programs)
        self.link_weights(build)
        return build

    def functions_of_other_libraries_hold_their_context(self):
        """Libraries for a GPU, and those that exchange gradients, are not in the programs above: that all they add goes through use() is seen in the text."""
        folder = HERE.parents[1] / "templates/project"
        held = set()
        for declared, defined in (("cuda/api.h", "cuda/api.cpp"), ("exchange/api.h", "exchange/api.cpp"), ("cuda/exchange.h", "cuda/exchange.cpp")):
            for function in re.findall(r"@name@_(\w+)\(@name@_context\*", (folder / declared).read_text()):
                body = (folder / defined).read_text().split(f" @name@_{function}(")[1].split("\n}\n")[0]
                expect("return use(context, [&](@name@_context& held)" in body or function in ("from_dlpack", "to_dlpack"), f"{function} in {defined}")
                held.add(function)
        expect(held >= {"run_async", "exchange"}, f"found {held}")

    def link_weights(self, build):
        for name in ("first", "second", "rival"):
            if not (build / f"{name}.weights").exists():
                (build / f"{name}.weights").symlink_to(getattr(self, name) / f"{name}.weights")

    def every_allocation_fails_once(self):
        build = self.build_programs("build memory", "-O1 -DNDEBUG -fsanitize=address,undefined -g1", "out_of_memory", "rivals", "pools", "forks")
        command(build / "out_of_memory")
        for program in ("rivals", "pools", "forks"):
            expect(command(build / program, cwd=build).strip() == "right", program)

    def nothing_but_the_c_library_is_needed(self):
        """Without the C++ library among what it needs, whoever compiled it."""
        for name in ("first", "other/first") if (self.work / "other").exists() else ("first",):
            needed = [line.split("[")[1].split("]")[0] for line in command("readelf", "-d", self.work / name / "lib/libfirst.so").splitlines() if "(NEEDED)" in line]
            expect(set(needed) <= {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "ld-linux-x86-64.so.2"}, f"the library needs {needed}")

    def python_module(self):
        script = """
import hashlib, numpy as np, first
with first.Model(threads=2) as m:
    x = np.load(%r)
    y = m.run({"image": x})["probabilities"]
    assert y.argmax() == 3 and y.shape == (1, 10)
    batch = m.run([np.concatenate([x] * 5)])["probabilities"]
    assert batch.shape == (5, 10) and (batch == y).all()
    out = np.zeros((1, 10), "f4")
    assert m.run({"image": x}, outputs={"probabilities": out})["probabilities"].base is not None and (out == y).all()
    assert (m.run({"image": x[:, :, ::-1][:, :, ::-1]})["probabilities"] == y).all()
    for bad in ({"image": np.zeros((1, 1, 8, 9), "f4")}, {"image": np.zeros((1, 8, 8), "f4")}):
        try: m.run(bad); raise SystemExit("accepted " + str(bad))
        except first.Error as e: assert "expected" in str(e), e
    assert (m.run(x)["probabilities"] == y).all() and (m(x)["probabilities"] == y).all() and (m.run((x,))["probabilities"] == y).all()
    for call, word in ((lambda: m.run({}), "input 'image' is missing"), (lambda: m.run({"imgae": x}), "no input 'imgae' (did you mean 'image'?)"), (lambda: m.run({"image": x, "more": x}), "no input 'more'"),
                       (lambda: m.run([x, x]), "2 inputs given, the model has 1"), (lambda: m.run([]), "0 inputs given"), (lambda: m.run(x, outputs={"probability": y}), "no output 'probability' (did you mean 'probabilities'?)"),
                       (lambda: m.set_weights({}), "is missing"), (lambda: m.set_weights({p.name: np.zeros(p.shape, p.dtype) for p in m.parameters} | {"w": y}), "no parameter 'w'")):
        try: call(); raise SystemExit("accepted what must say " + word)
        except ValueError as e: assert word in str(e), e
    try: first.Model(threads=-1); raise SystemExit("accepted -1 threads")
    except first.Error as e: assert "threads is -1; expected 0 (one per CPU) or more" in str(e) and e.status == 1, e
    zeros = {p.name: np.zeros(p.shape, p.dtype) for p in m.parameters}
    m.set_weights(zeros)
    assert np.ptp(np.nan_to_num(m.run({"image": x})["probabilities"])) == 0
    rng = np.random.default_rng(1)
    values = {p.name: (rng.random(p.shape) / 10).astype(p.dtype) for p in m.parameters}
    m.set_weights(values)
    m.write_weights(values, "written.weights")
    assert (first.Model(threads=1, weights="written.weights").run({"image": x})["probabilities"] == m.run({"image": x})["probabilities"]).all()
    file = open("written.weights", "rb").read()
    assert file[88:152].decode() == hashlib.sha256(file[4096:]).hexdigest()
    try: m.write_weights(values, "no/such/folder/written.weights"); raise SystemExit("written")
    except first.Error as e: assert "cannot write no/such/folder/written.weights" in str(e), e
""" % str(DIGITS / "digit_3.npy")
        command(sys.executable, "-c", script, env={**os.environ, "PYTHONPATH": str(self.first / "python")}, cwd=self.work)

    def stored_answers(self):
        """verify --against: of a model, of its library and of a compiled folder; what it prints can be acted on."""
        import numpy as np
        x = np.load(DIGITS / "digit_3.npy")
        y = np.load(self.metac_answer(x))
        good, bad, broken = (self.work / f"{n}.npz" for n in ("good", "bad", "broken"))
        np.savez(good, image=x, probabilities=y * np.float32(1 + 1e-4))
        np.savez(bad, image=x, probabilities=np.where(np.arange(10) == 2, y + 1e-3, y), probabilites=y)
        np.savez(broken, image=x, probabilities=np.where(np.arange(10) == 2, np.nan, y))
        for what, options in ((DIGITS / "digits.onnx", []), (DIGITS / "digits.onnx", ["--aot"]), (self.first, [])):
            said = command(self.metac, "verify", what, "--against", good, *options)
            expect("allowed: rtol 0.001, atol" in said and "of the largest value" in said, said)
            said = command(self.metac, "verify", what, "--against", bad, *options, status=3)
            expect("largest error 0.001 at element 2" in said and 'did you mean "probabilities"?' in said, said)
            atol, rtol = re.search(r"it would pass with --atol (\S+) or with --rtol (\S+)", said).groups()
            for tolerance in (["--atol", atol], ["--rtol", rtol]):
                command(self.metac, "verify", what, "--against", bad, *options, *tolerance)
            command(self.metac, "verify", what, "--against", bad, *options, "--atol", str(float(atol) * 0.9), status=3)
            expect("no tolerance would pass" in command(self.metac, "verify", what, "--against", broken, *options, status=3), "NaN")
        # Sums of large terms that nearly cancel: of the output's magnitude, not of the element's.
        np.savez(self.work / "large.npz", x=np.full((1, 4), 320, "f4"), y=np.array([[320, 4e-6, 320, 320]], "f4"))
        self.identity(self.work / "large.onnx", [1, 4])
        np.savez(self.work / "near.npz", x=np.array([[320, 4e-6 * 1.0372, 320, 320]], "f4"), y=np.array([[320, 4e-6, 320, 320]], "f4"))
        command(self.metac, "verify", self.work / "large.onnx", "--against", self.work / "near.npz")
        command(self.metac, "verify", self.work / "large.onnx", "--against", self.work / "near.npz", "--atol", "1e-7", status=3)
        np.savez(self.work / "none.npz", image=x, answer=y)
        expect("holds no output" in command(self.metac, "verify", DIGITS / "digits.onnx", "--against", self.work / "none.npz", status=1), "no output")
        np.savez(self.work / "lacking.npz", probabilities=y)
        expect('input "image" is not in the file' in command(self.metac, "verify", self.first, "--against", self.work / "lacking.npz", status=1), "no input")
        expect("it has no manifest" in command(self.metac, "verify", DIGITS, "--against", good, status=1), "no compiled folder")

    def metac_answer(self, x):
        import numpy as np
        np.save(self.work / "x.npy", x)
        command(self.metac, "run", DIGITS / "digits.onnx", "--input", f"image={self.work}/x.npy", "--output-dir", self.work / "jit answer")
        return self.work / "jit answer/probabilities.npy"

    def identity(self, path, dims):
        import onnx
        from onnx import helper
        port = [helper.make_tensor_value_info(name, 1, dims) for name in ("x", "y")]
        onnx.save(helper.make_model(helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", port[:1], port[1:]), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)

    def differences_of_compilations(self):
        """metac diff names options, parameters, nodes and kernels, and says what differs when only sizes do."""
        import numpy as np
        import onnx
        before, model = self.work / "before/net", onnx.load(DIGITS / "digits.onnx")
        before.parent.mkdir(exist_ok=True)
        self.compile(before, name="net")

        def diff(name, *options, change=None):
            changed = onnx.ModelProto()
            changed.CopyFrom(model)
            if change:
                change(changed.graph)
            path, folder = self.work / name / "digits.onnx", self.work / name / "net"
            path.parent.mkdir(exist_ok=True)
            onnx.save(changed, path)
            self.compile(folder, *options, model=path, name="net")
            said = command(self.metac, "diff", before, folder, status=3)
            expect(json.loads(command(self.metac, "diff", before, folder, "--json", status=3))["same"] is False, said)
            return folder, said

        def other_weights(graph):
            for tensor in graph.initializer:
                if tensor.name == "conv2.weight":
                    tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor) * np.float32(1.5), tensor.name))

        def other_node(graph):
            for node in graph.node:
                if node.name == "relu1":
                    node.op_type = "Tanh"

        _, said = diff("weights", change=other_weights)
        expect('! parameter "conv2.weight"' in said and "other values" in said and '"conv1.weight"' not in said and "1 parameters, 0 nodes, 0 kernels" in said, said)
        _, said = diff("node", change=other_node)
        expect('! node "relu1" (Tanh)' in said and "Relu -> Tanh" in said and '+ kernel "k003_conv_tanh"' in said and '- kernel "k003_conv_relu"' in said and "0 parameters, 1 nodes" in said, said)
        _, said = diff("option", "--winograd", "0", "--fusion", "greedy")
        expect("! option fusion: best -> greedy" in said, said)
        folder, said = self.work / "same/net", ""
        folder.parent.mkdir(exist_ok=True)
        self.compile(folder, name="net")
        expect("no difference" in command(self.metac, "diff", before, folder), "the same twice")
        with open(folder / "lib/libnet.so", "ab") as library:
            library.write(bytes(4))
        said = command(self.metac, "diff", before, folder, status=3)
        expect("! lib/libnet.so: " in said and "(+4 bytes)" in said and "the sources are the same" in said, said)
        (folder / "src/api.cpp").write_text("// other\n")
        expect("! src/api.cpp" in command(self.metac, "diff", before, folder, "--files", status=3), "--files")

    def words_of_the_program(self):
        """What is misspelt, forgotten or no number is told and nothing runs; --json prints the outputs and measures nothing."""
        program, digit = self.first / "bin/first_run", DIGITS / "digit_3.npy"
        for status, words, said in (
                (1, [], 'input "image" (float32 batchx1x8x8) is not given: --input image=FILE, or --input image=random'),
                (1, ["--input", "imgae=x.npy"], 'the model has no input "imgae"; did you mean "image"?'),
                (1, ["--input", "random"], "has open dims (batchx1x8x8): random numbers need --shape image=1x1x8x8"),
                (1, ["--input", "random", "--dim", "bach=2"], 'no open dim "bach"; did you mean "batch"? (its open dims: "batch")'),
                (1, ["--input", "random", "--dim", "batch=2..3"], "expected NAME=8"),
                (1, ["--input", "random", "--dim", "batch=2", "--shape", "image=1x1x8x8"], "has its own shape"),
                (1, ["--input", "random", "--shape", "imag=1x1x8x8"], 'no input "imag"; did you mean "image"?'),
                (1, ["--input", "random", "--shape", "image=1x"], "expected dims such as"),
                (1, ["--input", "random", "--shape", "1x1x8x8"], "expected NAME=1x3x224x224"),
                (1, ["--input", digit, "--shape", "image=1x1x8x8"], "comes from a file"),
                (1, ["--input", digit, "--input", f"image={digit}"], 'input "image" is given twice'),
                (1, ["--input", digit, "--input", digit], "the model has 1 inputs"),
                (2, ["--threads", "abc"], '--threads "abc": expected a whole number from 0 to 4096'),
                (2, ["--threads", "-1"], "expected a whole number"), (2, ["--threads=1.5"], "expected a whole number"), (2, ["--threads", ""], "expected a whole number"),
                (2, ["--threads"], "--threads needs a value"), (2, ["--bench=-1"], "expected a positive number"), (2, ["--bench", "1s"], "expected a positive number"),
                (2, ["--bench", "0"], "expected a positive number"), (2, ["--pin=3"], "--pin takes no value"), (2, ["--pin", "--pin=1"], "--pin takes no value"),
                (2, ["--jsn"], 'there is no option "--jsn"; did you mean "--json"?'), (2, [digit], "files are given with --input"),
                (2, ["--numbered", "--input", digit], "--numbered is for --output-dir"), (0, ["--help"], "--threads N"), (0, ["--version"], "first_run, metac "),
                (0, ["--bench", "0.01", "--shape", "image=2x1x8x8"], "median"), (0, ["--input", "random", "--shape=image=2x1x8x8", "--threads=1"], "probabilities  float32 2x10")):
            expect(said in command(program, *words, status=status), f"{words}: not told: {said}: {command(program, *words, status=status)}")
        report = json.loads(command(program, "--input", digit, "--json", "--output-dir", self.work / "told"))
        expect(set(report) == {"outputs"} and report["outputs"][0]["shape"] == [1, 10] and 0.5 < report["outputs"][0]["max"] <= 1, f"{report}")
        expect(pathlib.Path(report["outputs"][0]["file"]).exists(), f"{report}")
        expect(json.loads(command(program, "--input", digit, "--bench", "0.01", "--json"))["runs"] >= 5, "--bench --json measures")
        with_equals = self.work / "a=b.npy"
        shutil.copy(digit, with_equals)
        expect("greatest" in command(program, "--input", with_equals), "a file whose name has an equals sign")

    def what_python_and_c_take_for_an_input(self):
        """Every NumPy dtype, list and number for a port of every dtype: taken where no value is lost, else refused with the name and both dtypes."""
        import numpy as np
        import onnx
        from onnx import helper
        dtypes = ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
        onnx_of = {d: helper.np_dtype_to_tensor_dtype(np.dtype(d)) for d in dtypes}
        nodes = [helper.make_node("Identity", [d], [d + " out"]) for d in dtypes]
        graph = helper.make_graph(nodes, "kinds", [helper.make_tensor_value_info(d, onnx_of[d], [2]) for d in dtypes], [helper.make_tensor_value_info(d + " out", onnx_of[d], [2]) for d in dtypes])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.work / "kinds.onnx")
        self.compile(self.work / "kinds", model=self.work / "kinds.onnx")
        script = """
import ctypes, numpy as np, kinds
dtypes = %r
m = kinds.Model(threads=1)
good = {d: np.array([0, 1], d) for d in dtypes}
def taken(port, value):
    try:
        return m.run({**good, port: value})[port + " out"]
    except (TypeError, ValueError) as error:
        assert repr(port) in str(error) and "expected " + port in str(error), error
        return type(error)
kind = lambda d: np.dtype(d).kind
for port in dtypes:
    for given in dtypes:
        got = taken(port, good[given])  # 0 and 1 fit everywhere: what is refused is refused for its kind
        allowed = kind(given) == kind(port) or kind(given) != "f" and np.can_cast(given, port, "safe")
        assert (got is TypeError) == (not allowed), (port, given, got)
        assert got is TypeError or got.dtype == port and (got == [0, 1]).all()
        if kind(given) in "iu" and allowed:  # the extremes of one in the other
            for extreme in (np.iinfo(given).min, np.iinfo(given).max):
                got = taken(port, np.array([0, extreme], given))
                fits = int(np.array(extreme, given).astype(port)) == int(extreme) if kind(port) == "f" and abs(int(extreme)) < 2 ** 53 else False if kind(port) == "f" and extreme %% 2 else True if kind(port) == "f" else np.iinfo(port).min <= extreme <= np.iinfo(port).max
                assert (got is ValueError) == (not fits), (port, given, extreme, got)
                assert not fits or int(got[1]) == int(extreme)
        if kind(given) == "f" and kind(port) == "f":
            greatest = np.finfo(given).max
            got = taken(port, np.array([greatest, 1 / 3], given))
            assert (got is ValueError) == (greatest > np.finfo(port).max), (port, given, got)
            got = taken(port, np.array([np.inf, np.nan], given))
            assert np.isinf(got[0]) and np.isnan(got[1])
    for value in ([1, 0], (True, False), [2 ** 40, 1], [-1, 0]):
        got = taken(port, value)
        if kind(port) == "b":
            assert (got is TypeError) == (not isinstance(value[0], bool)), (port, value, got)
        else:
            fits = all(float(np.array(float(v), port)) == v for v in value) if kind(port) == "f" else all(np.iinfo(port).min <= v <= np.iinfo(port).max for v in value)
            assert (got is ValueError) == (not fits) and (not fits or list(got) == list(value)), (port, value, got)
    assert (taken(port, [0.5, 1.0]) is TypeError) == (kind(port) != "f"), port
    for value in ([1j, 0], ["1", "0"], [None, 1]):
        assert taken(port, value) is TypeError, (port, value)
assert taken("int32", np.array([5, 2 ** 31])) is ValueError
try: m.run({**good, "int32": np.array([5, 2 ** 31])})
except ValueError as e: assert "element [1]: 2147483648" in str(e) and "int64" in str(e), e

# As C sees it: bytes and type, where given, must be the port's.
sizes = [np.dtype(d).itemsize for d in dtypes]
def status(index, bytes, type, dims=None):
    tensors = m._tensors([good[d] for d in dtypes])
    tensors[index].bytes, tensors[index].type = bytes, type
    results = (kinds._Tensor * len(dtypes))()
    code = m._library.kinds_run(m._context, tensors, len(dtypes), results, len(dtypes))
    assert code or all(r.type == 1 + kinds._DTYPES.index("bool" if d == "bool" else d) for r, d in zip(results, dtypes) if d != "uint16")
    return code, m._message()
for k, d in enumerate(dtypes):
    own = 1 + [p.contents.dtype for p in [m.inputs[k].address]][0]
    for bytes in (0, 2 * sizes[k]):
        for type in (0, own):
            assert status(k, bytes, type) == (0, ""), (d, bytes, type)
    for bytes in (1, 2 * sizes[k] - 1, 2 * sizes[k] + 1, 4 * sizes[k], -8, 1 << 62):
        code, said = status(k, bytes, 0)
        assert code == 1 and repr(d).replace("'", '"') in said and "%%d bytes given, 2 of %%s are %%d" %% (bytes, d, 2 * sizes[k]) in said, (code, said)
    for type in [t for t in range(-1, 15) if t not in (0, own)]:
        code, said = status(k, 2 * sizes[k], type)
        assert code == 1 and "expected " + d in said and '"' + d + '"' in said, (code, said)
""" % (dtypes,)
        command(sys.executable, "-c", script, env={**os.environ, "PYTHONPATH": str(self.work / "kinds/python")}, cwd=self.work)

    def hostile_names(self):
        import onnx
        from onnx import TensorProto, helper

        nodes, inputs, outputs = [], [], []
        for i, name in enumerate(HOSTILE):
            inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N*/" if i % 2 else 'b"\n', 4]))
            outputs.append(helper.make_tensor_value_info(name + " out", TensorProto.FLOAT, None))
            nodes.append(helper.make_node("Relu", [name], [name + " out"], name=name))
        model = helper.make_model(helper.make_graph(nodes, HOSTILE[0], inputs, outputs), producer_name="evil\n#include <evil.h>", opset_imports=[helper.make_opsetid("", 17)])
        onnx.save(model, self.work / "hostile.onnx")
        folder = self.work / "hostile"
        self.compile(folder, model=self.work / "hostile.onnx")
        cmake(folder, self.work / "build hostile")
        symbols = command("nm", "-C", folder / "lib/libhostile.a")
        expect("evil" not in symbols and "escape" not in symbols, "model text is a symbol")
        out = self.work / "hostile answers"
        out.mkdir()
        shapes = [arg for name in HOSTILE for arg in ("--shape", f"{name}=2x4") if len(name) < 1000]
        program = folder / "bin/hostile_run"
        said = subprocess.run([str(program), "--input", "random", *shapes, "--output-dir", str(out)], capture_output=True, text=True)
        expect(said.returncode == 1 and "open dims" in said.stderr, "the input with the huge name has no shape, which must be said: " + said.stderr[:300])
        expect(not any(self.work.rglob("evil*")), "something ran")

    def open_heights_and_widths(self):
        """A strided and a depthwise convolution whose shapes are expressions: the library answers like the JIT, shape by shape."""
        import numpy
        import onnx
        from onnx import TensorProto, helper, numpy_helper

        rng = numpy.random.default_rng(0)
        weights = [numpy_helper.from_array(rng.standard_normal(shape).astype("f4"), name) for name, shape in (("k1", (16, 3, 3, 3)), ("k2", (16, 1, 3, 3)), ("k3", (8, 16, 1, 1)))]
        nodes = [helper.make_node("Conv", ["x", "k1"], ["a"], strides=[2, 2], pads=[1, 1, 1, 1]), helper.make_node("Relu", ["a"], ["b"]),
                 helper.make_node("Conv", ["b", "k2"], ["c"], group=16, pads=[1, 1, 1, 1]), helper.make_node("Conv", ["c", "k3"], ["y"])]
        ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
        path, folder = self.work / "open.onnx", self.work / "open"
        onnx.save(helper.make_model(helper.make_graph(nodes, "g", *ports, weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        self.compile(folder, model=path)
        for shape in ((1, 3, 9, 14), (2, 3, 32, 17)):
            numpy.save(self.work / "x.npy", rng.standard_normal(shape).astype("f4"))
            answers = []
            for program in ([folder / "bin/open_run"], [self.metac, "run", path]):
                out = self.work / "open answer"
                command(*program, "--input", f"x={self.work}/x.npy", "--output-dir", out)
                answers.append(numpy.load(out / "y.npy"))
            expect(answers[0].shape == answers[1].shape and numpy.abs(answers[0] - answers[1]).max() < 1e-4, f"other numbers for {shape}")

    def inspect_page(self):
        """`metac inspect --html`: tags balance, nothing is fetched, no text of a model is markup."""
        for model in (DIGITS / "digits.onnx", self.work / "hostile.onnx"):
            page = self.work / "page.html"
            command(self.metac, "inspect", model, "--html", page)
            tags = Tags()
            tags.feed(page.read_text(encoding="utf-8", errors="replace"))
            expect(not tags.open, f"tags left open: {tags.open}")
            expect(not tags.seen & {"script", "iframe", "img", "link", "object"}, "the page is more than text")
            expect("table" in tags.seen and "details" in tags.seen, "the page has no kernels")
            expect(model.name == "hostile.onnx" or tags.seen >= {"svg", "rect"}, "no chart of memory where dims are open")
            expect("prefers-color-scheme: dark" in page.read_text(errors="replace"), "one colour scheme")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="metac's build folder")
    parser.add_argument("--keep", type=pathlib.Path, help="work here and leave it")
    parser.add_argument("--only", default="", help="the checks with this word in their name (and the first)")
    arguments = parser.parse_args()
    work = (arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="metac-project-"))).resolve()
    work.mkdir(parents=True, exist_ok=True)
    checks, shared = Checks(work, arguments.build.resolve() / "bin/metac"), ("compile", "answer", "link_weights", "build_programs", "metac_answer", "identity")
    first = next(n for n, member in vars(Checks).items() if callable(member) and not n.startswith("_") and n not in shared)
    status = run_checks(checks, shared, arguments.only, (first,))
    if not arguments.keep:
        shutil.rmtree(work, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
