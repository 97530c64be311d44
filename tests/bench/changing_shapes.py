#!/usr/bin/env python3
"""Calls whose shapes change: metac's sessions against ONNX Runtime and torch.compile.

    python3 changing_shapes.py --build build/ci [--only REGEX] [--calls 1000] [--seed 1] [--threads 2] [--engines metac,onnxruntime,...]
    needs: pip install numpy onnx onnxruntime; torch and torchvision for networks and engines of theirs

Networks: ResNet-50 at 32 sizes, a BERT of 6 layers at lengths from 1 to 512, and of models/dynamic a detector with NonMaxSuppression and
a decoder whose cache grows by its own answers. Every engine makes the same calls in a process of its own, one engine after the other, with
nothing in its caches; loading is part of the first call. A line an engine: ms of the first call, the median, the 99th percentile and the
longest of the others, seconds of all, MiB resident at the end.

Of metac, specialised in the background, a line more: calls against the time that the same shape takes in a session that specialises before it
runs (at up to 24 shapes, the best of five) - the median over the last half of the calls, that of more calls once nothing is left to be made,
and how many after the first took more than 1.3 times that and 10 ms.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
ENGINES = ("metac", "onnxruntime", "torch-none", "torch-true")


# ---- networks: what a call is given, by its number; `answer` is the call's before ----
def image_sizes(rng, calls):
    sizes = [(int(rng.integers(16, 40)) * 8, int(rng.integers(16, 40)) * 8) for _ in range(32)]
    shapes = [sizes[int(rng.integers(len(sizes)))] for _ in range(calls)]
    pixels = rng.standard_normal((1, 3, 320, 320)).astype(np.float32)
    return lambda k, answer: {"x": np.ascontiguousarray(pixels[:, :, :shapes[k][0], :shapes[k][1]])}


def lengths(rng, calls):
    drawn, words = rng.integers(1, 513, calls), rng.integers(0, 2000, (1, 512))
    return lambda k, answer: {"ids": np.ascontiguousarray(words[:, :drawn[k]]), "mask": np.ones((1, int(drawn[k])), np.float32)}


def pictures(rng, calls):
    sizes = [(8 * int(rng.integers(8, 40)), 8 * int(rng.integers(8, 40))) for _ in range(calls)]
    pixels = rng.standard_normal((1, 3, 320, 320)).astype(np.float32)
    return lambda k, answer: {"image": np.ascontiguousarray(pixels[:, :, :sizes[k][0], :sizes[k][1]])}


def words(rng, calls):
    """A text of 16 words, then word by word; a new text after 128."""
    ids, empty = rng.integers(0, 64, (1, calls + 16)), np.zeros((2, 1, 4, 0, 8), np.float32)

    def feeds(k, answer):
        if k % 128 == 0:
            return {"ids": ids[:, k:k + 16].copy(), "past_key": empty, "past_value": empty}
        return {"ids": ids[:, k:k + 1].copy(), "past_key": np.ascontiguousarray(answer["key"]), "past_value": np.ascontiguousarray(answer["value"])}
    return feeds


NETWORKS = {"resnet50": image_sizes, "bert": lengths, "detector": pictures, "decoder": words}
OF_TORCH = {"resnet50", "bert"}


def torch_network(name):
    import torch
    torch.manual_seed(1)
    if name == "resnet50":
        import torchvision
        return torchvision.models.resnet50(weights=None).eval(), {"x": {2: "h", 3: "w"}}
    from others import tokens

    class Bert(tokens.Bert):
        def __init__(self):
            super().__init__()
            self.places = torch.nn.Parameter(torch.randn(512, 768) * 0.02)

        def forward(self, ids, mask):
            x = self.norm(self.words(ids) + self.places[:ids.shape[1]]) * mask.unsqueeze(-1)
            for attention, norm1, up, down, norm2 in self.layers:
                x = norm1(x + attention(x))
                x = norm2(x + down(torch.nn.functional.gelu(up(x))))
            return x, self.pooler(x[:, 0]).tanh()
    return Bert().eval(), {"ids": {1: "length"}, "mask": {1: "length"}}


def write_network(name, file):
    if name not in OF_TORCH:
        sys.path.insert(0, str(HERE.parents[1] / "models/dynamic"))
        import build
        import onnx
        onnx.save(getattr(build, name)(), file)
        return
    import torch
    network, axes = torch_network(name)
    example = {k: torch.from_numpy(v) for k, v in NETWORKS[name](np.random.default_rng(1), 1)(0, None).items()}
    torch.onnx.export(network, tuple(example.values()), str(file), input_names=list(example), dynamic_axes=axes, opset_version=17, dynamo=False)


# ---- engines: a function from feeds to answers by name ----
def load(engine, model, name, threads, build, policy="background"):
    if engine == "metac":
        sys.path.insert(0, str(build / "python"))
        import metac
        session = metac.Session(str(model), specialise=policy, threads=threads)
        return lambda feeds: session.run(feeds), session
    if engine == "onnxruntime":
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        names = [o.name for o in session.get_outputs()]
        return lambda feeds: dict(zip(names, session.run(names, feeds))), None
    import torch
    torch.set_num_threads(threads)
    network = torch.compile(torch_network(name)[0], dynamic=True if engine == "torch-true" else None)

    def call(feeds):
        with torch.inference_mode():
            network(*(torch.from_numpy(a) for a in feeds.values()))
        return {}
    return call, None


def resident():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]) / 1024


def shape_of(feeds):
    return tuple(a.shape for a in feeds.values())


def best_times(call, feeds_of, count):
    """By shape: the best of five calls, of at most so many shapes."""
    best = {}
    for feeds in feeds_of:
        shape = shape_of(feeds)
        if shape in best or len(best) >= count:
            continue
        call(feeds)
        times = []
        for _ in range(5):
            start = time.perf_counter()
            call(feeds)
            times.append(1e3 * (time.perf_counter() - start))
        best[shape] = min(times)
    return best


def serve(engine, name, model, arguments):
    """All calls, in this process; the last line is what was seen, as JSON."""
    feeds_of = NETWORKS[name](np.random.default_rng(arguments.seed), arguments.calls)
    times, shapes, answer, sample = [], [], None, []
    start = time.perf_counter()
    call, session = load(engine, model, name, arguments.threads, arguments.build)
    for k in range(arguments.calls):
        feeds = feeds_of(k, answer)
        begin = time.perf_counter() if k else start
        answer = call(feeds)
        times.append(1e3 * (time.perf_counter() - begin))
        shapes.append(shape_of(feeds))
        if len(sample) < 200:
            sample.append(feeds)
    total = time.perf_counter() - start
    seen = {"times": times, "total": total, "resident": resident(), "shapes": len(set(shapes))}
    if session:
        session.wait()
        seen["report"] = {k: v for k, v in session.report().items()}
        other, _ = load(engine, model, name, arguments.threads, arguments.build, "eager")
        best = best_times(other, sample, 24)
        pairs = [(t, best[s]) for t, s in zip(times, shapes) if s in best]
        seen["ratio"] = float(np.median([t / b for t, b in pairs[len(pairs) // 2:]]))
        again = [(shape_of(feeds), feeds) for feeds in sample if shape_of(feeds) in best]
        for _ in range(2):  # contexts of specialisations are made in their first run
            ratios = []
            for shape, feeds in again:
                begin = time.perf_counter()
                call(feeds)
                ratios.append(1e3 * (time.perf_counter() - begin) / best[shape])
        seen["warm"] = float(np.median(ratios))
        seen["stalls"] = sum(t > 1.3 * b + 10 for t, b in pairs[1:])
        seen["compared"] = len(pairs)
    print(json.dumps(seen))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=lambda p: pathlib.Path(p).resolve(), required=True, help="metac's build folder")
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=int, default=1200, help="seconds for the calls of one engine")
    parser.add_argument("--serve", nargs=3, metavar=("ENGINE", "NETWORK", "MODEL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    sys.path.insert(0, str(HERE))
    if arguments.serve:
        return serve(*arguments.serve, arguments)
    with tempfile.TemporaryDirectory(prefix="metac-shapes-") as folder:
        for name in filter(arguments.only.search, NETWORKS):
            model = pathlib.Path(folder) / f"{name}.onnx"
            write_network(name, model)
            for engine in arguments.engines.split(","):
                if engine.startswith("torch") and name not in OF_TORCH:
                    continue
                caches = pathlib.Path(folder) / "caches"
                environment = {**os.environ, "METAC_CACHE_DIR": str(caches), "TORCHINDUCTOR_CACHE_DIR": str(caches), "OMP_NUM_THREADS": str(arguments.threads)}
                caches.mkdir(mode=0o700)
                options = ["--build", arguments.build, "--calls", arguments.calls, "--seed", arguments.seed, "--threads", arguments.threads]
                try:
                    done = subprocess.run([sys.executable, __file__, *map(str, options), "--serve", engine, name, str(model)], env=environment, capture_output=True, text=True, timeout=arguments.timeout)
                except subprocess.TimeoutExpired:
                    print(f"{name:10} {engine:12} not done after {arguments.timeout} s", flush=True)
                    continue
                finally:
                    shutil.rmtree(caches)
                if done.returncode != 0:
                    print(f"{name:10} {engine:12} failed: {(done.stderr.strip().splitlines() or ['no message'])[-1][:200]}", flush=True)
                    continue
                seen = json.loads(done.stdout.splitlines()[-1])
                rest = np.array(seen["times"][1:])
                print(f"{name:10} {engine:12} first {seen['times'][0]:8.1f}  median {np.median(rest):7.2f}  99 % {np.percentile(rest, 99):8.2f}  longest {rest.max():8.2f} ms"
                      f"  all {seen['total']:7.1f} s  {seen['resident']:6.0f} MiB  {seen['shapes']} shapes", flush=True)
                if "ratio" in seen:
                    print(f"{'':10} {'':12} {seen['ratio']:.3f} of the specialised time, {seen['warm']:.3f} once all is made, {seen['stalls']} of {seen['compared']} calls stalled; {seen['report']}", flush=True)


if __name__ == "__main__":
    main()
