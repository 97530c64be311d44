"""The engines of a race, each in a process of its own that has the model loaded and answers when asked.

`python3 contestants.py KIND MODEL FEEDS.npz ANSWER.npz THREADS LIBRARY` is such a process: it answers once into
ANSWER.npz, prints the ms that loading and that answer took, then `ready`; for each number k on stdin it makes k calls and
prints their ms as a JSON list.
"""
import json
import os
import pathlib
import subprocess
import sys
import time

import numpy as np

ENGINES = ("metac", "onnxruntime", "openvino")


def load(kind, model, feeds, threads, library):
    """A function that answers once, with the outputs in the model's order."""
    if kind == "onnxruntime":
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return lambda: session.run(None, feeds)
    if kind == "openvino":
        import openvino
        core = openvino.Core()
        network = core.read_model(model)
        network.reshape({name: list(a.shape) for name, a in feeds.items()})
        settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"}
        request = core.compile_model(network, "CPU", settings).create_infer_request()
        return lambda: list(request.infer(feeds, share_outputs=True).values())
    sys.path.insert(0, str(pathlib.Path(library) / "python"))
    import net
    engine = net.Model(threads=threads)
    return lambda: list(engine.run(feeds).values())


def serve(kind, model, feeds_file, answer_file, threads, library):
    os.environ["OMP_NUM_THREADS"] = str(threads)
    with np.load(feeds_file) as file:
        feeds = {json.loads(key): file[key] for key in file.files}
    start = time.perf_counter()
    call = load(kind, model, feeds, threads, library)
    answer = call()
    print(1e3 * (time.perf_counter() - start), flush=True)
    np.savez(answer_file, *[np.asarray(a) for a in answer])
    print("ready", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter()
            call()
            times.append(1e3 * (time.perf_counter() - start))
        print(json.dumps(times), flush=True)


class Contestant:
    """Such a process, from the other side. `alive`: it could load the model and answer."""

    def __init__(self, kind, model, work, threads, library):
        self.kind, self.answer_file = kind, work / f"{kind}.npz"
        argv = [sys.executable, __file__, kind, str(model), str(work / "feeds.npz"), str(self.answer_file), str(threads), str(library)]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        first = self.process.stdout.readline()
        self.alive = bool(first) and self.process.stdout.readline().strip() == "ready"
        self.first_answer_ms = float(first) if self.alive else None

    def times(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def answer(self):
        with np.load(self.answer_file) as file:
            return [file[k] for k in file.files]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


if __name__ == "__main__":
    serve(*sys.argv[1:5], int(sys.argv[5]), sys.argv[6])
