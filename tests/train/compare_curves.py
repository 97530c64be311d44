#!/usr/bin/env python3
"""Trains networks with metac's training programs and with PyTorch, from the same start on the same batches, and compares losses.

    python3 compare_curves.py --metac build/release/bin/metac [--only REGEX] [--updates 100] [--dtype float64] [--size 224] [--zero-residuals] [--report]
                              [--precision bfloat16]

The relative difference of the loss must be at most 1e-6 at the first update, 1e-5 at the tenth and 1e-3 at the hundredth; with --dtype float64 at most
1e-9 at every update: there rounding starts 2^29 times smaller, so a difference is a bug and not a network that amplifies rounding. --report shows the
largest difference up to each as well, and in float32 how far both sides are from PyTorch in float64. Data are made: random samples whose labels a random
linear map decides. With --precision bfloat16 products read rounded operands, and what must agree is the mean loss of the last 50 updates, within 1 %
(--updates 1000). Without PyTorch everything is skipped with a message. The last line is 'N passed, N failed, N skipped'.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import time

import numpy as np

from compare_each import compare_each
from networks import NETWORKS
import samples as made

why = None
try:
    import torch
    import torch_reference
except ImportError as missing:
    torch, why = None, missing

LIMITS = {1: 1e-6, 10: 1e-5, 100: 1e-3}
LIMIT_64 = 1e-9
SMOOTHED, LIMIT_ROUNDED = 50, 1e-2  # of products that read bfloat16: updates that are averaged, the difference of the means
# Name of the run: network, batch, PyTorch's optimiser, the recipe's.
RUNS = {
    "mlp": ("mlp", 32, lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), {"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9}),
    "mlp-adamw": ("mlp", 32, lambda p: torch.optim.AdamW(p, lr=1e-3), {"kind": "adamw", "learning_rate": 1e-3}),
    "lenet": ("lenet", 32, lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True), {"kind": "sgd", "learning_rate": 0.1, "momentum": 0.9, "nesterov": True}),
    "resnet18": ("resnet18", 16, lambda p: torch.optim.SGD(p, lr=1e-4, momentum=0.9, weight_decay=1e-4), {"kind": "sgd", "learning_rate": 1e-4, "momentum": 0.9, "weight_decay": 1e-4}),
    "vit": ("vit", 16, lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9), {"kind": "sgd", "learning_rate": 0.01, "momentum": 0.9}),
    **{name: (name, 8, lambda p: torch.optim.SGD(p, lr=1e-4, momentum=0.9), {"kind": "sgd", "learning_rate": 1e-4, "momentum": 0.9}) for name in ("alexnet", "vgg19", "resnet50", "mobilenet_v2")},
    "gnmt": ("gnmt", 16, lambda p: torch.optim.Adam(p, lr=1e-3), {"kind": "adam", "learning_rate": 1e-3}),
    "ncf": ("ncf", 64, lambda p: torch.optim.Adam(p, lr=1e-3), {"kind": "adam", "learning_rate": 1e-3}),
    "lstm": ("lstm", 16, lambda p: torch.optim.Adam(p, lr=3e-3), {"kind": "adam", "learning_rate": 3e-3}),
}


def samples(network, count, classes=0, axis=1, time=None, users=0, items=0):
    """Arrays by name, "target" among them."""
    if users:
        return made.ratings(count, users, items)
    if len(network.inputs) > 1:
        return made.sentences(count, time, classes)
    random = np.random.default_rng(7)
    if time is not None:  # text whose next letter mostly follows from the last one
        text = np.zeros((count, time + 1), np.int64)
        text[:, 0] = random.integers(0, classes, count)
        for t in range(time):
            text[:, t + 1] = np.where(random.random(count) < 0.8, (text[:, t] * 5 + 3) % classes, random.integers(0, classes, count))
        return {"x": text[:, :-1].copy(), "target": text[:, 1:].copy()}
    x = random.standard_normal((count, *network.inputs[0]["shape"][1:]), dtype=np.float32)
    flat = x.reshape(count, -1)
    return {"x": x, "target": (flat @ random.standard_normal((flat.shape[1], classes), dtype=np.float32)).argmax(1)}


def widened(arrays):
    """The same numbers in float64."""
    return {name: array.astype(np.float64) if array.dtype == np.float32 else array for name, array in arrays.items()}


def widen(network):
    network.weights = widened(network.weights)
    for port in network.inputs:
        port["dtype"] = port["dtype"].replace("float32", "float64")


def zero_residuals(network):
    """Lets every residual block begin as its shortcut: the scale before its addition is zero (Goyal et al. 2017, section 5.1)."""
    made_by, depth = {}, {}
    for node in network.nodes:
        made_by.update(dict.fromkeys(node["outputs"], node))
        depth.update(dict.fromkeys(node["outputs"], 1 + max(depth.get(i, 0) for i in node["inputs"])))
    for node in (n for n in network.nodes if n["op"] == "Add"):
        branch = made_by.get(max(node["inputs"], key=lambda i: depth.get(i, 0)))  # the longer one
        if branch and branch["op"] == "BatchNormalization":
            network.weights[branch["inputs"][1]][...] = 0


def theirs_of(name, network, output, about, data):
    _, batch, optimiser, _ = RUNS[name]
    count = len(data["target"])
    return torch_reference.train(network, output, [{n: v[k:k + batch] for n, v in data.items()} for k in range(0, count, batch)], optimiser, about.get("axis", 1))


def ours_of(name, network, output, about, data, arguments, folder):
    _, batch, _, options = RUNS[name]
    (folder / "net.json").write_text(json.dumps(network.document(output)))
    np.savez(folder / "data.npz", **data)
    recipe = {"batch": batch, "epochs": 1, "loss": {"kind": "cross_entropy", "axis": about.get("axis", 1)} if "classes" in about else "bce_with_logits", "optimizer": options,
              "data": {"format": "npz", "train": "data.npz", "shuffle": False}}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    subprocess.run([arguments.metac, "compile", folder / "net.json", "--train", folder / "recipe.json", "-o", folder / "out", "--precision", arguments.precision], check=True,
                   stdout=subprocess.DEVNULL)
    begin = time.perf_counter()
    subprocess.run([folder / "out/bin/net_train", "--data", folder, "--out", folder / "run", "--quiet"], check=True)
    seconds = time.perf_counter() - begin
    lines = [json.loads(line) for line in (folder / "run/log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if line.get("event") == "train"], seconds


def differences(losses, of):
    return [abs(a - b) / abs(b) for a, b in zip(losses, of)]


def run(name, arguments, folder):
    kind, batch, _, _ = RUNS[name]
    network, output, about = NETWORKS[kind](batch, **({"size": arguments.size} if arguments.size else {}))
    if arguments.zero_residuals:
        zero_residuals(network)
    data = samples(network, batch * arguments.updates, **about)
    if arguments.dtype == "float64":
        widen(network)
        data = widened(data)
    ours, ours_seconds = ours_of(name, network, output, about, data, arguments, folder)
    begin = time.perf_counter()
    theirs = theirs_of(name, network, output, about, data)
    theirs_seconds = time.perf_counter() - begin
    if len(ours) != len(theirs):
        return False, f"{len(ours)} updates, expected {len(theirs)}"
    if arguments.precision != "float32":
        means = [float(np.mean(losses[-SMOOTHED:])) for losses in (ours, theirs)]
        difference = abs(means[0] - means[1]) / abs(means[1])
        return difference <= LIMIT_ROUNDED, (f"loss {ours[0]:.4f} to {means[0]:.4f}, PyTorch's {means[1]:.4f}: relative difference {difference:.1e} at update {len(ours)}; "
                                             f"{ours_seconds:.1f} s, PyTorch {theirs_seconds:.1f} s")
    difference, texts = differences(ours, theirs), []
    exact = None
    if arguments.report and arguments.dtype == "float32":
        widen(network)
        exact = theirs_of(name, network, output, about, widened(data))
    for update in (u for u in LIMITS if u <= len(difference)):
        text = f"update {update}: {difference[update - 1]:.1e}"
        if arguments.report and update > 1:
            text += f" (at most {max(difference[:update]):.1e} before)"
        if exact:
            text += f" (to float64 {differences(ours, exact)[update - 1]:.1e}, PyTorch's {differences(theirs, exact)[update - 1]:.1e})"
        texts.append(text)
    good = np.max(difference) <= LIMIT_64 if arguments.dtype == "float64" else all(difference[u - 1] <= limit for u, limit in LIMITS.items() if u <= len(difference))
    return good, f"loss {ours[0]:.4f} to {ours[-1]:.4f}; relative difference at " + ", ".join(texts) + f"; {ours_seconds:.1f} s, PyTorch {theirs_seconds:.1f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--metac", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--updates", type=int, default=100)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--size", type=int, help="the images' edge, of those networks of models/training that take images (default: 64)")
    parser.add_argument("--zero-residuals", action="store_true", help="residual blocks start as their shortcuts, which amplifies rounding less")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="float32")
    arguments = parser.parse_args()
    arguments.metac = str(pathlib.Path(arguments.metac).resolve())
    names = [n for n in RUNS if re.search(arguments.only, n)]
    return compare_each(names, lambda name, folder: run(name, arguments, folder), torch, why)


if __name__ == "__main__":
    sys.exit(main())
