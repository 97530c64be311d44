#!/usr/bin/env python3
"""Races libraries compiled with open dims against libraries compiled for one shape, and both against the peers.

    python3 race_open.py --metac build/release/bin/metac NET.onnx --open input=?x3x?x? --at input=1x3x224x224 [--at ...]
    python3 race_open.py --metac build/release/bin/metac --suite --keep DIR [--only REGEX] [--others DIR2]
                         [--peers onnxruntime,openvino]
    needs: pip install numpy onnx onnxruntime, and openvino where it is a peer

Every network is compiled once with its dims open and once for each of its shapes. At each shape the two libraries (and the
peers) are processes of their own that take turns (A B C A B C ...); a round keeps the fastest call of each. Printed, one
JSON line a shape: `ratio`, the median over the rounds of the open library's time over the fixed one's; `ms` of all;
`memory`, the same of resident MiB; `code` and `compile_s` (from empty kernel caches, at a network's first shape) of the
two; `first_ms`, loading and the first answer; `error`, the largest difference from ONNX Runtime's
answer, relative to each output's largest magnitude.

--open and --at take `input=DIMS[,input=DIMS]`. The suite is the networks of models/backbones (--keep holds them), the
models of PyPI packages that run_models.py knows, those of models/dynamic, and, with --others, the networks that
`other_networks.py DIR2 --open` wrote. Results stand in --keep's results_open.jsonl; what stands there is not raced again.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from contestants import Contestant
from open_networks import networks
from race import CannotRace, build_of, error_of, random_feeds


def dims_of(text):
    """{input: [dims]} of `input=1x3x224x224,other=1x5`; an open dim stays '?' or a name."""
    pairs = (word.rsplit("=", 1) for word in text.split(",") if word)
    return {name: [int(d) if d.isdigit() else d for d in dims.split("x") if d] for name, dims in pairs}


def fixed_options(model, at):
    """The options of the library for one shape, where that need not be the one that the model fixes."""
    asked, words = dims_of(at), []
    for port in onnx.load(str(model), load_external_data=False).graph.input:
        if port.name not in asked:
            continue
        declared = [dim.dim_value for dim in port.type.tensor_type.shape.dim]
        changed = {axis: dim for axis, dim in enumerate(asked[port.name]) if declared[axis] not in (0, dim)}
        words += ["--shape", f"{port.name}={'x'.join('?' if k in changed else str(d) for k, d in enumerate(asked[port.name]))}"]
        words += [word for axis, dim in changed.items() for word in ("--dim", f"{port.name}_{axis}={dim}")]
    return words


def code_kib(folder):
    """The machine code in the library, from `size`."""
    library = next(p for p in sorted((folder / "lib").iterdir()) if ".so" in p.name)
    done = subprocess.run(["size", str(library)], capture_output=True, text=True, check=True)
    return int(done.stdout.splitlines()[1].split()[0]) / 1024


def compiled(folder, model, options, arguments, cold):
    """The library's folder, and the seconds that it took from an empty kernel cache (where `cold`, else None)."""
    note, maker = folder / "made.json", build_of(arguments.metac)
    if note.exists() and (known := json.loads(note.read_text()))["by"] == maker and (known["seconds"] or not cold):
        return folder, known["seconds"]
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="metac-cache-") as empty:
        argv = [str(arguments.metac), "compile", str(model), "-o", str(folder), "--name", "net", "--cpu", "native", *options]
        start = time.monotonic()
        own = {"METAC_CACHE_DIR": empty} if cold else {}
        done = subprocess.run(argv, capture_output=True, text=True, env=os.environ | own)
        seconds = time.monotonic() - start
    if done.returncode:
        raise CannotRace(f"metac compile {' '.join(options)}, status {done.returncode}: {done.stderr.strip()[-300:]}")
    note.write_text(json.dumps({"by": maker, "seconds": seconds if cold else None}))
    return folder, seconds if cold else None


