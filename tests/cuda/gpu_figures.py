"""What tests/gpu.sh measures on a GPU, beside PyTorch (eager, torch.compile with max-autotune) and ONNX Runtime where they are installed.

kernels    bytes per second through one kernel against a copy within the card, the cost of starting a hundred kernels
training   the digits: the CPU's losses; steps of networks against PyTorch's on a batch that is on the card, ours with reading and copying theirs
networks   every network, dtype and batch against all peers in turns, TF32 on for all; bytes of the card that each takes

torch.compile needs a minute or more for a network and a batch. So the rows go by batch, those that a product asks for first, and it takes part
as long as the rows behind it still have time; a row without it says so, and another run into the same folder takes it up again.
"""
import ctypes
import hashlib
import importlib
import json
import pathlib
import shutil
import signal
import statistics
import sys
import time
import traceback

import numpy as np

HEAD = 4096
LEGACY = 1               # the stream that torch works on
FIRST_BATCHES = (1, 8, 128, 32)
PEERS = ("eager", "torch.compile", "onnxruntime")


class Figures:
    def __init__(self, run):
        self.run, self.root, self.report, self.list = run, run.root, run.report, run.list
        self.row_seconds, self.compile_seconds = [6.0], [60.0]   # what they took so far; the first are guesses

    def torch(self, part):
        found = with_gpu()
        if found is None:
            self.run.skip(f"{part}: no torch that sees a GPU, nothing is measured")
        return found

    def torchvision(self, part):
        try:
            import torchvision
        except ImportError:
            return self.run.skip(f"{part}: no torchvision to compare with")
        return torchvision

    def model(self, folder, name, weights):
        sys.path.insert(0, str(folder / "python"))
        module = importlib.import_module(name)
        sys.path.pop(0)
        return module.Model(library=str(folder / f"lib/lib{name}.so"), weights=str(weights))

    def milliseconds(self, torch, function, turns=1):
        """The median of runs one by one, by the card's own clock."""
        seconds = self.run.turn * turns
        least = 5 if seconds else 1
        for _ in range(least):
            function()
        torch.cuda.synchronize()
        times, stop = [], time.monotonic() + seconds
        while len(times) < least or (time.monotonic() < stop and len(times) < 1000):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            function()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        return statistics.median(times)

    # ---- kernels ----
    def kernels(self):
        torch = self.torch("kernels")
        for name in self.list["speed"] if torch else ():
            if any(row["name"] == name for row in self.report["kernels"]) or self.run.late(f"kernel {name}"):
                continue
            folder = self.root / "speed" / name
            model = self.model(folder, name, folder / f"{name}.weights")
            x = torch.randn(model.inputs[0].shape, device="cuda")
            y = torch.empty(model.outputs[0].shape, device="cuda")
            ours = lambda: model.run_async({"x": x}, {"y": y}, stream=LEGACY)   # noqa: E731
            row = {"name": name, "milliseconds": self.milliseconds(torch, ours)}
            if name == "hundred_kernels":
                row["microseconds_a_kernel"] = row["milliseconds"] * 10
                row["host_microseconds_a_run"] = self.host_microseconds(torch, model, x, y)
            else:
                copied = torch.empty_like(x)
                copy = self.milliseconds(torch, lambda: copied.copy_(x))
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
                make_weights(folder / f"{name}.weights", row["weights_bytes"])
                random, count = np.random.default_rng(3), 4 * row["batch"]
                np.savez(folder / "data.npz", **{a["name"]: random.integers(0, a["below"], (count, *a["dims"])).astype(a["dtype"]) for a in row["data"]})
            argv = [str(folder / f"bin/{name}_train"), "--data", str(folder), "--out", str(out), "--restart", "--updates", str(row["updates"]), "--quiet"]
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
        torchvision = self.torchvision("training")
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
                with self.no_longer_than(self.run.part_end - time.monotonic()):
                    found[who] = self.milliseconds(torch, step, 10)
            except Exception as error:  # a peer that cannot is told and left out
                found[f"{who} fails"] = last_words(error)
        return found

    # ---- networks ----
    def networks(self):
        torch = self.torch("networks")
        if torch is None:
            return
        torchvision = self.torchvision("networks")
        let_round(torch)
        rows = self.report["networks"]
        done = {(r["library"], r["batch"]): r for r in rows}
        plan = [(batch, network) for batch in sorted({b for n in self.list["networks"] for b in n["batches"]}, key=lambda b: (FIRST_BATCHES.index(b) if b in FIRST_BATCHES else len(FIRST_BATCHES), b))
                for network in self.list["networks"] if batch in network["batches"]]
        waiting = [p for p in plan if (p[1]["library"], p[0]) not in done] + [p for p in plan if done.get((p[1]["library"], p[0]), {}).get("missing")]
        for k, (batch, network) in enumerate(waiting):
            library = network["library"]
            if self.run.late(f"{library}, batch {batch}", 2 * statistics.mean(self.row_seconds)):
                continue
            spare = self.run.part_end - time.monotonic() - (len(waiting) - k) * statistics.mean(self.row_seconds)
            try:
                row = self.row(torch, torchvision, network, batch, spare)
            except Exception as error:  # one that cannot leaves the others their turns
                row = {"library": library, "name": network["name"], "dtype": network["dtype"], "batch": batch, "missing": ["metac"], "why": last_words(error)}
            rows[:] = [r for r in rows if (r["library"], r["batch"]) != (library, batch)] + [row]
            print(json.dumps(row), flush=True)
        if rows:
            self.report["summary"] = summary(rows)
            table(rows)
            print(json.dumps(self.report["summary"]), flush=True)

    def row(self, torch, torchvision, network, batch, spare):
        begin, library, dtype = time.monotonic(), network["library"], getattr(torch, network["dtype"])
        folder = self.root / "networks" / library
        weights = folder / f"{library}.weights"
        if not weights.exists():
            make_weights(weights, network["weights_bytes"], network["dtype"])
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved()
        row = {"library": library, "name": network["name"], "dtype": network["dtype"], "batch": batch, "missing": []}
        model, compiling = self.model(folder, library, weights), 0.0
        try:
            with torch.inference_mode():
                compiling = self.race(torch, torchvision, model, row, network, dtype, free, spare)
        finally:
            model.close()
        if compiling:
            self.compile_seconds.append(compiling)
        self.row_seconds.append(time.monotonic() - begin - compiling)
        return row

    def race(self, torch, torchvision, model, row, network, dtype, free, spare):
        """Fills the row; the seconds that torch.compile took. `free`: bytes of the card that were free before the model was there, or were PyTorch's."""
        name, batch, compiling = row["name"], row["batch"], 0.0
        x = torch.randn(batch, 3, network["size"], network["size"], device="cuda").to(dtype)
        y = torch.empty(batch, 1000, device="cuda", dtype=dtype)
        port, out = model.inputs[0].name, model.outputs[0].name
        contestants = {"metac": lambda: model.run_async({port: x}, {out: y}, stream=LEGACY)}

        def taken():   # of the card, beside what is PyTorch's
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            return free - torch.cuda.mem_get_info()[0] - torch.cuda.memory_reserved()

        def peak(function):
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            function()
            torch.cuda.synchronize()
            return torch.cuda.max_memory_allocated()

        for _ in range(3):   # by then a run is recorded
            contestants["metac"]()
        row["metac bytes"] = taken() + x.nbytes + y.nbytes   # PyTorch counts its input and output too
        if dtype == torch.float32:
            before = taken()
            if runtime := self.attempt(row, "onnxruntime", lambda: self.onnx_runtime(torch, network, x, y)):
                contestants["onnxruntime"] = runtime
                row["onnxruntime bytes"] = taken() - before + x.nbytes + y.nbytes
        if torchvision is not None and hasattr(torchvision.models, name):
            with torch.device("cuda"):
                peer = getattr(torchvision.models, name)().eval().to(dtype)
            contestants["eager"] = lambda: peer(x)
            row["eager bytes"] = peak(contestants["eager"])
            expected = statistics.mean(self.compile_seconds)
            if spare < expected:
                row["missing"].append("torch.compile: no time left")
            else:
                begin = time.monotonic()
                torch._dynamo.reset()
                compiled = torch.compile(peer, mode="max-autotune")
                contestants["torch.compile"] = lambda: compiled(x)

                def ready():
                    with self.no_longer_than(max(60.0, 3 * expected)):
                        for _ in range(3):
                            compiled(x)
                    return True

                if self.attempt(row, "torch.compile", ready):
                    row["torch.compile bytes"] = peak(contestants["torch.compile"])
                else:
                    del contestants["torch.compile"]
                compiling = time.monotonic() - begin
        times = {who: [] for who in contestants}
        for _ in range(3):   # in turns: what else the machine does falls on all
            for who, function in contestants.items():
                times[who].append(self.milliseconds(torch, function))
        row.update({who: min(t) for who, t in times.items()})
        peers = [row[who] for who in PEERS if who in row]
        if peers:
            row["times_the_fastest"] = min(peers) / row["metac"]
        return compiling

    def attempt(self, row, who, make):
        """What it makes; a peer that cannot is told and left out."""
        try:
            return make()
        except Exception as error:
            row[f"{who} fails"] = last_words(error)
        return None

    def no_longer_than(self, seconds):
        return Alarm(max(1.0, seconds))

    def onnx_runtime(self, torch, network, x, y):
        """A run of ONNX Runtime on the GPU, by the same memory. None: it, or what makes its model, is not installed."""
        try:
            import onnx
            import onnxruntime
        except ImportError:
            return None
        if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            return None
        path = self.root / "backbones" / f"{network['name']}.onnx"
        if not path.exists():
            sys.path.insert(0, str(self.root / "backbones"))
            build = importlib.import_module("build")
            sys.path.pop(0)
            onnx.save(build.build(network["name"], network["size"], network["width"]), path)
        session = onnxruntime.InferenceSession(str(path), providers=[("CUDAExecutionProvider", {"use_tf32": 1, "user_compute_stream": str(torch.cuda.current_stream().cuda_stream)})])
        binding = session.io_binding()
        binding.bind_input("input", "cuda", 0, np.float32, tuple(x.shape), x.data_ptr())
        binding.bind_output("output", "cuda", 0, np.float32, tuple(y.shape), y.data_ptr())
        run = lambda: session.run_with_iobinding(binding)   # noqa: E731
        run()
        return run


