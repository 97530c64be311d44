#!/usr/bin/env python3
"""Low-rank adapters as a user has them: trained beside frozen weights that are stored in every way, written as safetensors,
chosen among in a library, merged. Judges: float64 NumPy, and ONNX Runtime for the files that come out.

    python3 run_adapters.py --metac build/ci/bin/metac [--seed 1] [--keep DIR]

Needs numpy, onnx and onnxruntime, and compares with PEFT where that is installed. The last line is 'N passed, N failed'.
"""
import argparse
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
import onnxruntime
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from adapted_networks import LAYERS, SIZES, Network, random_adapters, read_safetensors, write_adapters, write_safetensors  # noqa: E402
from checks import Skip, command, expect, run_checks  # noqa: E402

RATE, MOMENTUM, UPDATES, RANK, ALPHA = 0.2, 0.9, 12, 4, 8
CALL = "import {0}, numpy as np, sys\nm = {0}.Model()\nnp.savez(sys.argv[2], **m.run(dict(np.load(sys.argv[1]))))\n"


def parameters(path):
    return {i.name: numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}


def by_onnx_runtime(path, inputs, outputs=None):
    """Node by node: what it fuses products with int8 and int4 weights into rounds the data to int8."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(str(path), options).run(outputs, inputs)[0]


def difference(here, there):
    return np.abs(here - there).max() / np.abs(there).max()


class Checks:
    def __init__(self, work, metac, seed):
        self.work, self.metac, self.seed = work, metac, seed
        self.network = Network(seed)
        self.network.save(work / "layers.onnx")
        rng = np.random.default_rng(seed)
        self.x, self.t = rng.standard_normal((16, SIZES[0])).astype(np.float32), rng.standard_normal((16, SIZES[-1])).astype(np.float32)
        np.savez(work / "samples.npz", x=self.x, target=self.t)

    def library(self, name, inputs):
        """What the compiled library of this name answers."""
        np.savez(self.work / "inputs.npz", **inputs)
        subprocess.run([sys.executable, "-c", CALL.format(name), self.work / "inputs.npz", self.work / "outputs.npz"], check=True, env={**os.environ, "PYTHONPATH": str(self.work / f"{name}/python")})
        return dict(np.load(self.work / "outputs.npz"))

    def updates_are_those_of_float64(self):
        """Twelve updates with momentum of the adapters of seven layers, one batch each: against NumPy, and what comes out."""
        recipe = {"batch": 16, "epochs": UPDATES, "seed": 3, "loss": "mse", "optimizer": {"kind": "sgd", "learning_rate": RATE, "momentum": MOMENTUM},
                  "adapters": [{"match": ["*.weight", "nbits*"], "rank": RANK, "alpha": ALPHA}], "data": {"format": "npz", "train": "samples.npz", "shuffle": False}}
        (self.work / "layers.json").write_text(json.dumps(recipe))
        command(self.metac, "compile", self.work / "layers.onnx", "--train", self.work / "layers.json", "-o", self.work / "layers", "--name", "layers")
        command(self.work / "layers/bin/layers_train", "--data", self.work, "--out", self.work / "layers-run")
        first = parameters(self.work / "layers/train/layers.onnx")
        adapters = {name: (first[f"{name}.lora_A"].astype(np.float64), first[f"{name}.lora_B"].astype(np.float64)) for name in LAYERS}
        for k, name in enumerate(LAYERS):
            a, b = adapters[name]
            expect(a.shape == (SIZES[k], RANK) and b.shape == (RANK, SIZES[k + 1]) and not b.any(), f"{name}: {a.shape}, {b.shape}")
            bound = 1 / np.sqrt(SIZES[k])  # of 128 numbers or more none within a tenth of it: once in 10^5
            expect(0.9 * bound < np.abs(a).max() <= bound and abs(a.mean()) < 0.3 * bound, f"{name}: A is not uniform within {bound}")
        moved, losses = {name: [np.zeros_like(m) for m in adapters[name]] for name in LAYERS}, []
        for _ in range(UPDATES):
            loss, gradients = self.network.gradients(self.x, self.t, adapters, ALPHA / RANK)
            losses.append(loss)
            for name in LAYERS:
                moved[name] = [MOMENTUM * v + g for v, g in zip(moved[name], gradients[name])]
                adapters[name] = tuple(m - RATE * v for m, v in zip(adapters[name], moved[name]))
        told = [json.loads(line) for line in (self.work / "layers-run/log.jsonl").read_text().splitlines()]
        told = [line["loss"] for line in told if line["event"] == "train"]
        expect(losses[-1] < 0.8 * losses[0] and difference(np.array(told), np.array(losses)) < 1e-5, f"losses {told}, not {losses}")
        tensors, metadata = read_safetensors(self.work / "layers-run/adapters.safetensors")
        expect(metadata["rank"] == str(RANK) and metadata["alpha"] == str(ALPHA) and metadata["format"] == "pt", f"{metadata}")
        expect(len(tensors) == 2 * len(LAYERS), f"{sorted(tensors)}")
        worst = 0
        for name in LAYERS:
            for half, there in zip("AB", adapters[name]):
                here = tensors[f"base_model.model.{name}.lora_{half}.weight"].T
                expect(here.shape == there.shape, f"{name}: {here.shape}")
                worst = max(worst, difference(here, there))
        print(f"{UPDATES} updates: adapters differ by {worst:.1e}")
        expect(worst < 2e-5, f"adapters differ by {worst}")
        self.trained = adapters

    def the_trained_file_has_the_old_weights(self):
        before, after = (parameters(path) for path in (self.work / "layers.onnx", self.work / "layers-run/layers.onnx"))
        expect(all(before[name].tobytes() == after[name].tobytes() for name in before), "a frozen weight changed")
        expect(sorted(set(after) - set(before)) == sorted(f"{name}.lora_{half}" for name in LAYERS for half in "AB"), f"{sorted(after)}")
        onnx.checker.check_model(onnx.load(self.work / "layers-run/layers.onnx"))
        there = by_onnx_runtime(self.work / "layers-run/layers.onnx", {"x": self.x})
        expect(difference(there, self.network.forward(self.x, self.trained, ALPHA / RANK)[0]) < 1e-5, "ONNX Runtime answers otherwise")

    def a_library_chooses(self):
        """Three sets: the trained one, one of other layers and rank in float16, one with alpha in adapter_config.json."""
        shutil.copy(self.work / "layers-run/adapters.safetensors", self.work / "trained.safetensors")
        half, peft = random_adapters(["gemm", "int8"], 7, 11, np.float16), random_adapters(["float16", "gemm"], 2, 12)
        write_adapters(self.work / "half.safetensors", half, {"alpha int8": "3.5", "alpha": "3.5"})
        (self.work / "peft").mkdir(exist_ok=True)
        write_adapters(self.work / "peft/adapter_model.safetensors", peft, {"format": "pt"})
        (self.work / "peft/adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 3, "use_rslora": True, "alpha_pattern": {}}))
        self.sets = [({}, 0), (self.trained, ALPHA / RANK), (half, 0.5), (peft, 3 / np.sqrt(2))]
        self.adapters = f"trained={self.work}/trained.safetensors,half={self.work}/half.safetensors,peft={self.work}/peft/adapter_model.safetensors"
        command(self.metac, "compile", self.work / "layers.onnx", "--adapters", self.adapters, "-o", self.work / "chosen", "--name", "chosen", "--cpu", "native")
        for k, (adapters, scale) in enumerate(self.sets):
            here = self.library("chosen", {"x": self.x, "adapter": np.int64(k)})[self.network.output]
            expect(difference(here, self.network.forward(self.x, adapters, scale)[0]) < 1e-5, f"adapter {k} answers otherwise")

    def the_trained_file_and_its_adapters_are_one(self):
        there = by_onnx_runtime(self.work / "layers-run/layers.onnx", {"x": self.x})
        here = self.library("chosen", {"x": self.x, "adapter": np.int64(1)})[self.network.output]
        expect(difference(here, there) < 1e-5, f"they differ by {difference(here, there)}")

    def each_row_has_its_own(self):
        command(self.metac, "compile", self.work / "layers.onnx", "--adapters", self.adapters, "--adapter-per-row", "-o", self.work / "rows", "--name", "rows", "--cpu", "native")
        chosen = np.arange(16, dtype=np.int64) * 7 % 4
        here = self.library("rows", {"x": self.x, "adapter": chosen})[self.network.output]
        there = np.stack([self.network.forward(self.x[k:k + 1], *self.sets[chosen[k]])[0][0] for k in range(16)])
        expect(difference(here, there) < 1e-5, f"rows differ by {difference(here, there)}")

    def new_values_are_taken_while_it_runs(self):
        """set_weights: another half.safetensors in the place of the old one, without compiling."""
        other = random_adapters(["gemm", "int8"], 7, 21)
        script = CALL.replace("np.savez", "w = dict(np.load(sys.argv[3]))\nm.set_weights(w)\nnp.savez").format("chosen")
        weights = {**parameters(self.work / "layers.onnx")}
        for name, (a, b) in other.items():
            weights[f"{name}.lora_A.half"], weights[f"{name}.lora_B.half"] = a, b
        for file, label in ((self.trained, "trained"), (self.sets[3][0], "peft")):
            for name, (a, b) in file.items():
                weights[f"{name}.lora_A.{label}"], weights[f"{name}.lora_B.{label}"] = np.float32(a), np.float32(b)
        np.savez(self.work / "weights.npz", **weights)
        for k, (adapters, scale) in enumerate(self.sets):
            np.savez(self.work / "inputs.npz", x=self.x, adapter=np.int64(k))
            subprocess.run([sys.executable, "-c", script, self.work / "inputs.npz", self.work / "outputs.npz", self.work / "weights.npz"], check=True, env={**os.environ, "PYTHONPATH": str(self.work / "chosen/python")})
            here = np.load(self.work / "outputs.npz")[self.network.output]
            expect(difference(here, self.network.forward(self.x, other if k == 2 else adapters, scale)[0]) < 1e-5, f"adapter {k} answers otherwise")

    def merged_they_are_gone(self):
        network = Network(self.seed + 1, narrow=False)
        network.save(self.work / "wide.onnx")
        command(self.metac, "convert", self.work / "wide.onnx", self.work / "merged.onnx", "--merge-adapters", self.work / "trained.safetensors")
        before, after = parameters(self.work / "wide.onnx"), parameters(self.work / "merged.onnx")
        expect({n: v.shape for n, v in before.items()} == {n: v.shape for n, v in after.items()}, "other initialisers")
        there = by_onnx_runtime(self.work / "merged.onnx", {"x": self.x})
        expect(difference(there, network.forward(self.x, self.trained, ALPHA / RANK)[0]) < 1e-5, "the merged network answers otherwise")
        a, b = self.trained["gemm"]
        exact = before["gemm.weight"] + np.float32(ALPHA / RANK * (np.float64(np.float32(a)) @ np.float64(np.float32(b)))).T
        expect(np.abs(after["gemm.weight"] - exact).max() < 1e-5, "the merged weight is another")

    def narrow_weights_are_not_merged(self):
        for file, layer in (("trained", "int8.weight"), ("half", "int8.weight")):
            said = command(self.metac, "convert", self.work / "layers.onnx", self.work / "no.onnx", "--merge-adapters", self.work / f"{file}.safetensors", status=1)
            expect(layer in said and "is quantised" in said and "--adapters" in said, said)
        expect(not (self.work / "no.onnx").exists(), "a file was written")

    def hostile_files_are_refused(self):
        """Every kind of damage, with the file and the tensor named; then random bytes changed or cut off: refused or taken, no crash."""
        a, b = "base_model.model.gemm.lora_A.weight", "base_model.model.gemm.lora_B.weight"
        good = {a: np.zeros((4, 32), np.float32), b: np.zeros((48, 4), np.float32)}
        path = self.work / "hostile.safetensors"
        def merge(status):
            return command(self.metac, "convert", self.work / "layers.onnx", self.work / "hostile.onnx", "--merge-adapters", path, status=status, timeout=60)
        def refused(words, tensors=good, metadata={"alpha": "8"}, change=None):
            write_safetensors(path, tensors, metadata)
            if change:
                path.write_bytes(change(path.read_bytes()))
            said = merge(1)
            expect(words in said and "hostile.safetensors" in said, f"{said}, expected {words!r}")
        write_safetensors(path, good, {"alpha": "8"})
        merge(0)
        refused("cut short", change=lambda f: f[:5])
        refused("cut short", change=lambda f: struct.pack("<Q", 1 << 63) + f[8:])
        refused("the header is damaged", change=lambda f: struct.pack("<Q", len(f) - 8) + f[8:])
        refused("no JSON", change=lambda f: f.replace(b"{", b"[", 1))
        refused("no JSON", change=lambda f: f[:8] + b"[" * 200 + f[208:])
        refused("cut short", change=lambda f: f[:-1])
        refused("the header speaks of", change=lambda f: f + b"1234")
        refused(f'"{a}" has', change=lambda f: f.replace(b"[4, 32]", b"[4, 31]"))
        refused(f'"{a}"', change=lambda f: f.replace(b"[4, 32]", b"[-4,32]"))
        refused(f'"{a}"', change=lambda f: f.replace(b"[0, 512]", b"[512, 0]"))
        refused(f'"{b}" ends at 9280', change=lambda f: f.replace(b"[512, 1280]", b"[512, 9280]"))
        refused(f'an offset of "{b}"', change=lambda f: f.replace(b"[512, 1280]", b"[512, 1e99]"))
        refused(f'"{a}"', change=lambda f: f.replace(b'"F32"', b'"F31"', 1))
        refused(f'"{a}" is of I32', {**good, a: np.zeros((4, 32), np.int32)})
        refused(f'"{a}" is 128, no matrix', {**good, a: np.zeros(128, np.float32)})
        refused(f'"{a}" is 4x33, the weight "gemm.weight"', {**good, a: np.zeros((4, 33), np.float32)})
        refused(f'"{b}" is 48x5, the weight "gemm.weight"', {**good, b: np.zeros((48, 5), np.float32)})
        refused("has the rank 0", {a: np.zeros((0, 32), np.float32), b: np.zeros((48, 0), np.float32)})
        refused(f'"{a}" has no lora_B', {a: good[a]})
        refused('"lora_magnitude" is neither', {**good, "lora_magnitude": np.zeros(4, np.float32)})
        refused('layer "gems"', {name.replace("gemm", "gems"): value for name, value in good.items()})
        refused('did you mean "gemm"?', {name.replace("gemm", "gems"): value for name, value in good.items()})
        refused("nothing says alpha", metadata=None)
        refused('"eight", no number', metadata={"alpha": "eight"})
        refused('"inf", no number', metadata={"alpha": "inf"})
        refused("has no adapters", {})
        write_safetensors(path, good, {"alpha": "8"})
        whole, chance = path.read_bytes(), random.Random(self.seed)
        for _ in range(60):
            changed = bytearray(whole[:chance.choice((len(whole), chance.randrange(len(whole))))])
            for _ in range(chance.randrange(1, 4)):
                if changed:
                    changed[chance.randrange(min(len(changed), 300))] = chance.randrange(256)
            path.write_bytes(bytes(changed))
            merge((0, 1))

    def mistakes_are_told(self):
        def refused(recipe, *words):
            (self.work / "wrong.json").write_text(json.dumps({"loss": "mse", "optimizer": "sgd", **recipe}))
            said = command(self.metac, "compile", self.work / "layers.onnx", "--train", self.work / "wrong.json", "--emit", "graph", status=1)
            expect("wrong.json:1:" in said and all(word in said for word in words), f"{said}, expected {words}")
        refused({"adapters": {"match": "gem.weight"}}, 'no weight matches "gem.weight"', 'did you mean "gemm.weight"?')
        refused({"adapters": {"match": "*.bias"}}, '"gemm.bias" 48', "not the matrix of a product", "(Gemm)")
        refused({"adapters": {"match": ["gemm.*", "*.scales"]}}, '"nbits4.scales"', "(MatMulNBits)")
        refused({"adapters": {"match": "*", "rank": 0}}, '"rank" must be in 1..')
        refused({"adapters": {"match": "*", "ranks": 4}}, 'did you mean "rank"?')
        refused({"adapters": {"match": []}}, "has no pattern")
        said = command(self.metac, "compile", self.work / "layers.onnx", "--adapters", "x.safetensors", "-o", self.work / "no", status=2)
        expect("expected NAME=FILE" in said, said)

    def a_decoder_of_four_bits_learns(self):
        """The tiny decoder with an empty cache: frozen int4 weights, adapters of three kinds of layers."""
        command(sys.executable, ROOT / "models/decoders/build.py", self.work / "tiny.onnx", "--size", "tiny", "--weights", "int4", "--block", "16", "--zero-points", cwd=self.work)
        rng, count, length = np.random.default_rng(self.seed), 32, 8
        tokens = rng.integers(0, 160, (count, length))
        caches = {f"past_key_values.{layer}.{kind}": np.zeros((count, 2, 0, 16), np.float32) for layer in (0, 1) for kind in ("key", "value")}
        samples = {"input_ids": tokens, "attention_mask": np.ones((count, length), np.int64), **caches}
        np.savez(self.work / "tokens.npz", target=(3 * tokens + 1) % 160, **samples)
        recipe = {"batch": 8, "epochs": 15, "loss": {"kind": "cross_entropy", "axis": 2}, "optimizer": {"kind": "adamw", "learning_rate": 0.02},
                  "adapters": {"match": ["*q_proj*", "*v_proj*", "*down_proj*"], "rank": 4, "alpha": 8}, "data": {"format": "npz", "train": "tokens.npz"}}
        (self.work / "tiny.json").write_text(json.dumps(recipe))
        dims = [word for name, value in (("batch_size", 8), ("sequence_length", length), ("past_sequence_length", 0), ("total_sequence_length", length)) for word in ("--dim", f"{name}={value}")]
        command(self.metac, "compile", self.work / "tiny.onnx", "--train", self.work / "tiny.json", "-o", self.work / "tiny", "--name", "tiny", *dims)
        command(self.work / "tiny/bin/tiny_train", "--data", self.work, "--out", self.work / "tiny-run")
        told = [json.loads(line) for line in (self.work / "tiny-run/log.jsonl").read_text().splitlines()]
        losses = [line["loss"] for line in told if line["event"] == "epoch"]
        expect(losses[-1] < 0.6 * losses[0], f"learned too little: {losses}")
        trained, _ = read_safetensors(self.work / "tiny-run/tiny.safetensors")
        expect(not [name for name in trained if name.endswith("qweight")], "numbers of four bits are no parameters")
        command(self.metac, "compile", self.work / "tiny.onnx", "--adapters", f"own={self.work}/tiny-run/adapters.safetensors", "-o", self.work / "own", "--name", "own", "--cpu", "native", *dims)
        first = {name: value[:8] for name, value in samples.items()}
        for k, path in enumerate(("tiny.onnx", "tiny-run/tiny.onnx")):
            there = by_onnx_runtime(self.work / path, first, ["logits"])
            here = self.library("own", {**first, "adapter": np.int64(k)})["logits"]
            expect(difference(here, there) < 1e-4, f"{path}: the library differs by {difference(here, there)}")

    def peft_agrees(self):
        """The same training by PEFT; ours read by PEFT; PEFT's read by metac."""
        try:
            import peft
            import torch
        except ImportError:
            raise Skip("peft is not installed")
        network = self.network

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                for k, name in enumerate(LAYERS):
                    layer = torch.nn.Linear(SIZES[k], SIZES[k + 1], bias=False)
                    layer.weight.data = torch.tensor(np.float32(network.weights[name].T))
                    setattr(self, name, layer)

            def forward(self, x):
                for name in LAYERS:
                    y = getattr(self, name)(x)
                    y = 0.5 * y + torch.tensor(np.float32(network.bias)) if name == "gemm" else y
                    x = y if name == LAYERS[-1] else torch.tanh(y)
                return x

        settings = peft.LoraConfig(target_modules=LAYERS, r=RANK, lora_alpha=ALPHA)
        adapted, x, t = peft.get_peft_model(Net(), settings), torch.tensor(self.x), torch.tensor(self.t)
        theirs, first = dict(adapted.named_parameters()), parameters(self.work / "layers/train/layers.onnx")
        for name in LAYERS:
            theirs[f"base_model.model.{name}.lora_A.default.weight"].data = torch.tensor(np.ascontiguousarray(first[f"{name}.lora_A"].T))
        optimizer = torch.optim.SGD([p for p in adapted.parameters() if p.requires_grad], lr=RATE, momentum=MOMENTUM)
        for _ in range(UPDATES):
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(adapted(x), t).backward()
            optimizer.step()
        ours, _ = read_safetensors(self.work / "layers-run/adapters.safetensors")
        worst = max(difference(value, theirs[name.replace(".weight", ".default.weight")].detach().numpy()) for name, value in ours.items())
        print(f"{UPDATES} updates: PEFT's adapters differ by {worst:.1e}")
        expect(worst < 2e-5, f"PEFT's adapters differ by {worst}")
        y, folder = adapted(x).detach().numpy(), self.work / "ours"
        settings.save_pretrained(folder)
        shutil.copy(self.work / "layers-run/adapters.safetensors", folder / "adapter_model.safetensors")
        expect(difference(peft.PeftModel.from_pretrained(Net(), str(folder))(x).detach().numpy(), y) < 1e-4, "PEFT reads other adapters than were written")
        adapted.save_pretrained(self.work / "theirs")
        command(self.metac, "compile", self.work / "layers.onnx", "--adapters", f"theirs={self.work}/theirs/adapter_model.safetensors", "-o", self.work / "theirs_too", "--name", "theirs_too", "--cpu", "native")
        here = self.library("theirs_too", {"x": self.x, "adapter": np.int64(1)})[self.network.output]
        expect(difference(here, y) < 1e-5, f"PEFT's adapters answer otherwise: {difference(here, y)}")

    def the_page(self):
        """The commands of docs/adapters.md, and what it says that they print."""
        page = (ROOT / "docs/adapters.md").read_text()
        environment = {**os.environ, "PATH": f"{self.metac.parent}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
        found = re.findall(r"```sh\n(.*?)```", page, re.S)
        expect(len(found) == 3, "the page has lost its commands")
        said = [command("bash", "-e", "-c", text.replace("/tmp/", f"{self.work}/"), env=environment, cwd=ROOT) for text in found]
        accuracy = float(re.findall(r"accuracy ([0-9.]+)", said[0])[-1])
        expect("mirror: 1104 parameters to train" in said[0] and accuracy > 0.95, said[0])
        expect(said[1].splitlines()[-3:] == ["adapter 0 reads 3", "adapter 1 reads 3", "adapter 0 reads 8"], said[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path, help="work here and leave it")
    arguments = parser.parse_args()
    work = (arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="metac-adapters-"))).resolve()
    work.mkdir(parents=True, exist_ok=True)
    status = run_checks(Checks(work, arguments.metac.resolve(), arguments.seed), ("library",))
    if not arguments.keep:
        shutil.rmtree(work, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
