#!/usr/bin/env python3
"""Races compiled libraries against ONNX Runtime and OpenVINO and writes the result as a table and a picture.

    python3 race.py --metac build/release/bin/metac NET.onnx@input=1x3x224x224 ... [--threads 2] [--rounds 9] [--docs DIR]
    needs: pip install numpy onnx onnxruntime openvino

Each contestant is a process of its own with the model loaded; they take turns (A B C A B C ...) so that drift in the
machine's speed hits all alike. A round times every contestant for --seconds, back to back, and keeps its fastest call.
The figure of a model is the median over the rounds of (fastest peer's time / metac's time): above 1, metac is faster.
Before any timing all must agree with ONNX Runtime to 1e-3 of the output's largest magnitude.

With --docs DIR: DIR/speed.md (the table, the machine and this command) and DIR/speed.svg.
"""
import argparse
import html
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

COLOURS = {"metac": "#2a7ae2", "onnxruntime": "#999999", "openvino": "#cccccc"}


# ---- a contestant's process ----
def load(kind, model, feeds, threads, library):
    """A function that answers once, with the outputs in the model's order."""
    if kind == "onnxruntime":
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, feeds)
    if kind == "openvino":
        import openvino
        core = openvino.Core()
        network = core.read_model(model)
        network.reshape({name: list(a.shape) for name, a in feeds.items()})
        settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"}
        request = core.compile_model(network, "CPU", settings).create_infer_request()
        return lambda: list(request.infer(feeds, share_outputs=True).values())
    sys.path.insert(0, str(pathlib.Path(library) / "python"))
    import net
    engine = net.Model(threads=threads)
    return lambda: list(engine.run(feeds, copy=False).values())  # as OpenVINO shares its outputs


def contestant(kind, model, feeds_file, answer_file, threads, library):
    """Answers once into answer_file, prints the ms that took; then for each number k on stdin prints the ms of k calls."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    with np.load(feeds_file) as file:
        feeds = {json.loads(key): file[key] for key in file.files}
    start = time.perf_counter()
    call = load(kind, model, feeds, threads, library)
    answer = call()
    print(1e3 * (time.perf_counter() - start), flush=True)
    np.savez(answer_file, *[np.asarray(a) for a in answer])
    print("ready", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            call()
            times.append(1e3 * (time.perf_counter() - start))
        print(json.dumps(times), flush=True)


class Process:
    def __init__(self, kind, model, work, threads, library):
        self.kind, self.answer_file = kind, work / f"{kind}.npz"
        argv = [sys.executable, __file__, "--contestant", kind, str(model), str(work / "feeds.npz"), str(self.answer_file), str(threads), str(library)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        first = self.process.stdout.readline()
        self.alive = bool(first) and self.process.stdout.readline().strip() == "ready"
        self.first_answer_ms = float(first) if self.alive else None

    def times(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def answer(self):
        with np.load(self.answer_file) as file:
            return [file[k] for k in file.files]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---- the race ----
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


def error_of(ours, reference):
    """Largest error relative to each output's largest magnitude; NaN where the outputs cannot be compared."""
    if [a.shape for a in ours] != [b.shape for b in reference]:
        return float("nan")
    return max(float(np.max(np.abs(a.astype(np.float64) - b)) / (np.max(np.abs(b.astype(np.float64))) + 1e-30)) for a, b in zip(ours, reference))


def compiled(model, shapes, arguments, folder):
    """The library's folder and the seconds that compiling took; taken from --keep DIR where an earlier race left them."""
    if arguments.keep:
        folder = arguments.keep / "-".join([model.stem, *("x".join(map(str, v)) for v in shapes.values())])
    seconds = folder / "compile_seconds"
    if not seconds.exists():
        options = [word for k, v in shapes.items() for word in ("--shape", f"{k}={'x'.join(map(str, v))}")]
        start = time.monotonic()
        subprocess.run([str(arguments.metac), "compile", str(model), "-o", str(folder), "--name", "net", *options], check=True, stdout=subprocess.DEVNULL)
        seconds.write_text(str(time.monotonic() - start))
    return folder, float(seconds.read_text())


def race(model, shapes, arguments):
    """A row of results: {"model", "shape", "ms": {contestant: median}, "ratio", "worst", "error", "compile_s", "first_ms"}"""
    title = " ".join(f"{k}={'x'.join(map(str, v))}" for k, v in shapes.items())
    with tempfile.TemporaryDirectory(prefix="metac-race-") as folder:
        work = pathlib.Path(folder)
        np.savez(work / "feeds.npz", **{json.dumps(k): v for k, v in random_feeds(model, shapes, arguments.value).items()})
        library, compile_seconds = compiled(model, shapes, arguments, work / "library")
        racers = [Process(kind, model, work, arguments.threads, library) for kind in ("metac", "onnxruntime", "openvino")]
        by_name = {r.kind: r for r in racers if r.alive}
        if "metac" not in by_name or "onnxruntime" not in by_name:
            sys.exit(f"{model}: {'metac' if 'metac' not in by_name else 'onnxruntime'} cannot run it")
        reference = by_name["onnxruntime"].answer()
        errors = {name: error_of(r.answer(), reference) for name, r in by_name.items()}
        if not errors["metac"] <= 1e-3:
            sys.exit(f"{model}: metac's answer is off by {errors['metac']:.1e}; a wrong answer has no speed")
        counts = {name: max(1, int(1e3 * arguments.seconds / min(r.times(3)))) for name, r in by_name.items()}
        rounds = []
        for _ in range(arguments.rounds):
            rounds.append({name: min(r.times(counts[name])) for name, r in by_name.items()})
            time.sleep(0.05)
        first = {name: r.first_answer_ms for name, r in by_name.items()}
        for r in by_name.values():
            r.close()
    ratios = [min(v for k, v in row.items() if k != "metac") / row["metac"] for row in rounds]
    return dict(model=model.stem, shape=title, ms={name: statistics.median(row[name] for row in rounds) for name in by_name},
                ratio=statistics.median(ratios), worst=min(ratios), error=errors["metac"], compile_s=compile_seconds, first_ms=first)


