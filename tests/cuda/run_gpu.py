#!/usr/bin/env python3
"""Runs on a GPU what prepare_gpu.py compiled: tests, compute-sanitizer, figures; into OUT/gpu.json and a table.

    python3 run_gpu.py BUNDLE.tar.xz OUT [--seconds 1500] [--parts tests,decoders,sanitizer,kernels,training,networks]
                        [--jobs N]

tests      every case in several processes: the CPU target's answers, and the same bits each time
decoders   tokens as the CPU target makes them; tokens a second, milliseconds of prompts
sanitizer  memcheck, racecheck and synccheck over the cases of generated kernels (where compute-sanitizer is installed)
kernels, training, networks   figures: gpu_figures.py
Each part has its share of the seconds (what it leaves goes to those behind it) and ends when that is used up; what was not
reached is said. Run again with the same OUT, on the same machine, it goes on with what is not there yet: kernels and
networks that were measured beside all peers, cases that were good. Needs numpy; figures need torch. The last line is
'N passed, N failed, N skipped', of tests, sanitizer and the digits; the exit status is 1 if any failed.
"""
import argparse
import ctypes.util
import glob
import hashlib
import json
import os
import pathlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

sys.dont_write_bytecode = True
from figure_tools import make_weights  # noqa: E402
from gpu_figures import Figures  # noqa: E402

SHARES = {"tests": 3, "decoders": 1, "sanitizer": 4, "kernels": 1, "training": 5, "networks": 12}   # of the time


class Run:
    def __init__(self, root, out, seconds, jobs, turn):
        self.root, self.out, self.jobs, self.turn = root, out, jobs, turn
        self.end = self.part_end = time.monotonic() + seconds
        text = (root / "list.json").read_text()
        self.list, self.json = json.loads(text), out / "gpu.json"
        here = machine()
        begun = {"gpu": here["gpu"], "bundle": hashlib.sha256(text.encode()).hexdigest()}
        self.report = {**begun, "machine": here, "arch": self.list["arch"], **{part: [] for part in SHARES}, "skipped": []}
        if self.json.exists():
            self.report = {**self.report, **json.loads(self.json.read_text()), "skipped": []}
            if any(self.report[key] != value for key, value in begun.items()):
                sys.exit(f"{self.json} is of another GPU or bundle: take another folder")
        os.environ["METAC_CACHE_DIR"] = str(out.resolve() / "cache")   # which algorithms were the fastest is a result too
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(out.resolve() / "torch"))
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(library_folders() + [os.environ.get("LD_LIBRARY_PATH", "")])}

    def parts(self, names):
        """Part by part: the time that is left is shared out among it and those behind it."""
        figures = Figures(self)
        for k, name in enumerate(names):
            left, now = self.end - time.monotonic(), time.monotonic()
            self.part_end = now + left * SHARES[name] / sum(SHARES[n] for n in names[k:])
            getattr(self if name in ("tests", "decoders", "sanitizer") else figures, name)()
            self.json.write_text(json.dumps(self.report, indent=2) + "\n")
        noted = [row["good"] for part in ("tests", "decoders", "sanitizer", "training") for row in self.report[part] if "good" in row]
        return sum(noted), len(noted) - sum(noted), len(self.report["skipped"])

    def late(self, what, reserve=10):
        if time.monotonic() + reserve < self.part_end:
            return False
        self.skip(f"{what}: no time left")
        return True

    def skip(self, why):
        self.report["skipped"].append(why)
        print("skip", why, flush=True)

    def note(self, part, row, good):
        self.report[part].append({**row, "good": good})
        if not good:
            print("FAIL", part, json.dumps(row), flush=True)

    def each(self, part, jobs, key, make, reserve):
        """What is not good yet, several processes at once: what they answer does not depend on what else the card does."""
        good = [row for row in self.report[part] if row["good"]]
        self.report[part][:] = good
        have = {tuple(row[k] for k in key(jobs[0])) for row in good} if jobs else ()
        with ThreadPoolExecutor(max_workers=self.jobs) as pool:
            for found in pool.map(lambda job: None if tuple(key(job).values()) in have or self.late(f"{part} of {' '.join(key(job).values())}", reserve) else make(job), jobs):
                if found:
                    self.note(part, *found)
        print(f"{part}: {sum(row['good'] for row in self.report[part])} of {len(self.report[part])} good", flush=True)

    def argv(self, case, out):
        folder = self.root / "cases" / case["name"]
        program = folder / f"{case['name']}_{case['external']}_run"
        out.mkdir(exist_ok=True)
        words = [w for k in range(case["inputs"]) for w in ("--input", str(folder / f"input_{k}.pb"))]
        return [str(program), *words, "--weights", str(folder / f"{case['name']}_{case['external']}.weights"), "--output-dir", str(out)], folder

    def call(self, argv, seconds):
        try:
            done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, env=self.environment)
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired:
            return 124, f"no end within {seconds} s"

    # ---- tests ----
    def tests(self):
        self.each("tests", self.list["cases"], lambda case: {"name": case["name"], "external": case["external"]}, self.test, 5)

    def test(self, case):
        row, first = {"name": case["name"], "external": case["external"]}, None
        for _ in range(3 if case["external"] == "none" else 2):   # the first process measures a library's algorithms, the second finds them
            with tempfile.TemporaryDirectory() as out:
                argv, folder = self.argv(case, pathlib.Path(out))
                status, said = self.call(argv, 120)
                if status:
                    return {**row, "why": f"status {status}: {said[-400:]}"}, False
                answers = {f.name: np.load(f) for f in sorted(pathlib.Path(out).iterdir())}
            if first is not None and any(a.tobytes() != first[n].tobytes() for n, a in answers.items()):
                return {**row, "why": "other bits in another run"}, False
            first = answers
        for file in sorted((folder / "expected").iterdir()):
            wanted, got = np.load(file), first.get(file.name)
            if got is None or got.shape != wanted.shape:
                return {**row, "why": f"{file.name} is missing or has another shape"}, False
            if wanted.dtype == np.uint16:   # the bits of bfloat16
                wanted, got = ((a.astype(np.uint32) << 16).view(np.float32) for a in (wanted, got))
            half = np.load(file).dtype.itemsize == 2
            largest = float(np.abs(wanted.astype(np.float64)).max()) if wanted.size else 0.0
            error = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
            if not (error <= (2e-2 if half else 1e-4) * max(largest, 1e-30) + (2e-3 if half else 1e-4) * np.abs(wanted.astype(np.float64))).all():
                return {**row, "why": f"{file.name} is {error.max():.3g} off, its largest is {largest:.3g}"}, False
        return row, True

    # ---- decoders ----
    def decoders(self):
        have = {row["name"] for row in self.report["decoders"] if row["good"]}
        self.report["decoders"][:] = [row for row in self.report["decoders"] if row["good"]]
        for row in self.list["decoders"]:
            if row["name"] not in have and not self.late(f"decoder {row['name']}", 15):
                self.note("decoders", *self.decoder(row))
        print(f"decoders: {sum(row['good'] for row in self.report['decoders'])} of {len(self.report['decoders'])} good", flush=True)

    def decoder(self, row):
        folder, found = self.root / "decoders" / row["name"], {"name": row["name"]}
        weights = folder / "net.weights"
        if "runs" not in row:
            make_weights(weights, row)

        def generated(options):
            status, said = self.call([str(folder / "net_generate"), "--weights", str(weights), "--json", "--quiet", *options], 120)
            if status:
                raise RuntimeError(f"{' '.join(options)}: status {status}: {said[-400:]}")
            return json.loads(said.splitlines()[-1])

        try:
            for run in row.get("runs", []):
                if (tokens := generated(run["options"])["tokens"]) != run["tokens"]:
                    same = next(k for k, (a, b) in enumerate(zip(tokens + [None], run["tokens"] + [-1])) if a != b)
                    return {**found, "why": f"{' '.join(run['options'])}: token {same} is another one than the CPU's"}, False
            if "runs" not in row:   # the first run measures libraries, the second finds what was the fastest
                for length in row["prompts"]:
                    options = ["--tokens", ",".join(str(1 + 7 * k % 50) for k in range(length)), "--most", str(row["most"])]
                    made = [generated(options) for _ in range(3)]
                    found[f"milliseconds of a prompt of {length}"] = round(min(m["prompt_seconds"] for m in made) * 1e3, 3)
                    found[f"tokens a second behind {length}"] = round(max(m["tokens_per_second"] for m in made), 1)
                print(json.dumps(found), flush=True)
        except RuntimeError as error:
            return {**found, "why": str(error)}, False
        return found, True

    # ---- compute-sanitizer ----
    def sanitizer(self):
        tool = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
        if not tool:
            return self.skip("compute-sanitizer is not installed")
        jobs = [(checker, case) for checker in ("memcheck", "racecheck", "synccheck") for case in self.list["cases"] if case["external"] == "none"]
        self.each("sanitizer", jobs, lambda job: {"tool": job[0], "name": job[1]["name"]}, lambda job: self.checked(tool, *job), 10)

    def checked(self, tool, checker, case):
        with tempfile.TemporaryDirectory() as out:
            argv, _ = self.argv(case, pathlib.Path(out))
            status, said = self.call([tool, "--tool", checker, "--error-exitcode", "9", *argv], 120)
        why = {} if status == 0 else {"why": f"status {status}: {said[-400:]}"}
        return {"name": case["name"], "tool": checker, **why}, status == 0


