#!/usr/bin/env python3
"""A process of the race (racers.py): makes ready one network, dtype and batch, says so, and races it against all peers when it is told.

    python3 racer.py ROOT TURN LOCK

Each line of its input is a row to make ready: {"network": a row of list.json, "batch": N, "seconds": what torch.compile may take, 0: it is left out}. It answers
{"ready": true, "compiling": seconds}, and to the next line {"row": ...}; what cannot be made ready is a row at once.
"""
import copy
import importlib
import json
import os
import pathlib
import sys
import time

import numpy as np

sys.dont_write_bytecode = True
from figure_tools import LEGACY, PEERS, Alarm, last_words, let_round, load_model, make_weights, milliseconds, with_gpu, with_torchvision
from measured_alone import CardLock, measure_alone


class Race:
    def __init__(self, torch, root, turn, lock, network, batch):
        self.torch, self.root, self.turn, self.lock, self.network, self.batch = torch, root, turn, lock, network, batch
        self.dtype, self.contestants = getattr(torch, network["dtype"]), {}
        self.row = {"library": network["library"], "name": network["name"], "dtype": network["dtype"], "batch": batch, "missing": []}

    def prepare(self, seconds):
        """PyTorch's network, eager and compiled; how long the compiler took. Whatever measures has the card for itself."""
        torch, row, began = self.torch, self.row, time.monotonic()
        torch._dynamo.reset()
        torch.cuda.empty_cache()
        self.x = torch.randn(self.batch, 3, self.network["size"], self.network["size"], device="cuda").to(self.dtype)
        self.y = torch.empty(self.batch, 1000, device="cuda", dtype=self.dtype)
        torchvision = with_torchvision()
        if torchvision is None or not hasattr(torchvision.models, row["name"]):
            return 0
        with torch.device("cuda"):
            peer = getattr(torchvision.models, row["name"])().eval().to(self.dtype)
        self.contestants["eager"] = lambda: peer(self.x)
        with self.lock:   # the first run chooses its library's algorithms
            row["eager bytes"] = self.peak(self.contestants["eager"])
            if recorded := self.attempt("recorded", lambda: self.recorded(peer)):
                self.contestants["recorded"] = recorded
        if not seconds:
            row["missing"].append("torch.compile")
            return 0
        compiled = torch.compile(peer, mode="max-autotune")

        def ready():
            with Alarm(seconds):
                for _ in range(3):
                    compiled(self.x)
            return True

        if self.attempt("torch.compile", ready):
            self.contestants["torch.compile"] = lambda: compiled(self.x)
            row["torch.compile bytes"] = self.peak(self.contestants["torch.compile"])
        return time.monotonic() - began

    def race(self):
        library = self.network["library"]
        folder = self.root / "networks" / library
        weights = folder / f"{library}.weights"
        if not weights.exists():
            make_weights(weights, self.network, self.network["dtype"])
        self.torch.cuda.synchronize()
        self.torch.cuda.empty_cache()
        free = self.torch.cuda.mem_get_info()[0] + self.torch.cuda.memory_reserved()
        model = load_model(folder, library, weights)
        try:
            self.race_against(model, free)
        finally:
            model.close()

    def race_against(self, model, free):
        """`free`: bytes of the card that were free before the model was there, or were PyTorch's."""
        torch, row, x, y = self.torch, self.row, self.x, self.y
        port, out = model.inputs[0].name, model.outputs[0].name
        contestants = {"metac": lambda: model.run_async({port: x}, {out: y}, stream=LEGACY), **self.contestants}

        def taken():   # of the card, beside what is PyTorch's
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
            return free - torch.cuda.mem_get_info()[0] - torch.cuda.memory_reserved()

        for _ in range(3):   # by then a run is recorded
            contestants["metac"]()
        row["metac bytes"] = taken() + x.nbytes + y.nbytes   # PyTorch counts its input and output too
        if self.dtype == torch.float32:
            before = taken()
            if runtime := self.attempt("onnxruntime", lambda: self.onnx_runtime(x, y)):
                contestants["onnxruntime"] = runtime
                row["onnxruntime bytes"] = taken() - before + x.nbytes + y.nbytes
        times = {who: [] for who in contestants}
        for _ in range(3):   # in turns: what else the machine does falls on all
            for who, function in contestants.items():
                times[who].append(milliseconds(torch, function, self.turn))
        row.update({who: min(t) for who, t in times.items()})
        peers = [row[who] for who in PEERS if who in row]
        if peers:
            row["times_the_fastest"] = min(peers) / row["metac"]

    def recorded(self, peer):
        """The eager network, channels last, as one CUDA graph: what PyTorch does at its best without a compiler."""
        torch, last = self.torch, copy.deepcopy(peer).to(memory_format=self.torch.channels_last)
        x, graph, aside = self.x.to(memory_format=torch.channels_last), torch.cuda.CUDAGraph(), torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                last(x)
        torch.cuda.current_stream().wait_stream(aside)
        with torch.cuda.graph(graph):
            y = last(x)

        def replay(held=(last, x, y)):   # a graph holds the addresses of these, not their memory
            graph.replay()
            return held[2]

        return replay

    def peak(self, function):
        torch = self.torch
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        function()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated()

    def attempt(self, who, make):
        """What it makes; a peer that cannot is told and left out."""
        try:
            return make()
        except Exception as error:
            self.row[f"{who} fails"] = last_words(error)
        return None

    def onnx_runtime(self, x, y):
        """A run of ONNX Runtime on the GPU, by the same memory. None: it, or what makes its model, is not installed."""
        try:
            import onnx
            import onnxruntime
        except ImportError:
            return None
        if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            return None
        path = self.root / "backbones" / f"{self.network['name']}.{os.getpid()}.onnx"
        if not path.exists():
            sys.path.insert(0, str(self.root / "backbones"))
            build = importlib.import_module("build")
            sys.path.pop(0)
            onnx.save(build.build(self.network["name"], self.network["size"], self.network["width"]), path)
        session = onnxruntime.InferenceSession(str(path), providers=[("CUDAExecutionProvider", {"use_tf32": 1, "user_compute_stream": str(self.torch.cuda.current_stream().cuda_stream)})])
        binding = session.io_binding()
        binding.bind_input("input", "cuda", 0, np.float32, tuple(x.shape), x.data_ptr())
        binding.bind_output("output", "cuda", 0, np.float32, tuple(y.shape), y.data_ptr())
        run = lambda: session.run_with_iobinding(binding)   # noqa: E731
        run()
        return run


def main():
    root, turn, lock = pathlib.Path(sys.argv[1]), float(sys.argv[2]), CardLock(sys.argv[3])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)   # what libraries print is no answer

    def answer(what):
        print(json.dumps(what), file=answers, flush=True)

    torch = with_gpu()
    let_round(torch)
    measure_alone(torch, lock)
    for line in sys.stdin:
        job = json.loads(line)
        race = Race(torch, root, turn, lock, job["network"], job["batch"])
        try:
            with torch.inference_mode():
                answer({"ready": True, "compiling": race.prepare(job["seconds"])})
                sys.stdin.readline()
                race.race()
        except Exception as error:  # one that cannot leaves the others their turns
            race.row.update(missing=["metac"], why=last_words(error))
        answer({"row": race.row})


if __name__ == "__main__":
    main()
