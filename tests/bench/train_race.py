#!/usr/bin/env python3
"""Races training steps: metac's training programs against PyTorch, eager and compiled, side by side, by turns in one run.

    python3 train_race.py --metac build/release/bin/metac [--only REGEX] [--threads 2] [--seconds 10] [--turns 2]
                          [--contestants metac,bfloat16,lazy,eager,compile,autocast,compiled-autocast]
                          [--memory-budget B] [--keep DIR [--again]] [--json FILE]

bfloat16 is metac with --precision bfloat16, beside which PyTorch's autocast to bfloat16 stands, eager or compiled; lazy is the network as code
(PYTHONPATH names metac's module). Each contestant takes the same batches of made data from the same weights with SGD and momentum, cross-entropy,
float32 but for those two; those of models/gan with what their recipes say. A row has the median
time of an update in milliseconds (the best turn's), and the peak of resident memory: of PyTorch above what it has when it is imported, of metac's
program all of it; both with data and weights. A process a contestant and turn: nothing is warm from another one but what each warmed up itself.
"""
import argparse
import json
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve()
sys.path[:0] = [str(HERE.parent), str(HERE.parents[1] / "train")]
import gan_runs  # noqa: E402
from train_networks import RUNS  # noqa: E402

RATE, MOMENTUM = 1e-4, 0.9
METAC = {"metac": [], "bfloat16": ["--precision", "bfloat16"]}  # contestant: options of the compiler
# What the faster of them takes, over the contestant's own time, is printed.
PEERS = {"metac": ("eager", "compile"), "bfloat16": ("autocast", "compiled-autocast")}


def resident_bytes(line="VmHWM"):
    """The most so far, or `VmRSS`: now."""
    for text in pathlib.Path("/proc/self/status").read_text().splitlines():
        if text.startswith(line):
            return int(text.split()[1]) << 10
    return 0


def settled_bytes(torch):
    """What PyTorch has resident when it is imported and its code of training steps was used once; the peak begins anew."""
    x = torch.ones(2, 3, 8, 8)
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(36, 4))
    torch.nn.functional.cross_entropy(layers(x), torch.zeros(2, dtype=torch.int64)).backward()
    torch.optim.SGD(layers.parameters(), lr=RATE, momentum=MOMENTUM).step()
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    return resident_bytes("VmRSS")


