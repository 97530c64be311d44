#!/usr/bin/env python3
"""Compiles what run_gpu.py runs on a machine with a GPU, into one archive.

    python3 prepare_gpu.py BUNDLE.tar.xz --build build/release [--arch 80,90] [--only REGEX] [--networks NAME,...|none] [--batches 1,8,32,128]
                           [--dtypes float32,bfloat16] [--training digits,resnet50,...|none] [--training-batch 64]
                           [--decoders tiny,20m|none] [--decoder-weights f32,int4] [--work DIR]

Cases: the models of make_models.py as programs, each with generated kernels alone and, where they ask vendor libraries,
with those too; inputs and the CPU target's answers beside them. Networks: those of models/backbones as shared libraries,
for measuring; their weights are made up where they run. Training programs: the digits with the losses of the CPU's, and
networks of models/training whose steps are raced against PyTorch's (their weights repeat, so that they pack). Decoders: those of
models/decoders as programs, the tiny one with the CPU target's tokens, others for measuring, with weights that are made up. The archive must stay
below 64 MiB. All of it takes long: with --work, what is finished lies there, and a preparation that was stopped goes on. Needs nvcc, numpy and onnx.
"""
import argparse
import base64
import concurrent.futures
import contextlib
import hashlib
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
from onnx import TensorProto, helper

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "models/backbones"))
import build as backbones  # noqa: E402
from make_models import make_models, values, write  # noqa: E402

DIGITS = HERE.parents[1] / "models/digits"
JITTOR_TABLE = "alexnet,vgg11,squeezenet1_1,resnet50,resnet152,wide_resnet50_2,wide_resnet101_2,resnext50_32x4d,resnext101_32x8d,res2net50"
MOST_BYTES = 64 << 20
WEIGHTS_HEAD, WEIGHTS_ALIGNMENT = 4096, 64


def command(*argv):
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=3600)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, argv))}: status {done.returncode}\n" + "\n".join(done.stdout.splitlines()[-15:]))


def listed(text):
    return [name for name in text.split(",") if name and name != "none"]