# ---- what people read ----
def processor():
    try:
        names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
        return f"{names[0]}, {len(names)} logical processors"
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def table(rows):
    lines = ["| model | input | metac ms | ONNX Runtime ms | OpenVINO ms | fastest peer / metac (worst round) | error | compile s |", "|---|---|--:|--:|--:|--:|--:|--:|"]
    for r in rows:
        ms = [f"{r['ms'][name]:.2f}" if name in r["ms"] else "cannot run it" for name in ("metac", "onnxruntime", "openvino")]
        lines.append(f"| {r['model']} | {r['shape']} | {' | '.join(ms)} | {r['ratio']:.2f} ({r['worst']:.2f}) | {r['error']:.0e} | {r['compile_s']:.1f} |")
    return "\n".join(lines)


def picture(rows):
    """A bar chart: time of each engine relative to ONNX Runtime's, shorter is faster."""
    width, label, bar, gap = 760, 190, 14, 14
    height = gap + len(rows) * (3 * bar + gap) + 30
    most = max(r["ms"][n] / r["ms"]["onnxruntime"] for r in rows for n in r["ms"])
    scale = (width - label - 90) / most
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    y = gap
    for r in rows:
        out.append(f'<text x="{label - 8}" y="{y + 2 * bar}" text-anchor="end">{html.escape(r["model"])}</text>')
        for name in ("metac", "onnxruntime", "openvino"):
            if name in r["ms"]:
                length = r["ms"][name] / r["ms"]["onnxruntime"] * scale
                out.append(f'<rect x="{label}" y="{y}" width="{length:.1f}" height="{bar - 2}" fill="{COLOURS[name]}"/>'
                           f'<text x="{label + length + 5:.1f}" y="{y + bar - 3}">{r["ms"][name]:.2f} ms</text>')
            y += bar
        y += gap
    x = label
    for name, colour in COLOURS.items():
        out.append(f'<rect x="{x}" y="{y}" width="12" height="12" fill="{colour}"/><text x="{x + 18}" y="{y + 10}">{name}</text>')
        x += 130
    return "\n".join([*out, "</svg>\n"])


def main():
    if sys.argv[1:2] == ["--contestant"]:
        kind, model, feeds, answer, threads, library = sys.argv[2:]
        return contestant(kind, model, feeds, answer, int(threads), library)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="NET.onnx@input=SHAPE[@input=SHAPE]")
    parser.add_argument("--metac", type=pathlib.Path, required=True)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.6, help="per contestant and round")
    parser.add_argument("--value", action="append", default=[], metavar="NAME=X", help="an input that is X everywhere: attention_mask=1, sr=16000")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="leave compiled libraries there and use those of an earlier race")
    parser.add_argument("--compile-only", action="store_true", help="fill the folder of --keep, race nothing")
    parser.add_argument("--docs", type=pathlib.Path)
    parser.add_argument("--json", action="store_true", help="one JSON line a model instead of the table")
    arguments = parser.parse_args()
    arguments.value = {name: float(x) for name, x in (v.rsplit("=", 1) for v in arguments.value)}
    rows = []
    for word in arguments.models:
        file, *given = word.split("@")
        shapes = {k: [int(n) for n in v.split("x")] for k, v in (s.rsplit("=", 1) for s in given)}
        if arguments.compile_only:
            compiled(pathlib.Path(file), shapes, arguments, arguments.keep)
            continue
        rows.append(race(pathlib.Path(file), shapes, arguments))
        print(json.dumps(rows[-1]) if arguments.json else table(rows[-1:]).splitlines()[-1], flush=True)
    if arguments.docs:
        versions = subprocess.run([sys.executable, "-m", "pip", "list", "--format", "freeze"], capture_output=True, text=True).stdout.splitlines()
        peers = ", ".join(v.replace("==", " ") for v in versions if v.split("==")[0] in ("onnxruntime", "openvino"))
        command = "python3 tests/bench/race.py --metac build/release/bin/metac " + " ".join(pathlib.Path(w.split("@")[0]).name + w[len(w.split("@")[0]):] for w in arguments.models)
        (arguments.docs / "speed.md").write_text(
            f"# Speed\n\n{processor()}; {arguments.threads} threads, float32; {peers}. Medians of {arguments.rounds} interleaved rounds, {time.strftime('%Y-%m-%d')}.\n\n"
            f"{table(rows)}\n\n![time of each engine](speed.svg)\n\nMade by `{command} --threads {arguments.threads} --docs docs`; how it measures is at the head of that script.\n")
        (arguments.docs / "speed.svg").write_text(picture(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
