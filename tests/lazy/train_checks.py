"""Data, schedules, runs and several processes of training loops written as code, beside training programs."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import metac
import numpy as np
from expectations import Skip, expect, raises
from metac import op, optim, train

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "models/digits"
FIELDS = {"image": ("float32", (1, 8, 8)), "label": ("int64", ())}
LOOP = ROOT / "tests/lazy/train_loop.py"
NOT_TIMES = ("seconds",)


def log_of(folder):
    """Lines of the log but for what tells the time."""
    lines = [json.loads(line) for line in (pathlib.Path(folder) / "log.jsonl").read_text().splitlines()]
    return [{name: value for name, value in line.items() if name not in NOT_TIMES} for line in lines]


def run_loop(*arguments, processes=1, status=0):
    launcher = ["mpirun", "--oversubscribe", "-np", str(processes)] if processes > 1 else []
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                   "OMPI_MCA_rmaps_base_oversubscribe": "1"}
    done = subprocess.run([*launcher, sys.executable, LOOP, *map(str, arguments)], capture_output=True, text=True,
                          env=environment, timeout=300, check=False)
    expect(done.returncode == status, f"status {done.returncode}: {done.stderr[-1500:]}")
    return done.stderr


class TrainChecks:
    def __init__(self, build):
        self._build = build

    def loaders_are_those_of_training_programs(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "batches"
            subprocess.run(["c++", "-std=c++17", "-O1", "-I", ROOT, ROOT / "tests/lazy/recipe_batches.cpp", "-o", program,
                            "-lpthread"], check=True)
            wanted = subprocess.run([program, DIGITS, "11"], capture_output=True, check=True).stdout
        recipe = {"format": "npz", "train": "train.npz", "validation_split": 0.2,
                  "fields": {"image": {"scale": 0.0625, "mean": [0.3], "deviation": [0.4], "flip": True, "crop_padding": 1}}}

        def all_of(data):
            given = b""
            training, validation = data.loader(48, threads=3), data.loader(48, validation=True)
            for batches in (training.epoch(0), training.epoch(3), validation.epoch(0)):
                for batch in batches:
                    given += np.int64(batch.valid).tobytes() + batch["image"].numpy().tobytes() + batch["label"].numpy().tobytes()
            return given
        expect(all_of(train.Data(recipe, FIELDS, folder=DIGITS, seed=11)) == wanted, "other batches than a program's")
        with np.load(DIGITS / "train.npz") as arrays:
            in_memory = {name: value for name, value in recipe.items() if name not in ("format", "train")}
            data = train.Data(in_memory, FIELDS, arrays=dict(arrays), seed=11)
        expect(all_of(data) == wanted, "other batches of arrays in memory")
        loader = data.loader(48)
        whole = [batch["label"].tolist() for batch in loader.epoch(2)]
        expect([batch["label"].tolist() for batch in loader.epoch(2, 5)] == whole[5:], "from a batch in the middle on")
        return f"{len(wanted)} bytes the same"

    def every_format_of_data(self):
        rng = np.random.default_rng(0)
        image, label = rng.integers(0, 256, (6, 3, 32, 32), dtype="u1"), np.array([1, 0, 2, 1, 0, 2], "u1")
        fields = {"image": ("float32", (3, 32, 32)), "label": ("int64", ())}
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            np.save(folder / "a-image.npy", image), np.save(folder / "a-label.npy", label)
            for values, end in ((image, "images"), (label, "labels")):
                head = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">i4").tobytes()
                (folder / f"b-{end}").write_bytes(head + values.tobytes())
            (folder / "c.bin").write_bytes(b"".join(bytes([k]) + each.tobytes() for k, each in zip(label, image)))
            (folder / "d.csv").write_text("label,x,y\n" + "".join(f"{'bac'[k]},{k},{k * 2}\n" for k in label))
            for k, each in enumerate(image):  # bitmaps: rows from the last, blue first
                (folder / f"e/{label[k]}").mkdir(parents=True, exist_ok=True)
                pixels = each.transpose(1, 2, 0)[::-1, :, ::-1].tobytes()
                (folder / f"e/{label[k]}/{k}.bmp").write_bytes(
                    b"BM" + np.array([54 + len(pixels), 0, 54, 40, 32, 32], "<u4").tobytes()
                    + np.array([1, 24], "<u2").tobytes() + np.zeros(6, "<u4").tobytes() + pixels)
            for recipe in ({"format": "npy", "train": "a-"}, {"format": "cifar10", "train": "c.bin"},
                           {"format": "idx", "train": "b-", "fields": {"image": "images", "label": "labels"}}):
                batch = train.Data({**recipe, "shuffle": False}, fields, folder=folder).loader(6).next()
                same = (batch["image"].numpy() == image).all() and (batch["label"].numpy() == label).all()
                expect(same and batch.valid == 6, f"{recipe}")
            table = train.Data({"format": "csv", "train": "d.csv", "shuffle": False, "fields": {"image": "*"}},
                               {"image": ("float32", (2,)), "label": ("int64", ())}, folder=folder)
            expect(table.classes == ["a", "b", "c"], f"{table.classes}")
            batch = table.loader(6).next()
            expect((batch["image"].numpy() == np.stack([label, 2 * label], 1)).all(), "columns of numbers")
            expect(batch["label"].tolist() == ["abc".index("bac"[k]) for k in label], "a column of words")
            pictures = train.Data({"format": "images", "train": "e", "shuffle": False}, fields, folder=folder)
            try:
                batch = pictures.loader(6).next()
            except metac.ModelError as error:
                expect("built without a picture decoder" in str(error), f"{error}")
                raise Skip("metac was built without a picture decoder; all other formats are read") from None
            order = np.argsort(label, kind="stable")
            expect((batch["image"].numpy() == image[order]).all(), "pictures")
            expect(batch["label"].tolist() == label[order].tolist() and pictures.classes == ["0", "1", "2"], "folders")

    def schedules_are_pytorchs(self):
        updates, per_epoch = 60, 10
        try:
            import torch
        except ImportError:
            raise Skip("PyTorch is not installed") from None
        weight = torch.nn.Parameter(torch.zeros(1))

        def rates(scheduler, rate=0.1):
            optimiser = torch.optim.SGD([weight], lr=rate)
            schedule = scheduler(optimiser)
            found = []
            for _ in range(updates):
                found.append(optimiser.param_groups[0]["lr"])
                optimiser.step()
                schedule.step()
            return found
        of = torch.optim.lr_scheduler
        for options, scheduler in (({"kind": "constant"}, lambda o: of.ConstantLR(o, 1.0)),
                                   ({"kind": "step", "every": 2, "gamma": 0.5}, lambda o: of.StepLR(o, 20, 0.5)),
                                   ({"kind": "step", "milestones": [7, 31], "unit": "updates"},
                                    lambda o: of.MultiStepLR(o, [7, 31])),
                                   ({"kind": "cosine", "final_rate": 0.01}, lambda o: of.CosineAnnealingLR(o, updates, 0.01)),
                                   ({"kind": "one_cycle"}, lambda o: of.OneCycleLR(o, 0.1, updates))):
            own = [train.Schedule(options, 0.1, updates, per_epoch)(k) for k in range(updates)]
            expect(np.allclose(own, rates(scheduler), rtol=1e-9), f"{options}: {own[:5]}")

    def averages_and_accumulation(self):
        rng = np.random.default_rng(0)
        slopes = rng.standard_normal((12, 5))
        for options in ({"average": 0.8}, {"average": {"from": 2}}, {"accumulate": 3, "average": 0.8},
                        {"clip": {"norm": 0.7}}, {"clip": {"value": 0.3}, "accumulate": 2}):
            w = metac.array(np.zeros(5))
            optimiser = optim.Optimiser([w], "sgd", learning_rate=0.1, **options)
            own, average, seen = np.zeros(5), np.zeros(5), []
            every = options.get("accumulate", 1)
            for k, slope in enumerate(slopes):
                optimiser.step([metac.array(slope)])
                if (k + 1) % every:
                    continue
                g = slopes[k + 1 - every:k + 1].mean(0)
                if "norm" in options.get("clip", {}):
                    g = g * min(1, 0.7 / (np.linalg.norm(g) + 1e-6))
                if "value" in options.get("clip", {}):
                    g = np.clip(g, -0.3, 0.3)
                own = own - 0.1 * g
                seen.append(own)
                average = 0.8 * average + 0.2 * own
            expect(np.allclose(w.numpy(), own, rtol=1e-12), f"{options}: {w.numpy()} and {own}")
            if "average" in options:
                wanted = average if options["average"] == 0.8 else np.mean(seen[2:], 0)
                with optimiser.averaged():
                    expect(np.allclose(w.numpy(), wanted, rtol=1e-12), f"{options}: {w.numpy()} and {wanted}")
                expect(np.allclose(w.numpy(), own, rtol=1e-12), "the parameters are back")

    def a_resumed_run_is_the_whole_one(self):
        with tempfile.TemporaryDirectory() as folder:
            for more in ([], ["--dropout"]):
                whole, parts = (pathlib.Path(folder) / (name + "".join(more)) for name in ("whole", "parts"))
                run_loop(whole, *more)
                run_loop(parts, "--stop", 7, *more)
                told = run_loop(parts, "--signal", 14, *more, status=-2)
                expect("interrupted in epoch" in told, told)
                told = run_loop(parts, *more)
                expect("resuming in epoch 2, after update 14" in told or "resuming in epoch 2, after update 15" in told, told)
                expect((whole / "net.safetensors").read_bytes() == (parts / "net.safetensors").read_bytes(), "other weights")
                expect((parts / "best.safetensors").exists(), "the best epoch is not kept")
                expect(log_of(whole) == log_of(parts), "the logs differ")
                expect((parts / "curves.svg").read_text().startswith("<svg"), "no curves")
                expect(len(list((parts / "checkpoints").iterdir())) == 2, "checkpoints that are kept")
                ends = pathlib.Path(folder) / ("ends" + "".join(more))  # resumed where an epoch ended
                run_loop(ends, "--stop", 9, "--checkpoint-every", 0, *more)
                expect("after update 8" in run_loop(ends, "--checkpoint-every", 0, *more), "it resumes at the epoch's end")
                expect((whole / "net.safetensors").read_bytes() == (ends / "net.safetensors").read_bytes(), "other weights")

    def damaged_checkpoints_are_told(self):
        with tempfile.TemporaryDirectory() as folder:
            run_loop(folder, "--stop", 10)
            newest = max((pathlib.Path(folder) / "checkpoints").iterdir())
            data = bytearray(newest.read_bytes())
            data[len(data) // 2] ^= 1
            newest.write_bytes(data)
            told = run_loop(folder)
            expect("checkpoint step 9 cannot be used" in told and "is damaged (checksum)" in told
                   and "taking the checkpoint of step 6 instead" in told, told)

    def a_loop_is_the_compiled_recipe(self):
        recipe = json.loads((DIGITS / "recipe.json").read_text())
        update = {"clip": {"norm": 1}, "average": 0.9, "non_finite": "skip", "groups": [
            {"match": "*.bias", "weight_decay": 0}, {"match": "conv*", "rate_scale": 0.5},
            {"match": "conv1.bias", "frozen": True}]}
        kind = {"kind": "adamw", "learning_rate": 0.003, "weight_decay": 0.1}
        recipe.update(dropout=0, log_every=1, epochs=2, optimizer=kind, **update)
        with tempfile.TemporaryDirectory() as folder:
            with np.load(DIGITS / "train.npz") as arrays:  # of which one sample is not a number
                images = arrays["image"].astype("f4")
                images[700, ..., 3] = np.nan
                np.savez(f"{folder}/train.npz", image=images, label=arrays["label"])
            shutil.copy(DIGITS / "test.npz", folder)
            path = pathlib.Path(folder) / "recipe.json"
            path.write_text(json.dumps(recipe))
            subprocess.run([os.environ["METAC_PROGRAM"], "compile", DIGITS / "untrained.onnx", "--train", path, "-o",
                            f"{folder}/out", "--name", "digits"], check=True, capture_output=True)
            subprocess.run([f"{folder}/out/bin/digits_train", "--data", folder, "--out", f"{folder}/program"], check=True,
                           capture_output=True)
            wanted = log_of(f"{folder}/program")
            from metac.nn.module import load_weights
            data = train.Data(recipe["data"], FIELDS, folder=folder)
            loader, validation = data.loader(64), data.loader(64, validation=True)
            w = {name: metac.array(value) for name, value in load_weights(DIGITS / "untrained.onnx").items() if value.ndim}

            def network(x):
                for name in ("conv1", "conv2"):
                    x = op.Conv(x, w[name + ".weight"], w[name + ".bias"], pads=[1, 1, 1, 1]).relu()
                x = op.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2]).flatten(1)
                x = op.Gemm(x, w["hidden.weight"], w["hidden.bias"], transB=1).relu()
                return op.Gemm(x, w["head.weight"], w["head.bias"], transB=1)

            def scores(batch):
                output = network(batch["image"])
                return {"loss": optim.losses("cross_entropy", output, batch["label"]),
                        "accuracy": op.ArgMax(output, axis=1, keepdims=0) == batch["label"]}
            optimiser = optim.Optimiser(w, **kind, **update)
            with train.Run(f"{folder}/code", loader, 2, schedule=recipe["schedule"], learning_rate=0.003,
                           metrics=["accuracy"], quiet=True, non_finite="skip") as run:
                run.keep(w, optimiser)
                for _ in run.epochs():
                    for batch in run.batches():
                        output, rate = network(batch["image"]), run.rate
                        loss = optim.loss("cross_entropy", output, batch["label"])
                        optimiser.step(loss, rate=rate)
                        right = op.ArgMax(output, axis=1, keepdims=0) == batch["label"]
                        run.step(loss, rate, accuracy=right.astype("float32").mean())
                    with optimiser.averaged():
                        result = run.evaluate(validation, scores)
                        raises(metac.ArgumentError, run.end_epoch, result)
                    run.end_epoch(result)
            given = log_of(f"{folder}/code")
        expect([list(line) for line in given] == [list(line) for line in wanted], "other lines of the log")
        expect([line.get("rate") for line in given] == [line.get("rate") for line in wanted], "other learning rates")
        left_out = [[(line["batch"], line["epoch"], line["what"].split(":")[0]) for line in lines if "what" in line]
                    for lines in (given, wanted)]
        expect(left_out[0] == left_out[1] and len(left_out[0]) == 2, f"{left_out}")
        given, wanted = ([line for line in lines if "what" not in line] for lines in (given, wanted))
        furthest = max(abs(a["loss"] / b["loss"] - 1) for a, b in zip(given, wanted))
        tenth = abs(given[9]["loss"] / wanted[9]["loss"] - 1)
        scored = [abs(a["validation loss"] / b["validation loss"] - 1) for a, b in zip(given, wanted) if "validation loss" in a]
        expect(tenth < 1e-5 and furthest < 1e-3 and max(scored) < 1e-3, f"{tenth}, {furthest}, {scored}")
        return f"losses {tenth:.1e} apart at update 10, at most {furthest:.1e} in 42, validation {max(scored):.1e}"

    def two_processes_are_one(self):
        if not shutil.which("mpirun"):
            raise Skip("there is no mpirun")
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            one, two, again = (folder / name for name in ("one", "two", "again"))
            run_loop(one)
            run_loop(two, processes=2)
            run_loop(again, processes=2)
            expect((two / "net.safetensors").read_bytes() == (again / "net.safetensors").read_bytes(), "two runs differ")
            pairs = list(zip(log_of(one), log_of(two)))
            apart = max(abs(a["loss"] / b["loss"] - 1) for a, b in pairs)
            expect(apart < 1e-4 and len(log_of(one)) == len(log_of(two)), f"losses {apart} apart")
            run_loop(folder / "more", "--dropout", processes=2)  # statistics and masks
            # What is wrong in one of them is left out by all.
            told = run_loop(folder / "wrong one", "--wrong", 5)
            expect("the loss is NaN at update 5" in told and "this batch is left out" in told, told)
            run_loop(folder / "wrong two", "--wrong", 5, processes=2)
            pairs = list(zip(log_of(folder / "wrong one"), log_of(folder / "wrong two")))
            expect(max(abs(a["loss"] / b["loss"] - 1) for a, b in pairs if "what" not in a) < 1e-4, "losses behind it")
            expect(sum("what" in a and "what" in b for a, b in pairs) == 1, "the step that was left out")
        return f"losses at most {apart:.1e} from one process"

    def the_loop_in_cxx(self):
        library = self._build / "lib"
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder) / "train_loop"
            subprocess.run(["c++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "compiler/api/include",
                            "-I", self._build / "include", ROOT / "tests/lazy/train_loop.cpp", "-o", program, "-L", library,
                            "-lmetac", f"-Wl,-rpath,{library}"], check=True)

            def run(name, *more):
                done = subprocess.run([program, DIGITS, f"{folder}/{name}", *more], capture_output=True, text=True, check=False)
                expect(done.returncode == (3 if more else 0), done.stderr[-500:])
                return done.stdout
            whole = run("whole")
            run("parts", "37")
            expect(whole == run("parts") and len(whole.split()) == 3, f"{whole}")

    def mistakes_are_named(self):
        def message(kind, call, *words):
            told = raises(kind, call)
            expect(all(word in told for word in words), told)
        files = {"format": "npz", "train": "nothing.npz"}
        message(metac.ModelError, lambda: train.Data(files, FIELDS, folder=DIGITS), "nothing.npz", "no data for training")
        files["train"] = "train.npz"
        message(metac.ModelError, lambda: train.Data(files, {"image": ("float32", (3, 8, 8))}, folder=DIGITS), "train.npz",
                "[1, 8, 8]", "[3, 8, 8]")
        message(metac.ModelError, lambda: train.Data({**files, "fields": {"imag": {}}}, FIELDS, folder=DIGITS), "imag",
                "did you mean \"image\"")
        message(metac.ModelError, lambda: train.Data({"format": "npzz", "train": "x"}, FIELDS), "npzz")
        message(metac.ArgumentError, lambda: train.Data({"fields": {"image": "picture"}}, FIELDS,
                                                        arrays={"image": np.zeros((3, 1, 8, 8), "f4")}), "picture", "image")
        data = train.Data(files, FIELDS, folder=DIGITS)
        message(metac.ArgumentError, lambda: data.loader(2000), "train.npz", "1437", "2000")
        message(metac.ArgumentError, lambda: data.loader(validation=True), "validation")
        message(metac.ModelError, lambda: train.Schedule("cosinus", 0.1, 10), "cosinus", "cosine")
        message(metac.ModelError, lambda: optim.Optimiser([metac.array([1.0])], "sgd", momentun=1), "momentun", "momentum")
        with tempfile.TemporaryDirectory() as folder:
            loader, w = data.loader(64), metac.array([1.0])
            with train.Run(folder, loader, quiet=True) as run:
                message(metac.ModelError, lambda: train.Run(folder, loader), folder, "another program is training")
                run.keep({"w": w})
                message(metac.ArgumentError, lambda: run.keep({"w": w}), '"w" is kept already')
                run.begin()
                message(metac.ModelError, lambda: run.step((w / 0).sum()), "the loss is infinite", "update 0")
                run.save()
            with train.Run(folder, loader, quiet=True) as run:
                message(metac.ModelError, run.begin, folder, "checkpoints of an earlier run")
            with train.Run(folder, loader, resume=True, strict=True, quiet=True) as run:
                run.keep({"w": metac.array([1.0, 2.0])})
                message(metac.ModelError, run.begin, "step-000000000.safetensors", '"w" is float32 [1], not float32 [2]')