def race(network, at, index, arguments, keep):
    """The row of one shape."""
    feeds = random_feeds(network.model, dims_of(at), network.values)
    libraries, seconds = {}, {}
    for kind, options, name in (("open", network.options, "open"), ("fixed", fixed_options(network.model, at), re.sub(r"[^\w.-]", "_", at))):
        folder = keep / "libraries" / network.name / name
        libraries[kind], seconds[kind] = compiled(folder, network.model, options, arguments, index == 0)
    with tempfile.TemporaryDirectory(prefix="metac-race-") as folder:
        work = pathlib.Path(folder)
        np.savez(work / "feeds.npz", **{json.dumps(k): v for k, v in feeds.items()})
        racers = {}
        for kind in ("open", "fixed", *arguments.peers):
            own = work / kind
            own.mkdir()
            shutil.copy(work / "feeds.npz", own)
            racers[kind] = Contestant("metac" if kind in libraries else kind, network.model, own, arguments.threads, libraries.get(kind),
                                      "cpu" if arguments.cpu else "wall")
        try:
            racers = {kind: r for kind, r in racers.items() if r.alive or r.close()}
            for kind in libraries:
                if kind not in racers:
                    raise CannotRace(f"the {kind} library cannot run {at}")
            reference = racers.get("onnxruntime", racers["fixed"]).answer()
            error = error_of(racers["open"].answer(), reference)
            counts = {k: max(1, int(1e3 * arguments.seconds / min(r.times(1) + r.times(2)))) for k, r in racers.items()}
            rounds = []
            for _ in range(arguments.rounds):
                rounds.append({k: min(r.times(counts[k])) for k, r in racers.items()})
            mib = {k: r.resident_mib() for k, r in racers.items()}
        finally:
            for r in racers.values():
                r.close()
    over = lambda kind: statistics.median(row[kind] / row["fixed"] for row in rounds)  # noqa: E731
    return dict(network=network.name, at=at, ratio=over("open"), ms={k: statistics.median(row[k] for row in rounds) for k in racers},
                memory={k: mib[k] for k in racers}, code={k: code_kib(folder) for k, folder in libraries.items()}, compile_s=seconds,
                peers={k: statistics.median(row[k] / row["open"] for row in rounds) for k in arguments.peers if k in racers},
                first_ms={k: r.first_answer_ms for k, r in racers.items()}, error=error, by=build_of(arguments.metac))


def told(row):
    """A row in words."""
    share = lambda values: values["open"] / values["fixed"] if values["fixed"] else float("nan")  # noqa: E731
    text = f"{row['network']:24s} {row['at']:40s} {row['ratio']:.2f}  {row['ms']['open']:.2f} and {row['ms']['fixed']:.2f} ms"
    text += f"  memory {share(row['memory']):.2f} ({row['memory']['open']:.0f} MiB)  code {share(row['code']):.2f}"
    text += f"  compile {share(row['compile_s']):.2f}" if row["compile_s"]["fixed"] else ""
    return text + "".join(f"  {k} {v:.2f}" for k, v in row["peers"].items()) + f"  error {row['error']:.0e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", type=pathlib.Path, metavar="NET.onnx")
    parser.add_argument("--metac", type=pathlib.Path, required=True)
    parser.add_argument("--open", default="", metavar="input=?x3x?x?")
    parser.add_argument("--dim", action="append", default=[], help="for the open library, as metac compile takes it")
    parser.add_argument("--at", action="append", default=[], metavar="input=1x3x224x224")
    parser.add_argument("--value", action="append", default=[], metavar="NAME=X", help="an input that is X everywhere: sr=16000")
    parser.add_argument("--suite", action="store_true")
    parser.add_argument("--others", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--only", default="", metavar="REGEX", help="of the suite, the networks whose name has it")
    parser.add_argument("--again", action="store_true", help="race what has a result too")
    parser.add_argument("--peers", type=lambda text: [p for p in text.split(",") if p], default=[])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cpu", action="store_true", help="processor time instead of the wall's clock: 1 thread on a machine that is busy otherwise")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.3, help="per contestant and round")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR")
    arguments = parser.parse_args()
    if bool(arguments.suite) == bool(arguments.model) or (arguments.suite and not arguments.keep):
        parser.error("either a network with --open and --at, or --suite with --keep DIR")
    with tempfile.TemporaryDirectory(prefix="metac-open-") as temporary:
        keep = arguments.keep.resolve() if arguments.keep else pathlib.Path(temporary)
        results, rows, failed = keep / "results_open.jsonl", [], 0
        if arguments.suite and results.exists():
            rows = [json.loads(line) for line in results.read_text().splitlines()]
        for network in networks(arguments, keep):
            if arguments.suite and not re.search(arguments.only, network.name):
                continue
            for index, at in enumerate(network.shapes):
                if not arguments.again and any((r["network"], r["at"]) == (network.name, at) for r in rows):
                    continue
                try:
                    row = race(network, at, index, arguments, keep)
                except CannotRace as reason:
                    failed += 1
                    print(f"{network.name} {at}: {reason}", flush=True)
                    continue
                print(told(row) if arguments.suite else json.dumps(row), flush=True)
                if arguments.suite:
                    with results.open("a") as file:
                        file.write(json.dumps(row) + "\n")
            if arguments.suite:
                shutil.rmtree(keep / "libraries" / network.name, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
