#!/usr/bin/env python3
"""Changes good files a little, at random, and looks whether metac and its libraries stay upright.

    python3 run_fuzz.py --build build/asan --cases DIR [--count 2000] [--seed 1] [--keep DIR]
    needs: pip install numpy onnx

The good files: models of ONNX backend cases (generate_cases.py makes DIR) and of models/, as ONNX and as JSON; tensors as
.npy, .npz and .pb; data, weights and checkpoints of training programs; the weights and the manifest of a compiled library.
Changed models, tensors and data go through metac_read_files, a sample of the models through `metac run`, the weights through the library's own program, the manifest through
`metac diff`. Each may be refused with a reason or work; none may crash, hang, or end in status 70. What failed stays in
build/fuzz-failures/. The last line is 'N passed, N failed'.
"""
import argparse
import base64
import gzip
import io
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

import mutate

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Eight by eight grey pixels.
JPEG = ("/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDACgcHiMeGSgjISMtKygwPGRBPDc3PHtYXUlkkYCZlo+AjIqgtObDoKrarYqMyP/L2u71////m8H////6/+b9//j/"
        "wAALCAAIAAgBAREA/8QAFAABAAAAAAAAAAAAAAAAAAAAAP/EAB0QAAMAAQUBAAAAAAAAAAAAAAECA7EAESExQVH/2gAIAQEAAD8AMaUkkwRNWCgbc9e4Ofuv"
        "/9k=")
CHECKED = {**os.environ, "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1"}


def open_dims(path):
    """A size for every open dim that the model's inputs name, as random inputs need one."""
    try:
        model = onnx.load(path)
    except Exception:  # changed beyond what a reader takes, or JSON
        return []
    names = {dim.dim_param for port in model.graph.input for dim in port.type.tensor_type.shape.dim if dim.dim_param}
    return [word for name in sorted(names) if "\0" not in name for word in ("--dim", f"{name}=2")]


