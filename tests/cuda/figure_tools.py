"""What all figures of a GPU are made with: times by the card's clock, a library and its weights, PyTorch as it is raced."""
import hashlib
import importlib
import os
import pathlib
import signal
import statistics
import sys
import time
import traceback

import numpy as np

HEAD = 4096
BUSY_CYCLES = 400_000    # some 0.2 ms, longer than the host takes to start a run
LEGACY = 1               # the stream that torch works on
PEERS = ("eager", "recorded", "torch.compile", "onnxruntime")


def load_model(folder, name, weights):
    sys.path.insert(0, str(folder / "python"))
    module = importlib.import_module(name)
    sys.path.pop(0)
    return module.Model(library=str(folder / f"lib/lib{name}.so"), weights=str(weights))


def milliseconds(torch, function, seconds, busy=False):
    """The median of runs one by one, by the card's own clock; `seconds` of them, 0: one. What the host does before a run begins
    on the card is part of it; `busy`: it is not, as the card has other work meanwhile."""
    least = 5 if seconds else 1
    for _ in range(least):
        function()
    torch.cuda.synchronize()
    times, stop = [], time.monotonic() + seconds
    while len(times) < least or (time.monotonic() < stop and len(times) < 1000):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        if busy:
            torch.cuda._sleep(BUSY_CYCLES)
        begin.record()
        function()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end))
    return statistics.median(times)


class Alarm:
    """Within it, TimeoutError when the seconds are over."""

    def __init__(self, seconds):
        self.seconds = max(0.01, seconds)   # 0 would be never

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


def make_weights(file, row, dtype="float32"):
    """A weights file of the header at hand, small random numbers (speed does not depend on them) and the integers that `row` tells."""
    head = bytearray(pathlib.Path(str(file) + ".head").read_bytes())
    size, count = 2 if dtype == "bfloat16" else 4, row["weights_bytes"]
    numbers = np.random.default_rng(1).standard_normal(-(-count // size), np.float32) * np.float32(0.02)
    block = ((numbers.view(np.uint32) >> 16).astype(np.uint16) if size == 2 else numbers).tobytes()[:count]
    block = bytearray(block)
    for at, integers in row["integers"]:
        block[at:at + len(integers) // 2] = bytes.fromhex(integers)
    head[88:152] = hashlib.sha256(block).hexdigest().encode()
    head[152:160] = bytes(8)   # no checksums of pieces: the hash is looked at
    part = pathlib.Path(f"{file}.{os.getpid()}")   # another process may make it too
    with open(part, "wb") as out:
        out.write(bytes(head).ljust(HEAD, b"\0"))
        out.write(block)
    part.rename(file)


def with_gpu():
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def with_torchvision():
    try:
        import torchvision
    except ImportError:
        return None
    return torchvision
