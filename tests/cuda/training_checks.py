"""Training programs whose steps run on the GPU, on the stand-in: the CPU's curves, by one process and by two with a GPU each."""
import json
import pathlib
import re
import shutil
import sys

import numpy as np

from gpu_script_checks import command, expect

HERE = pathlib.Path(__file__).resolve().parent
DIGITS = HERE.parents[1] / "models/digits"
GANS = HERE.parents[1] / "models/gan"
sys.path.insert(0, str(GANS))
from network import Network  # noqa: E402

# A machine with fewer CPUs than processes, a container whose user is root.
LAUNCHED = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none", "OMPI_MCA_mpi_yield_when_idle": "1",
            "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def small_networks(size):
    """In place of those of models/gan: a convolution and a product each."""
    generator, critic = Network("generator"), Network("discriminator")
    generator.weights["images"] = np.array([-1, 3, size, size], np.int64)
    x = generator.node("Tanh", [generator.linear(generator.input("noise", 100), "project", 100, 3 * size * size)])
    images = generator.convolution(generator.node("Reshape", [x, "images"]), "mix", 3, 3)
    x = critic.leaky(critic.convolution(critic.input("image", 3, size, size), "conv", 3, 4, stride=2))
    score = critic.linear(critic.node("Flatten", [x]), "score", size * size, 1)
    return {"generator": generator.document(images), "discriminator": critic.document(score)}


