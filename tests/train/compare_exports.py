#!/usr/bin/env python3
"""Exports networks with PyTorch in every way that it has, trains each with a training program and with PyTorch, and looks at what comes out.

    python3 compare_exports.py --metac build/release/bin/metac [--only REGEX] [--sample N] [--seed N] [--updates 100]

Either metac refuses to train a file, naming the node and the reason, where the table below says so; or
  * the losses are PyTorch's: relative difference at most 1e-6 at the first update, 1e-5 at the tenth, 1e-3 at the hundredth (with Dropout at ratio 0);
  * with Dropout on, a training that is broken off and resumed gives the same bits;
  * what was trained is in inference form: library, ONNX file by ONNX Runtime and the training program's own evaluation agree, whatever else is in the batch.
Without PyTorch everything is skipped with a message. The last line is 'N passed, N failed, N skipped'.
"""
import argparse
import copy
import json
import os
import pathlib
import random
import re
import subprocess
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from checks import command, expect  # noqa: E402
from compare_each import compare_each  # noqa: E402

why = None
try:
    import onnx
    import onnxruntime
    import torch
    from exported_networks import NETWORKS, export, train_mode
except ImportError as missing:
    torch, why = None, missing

LIMITS = {1: 1e-6, 10: 1e-5, 100: 1e-3}
BATCH = 16
SCRIPT = "import net, numpy as np, sys\nm = net.Model(weights=sys.argv[1])\nnp.save(sys.argv[3], m.run({'x': np.load(sys.argv[2])})['y'])\n"


def way(network, dynamo, training=None, mode=True, fresh=True, refused=None, recipe=None, **options):
    return {"network": network, "dynamo": dynamo, "training": training, "mode": mode, "fresh": fresh, "refused": refused, "recipe": recipe or {}, "options": options}


def ways():
    table = {}
    for network in ("images", "words"):
        recipe = {"freeze": ["places"]} if network == "words" else {}  # TorchScript's files do not say what is a buffer
        def put(name, *arguments, **options):
            table[f"{network}-{name}"] = way(network, *arguments, **{"recipe": recipe, **options})
        for opset in (11, 13, 14, 17, 20):
            put(f"training-{opset}", False, "TRAINING", opset=opset)
        put("training-unfolded", False, "TRAINING", opset=17, do_constant_folding=False)
        put("training-inputs", False, "TRAINING", opset=17, keep_initializers_as_inputs=True)
        put("training-one-batch", False, "TRAINING", opset=17, open_batch=False)
        put("training-trained", False, "TRAINING", opset=17, fresh=False)
        put("preserve-train", False, "PRESERVE", opset=17)
        put("preserve-train-trained", False, "PRESERVE", opset=17, fresh=False)
        put("preserve-eval", False, "PRESERVE", mode=False, opset=17)
        put("preserve-eval-11", False, "PRESERVE", mode=False, opset=11)
        put("preserve-eval-trained", False, "PRESERVE", mode=False, opset=17, fresh=False)
        put("preserve-eval-inputs", False, "PRESERVE", mode=False, opset=17, keep_initializers_as_inputs=True)
        folded = r"node #0 .*\(Conv\): a BatchNormalization was folded into it" if network == "images" else None
        for fresh in (True, False):
            put("eval" + ("" if fresh else "-trained"), False, "EVAL", mode=False, fresh=fresh, opset=17, refused=folded)
        put("eval-unfolded", False, "EVAL", mode=False, opset=17, do_constant_folding=False, refused=folded)
        for mode, word in ((True, "train"), (False, "eval")):
            for opset in (18, 22, None):
                put(f"dynamo-{word}-{opset or 'newest'}", True, mode=mode, opset=opset, optimize=False, recipe={})
            put(f"dynamo-{word}-trained", True, mode=mode, fresh=False, optimize=False, recipe={})
            put(f"dynamo-{word}-inputs", True, mode=mode, optimize=False, keep_initializers_as_inputs=True, recipe={})
            refused = r"\(Conv\): a BatchNormalization was folded into it" if network == "images" else "the exporter kept equal parameters once|the exporter made of several parameters that were equal"
            put(f"dynamo-{word}-optimised", True, mode=mode, refused=refused, recipe={})
            put(f"dynamo-{word}-optimised-trained", True, mode=mode, fresh=False, refused=refused if network == "images" else None, recipe={})
    table["prenormed-dynamo-optimised"] = way("prenormed", True, refused="would not train apart|folded into it")
    table["prenormed-preserve-eval"] = way("prenormed", False, "PRESERVE", mode=False, opset=17)
    table["grouped-training"] = way("grouped", False, "TRAINING", opset=17, do_constant_folding=False)
    table["grouped-dynamo"] = way("grouped", True, optimize=False)
    for dynamo in (False, True):
        table["frozen-" + ("dynamo" if dynamo else "preserve")] = way("frozen", dynamo, None if dynamo else "PRESERVE", **({"optimize": False} if dynamo else {"opset": 17}))
    return table