class Alarm:
    """Within it, TimeoutError when the seconds are over."""

    def __init__(self, seconds):
        self.seconds = seconds

    def __enter__(self):
        def ring(*_):
            raise TimeoutError(f"no end within {self.seconds:.0f} s")

        self.before = signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, self.seconds)

    def __exit__(self, *_):
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.before)


def last_words(error):
    return traceback.format_exception_only(error)[-1].strip()[:300]


def let_round(torch):
    """TF32, and the fastest algorithm that the library has: as for metac."""
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True


def summary(rows):
    """What docs/gpu.md is to say of the networks: of the rows that all peers took part in."""
    whole = [r for r in rows if not r["missing"] and "times_the_fastest" in r]
    few, many = ([r["times_the_fastest"] for r in whole if r["batch"] in batches] for batches in ((1, 8), (128,)))
    every = [r["times_the_fastest"] for r in whole]
    bytes_of = lambda r: [r[f"{who} bytes"] for who in PEERS if f"{who} bytes" in r]   # noqa: E731
    return {"rows": len(rows), "with all peers": len(whole), "least at batch 1 and 8": min(few, default=None), "least at batch 128": min(many, default=None),
            "geometric mean": statistics.geometric_mean(every) if every else None,
            "fewer bytes than any peer": sum(r["metac bytes"] < min(bytes_of(r)) for r in whole if bytes_of(r))}


