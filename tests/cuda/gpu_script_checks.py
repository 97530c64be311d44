"""Both halves of tests/gpu.sh without a GPU: libraries for the stand-in for CUDA, peers that compute nothing (peers/)."""
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SCRIPT = HERE.parent / "gpu.sh"
CASES = "matmul_bfloat16|loop"


def command(*argv, status=0, **more):
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=600, **more)
    if status is not None and done.returncode != status:
        raise RuntimeError(f"{' '.join(map(str, argv))}: status {done.returncode}\n" + "\n".join(done.stdout.splitlines()[-15:]))
    return done.stdout if status is not None else (done.returncode, done.stdout)


def expect(condition, what):
    if not condition:
        raise RuntimeError(what)


class GpuScriptChecks:
    def gpu_script(self):
        bundle = self._bundle()
        said, report = self._run_bundle(bundle, "gpu results")
        ran = {(row["name"], row["external"]) for row in report["tests"]}
        expect(ran == {("matmul_bfloat16", "none"), ("matmul_bfloat16", "auto"), ("loop", "none")} and
               all(row["good"] for row in report["tests"]), said)
        expect((self.work / "gpu results/cache/library_algorithms.txt").exists(), "no algorithm of a library is remembered with the results")
        expect([(row["name"], row["good"]) for row in report["decoders"]] == [("tiny_f32", True), ("tiny_int4", True)], said)
        expect([row["good"] for row in report["training"]] == [True] and report["training"][0]["off"] < 2e-4, said)
        if shutil.which("nvidia-smi") is None:
            expect(report["kernels"] == report["networks"] == [] and report["gpu"] is None, "something was measured where there is nothing")
        begin = time.monotonic()
        said, again = self._run_bundle(bundle, "gpu results", "--parts", "tests,training")   # nothing is left to do
        expect(again["tests"] == report["tests"] and again["training"] == report["training"] and time.monotonic() - begin < 60, said)
        self._figures(bundle)
        return "with figures of peers that compute nothing"

    def _bundle(self):
        bundle = self.work / "gpu.tar.xz"
        options = ["--build", self.metac.parents[1], "--networks", "alexnet", "--batches", "1,2", "--dtypes", "float32", "--size", 64, "--width", 32, "--mebibytes", 0.06,
                   "--training", "digits", "--digits", self._few_digits(), "--updates", 20, "--arch", "80,90", "--only", f"^({CASES}|hundred_kernels|element_wise|digits|alexnet|tiny_.*)$", "--decoders", "tiny", "--work", self.work / "gpu bundle"]
        for _ in range(2):   # the second finds everything finished
            said = command(SCRIPT, "prepare", bundle, *options, env=self._script_environment())
        expect("3 cases, 1 networks, 1 training programs, 2 decoders" in said, said)
        return bundle

    def _script_environment(self):
        return {**self.stand_in, "PYTHON": sys.executable, "METAC_ALGORITHMS": ""}

    def _run_bundle(self, bundle, out, *options, status=0, **environment):
        said = command(SCRIPT, "run", bundle, self.work / out, "--turn", 0, *options, status=status, env={**self._script_environment(), **environment})
        return said, json.loads((self.work / out / "gpu.json").read_text())

    def _measured_alone(self, notes):
        """Two processes compiled side by side, and nothing was measured while another process measured: each line says who measured what, from when to when."""
        measured = sorted((float(begin), float(end), process) for process, begin, end in (re.match(r"(\d+) .* (\S+) (\S+)$", line).groups() for line in notes.splitlines()))
        expect(len({process for _, _, process in measured}) == 2, f"one process did it all:\n{notes}")
        for (_, end, process), (begin, _, other) in zip(measured, measured[1:]):
            expect(process == other or end <= begin, f"measured at the same time:\n{notes}")
        turns = [process for k, (_, _, process) in enumerate(measured) if k == 0 or process != measured[k - 1][2]]
        expect(len(turns) <= 4, f"rows were raced in pieces:\n{notes}")   # a candidate and a race each

    def _figures(self, bundle):
        """Every figure's way through the script; none of them means anything."""
        peers = {"PYTHONPATH": str(HERE / "peers")}
        said, report = self._run_bundle(bundle, "gpu figures", "--parts", "kernels", **peers)
        kernels = {row["name"]: row for row in report["kernels"]}
        expect(kernels["element_wise"]["of_copy"] > 0 and kernels["hundred_kernels"]["host_microseconds_a_run"] > 0, said)
        # The time does not suffice for torch.compile: the row says so, and the next run takes it up.
        said, report = self._run_bundle(bundle, "gpu figures", "--parts", "networks", "--seconds", "28", **peers)
        expect([row["missing"] for row in report["networks"]] == 2 * [["torch.compile"]] and report["summary"]["with all peers"] == 0 and "*" in said, said)
        notes = self.work / "gpu notes"
        said, report = self._run_bundle(bundle, "gpu figures", "--parts", "networks", "--jobs", 2, METAC_STAND_IN_NOTES=str(notes), METAC_STAND_IN_COMPILES="1", **peers)
        for row in report["networks"]:
            expect(row["missing"] == [] and all(row[who] > 0 for who in ("metac", "eager", "recorded", "torch.compile", "onnxruntime", "metac bytes", "eager bytes", "torch.compile bytes")), said)
        mean = (report["networks"][0]["times_the_fastest"] * report["networks"][1]["times_the_fastest"]) ** 0.5
        expect(report["summary"]["with all peers"] == 2 and abs(report["summary"]["geometric mean"] / mean - 1) < 1e-9 and [k["name"] for k in report["kernels"]] == list(kernels), said)
        self._measured_alone(notes.read_text())
        said, report = self._run_bundle(bundle, "gpu peers fail", "--parts", "networks", "--jobs", 2, METAC_STAND_IN_FAILS="compile,onnxruntime", **peers)
        for row in report["networks"]:
            expect("no compiler" in row["torch.compile fails"] and "no such operator" in row["onnxruntime fails"] and row["eager"] > 0 and row["missing"] == [], said)
        said, report = self._run_bundle(bundle, "gpu peers end", "--parts", "networks", METAC_STAND_IN_FAILS="process", **peers)
        expect(all(row["missing"] == ["metac"] and "status 7" in row["why"] for row in report["networks"]) and len(report["networks"]) == 2, said)
        # A training program whose steps are raced, and a library that is broken.
        folder = self.work / "gpu raced"
        with tarfile.open(bundle) as archive:
            archive.extractall(folder)
        made = json.loads((folder / "gpu/list.json").read_text())
        (digits,) = made["training"]
        del digits["losses"]
        images = [{"name": "image", "dtype": "float32", "below": 2, "dims": [1, 8, 8]}, {"name": "label", "dtype": "int64", "below": 10, "dims": []}]
        weights = folder / "gpu/training/digits/digits.weights"
        digits.update(updates=11, batch=16, size=8, classes=10, data=images, weights_bytes=weights.stat().st_size - 4096, integers=[])
        weights.with_name(weights.name + ".head").write_bytes(weights.read_bytes()[:4096])
        # A decoder whose weights are made up.
        weights = folder / "gpu/decoders/tiny_f32/net.weights"
        made["decoders"] = [{"name": "tiny_f32", "prompts": [4], "most": 8, "weights_bytes": weights.stat().st_size - 4096, "integers": []}]
        weights.with_name(weights.name + ".head").write_bytes(weights.read_bytes()[:4096])
        (folder / "gpu/list.json").write_text(json.dumps(made))
        for library in (folder / "gpu/networks").rglob("*.so"):
            library.write_bytes(b"no library")
        with tarfile.open(self.work / "raced.tar.xz", "w:xz") as archive:
            archive.add(folder / "gpu", "gpu")
        said, report = self._run_bundle(self.work / "raced.tar.xz", "gpu race", "--parts", "decoders,training,networks", **peers)
        (row,) = report["decoders"]
        expect(row["good"] and row["milliseconds of a prompt of 4"] > 0 and row["tokens a second behind 4"] > 0, said)
        (row,) = report["training"]
        expect(row["milliseconds_a_step"] > 0 and row["eager"] > 0 and row["torch.compile"] > 0 and row["times_the_fastest"] > 0, said)
        expect(report["networks"][0]["missing"] == ["metac"] and report["networks"][0]["why"], said)
        status, said = command(SCRIPT, "run", bundle, self.work / "gpu race", status=None, env={**self._script_environment(), **peers})
        expect(status == 1 and "another GPU or bundle" in said, said)
        said = command(sys.executable, "-c", "import time, gpu_figures\ntry:\n  with gpu_figures.Alarm(0.1): time.sleep(20)\nexcept TimeoutError: print('in time')", env={**self._script_environment(), "PYTHONPATH": str(HERE)})
        expect("in time" in said, said)