def batches_of(network, batch):
    """How many batches of made data: an epoch should be many updates, and memory the network's."""
    return int(min(200, max(3, (32 << 20) // (4 * batch * np.prod(network.inputs[0]["shape"][1:])))))


def samples(network, count, about):
    random, port = np.random.default_rng(7), network.inputs[0]
    if port["dtype"] == "int64":
        return random.integers(0, about["classes"], (count, *port["shape"][1:])), random.integers(0, about["classes"], (count, about["time"]))
    return random.standard_normal((count, *port["shape"][1:]), dtype=np.float32), random.integers(0, about["classes"], count)


def updates_in(step, seconds):
    """Calls the step until the time is over, at least five times; the times of all but the first two."""
    times, begin = [], time.perf_counter()
    while len(times) < 5 or time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        step(len(times))
        times.append(time.perf_counter() - start)
    return times[2:]


def run_torch(name, folder, threads, seconds, compiled, autocast):
    """In a process of its own: prints its row."""
    import torch
    import torch.nn.functional as F
    import torch_reference
    torch.set_num_threads(threads)
    before = settled_bytes(torch)
    if name in gan_runs.RUNS:
        times = updates_in(gan_runs.torch_update(name, folder, compiled), seconds)
        return print(json.dumps({"ms": statistics.mean(times) * 1e3, "bytes": resident_bytes() - before}))  # not every update has every step: the mean
    operators = dict(torch_reference.OPERATORS)
    # As torchvision writes them: activations overwrite what nothing else reads.
    operators["Relu"] = lambda a, x: F.relu(x, inplace=True)
    operators["Clip"] = lambda a, x, low, high: F.hardtanh(x, 0.0, 6.0, inplace=True)
    operators["Conv"] = lambda a, x, w, b=None: F.conv2d(x, w, b, a["strides"], a.get("pads", [0])[0], groups=a.get("group", 1))
    _, batch = RUNS[name]
    # As prepare() wrote them: drawing the weights here would take more memory than training.
    network = json.loads((folder / "torch.json").read_text())
    nodes, output, axis = network["nodes"], network["output"], network["axis"]
    with np.load(folder / "data.npz") as data:
        x, labels = torch.from_numpy(data["x"]), torch.from_numpy(data["target"])
    with np.load(folder / "weights.npz") as weights:
        values = {n: torch.from_numpy(weights[n]) for n in weights.files}
    trained = [v for n, v in values.items() if v.is_floating_point() and v.ndim > 0 and n not in network["statistics"]]
    for v in trained:
        v.requires_grad_()

    def loss_of(x, labels):
        now, last = dict(values, x=x), {}
        for k, node in enumerate(nodes):
            last.update(dict.fromkeys(node["inputs"], k))
        for k, node in enumerate(nodes):
            now[node["outputs"][0]] = operators[node["op"]](node["attributes"], *(now[i] for i in node["inputs"]))
            for i in node["inputs"]:
                if last[i] == k:
                    now.pop(i, None)
        return F.cross_entropy(now[output].movedim(axis, 1).float(), labels)

    optimiser = torch.optim.SGD(trained, lr=RATE, momentum=MOMENTUM)
    run = torch.compile(loss_of) if compiled else loss_of
    batches = len(x) // batch

    def step(k):
        at = k % batches * batch
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            loss = run(x[at:at + batch], labels[at:at + batch])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        loss.item()

    times = updates_in(step, seconds)
    print(json.dumps({"ms": statistics.median(times) * 1e3, "bytes": resident_bytes() - before}))


def run_lazy(name, folder, threads, seconds):
    """The network as code, node by node, with metac's Vars and modules; in a process of its own: prints its row."""
    import os
    os.sched_setaffinity(0, set(list(os.sched_getaffinity(0))[:threads]))
    import metac
    from metac import nn, op, optim
    before = resident_bytes("VmRSS")
    _, batch = RUNS[name]
    network = json.loads((folder / "torch.json").read_text())
    with np.load(folder / "data.npz") as data:
        x, labels = data["x"], data["target"]
    with np.load(folder / "weights.npz") as weights:
        values = {n: metac.array(weights[n]) for n in weights.files}
    trained = {n: v for n, v in values.items() if v.dtype == "float32" and v.ndim > 0 and n not in network["statistics"]}
    norms = {}

    def batch_norm(node):
        if node["outputs"][0] not in norms:
            _, scale, bias, mean, variance = node["inputs"]
            norm = norms[node["outputs"][0]] = nn.BatchNorm(values[scale].size, node["attributes"]["epsilon"], 1 - node["attributes"]["momentum"])
            norm.weight, norm.bias, norm.running_mean, norm.running_var = values[scale], values[bias], values[mean], values[variance]
        return norms[node["outputs"][0]]

    def loss_of(x, labels):
        now = dict(values, x=x)
        for node in network["nodes"]:
            if node["op"] == "BatchNormalization":
                now[node["outputs"][0]] = batch_norm(node)(now[node["inputs"][0]])
            else:
                now[node["outputs"][0]] = getattr(op, node["op"])(*(now[i] for i in node["inputs"]), **node["attributes"])
        return optim.loss("cross_entropy", now[network["output"]], labels, axis=network["axis"])

    optimiser = optim.Optimiser(trained, "sgd", learning_rate=RATE, momentum=MOMENTUM)
    batches = len(x) // batch

    def step(k):
        at = k % batches * batch
        loss = loss_of(metac.array(x[at:at + batch]), metac.array(labels[at:at + batch]))
        optimiser.step(loss)
        loss.item()

    times = updates_in(step, seconds)
    print(json.dumps({"ms": statistics.median(times) * 1e3, "bytes": resident_bytes() - before}))


def run_metac(program, folder, threads, seconds):
    """`folder`: where its data are."""
    begin = time.perf_counter()
    subprocess.run([program, "--data", folder, "--out", folder / "run", "--restart", "--quiet", "--threads", str(threads), "--updates", "3", "--epochs", "1"], check=True)
    count = max(5, int(3 * seconds / max(1e-3, time.perf_counter() - begin)))
    # Its peak is that of the child: asked of the system when it ends.
    child = subprocess.Popen([sys.executable, str(HERE), "--measure", program, "--data", folder, "--out", folder / "run", "--restart", "--quiet", "--threads", str(threads), "--updates", str(count),
                              "--epochs", str(count), "--checkpoint-every", "1000000000", "--log-every", "1"], stdout=subprocess.PIPE, text=True)
    peak = int(child.communicate()[0])
    if child.returncode:
        raise RuntimeError(f"{program} failed")
    lines = [json.loads(line) for line in (folder / "run/log.jsonl").read_text().splitlines()]
    steps = [line for line in lines if line.get("event") == "train"]
    if len(steps) < 5:
        raise RuntimeError(f"{program} made {len(steps)} updates, 5 are the least")
    # The log's clock counts milliseconds: a mean over all updates but the first two.
    return {"ms": (steps[-1]["seconds"] - steps[1]["seconds"]) / (len(steps) - 2) * 1e3, "bytes": peak}


def measure(argv):
    """Runs a command and prints the most memory that it had."""
    import resource
    done = subprocess.run(argv, stdout=subprocess.DEVNULL)
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10)
    return done.returncode


def program_of(folder, contestant):
    """metac's training program."""
    return folder / contestant / "bin/net_train"


def compile_with(arguments, model, folder):
    budget = ["--memory-budget", arguments.memory_budget] if arguments.memory_budget else []
    for contestant in (c for c in arguments.contestants if c in METAC):
        subprocess.run([arguments.metac, "compile", model, "--train", folder / "recipe.json", "-o", folder / contestant, "--name", "net", *METAC[contestant], *budget], check=True,
                       stdout=subprocess.DEVNULL)


def prepare(name, folder, arguments):
    if name in gan_runs.RUNS:
        gan_runs.write_files(name, folder)
        return compile_with(arguments, folder / "generator.json", folder)
    build, batch = RUNS[name]
    network, output, about = build(batch)
    x, labels = samples(network, batches_of(network, batch) * batch, about)
    np.savez(folder / "data.npz", x=x, target=labels)
    np.savez(folder / "weights.npz", **network.weights)
    (folder / "torch.json").write_text(json.dumps({"nodes": network.nodes, "statistics": list(network.statistics), "output": output, "axis": about.get("axis", 1)}))
    (folder / "net.json").write_text(json.dumps(network.document(output)))
    recipe = {"batch": batch, "epochs": 1, "loss": {"kind": "cross_entropy", "axis": about.get("axis", 1)}, "optimizer": {"kind": "sgd", "learning_rate": RATE, "momentum": MOMENTUM},
              "data": {"format": "npz", "train": "data.npz", "shuffle": False}}
    (folder / "recipe.json").write_text(json.dumps(recipe))
    compile_with(arguments, folder / "net.json", folder)


def race(name, folder, arguments):
    if not (arguments.again and all(program_of(folder, c).exists() for c in arguments.contestants if c in METAC)):
        prepare(name, folder, arguments)
    rows = {}
    for turn in range(arguments.turns):
        for who in arguments.contestants:
            if who in METAC:
                row = run_metac(str(program_of(folder, who)), folder, arguments.threads, arguments.seconds)
            else:
                done = subprocess.run([sys.executable, str(HERE), "--child", name, "--data", folder, "--threads", str(arguments.threads), "--seconds", str(arguments.seconds), "--contestants", who],
                                      capture_output=True, text=True)
                if done.returncode:
                    rows.setdefault(who, {"error": done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"status {done.returncode}"})
                    continue
                row = json.loads(done.stdout.splitlines()[-1])
            best = rows.setdefault(who, row)
            best.update(ms=min(best["ms"], row["ms"]), bytes=max(best["bytes"], row["bytes"]))
    return rows


def main():
    if sys.argv[1:2] == ["--measure"]:
        return measure(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--contestants", type=lambda text: text.split(","), default=["metac", "eager", "compile"])
    parser.add_argument("--memory-budget", default="")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--again", action="store_true", help="race what --keep has from an earlier call")
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--child", default="", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        if arguments.contestants == ["lazy"]:
            run_lazy(arguments.child, arguments.data, arguments.threads, arguments.seconds)
        else:
            who = arguments.contestants[0]
            run_torch(arguments.child, arguments.data, arguments.threads, arguments.seconds, who.startswith("compile"), who.endswith("autocast"))
        return 0
    arguments.metac = str(pathlib.Path(arguments.metac).resolve())
    table = {}
    for name in (n for n in [*RUNS, *gan_runs.RUNS] if re.search(arguments.only, n)):
        folder = arguments.keep / name if arguments.keep else pathlib.Path(tempfile.mkdtemp())
        folder.mkdir(parents=True, exist_ok=True)
        rows = table[name] = race(name, folder, arguments)
        ratio = "".join(f"  {own} x{min(theirs) / rows[own]['ms']:.2f}" for own, peers in PEERS.items() if own in rows
                        if (theirs := [rows[peer]["ms"] for peer in peers if "ms" in rows.get(peer, {})]))
        print(f"{name:14}" + "".join(f"  {who} {row['ms']:8.2f} ms {row['bytes'] / 2**20:6.0f} MiB" if "ms" in row else f"  {who}: {row['error'][:60]}" for who, row in rows.items()) + ratio, flush=True)
        if not arguments.keep:
            shutil.rmtree(folder)
    if arguments.json:
        arguments.json.write_text(json.dumps(table, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
