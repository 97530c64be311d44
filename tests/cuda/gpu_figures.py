"""What tests/gpu.sh measures on a GPU, beside PyTorch (eager, eager as a recorded CUDA graph with channels last, torch.compile with max-autotune) and ONNX Runtime where they are installed.

kernels    bytes per second through one kernel against a copy within the card, the cost of starting a hundred kernels
training   the digits: the CPU's losses; steps of networks against PyTorch's on a batch that is on the card, ours with reading and copying theirs
networks   every network, dtype and batch against all peers in turns, TF32 on for all; bytes of the card that each takes

torch.compile needs a minute or more of the host for a network and a batch. So all rows are raced without it first, and then, as long as there is time, once more with
it: several processes make rows ready side by side, and race one at a time while the others are stopped (racers.py). Rows go by batch, those that a product asks for
first; a row without torch.compile says so, and another run into the same folder takes it up again.
"""
import ctypes
import json
import shutil
import statistics
import time

import numpy as np

from figure_tools import LEGACY, PEERS, Alarm, last_words, let_round, load_model, make_weights, milliseconds, with_gpu, with_torchvision
from measured_alone import measures_alone
from racers import Racers

FIRST_BATCHES = (1, 8, 128, 32)
BYTES_OF_A_RACER = 12 << 30   # of the card: a large network at batch 128, as PyTorch holds it


class Figures:
    def __init__(self, run):
        self.run, self.root, self.report, self.list = run, run.root, run.report, run.list

    def torch(self, part):
        found = with_gpu()
        if found is None:
            self.run.skip(f"{part}: no torch that sees a GPU, nothing is measured")
        return found

    # ---- kernels ----
    def kernels(self):
        torch = self.torch("kernels")
        for name in self.list["speed"] if torch else ():
            if any(row["name"] == name for row in self.report["kernels"]) or self.run.late(f"kernel {name}", 3):
                continue
            folder = self.root / "speed" / name
            model = load_model(folder, name, folder / f"{name}.weights")
            x = torch.randn(model.inputs[0].shape, device="cuda")
            y = torch.empty(model.outputs[0].shape, device="cuda")
            ours = lambda: model.run_async({"x": x}, {"y": y}, stream=LEGACY)   # noqa: E731
            row = {"name": name, "milliseconds": milliseconds(torch, ours, self.run.turn, busy=True)}
            if name == "hundred_kernels":
                row["microseconds_a_kernel"] = row["milliseconds"] * 10
                row["host_microseconds_a_run"] = self.host_microseconds(torch, model, x, y)
            else:
                copied = torch.empty_like(x)
                copy = milliseconds(torch, lambda: copied.copy_(x), self.run.turn, busy=True)
                row["bytes_per_second"] = (x.nbytes + y.nbytes) / row["milliseconds"] * 1e3
                row["copy_bytes_per_second"] = 2 * x.nbytes / copy * 1e3
                row["of_copy"] = row["bytes_per_second"] / row["copy_bytes_per_second"]
            model.close()
            self.report["kernels"].append(row)
            print(json.dumps(row), flush=True)

    def host_microseconds(self, torch, model, x, y):
        """How long the C function takes that starts a recorded run, Python's own work left out."""
        start = getattr(model._library, "hundred_kernels_run_async")
        (given, kept), (taken, also_kept) = (model._device_tensor(t, port, LEGACY) for t, port in ((x, model.inputs[0]), (y, model.outputs[0])))
        call = lambda: start(model._context, ctypes.byref(given), 1, ctypes.byref(taken), 1, LEGACY, None, None)   # noqa: E731
        for _ in range(3):   # by then a run is recorded
            if call():
                raise RuntimeError(model._message())
        torch.cuda.synchronize()
        times = []
        for _ in range(20 if self.run.turn else 1):
            begin = time.perf_counter()
            call()
            times.append((time.perf_counter() - begin) * 1e6)
            torch.cuda.synchronize()
        del kept, also_kept
        return statistics.median(times)

    # ---- training ----
    def training(self):
        raced = [row for row in self.list["training"] if "losses" not in row]
        torch = self.torch("training races") if raced else None
        for row in self.list["training"]:
            name = row["name"]
            if any(r["name"] == name and r.get("good", True) for r in self.report["training"]):
                continue
            if (row in raced and torch is None) or self.run.late(f"training of {name}", 60):
                continue
            self.report["training"][:] = [r for r in self.report["training"] if r["name"] != name]
            folder, out = self.root / "training" / name, self.run.out / f"{name}-run"
            if row in raced:
                make_weights(folder / f"{name}.weights", row)
                random, count = np.random.default_rng(3), 4 * row["batch"]
                np.savez(folder / "data.npz", **{a["name"]: random.integers(0, a["below"], (count, *a["dims"])).astype(a["dtype"]) for a in row["data"]})
            argv = [str(folder / f"bin/{name}_train"), "--data", str(folder), "--out", str(out), "--restart", "--updates", str(row["updates"]), "--checkpoint-every", "1000000000", "--quiet"]
            status, said = self.run.call(argv, max(60, self.run.part_end - time.monotonic()))
            if status:
                self.run.note("training", {"name": name, "why": f"status {status}: {said[-400:]}"}, False)
                continue
            lines = [line for line in map(json.loads, (out / "log.jsonl").read_text().splitlines()) if line["event"] == "train"]
            shutil.rmtree(out)
            half = (len(lines) - 1) // 2
            found = {"name": name, "milliseconds_a_step": (lines[-1]["seconds"] - lines[half]["seconds"]) / (lines[-1]["update"] - lines[half]["update"]) * 1e3}
            if "losses" in row:
                found["off"] = max(abs(a["loss"] - b) / abs(b) for a, b in zip(lines, row["losses"], strict=True))
                self.run.note("training", found, found["off"] < 1e-3)
            else:
                found["batch"] = row["batch"]
                found.update(self.peer_steps(torch, name, row))
                peers = [found[who] for who in PEERS if who in found]
                if peers:
                    found["times_the_fastest"] = min(peers) / found["milliseconds_a_step"]
                self.report["training"].append(found)
            print(json.dumps(found), flush=True)

    def peer_steps(self, torch, name, row):
        """Milliseconds of a step of PyTorch on a batch that is on the card already."""
        torchvision = with_torchvision()
        if torchvision is None or not hasattr(torchvision.models, name):
            return {}
        let_round(torch)
        with torch.device("cuda"):
            model = getattr(torchvision.models, name)(num_classes=row["classes"]).train()
        x, label = torch.randn(row["batch"], 3, row["size"], row["size"], device="cuda"), torch.randint(0, row["classes"], (row["batch"],), device="cuda")
        optimizer = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9, weight_decay=1e-4)
        found = {}
        for who, network in (("eager", lambda: model), ("torch.compile", lambda: torch.compile(model, mode="max-autotune"))):
            def step():
                optimizer.zero_grad(set_to_none=True)
                torch.nn.functional.cross_entropy(forward(x), label).backward()
                optimizer.step()

            try:
                forward = network()
                with Alarm(self.run.part_end - time.monotonic()):
                    found[who] = milliseconds(torch, step, 10 * self.run.turn)
            except Exception as error:  # a peer that cannot is told and left out
                found[f"{who} fails"] = last_words(error)
        return found

    # ---- networks ----
    def networks(self):
        torch = self.torch("networks")
        if torch is None:
            return
        rows = self.report["networks"]
        done = {(r["library"], r["batch"]): r for r in rows}
        plan = [(batch, network) for batch in sorted({b for n in self.list["networks"] for b in n["batches"]}, key=lambda b: (FIRST_BATCHES.index(b) if b in FIRST_BATCHES else len(FIRST_BATCHES), b))
                for network in self.list["networks"] if batch in network["batches"]]

        def take(row):
            """It replaces one that fewer peers took part in."""
            old = done.get((row["library"], row["batch"]))
            if old is None or len(row["missing"]) <= len(old["missing"]):
                rows[:] = [r for r in rows if r is not old] + [row]
                done[row["library"], row["batch"]] = row
            print(json.dumps(row), flush=True)

        most = torch.cuda.mem_get_info()[0] // BYTES_OF_A_RACER if measures_alone(torch) else 1   # what is measured while others compile is a figure no more
        for compiled in (False, True):   # first all of them without torch.compile, which may take all the time there is
            def late(batch, network, seconds, compiled=compiled):
                return self.run.late(f"{network['library']}, batch {batch}{', torch.compile' if compiled else ''}", seconds)

            waiting = [p for p in plan if (p[1]["library"], p[0]) not in done] + [p for p in plan if done.get((p[1]["library"], p[0]), {}).get("missing") and compiled]
            if waiting:
                Racers(self.root, self.run.out, self.run.turn, self.run.part_end, max(1, min(self.run.jobs, most, len(waiting)))).run(waiting, late, take, compiled)
        if rows:
            self.report["summary"] = summary(rows)
            table(rows)
            print(json.dumps(self.report["summary"]), flush=True)