def table(rows):
    print(f"{'network':20} {'dtype':>8} {'batch':>5} {'metac':>9} {'eager':>9} {'compile':>9} {'onnxrt':>9} {'ratio':>6}   (ms; ratio: the fastest peer's time by metac's; *: a peer is missing)")
    for r in rows:
        cells = [f"{r[k]:9.3f}" if k in r else " " * 9 for k in ("metac", *PEERS)]
        print(f"{r['name']:20} {r['dtype']:>8} {r['batch']:5} {' '.join(cells)} {r.get('times_the_fastest', float('nan')):6.2f}{'*' if r['missing'] else ''}")


def make_weights(file, count, dtype="float32"):
    """A weights file of the header at hand and small random numbers: speed does not depend on them."""
    head = bytearray(pathlib.Path(str(file) + ".head").read_bytes())
    size = 2 if dtype == "bfloat16" else 4
    numbers = np.random.default_rng(1).standard_normal(-(-count // size), np.float32) * np.float32(0.02)
    block = ((numbers.view(np.uint32) >> 16).astype(np.uint16) if size == 2 else numbers).tobytes()[:count]
    head[88:152] = hashlib.sha256(block).hexdigest().encode()
    with open(file, "wb") as out:
        out.write(bytes(head).ljust(HEAD, b"\0"))
        out.write(block)


def with_gpu():
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None