class TrainingChecks:
    def _few_digits(self):
        """The digits' training with a quarter of the batch and little data: the stand-in takes a second for each update of 64 images."""
        folder = self.work / "few digits"
        with self.building:
            if folder.exists():
                return folder
            folder.mkdir()
            for name, count in (("train", 256), ("test", 48)):
                with np.load(DIGITS / f"{name}.npz") as data:
                    np.savez(folder / f"{name}.npz", **{key: array[:count] for key, array in data.items()})
            (folder / "recipe.json").write_text(json.dumps({**json.loads((DIGITS / "recipe.json").read_text()), "batch": 16}))
            shutil.copy(DIGITS / "untrained.onnx", folder)
        return folder

    def _nccl(self):
        """A stand-in for NCCL's library."""
        library = self.work / "nccl/libnccl.so.2"
        with self.building:
            if not library.exists():
                library.parent.mkdir()
                command("c++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", HERE / "toolkit/nccl/nccl.cpp", "-o", library)
        return library

    def _train(self, program, data, out, *options, processes=1, status=0, **environment):
        """What a training program says, and the rows of its log. Each of several processes has a device of its own."""
        argv, surroundings = [program, "--data", data, "--out", self.work / out, *options], self.stand_in
        if processes > 1:
            argv = ["mpirun", "-np", processes, *argv, "--threads", 1]
            surroundings = {**self.stand_in, **LAUNCHED, "LD_LIBRARY_PATH": str(self._nccl().parent), "METAC_SHIM_DEVICES": str(processes)}
        said = command(*argv, status=status, env={**surroundings, **environment})
        log = self.work / out / "log.jsonl"
        return said, [row for line in (log.read_text().splitlines() if log.exists() else []) for row in [json.loads(line)] if row["event"] == "train"]

    def training(self):
        """A training program whose steps run on the GPU: the CPU's curve, one recorded graph a step, states that survive a resume, NaN found on the device."""
        digits, updates = self._few_digits(), 15
        for target in ("cpu", "cuda"):
            command(self.metac, "compile", digits / "untrained.onnx", "--train", digits / "recipe.json", "-o", self.work / f"trained {target}", "--name", "digits", "--target", target, env=self.stand_in)
        notes = self.work / "training calls"

        def train(target, out, *options, **more):
            return self._train(self.work / f"trained {target}/bin/digits_train", digits, out, "--quiet", *options, **more)

        _, expected = train("cpu", "run cpu", "--updates", updates)
        _, got = train("cuda", "run cuda", "--updates", updates, METAC_SHIM_CALLS=str(notes))
        worst = max(abs(a["loss"] - b["loss"]) / abs(a["loss"]) for a, b in zip(expected, got, strict=True))
        expect(len(got) == updates // 5 and worst < 2e-4 and all(a["accuracy"] == b["accuracy"] for a, b in zip(expected, got)), f"another curve, by {worst}: {got}")
        graphs = [line for line in notes.read_text().splitlines() if line.startswith("graph of")]
        expect(len(graphs) >= updates - 4, f"{len(graphs)} steps of {updates} were one graph")
        train("cuda", "run resumed", "--updates", 7)
        train("cuda", "run resumed", "--updates", updates, "--resume")
        states = [(self.work / out / "digits.safetensors").read_bytes() for out in ("run cuda", "run resumed")]
        expect(states[0] == states[1], "other bits after a resume")
        # Less memory than states, arena and batch take: what does not fit is managed.
        train("cuda", "run small card", "--updates", 7, METAC_SHIM_MEMORY="20000")
        train("cuda", "run large card", "--updates", 7)
        states = [(self.work / out / "digits.safetensors").read_bytes() for out in ("run small card", "run large card")]
        expect(states[0] == states[1], "other bits on a card of 20 kB")
        said, _ = train("cuda", "run wild", "--rate", "1e9", status=1)
        expect("the next " in said and "infinite" in said, said)
        said, _ = train("cuda", "run nowhere", status=1, METAC_SHIM_DEVICES="0")
        expect("no CUDA device" in said, said)
        together = self._training_together()
        turned = self._with_channels_last(digits, expected, updates)
        return f"losses of {updates} updates within {worst:.1e} of the CPU's, {len(graphs)} graphs; with channels last {turned:.1e}{together}"

    def _with_channels_last(self, digits, expected, updates):
        """Where products may be rounded convolutions and their gradients have channels last; here the library does not round."""
        program, notes = self.work / "trained with channels last", self.work / "calls with channels last"
        command(self.metac, "compile", digits / "untrained.onnx", "--train", digits / "recipe.json", "-o", program, "--name", "digits", "--target", "cuda", "--tf32", "on", env=self.stand_in)
        _, got = self._train(program / "bin/digits_train", digits, "run with channels last", "--quiet", "--updates", updates, METAC_SHIM_EXACT="1", METAC_SHIM_CALLS=str(notes))
        worst = max(abs(a["loss"] - b["loss"]) / abs(a["loss"]) for a, b in zip(expected, got, strict=True))
        expect(worst < 2e-3, f"another curve with channels last, by {worst}")
        calls = [line for line in notes.read_text().splitlines() if "convolution of" in line]
        for kind in ("convolution of", "data gradient of", "weights gradient of"):
            expect(any(line.startswith(kind) and "channels last" in line for line in calls), f"no {kind} with channels last among {sorted(set(calls))}")
        return worst

    def training_with_epilogues(self):
        """Layers with gelu: the products of a step keep what gelu is applied to, are followed by its gradient and sum up the gradients of biases. The CPU's losses, whatever the library has of that."""
        made, updates = self.work / "layers", 8
        made.mkdir()
        network = Network("layers")
        x = network.input("x", 40)
        for k, (before, width) in enumerate(((40, 64), (64, 64), (64, 16))):
            x = network.linear(x, f"layer{k}", before, width)
            x = network.node("Gelu", [x], approximate="tanh") if k < 2 else x
        (made / "net.json").write_text(json.dumps({**network.document(x), "opset": 20}))
        random = np.random.default_rng(5)
        np.savez(made / "train.npz", x=random.standard_normal((256, 40), np.float32), label=random.integers(0, 16, 256))
        fields = {"x": {"from": "x"}, "label": {"from": "label"}}
        recipe = {"loss": {"kind": "cross_entropy", "target": "label"}, "optimizer": {"kind": "sgd", "momentum": 0.9, "learning_rate": 0.05}, "batch": 32, "epochs": 2, "log_every": 1,
                  "data": {"format": "npz", "train": "train.npz", "fields": fields}}
        for word, more in (("", {}), (" half", {"storage": "bfloat16"})):
            (made / f"recipe{word}.json").write_text(json.dumps({**recipe, **more}))
            for target in ("cpu", "cuda"):
                command(self.metac, "compile", made / "net.json", "--train", made / f"recipe{word}.json", "-o", made / (target + word), "--name", "net", "--target", target, env=self.stand_in)
        notes, losses, epilogues, types = made / "calls", {}, {}, {}
        for out, target, more in (("cpu", "cpu", {}), ("cuda", "cuda", {}), ("simple", "cuda", {"METAC_SHIM_BLAS": "simple"}), ("refuse", "cuda", {"METAC_SHIM_BLAS": "refuse"}), ("reverse", "cuda", {"METAC_SHIM_ORDER": "reverse"}),
                                  ("half", "cuda half", {}), ("cpu half", "cpu half", {})):
            notes.unlink(missing_ok=True)
            _, rows = self._train(made / target / "bin/net_train", made, f"layers {out}", "--quiet", "--updates", updates, METAC_SHIM_CALLS=str(notes), **more)
            losses[out] = np.array([row["loss"] for row in rows])
            epilogues[out] = {int(n) for n in re.findall(r"^product .* epilogue (\d+)", notes.read_text() if notes.exists() else "", re.MULTILINE)}
            types[out] = set(re.findall(r"^product .* type (\d+)", notes.read_text() if notes.exists() else "", re.MULTILINE))
            worst = np.abs(losses[out] - losses["cpu"]).max() / losses["cpu"].max()
            expect(len(losses[out]) == updates and worst < (2e-2 if "half" in out else 2e-6), f"{out}: other losses, by {worst}")
        # Stored in bfloat16 all products are of that type: nothing between them is widened in memory.
        expect(types["cuda"] == {"0"} and types["half"] == {"14"} and {164, 192} <= epilogues["half"], f"types of products {types}, epilogues {epilogues}")
        expect({164, 192, 512} <= epilogues["cuda"] and not epilogues["simple"] & {164, 192, 512} and epilogues["simple"] and not epilogues["refuse"], f"epilogues {epilogues}")
        states = [(self.work / f"layers {out}/net.safetensors").read_bytes() for out in ("cuda", "reverse")]
        expect(states[0] == states[1], "other bits in another order")
        return f"losses of {updates} updates within {max(np.abs(losses[out] - losses['cpu']).max() for out in ('cuda', 'simple', 'refuse')):.1e} of the CPU's"

    def _training_together(self):
        """Two processes with a GPU each, gradients averaged by a stand-in for NCCL within the recorded step: the curve of the CPU's two processes."""
        if shutil.which("mpirun") is None:
            return "; no mpirun, so no two processes"
        folder = self._nccl().parent

        def train(target, out, *options, **more):
            return self._train(self.work / f"trained {target}/bin/digits_train", self._few_digits(), out, *options, processes=2, **more)

        _, expected = train("cpu", "two cpus", "--updates", 10)
        for order in ("forward", "5"):
            notes = folder / f"calls {order}"
            said, got = train("cuda", f"two cards {order}", "--updates", 10, METAC_SHIM_CALLS=str(notes), METAC_SHIM_ORDER=order)
            worst = max(abs(a["loss"] - b["loss"]) / abs(a["loss"]) for a, b in zip(expected, got, strict=True))
            expect("2 processes" in said and len(got) == 2 and worst < 2e-4, f"another curve, by {worst}: {got}")
            lines = notes.read_text().splitlines()
            expect("device 1" in lines and any(line.startswith("nccl group of ") for line in lines), "no second GPU, or nothing was exchanged")
            # Steps are recorded with what is exchanged in them: 4 runs step by step (2 processes, 2 buffers), 4 recordings.
            expect(sum(line.startswith("nccl group") for line in lines) == 8 and sum(line.startswith("graph of") for line in lines) >= 12, "steps with exchanges were not recorded")
            expect(order != "forward" or any(re.match(r"graph of \d+ works, [234] branches", line) for line in lines), "exchanges do not run beside steps")
        states = [(self.work / f"two cards {order}/digits.safetensors").read_bytes() for order in ("forward", "5")]
        expect(states[0] == states[1], "other bits in another order")
        said, _ = train("cuda", "two on one", status=None, METAC_SHIM_DEVICES="1")
        expect("more processes on this machine than GPUs" in said[1], said[1])
        said, _ = train("cuda", "no nccl", status=None, LD_LIBRARY_PATH="")
        expect("NCCL, which cannot be loaded" in said[1] or "NCCL: " in said[1], said[1])
        said, _ = train("cuda", "nccl refuses", status=None, METAC_SHIM_NCCL="refuse")
        expect("NCCL: meeting the other processes: invalid argument" in said[1], said[1])
        return f"; two processes within {worst:.1e} of the CPU's two"


    def programs_of_several_networks(self):
        """GANs: every step of an update is a program for the GPU, which finds the states where the other steps left them. The CPU's losses, and recorded steps."""
        return "; ".join(self._program(name) for name in (("small wgan_gp", "wgan_gp", "dcgan", "lsgan", "cyclegan") if self.whole else ("small wgan_gp",)))

    def _program(self, name):
        made, updates = self.work / name, 18
        size, batch = (32, 1) if name == "cyclegan" else (16, 2)
        command(sys.executable, GANS / "build.py", name.split()[-1], made, "--size", size, "--batch", batch, "--blocks", 1, "--narrower", 8, "--samples", 2 * updates * batch, "--epochs", 2, "--rate", 2e-6)   # tests/train/compare_gans.py says why so little
        external = "none" if name.startswith("small") else "auto"   # compiling is what takes long
        if name.startswith("small"):
            for network, document in small_networks(size).items():
                (made / f"{network}.json").write_text(json.dumps(document))
        for target in ("cpu", "cuda"):
            command(self.metac, "compile", made / "generator.json", "--train", made / "recipe.json", "-o", made / target, "--name", "gan", "--target", target, *(("--external", external) if target == "cuda" else ()), env=self.stand_in)

        def train(target, out, *options, **more):
            return self._train(made / target / "bin/gan_train", made, f"{name} {out}", "--updates", updates, "--quiet", *options, **more)[1]

        def compare(expected, got):
            losses = [key for key in expected[0] if key.endswith("loss")]
            worst = max(abs(a[key] - b[key]) / max(abs(c[key]) for c in expected if key in c) for a, b in zip(expected, got, strict=True) for key in losses if key in a)
            expect(len(got) == updates and len(losses) > 1 and worst < 2e-4 and all(a.keys() == b.keys() for a, b in zip(expected, got)), f"{name}: other losses, by {worst}: {got}")
            return f"{worst:.1e}"

        notes = made / "calls"
        expected = train("cpu", "cpu")
        worst = compare(expected, train("cuda", "cuda", METAC_SHIM_CALLS=str(notes)))
        # Each step of an update has two sets of its own states, and of those of a network that is trained in other updates: as many recordings.
        runs, graphs = sum(key.endswith("loss") for row in expected for key in row), sum(line.startswith("graph of") for line in notes.read_text().splitlines())
        expect(graphs >= runs - 6, f"{name}: {graphs} steps of {runs} were one graph")
        train("cuda", "reverse", METAC_SHIM_ORDER="reverse")
        states = [(self.work / f"{name} {out}/gan.safetensors").read_bytes() for out in ("cuda", "reverse")]
        expect(states[0] == states[1], f"{name}: other bits in another order")
        if not name.endswith("wgan_gp") or shutil.which("mpirun") is None:   # programs with states are trained by one process
            return f"{name} within {worst} of the CPU"
        together = compare(train("cpu", "two cpus", processes=2), train("cuda", "two cards", processes=2))
        return f"{name} within {worst} of the CPU, by two processes {together}"