class Fuzz:
    def __init__(self, arguments, work):
        self.build, self.work, self.count = arguments.build.resolve(), work, arguments.count
        self.metac = self.build / "bin/metac"
        self.rng = random.Random(arguments.seed)
        self.passed = self.failed = 0
        self.failures = self.build.parent / "fuzz-failures"
        models = sorted(p for p in arguments.cases.rglob("model.onnx") if p.stat().st_size < 20_000)
        self.models = self.rng.sample(models, min(150, len(models))) + [ROOT / "models/digits/digits.onnx"]

    def report(self, good, what, keep=()):
        self.passed, self.failed = self.passed + good, self.failed + (not good)
        if not good:
            self.failures.mkdir(parents=True, exist_ok=True)
            for path in keep:
                shutil.copy(path, self.failures)
            print(f"FAIL  {what}", flush=True)

    def run(self, what, argv, keep, statuses=(0, 1)):
        """One command on one changed file."""
        try:
            done = subprocess.run([str(a) for a in argv], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60, env=CHECKED, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return self.report(False, f"{what}: still running after 60 s", keep)
        good = done.returncode in statuses and b"Sanitizer" not in done.stderr and b"runtime error" not in done.stderr
        self.report(good, f"{what}: status {done.returncode}: {done.stderr.decode(errors='replace')[-1500:]}", keep)

    def read_all(self, files, seconds=30, memory=3):
        """metac_read_files on all of them, a few hundred at a time, with room for sanitizers."""
        for start in range(0, len(files), 500):
            part = [str(f) for f in files[start:start + 500]]
            done = subprocess.run([str(self.build / "bin/metac_read_files"), "--seconds", str(seconds), "--memory", str(memory), *part],
                                  capture_output=True, text=True, errors="replace", env=CHECKED)
            counts = re.search(r"^(\d+) passed, (\d+) failed$", done.stdout, re.MULTILINE)
            if not counts:
                self.report(False, f"metac_read_files: status {done.returncode}: {done.stderr[-1500:]}")
                continue
            self.passed += int(counts[1])
            reasons = [line for line in done.stderr.splitlines() if re.search(r"ERROR: |runtime error|internal error|^ +#[0-6] ", line)]
            for line in re.findall(r"^FAIL  (.*)$", done.stdout, re.MULTILINE):
                self.report(False, line, [p for p in [line.split(": ")[0]] if os.path.exists(p)])
            if reasons and int(counts[2]):
                print("\n".join(reasons[:60]), flush=True)

    def write(self, name, data):
        path = self.work / name
        path.write_bytes(data)
        return path

    # ---- the kinds of file ----
    def onnx_models(self):
        files = []
        for i in range(self.count):
            source, other = self.rng.choice(self.models).read_bytes(), self.rng.choice(self.models).read_bytes()
            if i % 2:
                data = mutate.bytes_mutated(self.rng, source, other)
            else:
                model = onnx.ModelProto.FromString(source)
                mutate.message_mutated(self.rng, model)
                data = model.SerializeToString()
            files.append(self.write(f"model{i}.onnx", data))
        self.read_all(files)
        for path in self.rng.sample(files, self.count // 100):
            self.run(f"metac run {path.name}", [self.metac, "run", path, "--input", "random", *open_dims(path)], [path], statuses=(0, 1, 2))

    def json_models(self):
        documents = [path.read_bytes() for path in sorted((ROOT / "models/listing1").glob("*.json"))]
        for source in self.rng.sample(self.models, 25):
            made = self.work / "converted.json"
            subprocess.run([self.metac, "convert", source, made], capture_output=True)
            if made.exists() and made.stat().st_size < 100_000:
                documents.append(made.read_bytes())
            made.unlink(missing_ok=True)
        files = []
        for i in range(self.count):
            source = self.rng.choice(documents[:2] if i % 4 == 0 else documents)
            if i % 2:
                data = mutate.bytes_mutated(self.rng, source, self.rng.choice(documents))
            else:
                data = json.dumps(mutate.json_mutated(self.rng, json.loads(source))).encode()
            files.append(self.write(f"model{i}.json", data))
        self.read_all(files)
        for path in self.rng.sample(files, self.count // 100):
            self.run(f"metac run {path.name}", [self.metac, "run", path, "--input", "random", *open_dims(path)], [path], statuses=(0, 1, 2))

    def tensors(self):
        arrays = [np.zeros((2, 3), np.float32), np.arange(5), np.array(True), np.zeros((0, 4), np.int8), np.ones((1, 2, 1), np.float64)]
        sources = []
        for array in arrays:
            npy, npz, packed = io.BytesIO(), io.BytesIO(), io.BytesIO()
            np.save(npy, array)
            np.savez(npz, x=array, y=array)
            np.savez_compressed(packed, x=array)
            sources += [("npy", npy.getvalue()), ("npz", npz.getvalue()), ("npz", packed.getvalue()), ("pb", numpy_helper.from_array(array, "x").SerializeToString())]
        files = []
        for i in range(self.count):
            kind, source = self.rng.choice(sources)
            files.append(self.write(f"tensor{i}.{kind}", mutate.bytes_mutated(self.rng, source, self.rng.choice(sources)[1])))
        self.read_all(files)

    def training_data(self):
        """What training programs read: data of every kind, weights and checkpoints."""
        elements = np.arange(12, dtype=np.float32).tobytes()
        header = json.dumps({"__metadata__": {"format": "pt"}, "a": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]},
                             "b": {"dtype": "F32", "shape": [4], "data_offsets": [32, 48]}}).encode()
        adapters = json.dumps({"__metadata__": {"alpha": "2"}, "base_model.model.w.lora_A.weight": {"dtype": "F16", "shape": [2, 4], "data_offsets": [0, 16]},
                               "base_model.model.w.lora_B.weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [16, 32]}}).encode()
        sources = [("idx", bytes([0, 0, 0x0B, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + bytes(range(12))), ("csv", b'a,b,"c, d"\n1,2,3\n4,"5",x\n7,8,"9 ""z"""\n'),
                   ("gz", gzip.compress(b"hello hello " * 40, mtime=0)), ("bin", bytes(2 * 3073)), ("jpg", base64.b64decode(JPEG)),
                   ("bmp", b"BM" + struct.pack("<IIIIiiHHIIiiII", 54 + 32, 0, 54, 40, 2, 4, 1, 24, 0, 32, 0, 0, 0, 0) + bytes(range(32))),
                   ("safetensors", struct.pack("<Q", len(header)) + header + elements),
                   ("safetensors", struct.pack("<Q", len(adapters)) + adapters + elements[:32])]
        files = []
        for i in range(self.count):
            kind, source = sources[i % len(sources)]
            files.append(self.write(f"data{i}.{kind}", mutate.bytes_mutated(self.rng, source, self.rng.choice(sources)[1])))
        self.read_all(files)

    def libraries(self):
        """The weights and the manifest of a library, built from its sources with the sanitizers."""
        folder, build = self.work / "digits", self.work / "build"
        subprocess.run([self.metac, "compile", ROOT / "models/digits/digits.onnx", "-o", folder, "--no-build"], check=True, capture_output=True)
        subprocess.run(["cmake", "-G", "Ninja", "-S", folder, "-B", build, "-DCMAKE_CXX_FLAGS=-O1 -fsanitize=address,undefined -fno-sanitize-recover=undefined"],
                       check=True, capture_output=True)
        subprocess.run(["cmake", "--build", build, "--target", "digits_run"], check=True, capture_output=True)
        weights, manifest = (folder / "digits.weights").read_bytes(), (folder / "digits.json").read_bytes()
        other = self.work / "other"
        shutil.copytree(folder, other)
        for i in range(self.count // 10):
            head = self.rng.random() < 0.8
            changed = mutate.bytes_mutated(self.rng, weights[:200] if head else weights, manifest) + (weights[200:] if head else b"")
            path = self.write(f"changed{i}.weights", changed)
            self.run(f"digits_run --weights {path.name}", [build / "digits_run", "--weights", path, "--input", "random", "--shape", "image=1x1x8x8"], [path])
            path.unlink()
        for i in range(self.count // 40):
            changed = mutate.bytes_mutated(self.rng, manifest, weights) if i % 2 else json.dumps(mutate.json_mutated(self.rng, json.loads(manifest))).encode()
            (other / "digits.json").write_bytes(changed)
            self.run(f"metac diff, manifest {i}", [self.metac, "diff", folder, other, "--json"], [other / "digits.json"], statuses=(0, 1, 3))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="metac's build folder, best one with sanitizers")
    parser.add_argument("--cases", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=2000, help="files of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="onnx, json, tensors, training or libraries")
    parser.add_argument("--keep", type=pathlib.Path, help="work here and leave it")
    arguments = parser.parse_args()
    work = (arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="metac-fuzz-"))).resolve()
    work.mkdir(parents=True, exist_ok=True)
    fuzz = Fuzz(arguments, work)
    for name in ("onnx_models", "json_models", "tensors", "training_data", "libraries"):
        if arguments.only in name:
            getattr(fuzz, name)()
    if not arguments.keep:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{fuzz.passed} passed, {fuzz.failed} failed")
    return 1 if fuzz.failed or not fuzz.passed else 0


if __name__ == "__main__":
    sys.exit(main())
