"""Libraries with code for several processors, whose weights files have the model's parameters."""
import os
import pathlib
import shutil
import subprocess
import sys

from checks import cmake, command, expect

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "models/digits"


def lacking_it(text, feature):
    """The text of a library's programs, as if the processor did not have the feature."""
    asked = "if (!has_cpu_feature(feature)"
    expect(asked in text and f'"{feature}"' in text, f"no {feature} is asked for")
    return text.replace(asked, f'{asked} || std::strcmp(feature, "{feature}") == 0')


class CpuChecks:
    """Of run_project.py's Checks."""

    def several_instruction_sets(self):
        """Each answers like the library for it alone; the best that the machine can run is taken; the others' kernels do not run."""
        names = ["x86-64-v4", "x86-64-v3", "x86-64"]
        folder, alone = self.work / "several", {}
        self.compile(folder, "--cpu", "x86-64,x86-64-v4,x86-64-v3")
        program = folder / "bin/several_run"
        expect("code for " + ", ".join(names) in command(program, "--info"), "the order of the instruction sets")
        for name in names:
            done = subprocess.run([program, "--cpu", name, "--input", "random", "--shape", "image=1x1x8x8"], capture_output=True, text=True)
            if done.returncode:
                expect("this CPU has no " in done.stderr and name in done.stderr, done.stderr)
                continue
            single = self.work / "single"
            self.compile(single, "--cpu", name)
            alone[name] = self.answer(single / "bin/single_run")
            expect(self.answer(program, "--cpu", name) == alone[name], f"{name}: other bits than alone")
        expect(self.answer(program) == next(iter(alone.values())), "not the best was taken")
        expect("no code for \"z80\"; it has code for x86-64-v4, x86-64-v3, x86-64" in command(program, "--cpu", "z80", status=1), "an unknown one")
        script = """
import numpy as np, several
x, given = np.load(%r), %r
for cpu in given:
    m, other = several.Model(cpu=cpu), several.Model(cpu=cpu)
    assert m.cpu == cpu
    rng = np.random.default_rng(1)
    values = {p.name: rng.random(p.shape, p.dtype) / 10 for p in m.parameters}
    other.set_weights(values)
    y = other.run({"image": x})["probabilities"]
    other.write_weights(values, "written.weights")  # by each, for all
    for another in given:
        assert np.abs(several.Model(cpu=another, weights="written.weights").run({"image": x})["probabilities"] - y).max() < 1e-5
    seen = y if cpu == given[0] else seen
    assert np.abs(y - seen).max() < 1e-5 and np.abs(y - m.run({"image": x})["probabilities"]).max() > 1e-3
assert several.Model().cpu == given[0]
""" % (str(DIGITS / "digit_3.npy"), list(alone))
        command(sys.executable, "-c", script, env={**os.environ, "PYTHONPATH": str(folder / "python")}, cwd=self.work)
        # As on lesser machines, down to one that can run none. The sources are the test's own copy.
        text = (folder / "src/library.cpp").read_text()
        for lacking, expected in (([], names[0]), (["avx512f"], names[1]), (["avx512f", "avx2"], names[2])):
            for feature in lacking:
                text = lacking_it(text, feature)
            (folder / "src/library.cpp").write_text(text)
            cmake(folder, self.work / "build several")
            if expected in alone:
                expect(self.answer(self.work / "build several/several_run") == alone[expected], f"without {lacking}: not {expected}")
        shutil.rmtree(folder)
        self.compile(folder, "--cpu", "x86-64-v4,x86-64-v3", "--embed-weights", "--no-build")
        text = (folder / "src/library.cpp").read_text()
        (folder / "src/library.cpp").write_text(lacking_it(text, "avx2"))
        cmake(folder, self.work / "build none")
        said = command(self.work / "build none/several_run", "--shape", "image=1x1x8x8", status=1)
        expect("this CPU has no avx2, which code for x86-64-v3 needs; compile the model with --cpu for it" in said, said)
        expect("asked for twice" in command(self.metac, "compile", DIGITS / "digits.onnx", "-o", folder, "--cpu", "x86-64,x86-64", status=2), "the same twice")
        command(self.metac, "run", DIGITS / "digits.onnx", "--cpu", "x86-64,x86-64-v3", status=2)

    def constants_are_no_parameters(self):
        """Weights are set by the names of the model's initialisers alone: not the matrices of minimal filtering, not what Constant nodes hold."""
        import numpy as np
        import onnx
        from onnx import helper
        rng = np.random.default_rng(5)
        values = {"w": rng.standard_normal((64, 64, 3, 3)).astype("f4") / 24, "s": rng.standard_normal((64, 64)).astype("f4")}
        fixed = onnx.numpy_helper.from_array(rng.standard_normal((64, 64)).astype("f4"))
        nodes = [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4), helper.make_node("Constant", [], ["k"], value=fixed), helper.make_node("MatMul", ["k", "s"], ["m"]),
                 helper.make_node("ReduceMean", ["c"], ["r"], axes=[2, 3], keepdims=0), helper.make_node("MatMul", ["r", "m"], ["y"])]
        graph = helper.make_graph(nodes, "filtered", [helper.make_tensor_value_info("x", 1, ["batch", 64, 32, 32])], [helper.make_tensor_value_info("y", 1, None)],
                                  [onnx.numpy_helper.from_array(v, n) for n, v in values.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.work / "filtered.onnx")
        script = """
import json, sys, numpy as np, filtered
rng = np.random.default_rng(5)
values = {"w": rng.standard_normal((64, 64, 3, 3)).astype("f4") / 24, "s": rng.standard_normal((64, 64)).astype("f4")}
folder = sys.argv[1]
names = sorted(values)
assert sorted(p["name"] for p in json.load(open(folder + "/filtered.json"))["parameters"]) == names
assert "#define FILTERED_PARAMETERS 2" in open(folder + "/include/filtered.h").read()
m = filtered.Model()
assert sorted(p.name for p in m.parameters) == names, m.parameters
x = rng.standard_normal((1, 64, 32, 32)).astype("f4")
y = m.run({"x": x})["y"]
m.set_weights(values)
assert np.array_equal(m.run({"x": x})["y"], y)
twice = {**values, "w": values["w"] * 2}
m.set_weights(twice)
assert np.array_equal(m.run({"x": x})["y"], y * 2)
m.write_weights(twice, folder + "/twice.weights")
other = filtered.Model(weights=folder + "/twice.weights")
assert np.array_equal(other.run({"x": x})["y"], y * 2)
other.set_weights(values)
assert np.array_equal(other.run({"x": x})["y"], y)
"""
        for cpus in ("native", "x86-64-v3,x86-64"):
            folder = self.work / "filtered"
            shutil.rmtree(folder, ignore_errors=True)
            self.compile(folder, "--cpu", cpus, "--shape", "x=1x64x32x32", model=self.work / "filtered.onnx")
            expect("minimal filtering" in "".join(f.read_text() for f in folder.glob("src/**/kernels_*.cpp")), "no minimal filtering: the test shows nothing")
            command(sys.executable, "-c", script, folder, env={**os.environ, "PYTHONPATH": str(folder / "python")}, cwd=self.work)

    def one_set_of_weights_for_several_processors(self):
        """The file has the parameters; contexts of a process prepare them once for the processor that they run on, and keep no more than that."""
        import numpy as np
        import onnx
        from onnx import helper
        rng = np.random.default_rng(6)
        count, size = 6, 1024
        nodes = [helper.make_node("MatMul", [f"x{k}", f"w{k}"], [f"x{k + 1}"]) for k in range(count)]
        weights = [onnx.numpy_helper.from_array((rng.standard_normal((size, size)) / 32).astype("f4"), f"w{k}") for k in range(count)]
        graph = helper.make_graph(nodes, "layers", [helper.make_tensor_value_info("x0", 1, ["batch", size])], [helper.make_tensor_value_info(f"x{count}", 1, None)], weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.work / "layers.onnx")
        script = """
import os, threading, numpy as np, layers
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096 / 2**20
x, made = np.random.default_rng(0).standard_normal((1, 1024)).astype("f4"), []
np.load("expected.npy")
def make(**options):
    made.append(layers.Model(**options))
    assert np.abs(made[-1].run([x])["x6"] - np.load("expected.npy")).max() < 1e-4
before = resident()
threads = [threading.Thread(target=make) for _ in range(6)]  # at once
for t in threads: t.start()
for t in threads: t.join()
assert len(made) == 6
first = resident() - before
assert 20 < first < 24 * 1.2 + 6, first  # 24 MiB of weights
make(map_weights=True)
again = resident()
make(copy_weights=True)
assert 20 < resident() - again < 24 * 1.2 + 6, resident() - again  # its own
weights = {p.name: np.zeros(p.shape, p.dtype) for p in made[0].parameters}
made[0].set_weights(weights)
assert (made[0].run([x])["x6"] == 0).all()
make()
# What has become of the file touches nothing that is prepared.
path = os.path.join(os.environ["FOLDER"], "layers.weights")
whole = open(path, "rb").read()
os.truncate(path, 5000)
assert np.abs(made[1].run([x])["x6"] - np.load("expected.npy")).max() < 1e-4
open(path, "wb").write(whole)
"""
        damage = """
import os, layers
whole = open(os.path.join(os.environ["FOLDER"], "layers.weights"), "rb").read()
for at in (4096, len(whole) // 2, len(whole) - 5000):
    changed = bytearray(whole)
    changed[at] ^= 4
    open("damaged.weights", "wb").write(changed)
    for options in ({}, {"copy_weights": True}, {"map_weights": True}):
        try:
            layers.Model(weights="damaged.weights", **options)
            raise SystemExit("byte %d: damage was not found" % at)
        except layers.Error as error:
            assert "damaged.weights is damaged: " in str(error), error
"""
        folder, one = self.work / "layers", self.work / "layers_for_one"
        self.compile(one, "--cpu", "x86-64", model=self.work / "layers.onnx")
        self.compile(folder, "--cpu", "x86-64-v4,x86-64-v3,x86-64-v2,x86-64", model=self.work / "layers.onnx")
        sizes = [(where / f"{where.name}.weights").stat().st_size for where in (folder, one)]
        expect(sizes[0] <= 1.1 * sizes[1], f"weights of four processors and of one: {sizes}")
        x = np.random.default_rng(0).standard_normal((1, size)).astype("f4")
        y = x.astype("f8")
        for w in weights:
            y = y @ onnx.numpy_helper.to_array(w).astype("f8")
        np.save(self.work / "expected.npy", y)
        for text in (script, damage):
            command(sys.executable, "-c", text, env={**os.environ, "PYTHONPATH": str(folder / "python"), "FOLDER": str(folder)}, cwd=self.work)
        # Functions and programs for certain sizes prepare theirs when they are first called.
        shutil.rmtree(folder)
        self.compile(folder, "--cpu", "x86-64-v3,x86-64", "--dim", "batch=1,8", "--grad", model=self.work / "layers.onnx")
        script = """
import numpy as np, layers
m = layers.Model()
expected = np.load("expected.npy")
for batch in (1, 8, 3, 1):
    x = np.repeat(np.random.default_rng(0).standard_normal((1, 1024)).astype("f4"), batch, 0)
    assert np.abs(m.run([x])["x6"] - expected).max() < 1e-4
    y, gradients = m.vjp({"x0": x}, {"x6": np.ones((batch, 1024), "f4")})
    assert np.abs(y["x6"] - expected).max() < 1e-4 and all(np.isfinite(g).all() and g.any() for g in gradients.values())
"""
        command(sys.executable, "-c", script, env={**os.environ, "PYTHONPATH": str(folder / "python")}, cwd=self.work)