def own_models(folder, mebibytes):
    """What the figures of single kernels are read off: so much through one kernel, and a hundred that cannot be fused."""
    side = int((mebibytes * 2 ** 18) ** 0.5)
    write(folder, "element_wise", [helper.make_node("Relu", ["x"], ["y"])], {"x": values(side * side)})
    write(folder, "reduction", [helper.make_node("ReduceSum", ["x", "a"], ["y"], keepdims=0)], {"x": values(side, side)}, constants={"a": np.array([1], np.int64)})
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
        self.root.mkdir(exist_ok=True)
        self.of = {"metac": hashlib.sha256(self.metac.read_bytes()).hexdigest(), **{key: value for key, value in vars(arguments).items() if key in ("arch", "batches", "training_batch", "updates", "size", "width", "mebibytes")}}
        self.list = {"arch": arguments.arch, "cases": [], "speed": [], "networks": [], "training": [], "decoders": []}

    def compile(self, model, name, *options, within="built"):
        folder = self.work / f"{name} {within}"
        command(self.metac, "compile", model, "-o", folder, "--name", name, "--target", "cuda", "--cuda-arch", self.o.arch, *options)
        return folder, json.loads((folder / f"{name}.json").read_text())

    def finished(self, kind, name, make):
        """The rows of a job, which is not done again where --work has them from this metac and these options."""
        kept = self.work / "finished" / f"{kind} {name}.json"
        found = json.loads(kept.read_text()) if kept.exists() else {}
        if found.get("of") != self.of:
            into = self.root / kind / name
            shutil.rmtree(into, ignore_errors=True)
            into.mkdir(parents=True)
            found = {"of": self.of, "rows": make(into)}
            kept.parent.mkdir(exist_ok=True)
            kept.with_suffix(".part").write_text(json.dumps(found))
            kept.with_suffix(".part").rename(kept)
        return kind, found["rows"]

    def take_library(self, folder, name, into):
        (into / "lib").mkdir()
        shutil.copy(folder / f"lib/lib{name}.so", into / "lib")
        shutil.copytree(folder / "python", into / "python")
        shutil.copy(folder / f"{name}.json", into)

    def take_head(self, weights, parameters, into, made_up=("float",)):
        """The head of a weights file, whose floats are made up where they are needed; what a row says of it: how many bytes these are, and
        the integers among them, [offset, bytes], which choose elements and may not be made up. Packed numbers (int8) may: any bits are some."""
        block = weights.read_bytes()
        (into / f"{weights.name}.head").write_bytes(block[:WEIGHTS_HEAD])
        block, at, integers = block[WEIGHTS_HEAD:], 0, []
        for p in parameters:
            size = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, p["dtype"].upper() if p["dtype"] != "float32" else "FLOAT")).itemsize * int(np.prod(p["dims"], dtype=np.int64))
            if not any(word in p["dtype"] for word in made_up):
                if hashlib.sha256(block[at:at + size]).hexdigest() != p["sha256"]:
                    raise RuntimeError(f"{weights}: parameter {p['name']} is not at {at}")
                integers.append([at, block[at:at + size].hex()])
            at += -(-size // WEIGHTS_ALIGNMENT) * WEIGHTS_ALIGNMENT
        return {"weights_bytes": len(block), "integers": integers}

    def case(self, into, folder):
        name, rows = folder.name, []
        inputs = sorted((folder / "test_data_set_0").glob("input_*.pb"), key=lambda p: int(p.stem.split("_")[1]))
        expected = self.work / f"{name} expected"
        expected.mkdir(exist_ok=True)
        ports = [i.name for i in onnx.load(folder / "model.onnx").graph.input]
        command(self.metac, "run", folder / "model.onnx", *(w for n, i in zip(ports, inputs) for w in ("--input", f"{n}={i}")), "--output-dir", expected)
        for k, file in enumerate(inputs):
            shutil.copy(file, into / f"input_{k}.pb")
        shutil.copytree(expected, into / "expected")
        for external in ("none", "auto"):
            if external == "auto" and not self.compile(folder / "model.onnx", "net", "--external", external, "--no-build", within=f"{name} asked")[1]["libraries"]:
                continue
            built, manifest = self.compile(folder / "model.onnx", "net", "--external", external, within=f"{name} {external}")   # one name: most sources are the same text
            shutil.copy(built / "bin/net_run", into / f"{name}_{external}_run")
            shutil.copy(built / "net.weights", into / f"{name}_{external}.weights")
            rows.append({"name": name, "external": external, "inputs": len(inputs), "libraries": manifest["libraries"]})
            shutil.rmtree(built)
        return rows

    def speed(self, into, folder):
        built, _ = self.compile(folder / "model.onnx", folder.name)
        self.take_library(built, folder.name, into)
        shutil.copy(built / f"{folder.name}.weights", into)
        return [folder.name]

    def network(self, into, name, network, dtype):
        model = self.work / f"{name}.onnx"
        built = backbones.build(network, self.o.size, self.o.width)
        onnx.save(built if dtype == "float32" else in_bfloat16(built), model)
        folder, manifest = self.compile(model, name, "--dim", "batch=" + self.o.batches, "--tf32", "on")
        model.unlink()
        self.take_library(folder, name, into)
        row = {"name": network, "library": name, "dtype": dtype, "batches": [int(b) for b in self.o.batches.split(",")], "size": self.o.size, "width": self.o.width, **self.take_head(folder / f"{name}.weights", manifest["parameters"], into)}
        shutil.rmtree(folder)
        return [row]

    def decoder(self, into, name, size, weights):
        model = self.work / f"{name}.onnx"
        command(sys.executable, HERE.parents[1] / "models/decoders/build.py", model, "--size", size, "--weights", weights)
        folder, manifest = self.compile(model, "net", "--generate", within=name)
        shutil.copy(folder / "bin/net_generate", into)
        row = {"name": name}
        if size == "tiny":
            shutil.copy(folder / "net.weights", into)
            cpu = self.work / f"{name} cpu"
            command(self.metac, "compile", model, "-o", cpu, "--name", "net", "--generate", "--cpu", "native")
            ways = (["--tokens", "1,5,9,3,7", "--most", "50"], ["--tokens", ",".join(map(str, range(2, 22))), "--most", "30"], ["--tokens", "3,4,3,4", "--most", "40", "--drafts", "3"])
            row["runs"] = [{"options": way, "tokens": json.loads(subprocess.run([cpu / "bin/net_generate", *way, "--json", "--quiet"], check=True, capture_output=True, text=True).stdout)["tokens"]} for way in ways]
            shutil.rmtree(cpu)
        else:
            row.update(self.take_head(folder / "net.weights", manifest["parameters"], into, made_up=("float", "int8")), prompts=[16, 512], most=200)
        for file in self.work.glob(f"{name}.onnx*"):
            file.unlink()
        shutil.rmtree(folder)
        return [row]

    def train_program(self, model, recipe, name, target, *options):
        folder = self.work / f"{name} {target}"
        command(self.metac, "compile", model, "--train", recipe, "-o", folder, "--name", name, "--target", target, *options)
        return folder

    def training(self, into, name):
        row = {"name": name, "updates": self.o.updates}
        gpu = ("--cuda-arch", self.o.arch)
        if name == "digits":
            model, recipe = self.o.digits / "untrained.onnx", self.o.digits / "recipe.json"
            cpu = self.train_program(model, recipe, name, "cpu")
            command(cpu / f"bin/{name}_train", "--data", self.o.digits, "--out", self.work / "digits run", "--updates", row["updates"], "--quiet", "--restart")
            lines = [json.loads(line) for line in (self.work / "digits run/log.jsonl").read_text().splitlines()]
            row["losses"] = [line["loss"] for line in lines if line["event"] == "train"]
            for file in self.o.digits.glob("*.npz"):
                shutil.copy(file, into)
        else:
            made, size, classes = self.work / f"{name} made", 224, 1000
            command(sys.executable, HERE.parents[1] / "models/training/build.py", name, made, "--size", size, "--classes", classes, "--batch", self.o.training_batch, "--samples", self.o.training_batch)
            model, recipe = made / "net.json", made / "recipe.json"
            network = json.loads(model.read_text())
            for parameter in network["parameters"]:
                numbers = base64.b64decode(parameter["base64"])
                if len(numbers) > 16384:
                    parameter["base64"] = base64.b64encode((numbers[:4 * 4093] * (len(numbers) // (4 * 4093) + 1))[:len(numbers)]).decode()
            model.write_text(json.dumps(network))
            rules = json.loads(recipe.read_text())
            rules["data"].pop("validation_split")
            rules["optimizer"]["learning_rate"] = 1e-4
            only_steps = {key: value for key, value in rules.items() if key not in ("clip", "metrics")}   # as the peers'
            recipe.write_text(json.dumps({**only_steps, "epochs": 1000, "log_every": 10}))
            row.update(batch=self.o.training_batch, size=size, classes=classes,
                       data=[{"name": "x", "dtype": "uint8", "below": 256, "dims": [3, size, size]}, {"name": "target", "dtype": "int64", "below": classes, "dims": []}])
            gpu += ("--tf32", "on")
        folder = self.train_program(model, recipe, name, "cuda", *gpu)
        for part in (f"bin/{name}_train", "train/initial.bin", f"train/{name}.onnx"):
            if not (folder / part).exists():   # no template, where the model was no ONNX
                continue
            (into / part).parent.mkdir(exist_ok=True)
            shutil.copy(folder / part, into / part)
        weights = folder / f"{name}.weights"   # what the program exports in the end is a file like this one
        if "losses" in row:
            shutil.copy(weights, into)
        else:
            row.update(self.take_head(weights, json.loads((folder / f"{name}.json").read_text())["parameters"], into))
        shutil.rmtree(folder)
        return [row]

    def run(self):
        models = make_models(self.work / "models")
        own_models(self.work / "own", self.o.mebibytes)
        networks = [(f"{name}{'' if dtype == 'float32' else '_' + dtype}", name, dtype) for name in listed(self.o.networks) for dtype in listed(self.o.dtypes)]
        jobs = [("networks", name, self.network, (name, network, dtype)) for name, network, dtype in networks]
        jobs += [("training", name, self.training, (name,)) for name in listed(self.o.training)]
        jobs += [("decoders", f"{size}_{weights}", self.decoder, (f"{size}_{weights}", size, weights)) for size in listed(self.o.decoders) for weights in listed(self.o.decoder_weights)]
        jobs += [("cases", folder.name, self.case, (folder,)) for folder in sorted(models.iterdir())] + [("speed", folder.name, self.speed, (folder,)) for folder in sorted((self.work / "own").iterdir())]
        jobs = [(kind, name, lambda into, make=make, what=what: make(into, *what)) for kind, name, make, what in jobs if re.search(self.o.only, what[1] if kind == "networks" else name)]
        with concurrent.futures.ThreadPoolExecutor(max_workers=self.o.jobs) as pool:
            for done, (kind, rows) in enumerate(pool.map(lambda job: self.finished(*job), jobs)):
                self.list[kind] += rows
                print(f"{done + 1} of {len(jobs)}: {', '.join(r.get('library', r['name']) if isinstance(r, dict) else r for r in rows)}", flush=True)
        shutil.copytree(HERE.parents[1] / "models/backbones", self.root / "backbones", dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))   # for a peer that needs the model
        (self.root / "list.json").write_text(json.dumps(self.list, indent=2))
        with tarfile.open(self.o.bundle, "w:xz") as archive:   # what --work has beside it stays there
            for part in ["list.json", "backbones", *sorted({f"{kind}/{name}" for kind, name, _ in jobs})]:
                archive.add(self.root / part, f"gpu/{part}")
        size = self.o.bundle.stat().st_size
        print(f"{self.o.bundle}: {size / 2**20:.1f} MiB, {len(self.list['cases'])} cases, {len(self.list['networks'])} networks, {len(self.list['training'])} training programs, {len(self.list['decoders'])} decoders")
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
    parser.add_argument("--training", default="digits,resnet50,mobilenet_v2,alexnet,vgg19", help="digits, networks of models/training, or none")
    parser.add_argument("--decoders", default="tiny,20m", help="sizes of models/decoders, or none")
    parser.add_argument("--decoder-weights", default="f32,int4")
    parser.add_argument("--updates", type=int, default=60, help="of training programs")
    parser.add_argument("--digits", type=pathlib.Path, default=DIGITS, help="the folder of the digits' network, recipe and data")
    parser.add_argument("--training-batch", type=int, default=64, help="of the networks that are raced")
    parser.add_argument("--work", type=pathlib.Path, help="a folder for what is finished, which stays")
    parser.add_argument("--size", type=int, default=224, help="of the networks' images; with --width smaller networks, for tests")
    parser.add_argument("--width", type=int, default=1, help="divides the networks' channels")
    parser.add_argument("--mebibytes", type=float, default=64, help="through single kernels")
    parser.add_argument("--jobs", type=int, default=1, help="compilations at once; each uses all processors for its kernels")
    arguments = parser.parse_args()
    arguments.build, arguments.bundle, arguments.digits = arguments.build.resolve(), arguments.bundle.resolve(), arguments.digits.resolve()
    if arguments.work:
        arguments.work.mkdir(parents=True, exist_ok=True)
    with contextlib.nullcontext(arguments.work) if arguments.work else tempfile.TemporaryDirectory(prefix="metac-gpu-") as work:
        try:
            Bundle(arguments, pathlib.Path(work).resolve()).run()
        except RuntimeError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