def summary(rows):
    """What docs/gpu_evidence.md is to say of the networks: of the rows that all peers took part in."""
    whole = [r for r in rows if not r["missing"] and "times_the_fastest" in r]
    few, many = ([r["times_the_fastest"] for r in whole if r["batch"] in batches] for batches in ((1, 8), (128,)))
    every = [r["times_the_fastest"] for r in whole]
    bytes_of = lambda r: [r[f"{who} bytes"] for who in PEERS if f"{who} bytes" in r]   # noqa: E731
    return {"rows": len(rows), "with all peers": len(whole), "least at batch 1 and 8": min(few, default=None), "least at batch 128": min(many, default=None),
            "geometric mean": statistics.geometric_mean(every) if every else None,
            "fewer bytes than any peer": sum(r["metac bytes"] < min(bytes_of(r)) for r in whole if bytes_of(r))}


def table(rows):
    print(f"{'network':20} {'dtype':>8} {'batch':>5} {'metac':>9} {'eager':>9} {'recorded':>9} {'compile':>9} {'onnxrt':>9} {'ratio':>6}   (ms; ratio: the fastest peer's time by metac's; *: a peer is missing)")
    for r in rows:
        cells = [f"{r[k]:9.3f}" if k in r else " " * 9 for k in ("metac", *PEERS)]
        print(f"{r['name']:20} {r['dtype']:>8} {r['batch']:5} {' '.join(cells)} {r.get('times_the_fastest', float('nan')):6.2f}{'*' if r['missing'] else ''}")