def samples(kind, count):
    rng = np.random.default_rng(7)
    if kind == "words":
        text = rng.integers(0, 11, (count, 6))
        return text, (text * 3 + 1) % 11
    x = rng.standard_normal((count, 1, 8, 8)).astype(np.float32) * 3 + 2
    return x, (x.reshape(count, -1) @ rng.standard_normal((64, 5)).astype(np.float32)).argmax(1)


def scores(network, x):
    return network(torch.from_numpy(x)).movedim(-1, 1)


def train(network, x, target):
    """PyTorch's losses, in place."""
    optimiser, losses = torch.optim.SGD([p for p in network.parameters()], lr=0.02, momentum=0.9), []
    for k in range(0, len(x), BATCH):
        loss = torch.nn.functional.cross_entropy(scores(network, x[k:k + BATCH]), torch.from_numpy(target[k:k + BATCH]))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


class Comparison:
    def __init__(self, arguments, about, folder):
        self.metac, self.about, self.folder = arguments.metac, about, folder
        self.x, self.target = samples(about["network"], BATCH * arguments.updates)
        np.savez(folder / "data.npz", x=self.x, target=self.target)

    def exported(self, ratio):
        """A network and its file, net.onnx."""
        torch.manual_seed(3)
        network = train_mode(NETWORKS[self.about["network"]](ratio))
        if not self.about["fresh"]:
            x, target = samples(self.about["network"], 3 * BATCH)
            train(network, x[::-1].copy(), target[::-1].copy())
        train_mode(network, self.about["mode"])
        options = dict(self.about["options"])
        export(copy.deepcopy(network), self.folder / "net.onnx", torch.from_numpy(self.x[:BATCH]), dynamo=self.about["dynamo"], training=self.about["training"], **options)
        return network

    def compiled(self, out):
        recipe = {"batch": BATCH, "epochs": 1, "loss": {"kind": "cross_entropy", "axis": 2 if self.about["network"] == "words" else 1}, "metrics": ["accuracy"] if self.about["network"] != "words" else [],
                  "optimizer": {"kind": "sgd", "learning_rate": 0.02, "momentum": 0.9}, "data": {"format": "npz", "train": "data.npz", "validation": "data.npz", "shuffle": False}, **self.about["recipe"]}
        (self.folder / "recipe.json").write_text(json.dumps(recipe))
        done = subprocess.run([self.metac, "compile", self.folder / "net.onnx", "--train", self.folder / "recipe.json", "-o", self.folder / out], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def trained(self, out, run, *more):
        command(self.folder / out / "bin/net_train", "--data", self.folder, "--out", self.folder / run, "--quiet", *more)
        return [json.loads(line) for line in (self.folder / run / "log.jsonl").read_text().splitlines()]

    def library(self, out, run, x):
        np.save(self.folder / "x.npy", x)
        subprocess.run([sys.executable, "-c", SCRIPT, self.folder / run / "net.weights", self.folder / "x.npy", self.folder / "y.npy"], check=True, env={**os.environ, "PYTHONPATH": str(self.folder / out / "python")})
        return np.load(self.folder / "y.npy")

    def curves(self):
        network = train_mode(self.exported(0.0))
        status, said = self.compiled("out")
        # Some versions of PyTorch fold BatchNormalization into convolutions whatever they are asked: a file that has it still trains.
        kept = any(node.op_type == "BatchNormalization" for node in onnx.load(self.folder / "net.onnx", load_external_data=False).graph.node)
        if "folded" in (self.about["refused"] or "") and kept:
            self.about["refused"] = None
        if self.about["refused"]:
            expect(status == 1 and re.search(self.about["refused"], said), f"status {status}, not refused for {self.about['refused']!r}:\n{said}")
            return "refused: " + said.strip().splitlines()[-1][:150]
        expect(status == 0, said)
        log = self.trained("out", "run")
        ours, theirs = [line["loss"] for line in log if line["event"] == "train"], train(network, self.x, self.target)
        expect(len(ours) == len(theirs), f"{len(ours)} updates, expected {len(theirs)}")
        texts = []
        for update in (u for u in LIMITS if u <= len(ours)):
            difference = abs(ours[update - 1] - theirs[update - 1]) / abs(theirs[update - 1])
            texts.append(f"update {update}: {difference:.1e}")
            expect(difference <= LIMITS[update], f"loss {ours[update - 1]}, PyTorch {theirs[update - 1]} at update {update}\n{said}")
        x, network = self.x[:BATCH], network.eval()
        with torch.no_grad():
            wanted = network(torch.from_numpy(x)).numpy()
        here = self.library("out", "run", x)
        expect(np.abs(here - wanted).max() <= 2e-3 * np.abs(wanted).max(), f"the trained library differs from PyTorch's network after eval() by {np.abs(here - wanted).max()} of {np.abs(wanted).max()}")
        return f"loss {ours[0]:.4f} to {ours[-1]:.4f}, difference at " + ", ".join(texts) + f", at most {max(abs(a - b) / abs(b) for a, b in zip(ours, theirs)):.1e}"

    def dropping(self):
        self.exported(0.3)
        status, said = self.compiled("dropping")
        expect(status == 0, said)
        log = self.trained("dropping", "whole")
        self.trained("dropping", "broken", "--updates", 7)
        self.trained("dropping", "broken", "--updates", len(self.x) // BATCH, "--resume")
        whole, broken = (self.folder / run / "net.safetensors" for run in ("whole", "broken"))
        expect(whole.read_bytes() == broken.read_bytes(), "other bits after a break")
        quiet = onnxruntime.SessionOptions()
        quiet.log_severity_level = 3
        there = onnxruntime.InferenceSession(str(self.folder / "whole/net.onnx"), quiet, providers=["CPUExecutionProvider"])
        x = self.x[:BATCH] if not self.about["options"].get("open_batch", True) else self.x
        here, theirs = self.library("dropping", "whole", x), there.run(None, {"x": x})[0]
        expect(np.abs(here - theirs).max() <= 1e-4 * np.abs(theirs).max(), f"library and ONNX Runtime differ by {np.abs(here - theirs).max()}")
        expect(not any(node.op_type == "Dropout" and len(node.input) > 2 for node in onnx.load(self.folder / "whole/net.onnx").graph.node), "the trained file drops")
        if len(x) < len(self.x):
            return
        few = self.library("dropping", "whole", x[:2])
        expect(np.abs(few - here[:2]).max() <= 1e-5 * np.abs(here).max(), "an answer depends on the rest of the batch")
        told = [line for line in log if line["event"] == "epoch"][-1]
        if self.about["network"] != "words":
            accuracy = (here.argmax(-1) == self.target).mean()
            expect(abs(accuracy - told["validation accuracy"]) < 1e-6, f"the library's accuracy is {accuracy}, the evaluation's {told['validation accuracy']}")


def page(arguments, folder):
    """The commands of docs/exporting_from_pytorch.md."""
    text = (pathlib.Path(__file__).resolve().parents[2] / "docs/exporting_from_pytorch.md").read_text()
    (python,), (shell,) = re.findall(r"```python\n(.*?)```", text, re.S), re.findall(r"```sh\n(.*?)```", text, re.S)
    (folder / "recipe.json").write_text(json.dumps({"batch": 8, "loss": "cross_entropy", "optimizer": "sgd"}))
    command(sys.executable, "-c", python, cwd=folder)
    said = command("sh", "-ec", shell.replace("metac ", f"{arguments.metac} "), cwd=folder)
    expect("warning" not in said and "1 BatchNormalization nodes train" in said and "1 Dropout nodes drop" in said, said)
    said = command(arguments.metac, "compile", folder / "training.onnx", "--no-build", "-o", folder / "warned")
    expect("was exported for training" in said, said)


def run(name, arguments, folder):
    if name == "page":
        page(arguments, folder)
        return True, "its commands"
    comparison = Comparison(arguments, ways()[name], folder)
    try:
        text = comparison.curves()
        if not comparison.about["refused"]:
            comparison.dropping()
            text += "; resumed bit by bit, library and file as in evaluation"
    except RuntimeError as error:
        return False, str(error)
    return True, text


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--metac", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--sample", type=int, help="so many of the ways, by --seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--updates", type=int, default=100)
    arguments = parser.parse_args()
    arguments.metac = str(pathlib.Path(arguments.metac).resolve())
    names = [n for n in ["page", *(ways() if torch else ())] if re.search(arguments.only, n)]
    if arguments.sample and arguments.sample < len(names):
        names = random.Random(arguments.seed).sample(names, arguments.sample)
    return compare_each(names, lambda name, folder: run(name, arguments, folder), torch, why)


if __name__ == "__main__":
    sys.exit(main())
