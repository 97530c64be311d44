#!/usr/bin/env python3
"""Runs on a GPU what prepare_gpu.py compiled: tests, compute-sanitizer, figures; into OUT/gpu.json and a table.

    python3 run_gpu.py BUNDLE.tar.xz OUT [--seconds 1500] [--parts tests,sanitizer,kernels,training,networks]

tests      every case in several processes: the CPU target's answers, and the same bits each time
sanitizer  memcheck, racecheck and synccheck over the cases of generated kernels (where compute-sanitizer is installed)
kernels    bytes per second through one kernel against a copy within the card, the cost of starting a hundred kernels
training   the digits: the CPU's losses; a network's steps against PyTorch eager and torch.compile, its batches read from a file
networks   every network and batch against PyTorch eager and torch.compile, TF32 on for all, in turns (torch and torchvision)
Parts end when the seconds are used up; what was not reached is said. Needs numpy; kernels and networks need torch. The
last line is 'N passed, N failed, N skipped', of tests, sanitizer and the digits; the exit status is 1 if any failed.
"""
import argparse
import ctypes.util
import glob
import hashlib
import importlib
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

import numpy as np

HEAD = 4096


class Run:
    def __init__(self, root, out, seconds):
        self.root, self.out, self.end = root, out, time.monotonic() + seconds
        self.list = json.loads((root / "list.json").read_text())
        self.report = {"machine": machine(), "arch": self.list["arch"], "tests": [], "sanitizer": [], "kernels": [], "training": [], "networks": [], "skipped": []}
        os.environ["METAC_CACHE_DIR"] = str(out.resolve() / "cache")   # which algorithms were the fastest is a result too
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join(library_folders() + [os.environ.get("LD_LIBRARY_PATH", "")])}
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}

    def late(self, what, reserve=20):
        if time.monotonic() + reserve < self.end:
            return False
        self.skip(f"{what}: no time left")
        return True

    def skip(self, why):
        self.report["skipped"].append(why)
        self.counts["skipped"] += 1
        print("skip", why, flush=True)

    def note(self, part, row, good):
        self.report[part].append({**row, "good": good})
        self.counts["passed" if good else "failed"] += 1
        if not good:
            print("FAIL", part, json.dumps(row), flush=True)

    def argv(self, case, out):
        folder = self.root / "cases" / case["name"]
        program = folder / f"{case['name']}_{case['external']}_run"
        out.mkdir(exist_ok=True)
        words = [w for k in range(case["inputs"]) for w in ("--input", str(folder / f"input_{k}.pb"))]
        return [str(program), *words, "--weights", str(folder / f"{case['name']}_{case['external']}.weights"), "--output-dir", str(out)], folder

    def call(self, argv, seconds):
        try:
            done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=seconds, env=self.environment)
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired:
            return 124, f"no end within {seconds} s"

    # ---- tests ----
    def tests(self):
        for case in self.list["cases"]:
            if self.late(f"test of {case['name']}"):
                continue
            self.note("tests", *self.test(case))
        print(f"tests: {sum(t['good'] for t in self.report['tests'])} of {len(self.report['tests'])} good", flush=True)

    def test(self, case):
        row, first = {"name": case["name"], "external": case["external"]}, None
        for _ in range(3 if case["external"] == "none" else 2):   # the first process measures a library's algorithms, the second finds them
            with tempfile.TemporaryDirectory() as out:
                argv, folder = self.argv(case, pathlib.Path(out))
                status, said = self.call(argv, 120)
                if status:
                    return {**row, "why": f"status {status}: {said[-400:]}"}, False
                answers = {f.name: np.load(f) for f in sorted(pathlib.Path(out).iterdir())}
            if first is not None and any(a.tobytes() != first[n].tobytes() for n, a in answers.items()):
                return {**row, "why": "other bits in another run"}, False
            first = answers
        for file in sorted((folder / "expected").iterdir()):
            wanted, got = np.load(file), first.get(file.name)
            if got is None or got.shape != wanted.shape:
                return {**row, "why": f"{file.name} is missing or has another shape"}, False
            if wanted.dtype == np.uint16:   # the bits of bfloat16
                wanted, got = ((a.astype(np.uint32) << 16).view(np.float32) for a in (wanted, got))
            half = np.load(file).dtype.itemsize == 2
            largest = float(np.abs(wanted.astype(np.float64)).max()) if wanted.size else 0.0
            error = np.abs(got.astype(np.float64) - wanted.astype(np.float64))
            if not (error <= (2e-2 if half else 1e-4) * max(largest, 1e-30) + (2e-3 if half else 1e-4) * np.abs(wanted.astype(np.float64))).all():
                return {**row, "why": f"{file.name} is {error.max():.3g} off, its largest is {largest:.3g}"}, False
        return row, True

    # ---- compute-sanitizer ----
    def sanitizer(self):
        tool = shutil.which("compute-sanitizer") or next(iter(glob.glob("/usr/local/cuda*/bin/compute-sanitizer")), None)
        if not tool:
            return self.skip("compute-sanitizer is not installed")
        for checker in ("memcheck", "racecheck", "synccheck"):
            for case in self.list["cases"]:
                if case["external"] != "none" or self.late(f"{checker} of {case['name']}", 60):
                    continue
                with tempfile.TemporaryDirectory() as out:
                    argv, _ = self.argv(case, pathlib.Path(out))
                    status, said = self.call([tool, "--tool", checker, "--error-exitcode", "9", *argv], 120)
                why = {} if status == 0 else {"why": f"status {status}: {said[-400:]}"}
                self.note("sanitizer", {"name": case["name"], "tool": checker, **why}, status == 0)
        print(f"sanitizer: {sum(t['good'] for t in self.report['sanitizer'])} of {len(self.report['sanitizer'])} clean", flush=True)

    # ---- figures ----
    def model(self, folder, name, weights):
        sys.path.insert(0, str(folder / "python"))
        module = importlib.import_module(name)
        sys.path.pop(0)
        return module.Model(library=str(folder / f"lib/lib{name}.so"), weights=str(weights))

    def milliseconds(self, torch, function, seconds=0.5):
        """The median of runs one by one, by the card's own clock."""
        for _ in range(5):
            function()
        torch.cuda.synchronize()
        times, stop = [], time.monotonic() + seconds
        while len(times) < 5 or (time.monotonic() < stop and len(times) < 1000):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            function()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        return statistics.median(times)

    def kernels(self):
        torch = with_gpu()
        if torch is None:
            return self.skip("kernels: no torch that sees a GPU, nothing is measured")
        legacy = 1   # the stream that torch works on
        for name in self.list["speed"]:
            if self.late(f"kernel {name}"):
                continue
            folder = self.root / "speed" / name
            model = self.model(folder, name, folder / f"{name}.weights")
            x = torch.randn(model.inputs[0].shape, device="cuda")
            y = torch.empty(model.outputs[0].shape, device="cuda")
            ours = lambda: model.run_async({"x": x}, {"y": y}, stream=legacy)   # noqa: E731
            row = {"name": name, "milliseconds": self.milliseconds(torch, ours)}
            if name == "hundred_kernels":
                row["microseconds_a_kernel"] = row["milliseconds"] * 10
                start = time.perf_counter()
                for _ in range(100):
                    ours()
                row["host_microseconds_a_run"] = (time.perf_counter() - start) * 1e4
                torch.cuda.synchronize()
            else:
                z = torch.empty_like(x)
                copy = self.milliseconds(torch, lambda: z.copy_(x))
                row["bytes_per_second"] = (x.nbytes + y.nbytes) / row["milliseconds"] * 1e3
                row["copy_bytes_per_second"] = 2 * x.nbytes / copy * 1e3
                row["of_copy"] = row["bytes_per_second"] / row["copy_bytes_per_second"]
            self.report["kernels"].append(row)
            print(json.dumps(row), flush=True)

    def training(self):
        for row in self.list["training"]:
            name = row["name"]
            if self.late(f"training of {name}", 120):
                continue
            folder = self.root / "training" / name
            if "losses" not in row and with_gpu() is None:
                self.skip(f"training of {name}: no torch that sees a GPU, nothing is measured")
                continue
            if "losses" not in row:
                images, random = 4 * row["batch"], np.random.default_rng(3)
                make_weights(folder / f"{name}.weights", row["weights_bytes"])
                np.savez(folder / "train.npz", input=random.standard_normal((images, 3, 224, 224), np.float32), label=random.integers(0, 1000, images))
            run = self.out / f"{name}-run"
            status, said = self.call([str(folder / f"bin/{name}_train"), "--data", str(folder), "--out", str(run), "--restart", "--updates", str(row["updates"]), "--quiet"], 600)
            if status:
                self.note("training", {"name": name, "why": f"status {status}: {said[-400:]}"}, False)
                continue
            lines = [line for line in map(json.loads, (run / "log.jsonl").read_text().splitlines()) if line["event"] == "train"]
            shutil.rmtree(run)
            half = len(lines) // 2
            found = {"name": name, "milliseconds_a_step": (lines[-1]["seconds"] - lines[half]["seconds"]) / (lines[-1]["update"] - lines[half]["update"]) * 1e3}
            if "losses" in row:
                found["off"] = max(abs(a["loss"] - b) / abs(b) for a, b in zip(lines, row["losses"], strict=True))
                self.note("training", found, found["off"] < 1e-3)
            else:
                found["batch"] = row["batch"]
                found.update(self.peer_steps(with_gpu(), name, row["batch"]))
                self.report["training"].append(found)
            print(json.dumps(found), flush=True)

    def peer_steps(self, torch, name, batch):
        """Milliseconds of a step of PyTorch on a batch that is on the card already."""
        try:
            import torchvision
        except ImportError:
            self.skip("training: no torchvision to compare with")
            return {}
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
        model = getattr(torchvision.models, name)().cuda().train()
        x, label = torch.randn(batch, 3, 224, 224, device="cuda"), torch.randint(0, 1000, (batch,), device="cuda")
        optimizer = torch.optim.SGD(model.parameters(), 1e-4, momentum=0.9)
        found = {}
        for who, network in (("eager", lambda: model), ("torch.compile", lambda: torch.compile(model, mode="max-autotune"))):
            try:
                forward = network()

                def step():
                    optimizer.zero_grad(set_to_none=True)
                    torch.nn.functional.cross_entropy(forward(x), label).backward()
                    optimizer.step()

                found[who] = self.milliseconds(torch, step, 3)
            except Exception as error:  # a peer that cannot is told and left out
                found[f"{who} fails"] = str(error)[:200]
        return found

    def networks(self):
        torch = with_gpu()
        if torch is None:
            return self.skip("networks: no torch that sees a GPU, nothing is measured")
        try:
            import torchvision
        except ImportError:
            torchvision = None
            self.skip("networks: no torchvision to compare with")
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.backends.cudnn.benchmark = True
        for network in self.list["networks"]:
            name, library, dtype = network["name"], network["library"], getattr(torch, network["dtype"])
            folder = self.root / "networks" / library
            weights = folder / f"{library}.weights"
            make_weights(weights, network["weights_bytes"], network["dtype"])
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            free = torch.cuda.mem_get_info()[0] + torch.cuda.memory_reserved()
            model = self.model(folder, library, weights)
            peer = getattr(torchvision.models, name)().cuda().eval().to(dtype) if torchvision and hasattr(torchvision.models, name) else None
            for batch in network["batches"]:
                if self.late(f"{library}, batch {batch}", 60):
                    continue
                with torch.inference_mode():
                    self.report["networks"].append(self.race(torch, model, peer, name, batch, dtype, free))
            model.close()
            weights.unlink()
        table(self.report["networks"])

    def onnx_runtime(self, torch, name, x, y):
        """A run of ONNX Runtime on the GPU, by the same memory. None: it, or what makes its model, is not installed."""
        try:
            import onnx
            import onnxruntime
        except ImportError:
            return None
        if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            return None
        sys.path.insert(0, str(self.root / "backbones"))
        import build
        sys.path.pop(0)
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/model.onnx"
            onnx.save(build.build(name), path)
            session = onnxruntime.InferenceSession(path, providers=[("CUDAExecutionProvider", {"use_tf32": 1, "user_compute_stream": str(torch.cuda.current_stream().cuda_stream)})])
        binding = session.io_binding()
        binding.bind_input("input", "cuda", 0, np.float32, tuple(x.shape), x.data_ptr())
        binding.bind_output("output", "cuda", 0, np.float32, tuple(y.shape), y.data_ptr())
        return lambda: session.run_with_iobinding(binding)

    def race(self, torch, model, peer, name, batch, dtype, free):
        """`free`: bytes of the card that were free for metac before its model was there, or were PyTorch's."""
        x = torch.randn(batch, 3, 224, 224, device="cuda").to(dtype)
        y = torch.empty(batch, 1000, device="cuda", dtype=dtype)
        port, out = model.inputs[0].name, model.outputs[0].name
        contestants = {"metac": lambda: model.run_async({port: x}, {out: y}, stream=1)}
        row = {"name": name, "dtype": str(dtype).split(".")[-1], "batch": batch}
        if peer is not None:
            contestants["eager"] = lambda: peer(x)
            try:
                torch._dynamo.reset()
                compiled = torch.compile(peer, mode="max-autotune")
                compiled(x)
                contestants["torch.compile"] = lambda: compiled(x)
            except Exception as error:  # a peer that cannot is told and left out
                row["torch.compile fails"] = str(error)[:200]
        if dtype == torch.float32:
            try:
                if runtime := self.onnx_runtime(torch, name, x, y):
                    runtime()
                    contestants["onnxruntime"] = runtime
            except Exception as error:
                row["onnxruntime fails"] = str(error)[:200]
        # Bytes of the card: what metac's context has taken, and the most that PyTorch had at once for each peer.
        contestants["metac"]()
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        row["metac bytes"] = free - torch.cuda.mem_get_info()[0] - torch.cuda.memory_reserved()
        for who in ("eager", "torch.compile"):
            if who in contestants:
                torch.cuda.reset_peak_memory_stats()
                contestants[who]()
                row[f"{who} bytes"] = torch.cuda.max_memory_allocated()
        times = {who: [] for who in contestants}
        for _ in range(3):   # in turns: what else the machine does falls on all
            for who, function in contestants.items():
                times[who].append(self.milliseconds(torch, function, 0.3))
        row.update({who: min(t) for who, t in times.items()})
        peers = [row[who] for who in contestants if who != "metac"]
        if peers:
            row["times_the_fastest"] = min(peers) / row["metac"]
        print(json.dumps(row), flush=True)
        return row


