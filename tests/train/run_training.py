#!/usr/bin/env python3
"""Trains the handwritten digits from random weights, as a user would, and looks at everything that comes out.

    python3 run_training.py --metac build/ci/bin/metac [--kills 10] [--keep DIR]

Needs numpy, onnx and onnxruntime. The last line is 'N passed, N failed'.
"""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from checks import command, expect, run_checks  # noqa: E402

DIGITS = ROOT / "models/digits"


def log_of(run):
    """The log without its times."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]


def test_images():
    data = np.load(DIGITS / "test.npz")
    return ((data["image"].astype(np.float64) * 0.0625 - 0.3) / 0.4).astype(np.float32), data["label"]


def parameters(path):
    return {i.name: numpy_helper.to_array(i) for i in onnx.load(path).graph.initializer}


class Checks:
    def __init__(self, work, metac, kills):
        self.work, self.metac, self.kills = work, metac, kills

    def compile(self, model, recipe, folder, name, *more):
        command(self.metac, "compile", model, "--train", recipe, "-o", self.work / folder, "--name", name, *more)
        return self.work / folder / f"bin/{name}_train"

    def learns_digits(self):
        self.train = self.compile(DIGITS / "untrained.onnx", DIGITS / "recipe.json", "out", "digits")
        begin = time.time()
        command(self.train, "--data", DIGITS, "--out", self.work / "run")
        self.seconds = time.time() - begin
        score = json.loads(command(self.train, "--data", DIGITS, "--out", self.work / "run", "--evaluate", "--quiet"))
        print(f"{100 * score['accuracy']:.2f} % of {score['samples']} images in {self.seconds:.1f} s")
        expect(score["samples"] == 360 and score["accuracy"] >= 0.98, f"learned too little: {score}")
        expect("</svg>" in (self.work / "run/curves.svg").read_text(), "no curves")

    def onnx_runtime_and_library_agree(self):
        images, labels = test_images()
        there = onnxruntime.InferenceSession(str(self.work / "run/digits.onnx")).run(None, {"image": images})[0]
        expect((there.argmax(1) == labels).mean() >= 0.98, "the exported network scores otherwise")
        script = "import digits, numpy as np, sys\nm = digits.Model(weights=sys.argv[1])\nnp.save(sys.argv[3], m.run({'image': np.load(sys.argv[2])})['scores'])\n"
        np.save(self.work / "images.npy", images)
        environment = {**os.environ, "PYTHONPATH": str(self.work / "out/python")}
        subprocess.run([sys.executable, "-c", script, self.work / "run/digits.weights", self.work / "images.npy", self.work / "scores.npy"], check=True, env=environment)
        here = np.load(self.work / "scores.npy")
        expect(np.abs(here - there).max() < 1e-4 * np.abs(there).max(), f"the library differs by {np.abs(here - there).max()}")

    def threads_change_nothing(self):
        for threads in (1, 3):
            command(self.train, "--data", DIGITS, "--out", self.work / f"threads{threads}", "--threads", threads, "--loaders", threads, "--epochs", 2)
        one, three = (self.work / f"threads{n}" for n in (1, 3))
        expect((one / "digits.safetensors").read_bytes() == (three / "digits.safetensors").read_bytes(), "other bits")
        expect(log_of(one) == log_of(three), "another log")

    def learns_in_bfloat16(self):
        """Products that read rounded operands, where the processor has them; the same bits for any number of threads."""
        train = self.compile(DIGITS / "untrained.onnx", DIGITS / "recipe.json", "rounded", "digits", "--precision", "bfloat16")
        kernels = json.loads((self.work / "rounded/train/step/digits_step.json").read_text())["kernels"]
        rounded = sum("bfloat16" in kernel["multiplies"] for kernel in kernels)
        runs = [self.work / f"rounded{threads}" for threads in (1, 3)]
        for run, threads in zip(runs, (1, 3)):
            command(train, "--data", DIGITS, "--out", run, "--threads", threads)
        exact, *losses = ([line["loss"] for line in log_of(run) if line["event"] == "train"] for run in (self.work / "run", *runs))
        expect(losses[0] == losses[1], "another number of threads gives other losses")
        expect((losses[0] != exact) == (rounded > 0), f"{rounded} kernels round, and the losses are {'others' if losses[0] != exact else 'the same'}")
        expect(abs(losses[0][0] / exact[0] - 1) < 0.01, f"the first loss is {losses[0][0]}, in float32 {exact[0]}")
        score = json.loads(command(train, "--data", DIGITS, "--out", runs[0], "--evaluate", "--quiet"))
        expect(score["accuracy"] >= 0.98, f"learned too little: {score}")
        print(f"{rounded} kernels of a step multiply bfloat16: {100 * score['accuracy']:.2f} %")

    def killed_at_any_moment_it_resumes(self):
        chance, killed, run = random.Random(1), 0, self.work / "killed"
        while True:
            process = subprocess.Popen([self.train, "--data", DIGITS, "--out", run, "--resume", "--strict", "--checkpoint-every", "3"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            if killed < self.kills:
                time.sleep(chance.uniform(0.005, self.seconds / 4))
                process.kill()
            said = process.communicate()[1]
            if process.returncode == -signal.SIGKILL:
                killed += 1
                continue
            expect(process.returncode == 0, f"after {killed} kills: {said.decode()}")
            expect((run / "digits.safetensors").read_bytes() == (self.work / "run/digits.safetensors").read_bytes(), "other bits than without the kills")
            expect(log_of(run) == log_of(self.work / "run"), "another log than without the kills")
            if killed >= self.kills:
                break
            shutil.rmtree(run)
        print(f"{killed} kills")

    def one_layer_is_tuned(self):
        program = self.compile(self.work / "run/digits.onnx", DIGITS / "finetune.json", "tuned", "tuned")
        command(program, "--data", DIGITS, "--out", self.work / "tuned-run")
        before, after = parameters(self.work / "run/digits.onnx"), parameters(self.work / "tuned-run/tuned.onnx")
        changed = sorted(name for name in before if before[name].tobytes() != after[name].tobytes())
        expect(changed == ["head.bias", "head.weight"], f"changed: {changed}")
        score = json.loads(command(program, "--data", DIGITS, "--out", self.work / "tuned-run", "--evaluate", "--quiet"))
        expect(score["accuracy"] >= 0.98, f"it forgot: {score}")

    def trains_quantised(self):
        """From the trained digits to weights of 3 bits, one scale a tensor: better than rounding them, and the same network in ONNX Runtime and in the library."""
        recipe = json.loads((DIGITS / "recipe.json").read_text())
        recipe.update(schedule={"kind": "constant"}, optimizer={"kind": "adam", "learning_rate": 0.001}, quantization={"weight_bits": 3, "per_tensor": True})
        (self.work / "qat.json").write_text(json.dumps(recipe))
        (self.work / "averaged.json").write_text(json.dumps({**recipe, "average": 0.8, "accumulate": 2}))
        said = command(self.metac, "compile", self.work / "run/digits.onnx", "--train", self.work / "qat.json", "-o", self.work / "none", status=1)
        expect("sees ranges on the training data" in said and "--data says where" in said, said)
        images, labels = test_images()

        def scores(path, how=onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL):  # whose products saturate without VNNI
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = how
            return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(None, {"image": images})[0]
        right = {}
        train = np.load(DIGITS / "train.npz")["image"]
        np.savez(self.work / "seen.npz", image=((train.astype(np.float64) * 0.0625 - 0.3) / 0.4).astype(np.float32))
        command(self.metac, "quantize", self.work / "run/digits.onnx", "--data", self.work / "seen.npz", "--weight-bits", 3, "--per-tensor", "-o", self.work / "rounded.onnx")
        right["rounded"] = int((scores(self.work / "rounded.onnx").argmax(1) == labels).sum())
        for name, updates in (("qat", 88), ("averaged", 44)):
            out, run = self.work / f"{name}-out", self.work / f"{name}-run"
            command(self.metac, "compile", self.work / "run/digits.onnx", "--train", self.work / f"{name}.json", "--data", DIGITS, "-o", out, "--name", "digits")
            command(out / "bin/digits_train", "--data", DIGITS, "--out", run, "--quiet", "--updates", updates)
            command(out / "bin/digits_train", "--data", DIGITS, "--out", f"{run}-broken", "--quiet", "--threads", 1, "--updates", 17)
            command(out / "bin/digits_train", "--data", DIGITS, "--out", f"{run}-broken", "--quiet", "--updates", updates, "--resume")
            expect((run / "digits.onnx").read_bytes() == pathlib.Path(f"{run}-broken/digits.onnx").read_bytes(), f"{name}: other bits after a break")
            there = scores(run / "digits.onnx")
            right[name] = int((there.argmax(1) == labels).sum())
            score = json.loads(command(out / "bin/digits_train", "--data", DIGITS, "--out", run, "--evaluate", "--quiet"))
            expect(abs(score["accuracy"] * 360 - right[name]) <= 1.01, f"{name}: {score}, in ONNX Runtime {right[name]} of 360")
            np.save(self.work / "images.npy", images)
            for way, program in (("library", [out / "bin/digits_run", "--weights", run / "digits.weights"]), ("metac run", [self.metac, "run", run / "digits.onnx"])):
                command(*program, "--input", f"image={self.work / 'images.npy'}", "--output-dir", self.work / "answers")
                here = np.load(self.work / "answers/scores.npy")
                expect(np.abs(here - there).max() < 0.02 * np.abs(there).max() and np.mean(np.abs(here - there) > 1e-3 * np.abs(there).max()) < 0.05,
                       f"{name}: {way} differs by {np.abs(here - there).max()}")
        kernels = [re.findall(r"  k\d+_\w+", command(self.metac, "inspect", file, "--shape", "image=1x1x8x8")) for file in (self.work / "rounded.onnx", self.work / "qat-run/digits.onnx")]
        expect(len(kernels[0]) > 4 and kernels[0] == kernels[1], f"other kernels than for what metac quantize writes: {kernels}")
        print(f"weights of 3 bits, right of 360: {right}")
        expect(min(right["qat"], right["averaged"]) > right["rounded"] and right["averaged"] >= 350, right)

    def an_algorithm_of_the_file_is_evaluated(self):
        """TrainingInfoProto: least squares by gradient descent, validated on the whole batches of 20 samples: two of 8."""
        rng, double = np.random.default_rng(2), onnx.TensorProto.DOUBLE
        def node(domain, op, inputs, outputs, **attributes):
            return helper.make_node(op, inputs.split(), outputs.split(), domain=domain, **attributes)
        def port(name, *dims):
            return helper.make_tensor_value_info(name, double, dims)
        graph = helper.make_graph([node("", "MatMul", "x w", "y")], "linear", [port("x", "N", 3)], [port("y", "N", 1)], [numpy_helper.from_array(np.zeros((3, 1)), "w")])
        nodes = [node("", "Sub", "y t", "d"), node("", "Mul", "d d", "q"), node("", "ReduceMean", "q", "loss", keepdims=0),
                 node("ai.onnx.preview.training", "Gradient", "w", "g", xs=["w"], y="loss"), node("", "Mul", "g R", "move"), node("", "Sub", "w move", "w_new")]
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.preview.training", 1)], ir_version=8)
        algorithm = helper.make_graph(nodes, "algorithm", [port("t", "N", 1), port("R")], [port("loss"), port("w_new", 3, 1)])
        info = model.training_info.add()
        info.algorithm.CopyFrom(algorithm)
        info.update_binding.add(key="w", value="w_new")
        onnx.save(model, self.work / "linear.onnx")
        recipe = {"batch": 8, "epochs": 30, "learning_rate": 0.2, "algorithm": {"from": "model", "scalars": {"R": "learning_rate"}}, "data": {"format": "npz", "train": "x.npz", "validation": "v.npz"}}
        (self.work / "linear.json").write_text(json.dumps(recipe))
        for name, count in (("x", 64), ("v", 20), ("few", 5)):
            x = rng.standard_normal((count, 3))
            np.savez(self.work / f"{name}.npz", x=x, t=x @ [[1.0], [-2.0], [0.5]] + 0.1)
        program = self.compile(self.work / "linear.onnx", self.work / "linear.json", "linear", "linear")
        command(program, "--data", self.work, "--out", self.work / "linear-run")
        w, data = parameters(self.work / "linear-run/linear.onnx")["w"], np.load(self.work / "v.npz")
        expect(np.abs(w - [[1.0], [-2.0], [0.5]]).max() < 0.1, f"learned {w.ravel()}")
        wanted = np.square(data["x"][:16] @ w - data["t"][:16]).mean()
        told = [line["validation loss"] for line in log_of(self.work / "linear-run") if line["event"] == "epoch"][-1]
        score = json.loads(command(program, "--data", self.work, "--out", self.work / "linear-run", "--evaluate", "--quiet"))
        expect(abs(told - wanted) < 1e-9 and abs(score["loss"] - wanted) < 1e-9 and score["samples"] == 16, f"{told}, {score}, not {wanted}")
        shutil.copy(self.work / "few.npz", self.work / "v.npz")
        said = command(program, "--data", self.work, "--out", self.work / "linear-few", status=1)
        expect("5 samples to evaluate, fewer than a batch of 8" in said, said)

    def several_steps_resume_bit_by_bit(self):
        """WGAN-GP, whose generator learns in every fifth update: broken off after seven, beside a run without a break; the generator's library takes what came out."""
        folder = self.work / "wgan"
        command(sys.executable, ROOT / "models/gan/build.py", "wgan_gp", folder, "--size", 16, "--channels", 1, "--batch", 4, "--samples", 60)
        program = self.compile(folder / "generator.json", folder / "recipe.json", "wgan-out", "wgan")
        command(program, "--data", folder, "--out", self.work / "wgan-whole", "--epochs", 1, "--threads", 1)
        command(program, "--data", folder, "--out", self.work / "wgan-broken", "--epochs", 1, "--updates", 7)
        command(program, "--data", folder, "--out", self.work / "wgan-broken", "--epochs", 1, "--updates", 15, "--resume")
        whole, broken = self.work / "wgan-whole", self.work / "wgan-broken"
        lines = [line for line in log_of(whole) if line["event"] == "train"]
        expect([line["update"] for line in lines if "generator loss" in line] == [1, 6, 11] and all("loss" in line for line in lines), f"{lines}")
        expect(lines == [line for line in log_of(broken) if line["event"] == "train"], "another log after a break")
        expect((whole / "wgan.safetensors").read_bytes() == (broken / "wgan.safetensors").read_bytes(), "other bits after a break")
        before = json.loads((folder / "generator.json").read_text())["parameters"]
        after = parameters(whole / "wgan.onnx")
        expect(sorted(after) == sorted(p["name"] for p in before) and np.isfinite(after["conv1.weight"]).all(), "the trained generator has other parameters")
        images = command(self.work / "wgan-out/bin/wgan_run", "--weights", whole / "wgan.weights", "--input", "random", "--shape", "noise=2x100")
        expect("2x1x16x16" in images, images)

    def large_states_are_overwritten(self):
        """More than 64 MiB of states: kept once, unless bad batches are to be skipped; both ways the same bits."""
        random, n = np.random.default_rng(2), 2100
        def tensor(name, *shape): return numpy_helper.from_array((random.standard_normal(shape) / 50).astype(np.float32), name)
        nodes = [helper.make_node("Conv", ["x", "k"], ["c"], pads=[1] * 4), helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["r"]), helper.make_node("Relu", ["r"], ["p"]), helper.make_node("Flatten", ["p"], ["f"]),
                 helper.make_node("Gemm", ["f", "w1", "b1"], ["g"]), helper.make_node("Tanh", ["g"], ["h"]), helper.make_node("Gemm", ["h", "w2"], ["y"], transB=1)]
        weights = [tensor("k", 16, 3, 3, 3), tensor("s", 16), tensor("b", 16), tensor("m", 16), numpy_helper.from_array(np.ones(16, np.float32), "v"), tensor("w1", 1024, n), tensor("b1", n), tensor("w2", n, n)]
        graph = helper.make_graph(nodes, "large", [helper.make_tensor_value_info("x", 1, ["N", 3, 8, 8])], [helper.make_tensor_value_info("y", 1, ["N", n])], weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), self.work / "large.onnx")
        np.savez(self.work / "large.npz", x=random.standard_normal((20, 3, 8, 8), np.float32), t=random.standard_normal((20, n), np.float32))
        (self.work / "large.json").write_text(json.dumps({"batch": 4, "epochs": 1, "loss": {"kind": "mse", "target": "t"}, "optimizer": {"kind": "adam", "learning_rate": 1e-4, "weight_decay": 0.01}, "data": {"format": "npz", "train": "large.npz"}}))
        program = self.compile(self.work / "large.onnx", self.work / "large.json", "large", "large")
        rows = [line for line in (self.work / "large/train/src/train_tables.cpp").read_text().splitlines() if '/next"' in line]
        expect(all(line.endswith(", true},") for line in rows if line.startswith('    {"w')) and sum(line.endswith(", true},") for line in rows) >= 16, "not all large states are kept once:\n" + "\n".join(rows))
        for way in ("stop", "skip"):
            command(program, "--data", self.work, "--out", self.work / f"large-{way}", "--non-finite", way)
        once, twice = ((self.work / f"large-{way}/large.safetensors").read_bytes() for way in ("stop", "skip"))
        expect(once == twice and log_of(self.work / "large-stop") == log_of(self.work / "large-skip"), "other bits where next values overwrite states")

    def training_form_is_trained_and_left(self):
        """BatchNormalization and Dropout as PyTorch exports them for training: trained, resumed bit by bit, and written for inference."""
        rng = np.random.default_rng(4)
        def tensor(name, *shape): return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32) / 2, name)
        def fill(name, value): return numpy_helper.from_array(np.full(6, value, np.float32), name)
        nodes = [helper.make_node("Conv", ["x", "k"], ["c"], pads=[1] * 4), helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n", "mm", "vv"], "norm", training_mode=1), helper.make_node("Relu", ["n"], ["r"]),
                 helper.make_node("Flatten", ["r"], ["f"]), helper.make_node("Constant", [], ["p"], value=numpy_helper.from_array(np.float32(0.4))), helper.make_node("Constant", [], ["t"], value=numpy_helper.from_array(np.bool_(True))),
                 helper.make_node("Dropout", ["f", "p", "t"], ["d", "mask"], "drop"), helper.make_node("Gemm", ["d", "w", "h"], ["y"])]
        weights = [tensor("k", 6, 1, 3, 3), fill("s", 1), fill("b", 0), fill("m", 0), fill("v", 1), tensor("w", 6 * 36, 4), tensor("h", 4)]
        graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", 1, ["N", 1, 6, 6])], [helper.make_tensor_value_info("y", 1, ["N", 4])], weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="pytorch"), self.work / "form.onnx")
        x = rng.standard_normal((160, 1, 6, 6)).astype(np.float32) * 3 + 1
        np.savez(self.work / "form.npz", x=x, target=(x.reshape(160, -1) @ rng.standard_normal((36, 4))).argmax(1))
        (self.work / "form.json").write_text(json.dumps({"batch": 16, "epochs": 3, "loss": "cross_entropy", "metrics": ["accuracy"], "optimizer": {"kind": "adam", "learning_rate": 0.01},
                                                         "data": {"format": "npz", "train": "form.npz", "validation": "form.npz"}}))
        program = self.compile(self.work / "form.onnx", self.work / "form.json", "form", "form")
        for run, more in (("whole", []), ("broken", ["--updates", 11]), ("broken", ["--updates", 30, "--resume"])):
            command(program, "--data", self.work, "--out", self.work / f"form-{run}", "--quiet", *more)
        whole, broken = self.work / "form-whole", self.work / "form-broken"
        expect((whole / "form.safetensors").read_bytes() == (broken / "form.safetensors").read_bytes(), "other bits after a break")
        there = onnxruntime.InferenceSession(str(whole / "form.onnx"))
        scores = there.run(None, {"x": x})[0]
        expect(np.abs(scores[:3] - there.run(None, {"x": x[:3]})[0]).max() < 1e-4 * np.abs(scores).max(), "the trained file is not in inference form")
        np.save(self.work / "form.npy", x)
        script = "import form, numpy as np, sys\nm = form.Model(weights=sys.argv[1])\nnp.save(sys.argv[3], m.run({'x': np.load(sys.argv[2])})['y'])\n"
        subprocess.run([sys.executable, "-c", script, whole / "form.weights", self.work / "form.npy", self.work / "scores.npy"], check=True, env={**os.environ, "PYTHONPATH": str(self.work / "form/python")})
        here = np.load(self.work / "scores.npy")
        expect(np.abs(here - scores).max() < 1e-4 * np.abs(scores).max(), f"the library differs by {np.abs(here - scores).max()}")
        told, accuracy = [line for line in log_of(whole) if line["event"] == "epoch"][-1]["validation accuracy"], (here.argmax(1) == np.load(self.work / "form.npz")["target"]).mean()
        expect(abs(told - accuracy) < 1e-6, f"the library's accuracy is {accuracy}, the evaluation's {told}")
        said = command(self.metac, "compile", self.work / "form.onnx", "--no-build", "-o", self.work / "form-plain")
        expect('1 BatchNormalization nodes normalise by the batch that they are given (node #1 "norm"' in said and '1 Dropout nodes drop at random (node #6 "drop"' in said and "exporting_from_pytorch.md" in said, said)
        expect("warning" not in command(self.metac, "compile", whole / "form.onnx", "--no-build", "-o", self.work / "form-again"), "the trained file is warned of")

    def time_of_kernels_is_told(self):
        said = command(self.train, "--data", DIGITS, "--out", self.work / "profile", "--updates", 3, "--quiet", "--profile").splitlines()
        expect(said[0].startswith("memory: a step takes "), said[0])
        rows = [line.split() for line in said[3:]]
        expect(said[1].startswith("machine: ") and said[2].split()[:6] == ["ms/step", "share", "runs", "GFLOP/s", "GB/s", "of"] and len(rows) > 5 and all(int(row[2]) % 3 == 0 for row in rows), "\n".join(said[:5]))
        expect(all(row[5].endswith("%") or row[4] == "-" for row in rows) and any(row[3] != "-" for row in rows) and any(row[4] != "-" for row in rows), "none computes, or none moves anything")
        expect(all(float(word) > 0 for row in rows for word in row[3:5] if word != "-"), "a rate of nothing")
        expect(abs(sum(float(row[1].rstrip("%")) for row in rows) - 100) < 3, "the shares are not all of it")

    def what_goes_wrong_is_said(self):
        said = command(self.train, "--data", DIGITS, "--out", self.work / "wild", "--rate", "1e9", status=1)
        expect(" made the first " in said and "--rate" in said, f"no kernel is named: {said}")
        said = command(self.train, "--data", self.work, "--out", self.work / "nothing", status=1)
        expect(f"Looked for:\n  {self.work}/train.npz" in said, said)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", type=pathlib.Path, required=True)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--keep", type=pathlib.Path, help="work here and leave it")
    arguments = parser.parse_args()
    work = (arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="metac-training-"))).resolve()
    work.mkdir(parents=True, exist_ok=True)
    status = run_checks(Checks(work, arguments.metac.resolve(), arguments.kills), ("compile",))
    if not arguments.keep:
        shutil.rmtree(work, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
