"""One measurement on the card at a time, though several processes make theirs ready: a lock on a file, which torch.compile's choice among candidates takes too."""
import fcntl
import functools


class CardLock:
    """Held by whoever measures. Within a process it may be taken again while it is held."""

    def __init__(self, path):
        self.file, self.depth = open(path, "ab"), 0   # noqa: SIM115

    def __enter__(self):
        if self.depth == 0:
            fcntl.flock(self.file, fcntl.LOCK_EX)
        self.depth += 1

    def __exit__(self, *_):
        self.depth -= 1
        if self.depth == 0:
            fcntl.flock(self.file, fcntl.LOCK_UN)


def measurers(torch):
    """The classes by whose benchmark_gpu Inductor times candidates; none where this version does it otherwise."""
    benchmarking = getattr(getattr(getattr(torch, "_inductor", None), "runtime", None), "benchmarking", None)
    if benchmarking is None:
        try:
            from torch._inductor.runtime import benchmarking
        except ImportError:
            return []
    return [kind for kind in vars(benchmarking).values() if isinstance(kind, type) and "benchmark_gpu" in vars(kind)]


def measures_alone(torch):
    return bool(measurers(torch))


def measure_alone(torch, lock):
    """From now on Inductor holds the lock while it times a candidate. What it compiles meanwhile is the host's work, and needs none."""
    for kind in measurers(torch):
        def timed(*arguments, measure=vars(kind)["benchmark_gpu"], **named):
            torch.cuda.synchronize()   # what this process started before is no part of it
            with lock:
                return measure(*arguments, **named)

        kind.benchmark_gpu = functools.update_wrapper(timed, vars(kind)["benchmark_gpu"])
