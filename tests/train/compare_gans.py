#!/usr/bin/env python3
"""Trains the programs of models/gan with metac's training programs and with PyTorch, from the same start on the same numbers, and compares losses.

    python3 compare_gans.py --metac build/release/bin/metac [--only REGEX] [--updates 100] [--size 32] [--rate R] [--dtype float64] [--report]

Every loss of every step: the difference must be at most 1e-6 at the first update, 1e-5 at the tenth and 1e-3 at the hundredth, relative to the largest loss of
the program so far (those of critics and of who plays against them pass zero); with --dtype float64 at most 1e-9 at every update. Random numbers are in the data.
These games amplify rounding, the more the larger the rate: float32 is compared at a hundredth of the usual one. In float64, where rounding starts 2^29 times smaller, a
difference is a bug and not chaos. Without PyTorch everything is skipped with a message. The last line is 'N passed, N failed, N skipped'.
"""
import argparse
import base64
import json
import pathlib
import re
import subprocess
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "models/gan"))
import build  # noqa: E402

from compare_each import compare_each  # noqa: E402

why = None
try:
    import torch
    import torch_gans
except ImportError as missing:
    torch, why = None, missing

LIMITS = {1: 1e-6, 10: 1e-5, 100: 1e-3}
LIMIT_64 = 1e-9
RATE = 2e-6  # see above


def widen(folder):
    """The files of build.py with the same numbers in float64."""
    for path in folder.glob("*.json"):
        document = json.loads(path.read_text())
        for p in document.get("parameters", []):
            if p["dtype"] == "float32":
                p["base64"] = base64.b64encode(np.frombuffer(base64.b64decode(p["base64"]), np.float32).astype(np.float64).tobytes()).decode()
        path.write_text(json.dumps(document).replace("float32", "float64"))  # dtypes, and casts in bodies


def theirs(name, folder, batch, updates, rate, dtype):
    data, gan, losses = np.load(folder / "images.npz"), torch_gans.GANS[name](folder, rate, dtype), {}
    arrays = {field: torch.from_numpy(data[field]).to(dtype) for field in data.files}
    for k in range(updates):
        for of, loss in gan.update({field: array[k * batch:(k + 1) * batch] for field, array in arrays.items()}).items():
            losses.setdefault(of, {})[k + 1] = loss
    return losses


def ours(name, folder, arguments):
    for command in ([arguments.metac, "compile", folder / "generator.json", "--train", folder / "recipe.json", "-o", folder / "out", "--name", name],
                    [folder / f"out/bin/{name}_train", "--data", folder, "--out", folder / "run", "--quiet", "--epochs", "1"]):
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    losses = {}
    for line in map(json.loads, (folder / "run/log.jsonl").read_text().splitlines()):
        for key, value in line.items():
            if line["event"] == "train" and key.endswith("loss"):
                losses.setdefault(key, {})[line["update"]] = value
    return losses


def compare(name, arguments, folder):
    batch, size, blocks = (1, min(arguments.size, 32), 2) if name == "cyclegan" else (16, arguments.size, 0)
    build.build(name, folder, build.options([name, str(folder), "--size", str(size), "--batch", str(batch), "--blocks", str(blocks), "--samples", str(batch * arguments.updates), "--drawn-outside", "--rate", str(arguments.rate)]))
    if arguments.dtype == "float64":
        widen(folder)
    mine, other = ours(name, folder, arguments), theirs(name, folder, batch, arguments.updates, arguments.rate, getattr(torch, arguments.dtype))
    if {k: list(v) for k, v in mine.items()} != {k: list(v) for k, v in other.items()}:
        return False, f"other updates: {({k: len(v) for k, v in mine.items()})}, PyTorch {({k: len(v) for k, v in other.items()})}"
    good, texts, largest = True, [], {}
    for update in sorted({u for values in other.values() for u in values}):
        largest[update] = max([largest.get(update - 1, 0)] + [abs(values[update]) for values in other.values() if update in values])
    for key, values in other.items():
        worst, said = 0, []
        for update, value in values.items():
            difference = abs(mine[key][update] - value) / largest[update]
            worst = max(worst, difference)
            # A step that does not run in the update that is looked at: its last run before.
            at = next((u for u in LIMITS if u == update or u - 4 == update and u not in values), None)
            limit = LIMITS.get(at) if arguments.dtype == "float32" else LIMIT_64
            good = good and (limit is None or difference <= limit)
            if at is not None:
                said.append(f"{update}: {difference:.1e}" + (f" (at most {worst:.1e})" if arguments.report else ""))
        texts.append(f"{key} {list(values.values())[0]:.4f} to {list(values.values())[-1]:.4f}, difference at update {', '.join(said)}")
    return good, "; ".join(texts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    arguments = parser.parse_args()
    arguments.metac = str(pathlib.Path(arguments.metac).resolve())
    names = [n for n in build.PROGRAMS if re.search(arguments.only, n)]
    return compare_each(names, lambda name, folder: compare(name, arguments, folder), torch, why)


if __name__ == "__main__":
    sys.exit(main())
