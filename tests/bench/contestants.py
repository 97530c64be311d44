"""The engines of a race, each in a process of its own that has the model loaded and answers when asked.

`python3 contestants.py KIND MODEL FEEDS.npz ANSWER.npz THREADS LIBRARY [CLOCK]` is such a process: it answers once into
ANSWER.npz, prints as a JSON list the ms that loading and that answer took and the MiB that were resident before, then
`ready`; for each number k on stdin it makes k calls and prints their ms as a JSON list: of the wall's clock, or, with `cpu` as CLOCK, of processor time of all threads.
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
    if kind in ("openvino", "openvino:default"):  # the default may compute in half types
        import openvino
        core = openvino.Core()
        network = core.read_model(model)
        network.reshape({name: list(a.shape) for name, a in feeds.items()})
        settings = {"INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1"}
        if kind == "openvino":
            settings["INFERENCE_PRECISION_HINT"] = "f32"
        request = core.compile_model(network, "CPU", settings).create_infer_request()
        return lambda: list(request.infer(feeds, share_outputs=True).values())
    sys.path.insert(0, str(pathlib.Path(library) / "python"))
    import net
    engine = net.Model(threads=threads)
    return lambda: list(engine.run(feeds).values())


def resident_mib(process):
    """Resident pages of a process (its id, or "self"), in MiB; 0 where the system has no /proc."""
    try:
        return int(pathlib.Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
    except OSError:
        return 0.0


def serve(kind, model, feeds_file, answer_file, threads, library, clock="wall"):
    now = time.process_time if clock == "cpu" else time.perf_counter
    os.environ["OMP_NUM_THREADS"] = str(threads)
    with np.load(feeds_file) as file:
        feeds = {json.loads(key): file[key] for key in file.files}
    before, start = resident_mib("self"), time.perf_counter()
    call = load(kind, model, feeds, threads, library)
    answer = call()
    print(json.dumps([1e3 * (time.perf_counter() - start), before]), flush=True)
    np.savez(answer_file, *[np.asarray(a) for a in answer])
    print("ready", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = now()
            call()
            times.append(1e3 * (now() - start))
        print(json.dumps(times), flush=True)


class Contestant:
    """Such a process, from the other side. `alive`: it could load the model and answer."""

    def __init__(self, kind, model, work, threads, library, clock="wall"):
        self.kind, self.answer_file = kind, work / f"{kind}.npz"
        argv = [sys.executable, __file__, kind, str(model), str(work / "feeds.npz"), str(self.answer_file), str(threads), str(library), clock]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        first = self.process.stdout.readline()
        self.alive = bool(first) and self.process.stdout.readline().strip() == "ready"
        self.first_answer_ms, self.mib_before = json.loads(first) if self.alive else (None, None)

    def times(self, count):
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def resident_mib(self):
        """What the engine, the model and its buffers hold of memory now: resident pages less those before it was loaded."""
        return resident_mib(self.process.pid) - self.mib_before

    def answer(self):
        with np.load(self.answer_file) as file:
            return [file[k] for k in file.files]

    def close(self):
        self.process.stdin.close()
        self.process.wait()


if __name__ == "__main__":
    serve(*sys.argv[1:5], int(sys.argv[5]), *sys.argv[6:])
