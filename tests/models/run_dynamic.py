#!/usr/bin/env python3
"""One library for all shapes: networks of models/dynamic, and others, at random shapes against ONNX Runtime.

    python3 run_dynamic.py --metac build/release/bin/metac [--shapes 10] [--seed S] [--only REGEX] [--models DIR]
                           [--filled LIB]
    needs: pip install numpy onnx onnxruntime

Every model is compiled once, with its own open dims left open, and its library called at so many random shapes through
its Python module. The decoder also runs word by word, each call's cache being the next one's past; it and the detector
are compiled once more with code of its own for some dims (--dim), which must answer the same. --models names a folder
with the networks that REAL lists; those that are not there are left out. With --filled, libmetac_fill_memory.so, no
shape may make a product of memory that nobody wrote. Outputs agree when integers are equal and floats within 1e-4 of
the output's largest magnitude (or of 0.01), or within 32 times what ONNX Runtime's own answer moves by where the inputs
move by half a unit in their last place (a magnitude near zero that a sum of hundreds of products decides, say).
The last line is 'N passed, N failed'.
"""
import argparse
import importlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models/dynamic"))
import build  # noqa: E402

TOLERANCE = 1e-4


def real(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def detector_inputs(rng):
    return {"image": real(rng, int(rng.integers(1, 4)), 3, 8 * int(rng.integers(2, 12)), 8 * int(rng.integers(2, 12)))}


def convolutions_inputs(rng):
    batch = int(rng.choice([1, 1, 2, 3, 9]))
    return {"image": real(rng, batch, 3, int(rng.integers(20, 180)), int(rng.integers(20, 180)))}


def decoder_inputs(rng):
    batch, steps, past = int(rng.integers(1, 4)), int(rng.integers(1, 7)), int(rng.choice([0, 1, 5, 17, 40]))
    cache = (2, batch, 4, past, 8)
    return {"ids": rng.integers(0, 64, (batch, steps)), "past_key": real(rng, *cache), "past_value": real(rng, *cache)}


def image(rng, low, high, by):
    return rng.random((1, 3, by * int(rng.integers(low, high)), by * int(rng.integers(low, high))), np.float32)


# Files that --models may hold: how their inputs are drawn.
REAL = {
    "magika": lambda rng: {"bytes": rng.integers(0, 257, (int(rng.integers(1, 7)), 2048)).astype(np.int32)},
    "silero15": lambda rng: {"input": 0.3 * real(rng, (b := int(rng.integers(1, 9))), 512), "state": 0.1 * real(rng, 2, b, 128), "sr": np.array(16000, np.int64)},
    "silero18": lambda rng: {"input": 0.3 * real(rng, (b := int(rng.integers(1, 9))), 512), "state": 0.1 * real(rng, 2, b, 128), "sr": np.array(16000, np.int64)},
    "rapid": lambda rng: {"x": image(rng, 2, 8, 32)},
    "rec": lambda rng: {"x": rng.random((int(rng.integers(1, 3)), 3, 48, 8 * int(rng.integers(5, 30))), np.float32)},
    "nudenet": lambda rng: {"images": image(rng, 5, 11, 32)},
    "pitch": lambda rng: {"serving_default_input_2:0": 0.1 * real(rng, int(rng.integers(1, 4)), 43844, 1)},
}


class Failure(Exception):
    pass


def moved_by_rounding(network, feeds, reference, seed=1):
    """How far each output of ONNX Runtime moves where its float inputs move by half a unit in their last place."""
    rng, moved = np.random.default_rng(seed), dict.fromkeys(reference, 0.0)
    for _ in range(4):
        nudged = lambda v: (v * (1 + rng.uniform(-6e-8, 6e-8, v.shape))).astype(v.dtype)  # noqa: E731
        near = {k: nudged(v) if v.dtype == np.float32 else v for k, v in feeds.items()}
        for name, value in network.reference(near).items():
            if value.dtype.kind == "f" and value.size and value.shape == reference[name].shape:
                moved[name] = max(moved[name], float(np.max(np.abs(value.astype(np.float64) - reference[name]))))
    return moved


def compare(ours, reference, moved=None):
    """`moved`: what each output moves by where inputs are rounded otherwise; None: nothing but TOLERANCE is allowed."""
    for name, expected in reference.items():
        got = np.asarray(ours[name])
        if got.shape != expected.shape or got.dtype != expected.dtype:
            raise Failure(f"{name} is {got.dtype}{list(got.shape)}, expected {expected.dtype}{list(expected.shape)}")
        if expected.dtype.kind == "f" and expected.size:
            error = float(np.max(np.abs(got.astype(np.float64) - expected)))
            if not error <= max(TOLERANCE * max(float(np.max(np.abs(expected))), 1e-2), 32 * (moved or {}).get(name, 0.0)):
                raise Failure(f"{name} is {error:.2g} off, of at most {float(np.max(np.abs(expected))):.2g}")
        elif not np.array_equal(got, expected):
            raise Failure(f"{name} differs")


class Network:
    def __init__(self, name, file, work, metac):
        self.name, self.file, self.metac, self.work = name, file, metac, work
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])

    def reference(self, feeds):
        return dict(zip([o.name for o in self.session.get_outputs()], self.session.run(None, feeds)))

    def fixed(self, **dims):
        """A file of the network with these of its inputs' dims as numbers."""
        model, file = onnx.load(str(self.file)), self.work / f"{self.name}-fixed.onnx"
        for port in [*model.graph.input, *model.graph.output]:
            for dim in port.type.tensor_type.shape.dim:
                if dim.dim_param:
                    dim.dim_value = dims.get(dim.dim_param, 1)
        onnx.save(model, file)
        return file

    def library(self, library, *options, file=None):
        """A model of the compiled library's Python module."""
        out = self.work / library
        done = subprocess.run([self.metac, "compile", str(file or self.file), "-o", str(out), "--name", library, "--cpu", "native", *options], capture_output=True, text=True)
        if done.returncode:
            raise Failure(f"metac compile: {done.stderr.strip()[-300:]}")
        sys.path.insert(0, str(out / "python"))
        return importlib.import_module(library).Model(threads=2)


