#!/usr/bin/env python3
"""Compiles what run_gpu.py runs on a machine with a GPU, into one archive.

    python3 prepare_gpu.py BUNDLE.tar.xz --build build/release [--arch 80,90] [--only REGEX] [--networks NAME,...|none] [--batches 1,8,32,128]
                           [--dtypes float32,bfloat16] [--training digits,resnet50|none] [--training-batch 64]

Cases: the models of make_models.py as programs, each with generated kernels alone and, where they ask vendor libraries,
with those too; inputs and the CPU target's answers beside them. Networks: those of models/backbones as shared libraries,
for measuring; their weights are made up where they run. Training programs: the digits with the losses of the CPU's, and a
network whose steps are raced against PyTorch's (its weights repeat, so that they pack). The archive must stay below 64 MiB. Needs nvcc, numpy and onnx.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

import ml_dtypes
import numpy as np
import onnx
import onnx.numpy_helper
from onnx import helper

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "models/backbones"))
import build as backbones  # noqa: E402
from make_models import make_models, values, write  # noqa: E402

DIGITS = HERE.parents[1] / "models/digits"
JITTOR_TABLE = "alexnet,vgg11,squeezenet1_1,resnet50,resnet152,wide_resnet50_2,wide_resnet101_2,resnext50_32x4d,resnext101_32x8d,res2net50"
MOST_BYTES = 64 << 20
WEIGHTS_HEAD = 4096


def command(*argv):
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=3600)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, argv))}: status {done.returncode}\n" + "\n".join(done.stdout.splitlines()[-15:]))


def own_models(folder):
    """What the figures of single kernels are read off: 64 MiB through one kernel, and a hundred that cannot be fused."""
    write(folder, "copy_64_mib", [helper.make_node("Relu", ["x"], ["y"])], {"x": values(16 << 20)})
    write(folder, "sums_64_mib", [helper.make_node("ReduceSum", ["x", "a"], ["y"], keepdims=0)], {"x": values(4096, 4096)}, constants={"a": np.array([1], np.int64)})
    nodes, last = [], "x"
    for k in range(50):
        nodes += [helper.make_node("Softmax", [last], [f"s{k}"], axis=0), helper.make_node("Softmax", [f"s{k}"], [f"t{k}"], axis=1)]
        last = f"t{k}"
    nodes[-1].output[0] = "y"
    write(folder, "hundred_kernels", nodes, {"x": values(48, 48)})


def in_bfloat16(model):
    """The same network with bfloat16 for float32 everywhere."""
    def converted(tensor):
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor).astype(ml_dtypes.bfloat16), tensor.name))

    for tensor in model.graph.initializer:
        converted(tensor)
    for value in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = onnx.TensorProto.BFLOAT16
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                converted(attribute.t)
    return model


class Bundle:
    def __init__(self, arguments, work):
        self.o, self.work, self.root = arguments, work, work / "gpu"
        self.metac = arguments.build / "bin/metac"
        self.root.mkdir()
        self.list = {"arch": arguments.arch, "cases": [], "speed": [], "networks": [], "training": []}

    def compile(self, model, name, *options, within="built"):
        folder = self.work / f"{name} {within}"
        command(self.metac, "compile", model, "-o", folder, "--name", name, "--target", "cuda", "--cuda-arch", self.o.arch, *options)
        return folder, json.loads((folder / f"{name}.json").read_text())

    def take_library(self, folder, name, into):
        (into / "lib").mkdir(parents=True)
        shutil.copy(folder / f"lib/lib{name}.so", into / "lib")
        shutil.copytree(folder / "python", into / "python")
        shutil.copy(folder / f"{name}.json", into)

    def take_head(self, weights, into):
        """The head of a weights file, whose numbers are made up where they are needed; how many bytes these are."""
        with open(weights, "rb") as file:
            (into / f"{weights.name}.head").write_bytes(file.read(WEIGHTS_HEAD))
        return weights.stat().st_size - WEIGHTS_HEAD

    def case(self, folder):
        name, rows = folder.name, []
        inputs = sorted((folder / "test_data_set_0").glob("input_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
        expected = self.work / f"{name} expected"
        expected.mkdir()
        ports = [i.name for i in onnx.load(folder / "model.onnx").graph.input]
        command(self.metac, "run", folder / "model.onnx", *(w for n, i in zip(ports, inputs) for w in ("--input", f"{n}={i}")), "--output-dir", expected)
        into = self.root / "cases" / name
        into.mkdir(parents=True)
        for k, file in enumerate(inputs):
            shutil.copy(file, into / f"input_{k}.pb")
        shutil.copytree(expected, into / "expected")
        for external in ("none", "auto"):
            built, manifest = self.compile(folder / "model.onnx", "net", "--external", external, within=f"{name} {external}")   # one name: most sources are the same text
            if external == "auto" and not manifest["libraries"]:
                continue
            shutil.copy(built / "bin/net_run", into / f"{name}_{external}_run")
            shutil.copy(built / "net.weights", into / f"{name}_{external}.weights")
            rows.append({"name": name, "external": external, "inputs": len(inputs), "libraries": manifest["libraries"]})
            shutil.rmtree(built)
        return "cases", rows

    def speed(self, folder):
        built, _ = self.compile(folder / "model.onnx", folder.name)
        self.take_library(built, folder.name, self.root / "speed" / folder.name)
        shutil.copy(built / f"{folder.name}.weights", self.root / "speed" / folder.name)
        return "speed", [folder.name]

    def network(self, network, dtype):
        name = network if dtype == "float32" else f"{network}_{dtype}"
        model = self.work / f"{name}.onnx"
        built = backbones.build(network)
        onnx.save(built if dtype == "float32" else in_bfloat16(built), model)
        folder, _ = self.compile(model, name, "--dim", "batch=" + self.o.batches, "--tf32", "on")
        model.unlink()
        into = self.root / "networks" / name
        self.take_library(folder, name, into)
        row = {"name": network, "library": name, "dtype": dtype, "batches": [int(b) for b in self.o.batches.split(",")], "weights_bytes": self.take_head(folder / f"{name}.weights", into)}
        shutil.rmtree(folder)
        return "networks", [row]

    def train_program(self, model, recipe, name, target, *options):
        folder = self.work / f"{name} {target}"
        command(self.metac, "compile", model, "--train", recipe, "-o", folder, "--name", name, "--target", target, *options)
        return folder

    def training(self, name):
        into, row = self.root / "training" / name, {"name": name, "updates": self.o.updates}
        gpu = ("--cuda-arch", self.o.arch)
        if name == "digits":
            model, recipe = self.o.digits / "untrained.onnx", self.o.digits / "recipe.json"
            cpu = self.train_program(model, recipe, name, "cpu")
            command(cpu / f"bin/{name}_train", "--data", self.o.digits, "--out", self.work / "digits run", "--updates", row["updates"], "--quiet")
            lines = [json.loads(line) for line in (self.work / "digits run/log.jsonl").read_text().splitlines()]
            row["losses"] = [line["loss"] for line in lines if line["event"] == "train"]
            into.mkdir(parents=True)
            for file in self.o.digits.glob("*.npz"):
                shutil.copy(file, into)
        else:
            model, recipe = self.work / f"{name}_repeating.onnx", self.work / f"{name}.json"
            network = backbones.build(name)
            for tensor in network.graph.initializer:
                array = onnx.numpy_helper.to_array(tensor)
                if array.dtype == np.float32 and array.size > 4096:
                    tensor.CopyFrom(onnx.numpy_helper.from_array(np.resize(array.ravel()[:4093], array.shape), tensor.name))
            onnx.save(network, model)
            row["batch"] = self.o.training_batch
            recipe.write_text(json.dumps({"loss": {"kind": "cross_entropy", "target": "label"}, "optimizer": {"kind": "sgd", "learning_rate": 1e-4, "momentum": 0.9}, "batch": row["batch"],
                                          "epochs": 1000, "log_every": 10, "data": {"format": "npz", "train": "train.npz"}}))
            into.mkdir(parents=True)
            gpu += ("--tf32", "on")
        folder = self.train_program(model, recipe, name, "cuda", *gpu)
        for part in (f"bin/{name}_train", "train/initial.bin", f"train/{name}.onnx"):
            (into / part).parent.mkdir(exist_ok=True)
            shutil.copy(folder / part, into / part)
        weights = folder / f"{name}.weights"   # what the program exports in the end is a file like this one
        if "losses" in row:
            shutil.copy(weights, into)
        else:
            row["weights_bytes"] = self.take_head(weights, into)
        shutil.rmtree(folder)
        return "training", [row]

    def run(self):
        models = make_models(self.work / "models")
        own_models(self.work / "own")
        jobs = [(self.case, folder) for folder in sorted(models.iterdir())] + [(self.speed, folder) for folder in sorted((self.work / "own").iterdir())]
        networks = [name for name in self.o.networks.split(",") if name and name != "none"]
        jobs += [(lambda name, dtype=dtype: self.network(name, dtype), name) for dtype in self.o.dtypes.split(",") for name in networks]
        jobs += [(self.training, name) for name in self.o.training.split(",") if name and name != "none"]
        jobs = [(make, what) for make, what in jobs if re.search(self.o.only, what if isinstance(what, str) else what.name)]
        with concurrent.futures.ThreadPoolExecutor(max_workers=self.o.jobs) as pool:
            for done, (kind, rows) in enumerate(pool.map(lambda job: job[0](job[1]), jobs)):
                self.list[kind] += rows
                print(f"{done + 1} of {len(jobs)}: {', '.join(r.get('library', r['name']) if isinstance(r, dict) else r for r in rows)}", flush=True)
        shutil.copytree(HERE.parents[1] / "models/backbones", self.root / "backbones", ignore=shutil.ignore_patterns("__pycache__"))   # for a peer that needs the model
        (self.root / "list.json").write_text(json.dumps(self.list, indent=2))
        with tarfile.open(self.o.bundle, "w:xz") as archive:
            archive.add(self.root, "gpu")
        size = self.o.bundle.stat().st_size
        print(f"{self.o.bundle}: {size / 2**20:.1f} MiB, {len(self.list['cases'])} cases, {len(self.list['networks'])} networks, {len(self.list['training'])} training programs")
        if size > MOST_BYTES:
            raise RuntimeError("more than 64 MiB: take fewer --networks, --batches, --dtypes or --arch")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="metac's build folder")
    parser.add_argument("--arch", default="90", help="of the GPU: as metac compile --cuda-arch")
    parser.add_argument("--only", default=".", help="cases, models and networks whose name matches")
    parser.add_argument("--networks", default=JITTOR_TABLE, help="of models/backbones, or none")
    parser.add_argument("--batches", default="1,8,32,128")
    parser.add_argument("--dtypes", default="float32,bfloat16", help="of the networks' numbers")
    parser.add_argument("--training", default="digits,resnet50", help="training programs, or none")
    parser.add_argument("--updates", type=int, default=60, help="of training programs")
    parser.add_argument("--digits", type=pathlib.Path, default=DIGITS, help="the folder of the digits' network, recipe and data")
    parser.add_argument("--training-batch", type=int, default=64, help="of the network that is raced")
    parser.add_argument("--jobs", type=int, default=1, help="compilations at once; each uses all processors for its kernels")
    arguments = parser.parse_args()
    arguments.build, arguments.bundle, arguments.digits = arguments.build.resolve(), arguments.bundle.resolve(), arguments.digits.resolve()
    with tempfile.TemporaryDirectory(prefix="metac-gpu-") as work:
        try:
            Bundle(arguments, pathlib.Path(work)).run()
        except RuntimeError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
