#!/usr/bin/env python3
"""An open library at many random shapes, one after the other: what a shape's first run costs, and whether memory grows.

    python3 many_shapes.py LIBRARY --input image=nx3xhxw --dim n=1..4 --dim h=64..320:32 --dim w=64..320:32
                           [--shapes 1000] [--seed 1]
    needs: pip install numpy

LIBRARY is the folder that `metac compile` wrote, with its Python module. Every shape runs three times; `first_run_ms`
is what its first run took more than its second, `without_pages_ms` the same without the pages that the run touched
first (minor faults, at the cost of one that is measured at the start), `third_run_ms` what the third took more than the
second: what the machine's noise comes to. Then all shapes run once more in another order: resident memory after the
first and after the last of these runs, in MiB, shows what a shape leaves behind. The last line is one JSON object.
"""
import argparse
import importlib
import json
import mmap
import pathlib
import resource
import sys
import time

import numpy as np


def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def ms_per_fault():
    """Touching fresh pages, one by one."""
    block = np.frombuffer(mmap.mmap(-1, 64 << 20), np.uint8)
    before, start = faults(), time.perf_counter()
    block[::mmap.PAGESIZE] = 1
    return 1e3 * (time.perf_counter() - start) / max(1, faults() - before)


def resident_mib():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmRSS")).split()[1]) / 1024


def range_of(text):
    """(low, high, step) of `64..320:32`, both ends included."""
    ends, _, step = text.partition(":")
    low, _, high = ends.partition("..")
    return int(low), int(high or low), int(step or 1)


def draw(inputs, ranges, signature, values, rng):
    dims = {name: int(rng.integers(0, (high - low) // step + 1)) * step + low for name, (low, high, step) in ranges.items()}
    feeds = {}
    for name, words in inputs.items():
        shape = [dims[w] if w in dims else int(w) for w in words]
        dtype = signature.get(name, np.dtype(np.float32))
        if name in values:
            feeds[name] = np.full(shape, values[name], dtype)
        elif dtype.kind == "f":
            feeds[name] = rng.standard_normal(shape).astype(dtype)
        else:
            feeds[name] = rng.integers(0, 2 if dtype.kind == "b" else 60, shape).astype(dtype)
    return feeds


def timed(model, feeds):
    before, start = faults(), time.perf_counter()
    model.run(feeds)
    return 1e3 * (time.perf_counter() - start), faults() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--input", action="append", required=True, metavar="NAME=DIMxDIM")
    parser.add_argument("--dim", action="append", default=[], metavar="NAME=LOW..HIGH[:STEP]")
    parser.add_argument("--value", action="append", default=[], metavar="NAME=X", help="an input that is X everywhere")
    parser.add_argument("--dtype", action="append", default=[], metavar="NAME=DTYPE", help="float32 where it is not given")
    parser.add_argument("--shapes", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    pairs = lambda words: dict(word.rsplit("=", 1) for word in words)  # noqa: E731
    inputs = {name: [w for w in text.split("x") if w] for name, text in pairs(arguments.input).items()}
    ranges = {name: range_of(text) for name, text in pairs(arguments.dim).items()}
    signature = {name: np.dtype(text) for name, text in pairs(arguments.dtype).items()}
    values = {name: float(text) for name, text in pairs(arguments.value).items()}
    module = next(p.name for p in (arguments.library / "python").iterdir() if p.is_dir())
    sys.path.insert(0, str(arguments.library / "python"))
    model = importlib.import_module(module).Model(threads=arguments.threads)

    per_fault = ms_per_fault()
    surprises, of_pages, noise = [], [], []
    for k in range(arguments.shapes):
        feeds = draw(inputs, ranges, signature, values, np.random.default_rng([arguments.seed, k]))
        (first, touched), (second, again), (third, _) = [timed(model, feeds) for _ in range(3)]
        if k:  # the process's first call wakes threads and touches the weights
            surprises.append(first - second)
            noise.append(third - second)
            of_pages.append(per_fault * max(0, touched - again))
    after_first = resident_mib()
    for k in np.random.default_rng(arguments.seed).permutation(arguments.shapes):
        model.run(draw(inputs, ranges, signature, values, np.random.default_rng([arguments.seed, int(k)])))
    own = np.maximum(0, np.array(surprises) - np.array(of_pages))
    at = lambda values, q: round(float(np.percentile(values, q)), 3)  # noqa: E731
    print(json.dumps(dict(shapes=arguments.shapes, first_run_ms={f"p{q}": at(surprises, q) for q in (50, 99, 100)},
                          without_pages_ms={f"p{q}": at(own, q) for q in (50, 99, 100)},
                          third_run_ms={f"p{q}": at(noise, q) for q in (50, 99, 100)}, ms_per_page=round(per_fault, 5),
                          resident_mib=dict(after_once=round(after_first, 1), after_twice=round(resident_mib(), 1)))))


if __name__ == "__main__":
    main()