def random_shapes(network, library, draw, count, seed):
    for i in range(count):
        feeds = draw(np.random.default_rng([seed, i]))
        shapes = ", ".join(f"{k} {'x'.join(map(str, v.shape))}" for k, v in feeds.items())
        try:
            expected = network.reference(feeds)
        except Exception as error:
            raise Failure(f"ONNX Runtime refuses {shapes}: {str(error)[:150]}") from error
        try:
            answer = {name: np.array(value) for name, value in library.run(feeds).items()}
            try:
                compare(answer, expected)
            except Failure:
                compare(answer, expected, moved_by_rounding(network, feeds, expected))
        except (Failure, RuntimeError) as error:
            raise Failure(f"at {shapes}: {error}") from error


def word_by_word(network, library, words=12):
    ids = np.random.default_rng(3).integers(0, 64, (2, words))
    empty = np.zeros((2, 2, 4, 0, 8), np.float32)
    caches = [(empty, empty), (empty, empty)]
    for k in range(words):
        answers = []
        for i, answer in enumerate((library.run, network.reference)):
            key, value = caches[i]
            results = {n: np.array(v) for n, v in answer({"ids": ids[:, k:k + 1], "past_key": key, "past_value": value}).items()}
            caches[i] = results["key"], results["value"]
            answers.append(results)
        compare(*answers)


def meets_no_denormals(network, draw, count, seed, filled):
    files = []
    for i in range(count):
        files.append(network.work / f"{network.name}-{i}.npz")
        np.savez(files[-1], **draw(np.random.default_rng([seed, i])))
    script = pathlib.Path(__file__).with_name("denormals.py")
    argv = [sys.executable, str(script), str(network.work / f"{network.name}_net"), f"{network.name}_net", *map(str, files)]
    done = subprocess.run(argv, capture_output=True, text=True, env=os.environ | {"LD_PRELOAD": str(filled.resolve()), "METAC_FILL": "denormals"})
    if done.returncode:
        raise Failure(done.stderr.strip()[-300:])
    if done.stdout:
        shapes = [{k: list(v.shape) for k, v in np.load(file).items()} for file in done.stdout.split()]
        raise Failure(f"at {shapes} denormal numbers that nobody wrote are operands")


def checks(network, draw, count, seed, filled):
    """(title, function) of what is looked at."""
    name = network.name
    libraries = {}

    def at_shapes():
        libraries["open"] = network.library(f"{name}_net")
        random_shapes(network, libraries["open"], draw, count, seed)
    yield f"{name} at {count} shapes", at_shapes
    if filled:
        yield f"{name} computes with what was written", lambda: meets_no_denormals(network, draw, count, seed, filled)
    if name == "decoder":
        yield "decoder word by word", lambda: word_by_word(network, libraries["open"])
    if name == "convolutions":
        opened = ["--shape", "image=?x3x?x?"]
        yield "convolutions that the file fixes, opened", lambda: random_shapes(
            network, network.library("convolutions_opened", *opened, file=network.fixed(height=64, width=96)), draw, count, seed + 2)
    own = {"decoder": ["--dim", "steps=1,4"], "detector": ["--dim", "batch=1,2"], "convolutions": ["--dim", "batch=1,9"]}
    if name in own:
        yield f"{name} with {' '.join(own[name][:2])}", lambda: random_shapes(network, network.library(f"{name}_dims", *own[name]), draw, count, seed + 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--shapes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--models", type=pathlib.Path)
    parser.add_argument("--filled", type=pathlib.Path, metavar="LIB")
    arguments = parser.parse_args()
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="metac-dynamic-") as temporary:
        work = pathlib.Path(temporary)
        models = [(name, None, draw) for name, draw in (("detector", detector_inputs), ("decoder", decoder_inputs), ("convolutions", convolutions_inputs))]
        if arguments.models:
            models += [(name, arguments.models / f"{name}.onnx", draw) for name, draw in REAL.items() if (arguments.models / f"{name}.onnx").exists()]
        for name, file, draw in models:
            if not re.search(arguments.only, name):
                continue
            if file is None:
                file = work / f"{name}.onnx"
                onnx.save(build.BUILDERS[name](), file)
                onnx.checker.check_model(str(file), full_check=True)
            for title, look in checks(Network(name, file, work, arguments.metac), draw, arguments.shapes, arguments.seed, arguments.filled):
                try:
                    look()
                    passed += 1
                    print(f"pass  {title}", flush=True)
                except (Failure, KeyError) as error:
                    failed += 1
                    print(f"FAIL  {title}: {error}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