def library_folders():
    """Where the vendor's libraries are, beside where the linker looks anyway."""
    if ctypes.util.find_library("cublasLt") and ctypes.util.find_library("cudnn"):
        return []
    places = glob.glob("/usr/local/cuda*/lib64") + [g for p in sys.path for g in glob.glob(f"{p}/nvidia/*/lib")]
    return [p for p in places if glob.glob(f"{p}/libcublasLt.so*") or glob.glob(f"{p}/libcudnn.so*")]


def machine():
    try:
        said = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], capture_output=True, text=True, timeout=30).stdout.strip()
    except OSError:
        said = ""
    return {"gpu": said or None, "cpus": os.cpu_count(), "python": platform.python_version(), "date": time.strftime("%Y-%m-%d", time.gmtime())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=1500)
    parser.add_argument("--parts", default=",".join(SHARES))
    parser.add_argument("--jobs", type=int, default=max(1, min(8, (os.cpu_count() or 1) // 2)), help="processes of tests and sanitizer at once")
    parser.add_argument("--turn", type=float, default=0.3, help="seconds that each contestant runs at a time; 0: once, for tests")
    arguments = parser.parse_args()
    names = arguments.parts.split(",")
    if unknown := set(names) - set(SHARES):
        parser.error(f"--parts: {', '.join(sorted(unknown))}; there are {', '.join(SHARES)}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="metac-gpu-") as work:
        with tarfile.open(arguments.bundle) as archive:
            archive.extractall(work, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # older Python has none
        run = Run(pathlib.Path(work) / "gpu", arguments.out, arguments.seconds, arguments.jobs, arguments.turn)
        print(json.dumps(run.report["machine"]), flush=True)
        passed, failed, skipped = run.parts(names)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