def table(rows):
    print(f"{'network':20} {'dtype':>8} {'batch':>5} {'metac':>9} {'eager':>9} {'compile':>9} {'onnxrt':>9} {'ratio':>6}   (ms; ratio: the fastest peer's time by metac's)")
    for r in rows:
        cells = [f"{r[k]:9.3f}" if k in r else " " * 9 for k in ("metac", "eager", "torch.compile", "onnxruntime")]
        print(f"{r['name']:20} {r['dtype']:>8} {r['batch']:5} {' '.join(cells)} {r.get('times_the_fastest', float('nan')):6.2f}")
    ratios = [r["times_the_fastest"] for r in rows if "times_the_fastest" in r]
    if ratios:
        print(f"geometric mean of {len(ratios)} ratios: {statistics.geometric_mean(ratios):.3f}")


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


def library_folders():
    """Where the vendor's libraries are, beside where the linker looks anyway."""
    if ctypes.util.find_library("cublasLt") and ctypes.util.find_library("cudnn"):
        return []
    places = glob.glob("/usr/local/cuda*/lib64") + [g for p in sys.path for g in glob.glob(f"{p}/nvidia/*/lib")]
    return [p for p in places if glob.glob(f"{p}/libcublasLt.so*") or glob.glob(f"{p}/libcudnn.so*")]


def machine():
    try:
        said = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"], capture_output=True, text=True, timeout=30).stdout.strip()
    except OSError:
        said = ""
    return {"gpu": said or None, "cpus": os.cpu_count(), "python": platform.python_version(), "date": time.strftime("%Y-%m-%d", time.gmtime())}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=1500)
    parser.add_argument("--parts", default="tests,sanitizer,kernels,training,networks")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="metac-gpu-") as work:
        with tarfile.open(arguments.bundle) as archive:
            archive.extractall(work, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # older Python has none
        run = Run(pathlib.Path(work) / "gpu", arguments.out, arguments.seconds)
        print(json.dumps(run.report["machine"]), flush=True)
        for part in arguments.parts.split(","):
            {"tests": run.tests, "sanitizer": run.sanitizer, "kernels": run.kernels, "training": run.training, "networks": run.networks}[part]()
            (arguments.out / "gpu.json").write_text(json.dumps(run.report, indent=2) + "\n")
    print("{passed} passed, {failed} failed, {skipped} skipped".format(**run.counts))
    return 1 if run.counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
