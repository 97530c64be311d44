#!/usr/bin/env python3
"""Random valid graphs: metac against ONNX Runtime, or ONNX's reference where that has no kernel.

    python3 random_graphs.py --metac build/release/bin/metac [--count 200] [--first 0] [--seed 1] [--nodes 12] [--evaluator build/.../metac_evaluate_cases]
                             [--keep DIR] [--only NAME,NAME] [--without NAME,NAME] [--libraries 0.02] [--jobs N] [--record FILE]
    needs: pip install numpy onnx onnxruntime

Twenty thousand graphs, in two processes that may be stopped and started again, each going on where it was:
    for k in 0 1; do python3 tests/fuzz/random_graphs.py --metac build/ci/bin/metac --first $((k * 10000)) --count 10000 --seed 9 --jobs 1 --ways 2 --record build/fuzz-$k.txt & done; wait

A graph is made node by node (grow_graph.py, operator_samples.py, late_samples.py): its values are computed as it grows, so that every node is valid
and all values are known. Broadcasting, scalars and dims of 0 and 1 occur everywhere; in three of ten graphs also dims that fill vectors; in a third
numbers at the edges of their types (extremes.py): infinities, NaN, the smallest and largest of floats and integers. Operands are inputs, constants, or
what other nodes compute; some dims of the inputs have names. structure_samples.py draws wide and deep graphs, values read twice sixty times over,
and functions of functions. Values of which a rounding could make another answer (a comparison, a floor) are exact.
Most graphs run three times: with their numbers, with others (and now and then other extents), and with the first again.

Each graph runs with static shapes, as a library would (--known shapes), and with every dim open (--known ranks); each batch of a hundred draws for each
of these another fusion, processor and number of threads. A share of the graphs (--libraries) is compiled to libraries too, by the in-process compiler,
g++ and clang++; with --evaluator all also run on the reference evaluator, which fuses nothing.

Before them run the graphs that were found to go wrong once, tests/fuzz/found/*.txt: ONNX's text form, dims with names being random.

A failure is reduced to the fewest nodes that still show it, their operands becoming inputs, and kept in build/fuzz-failures/. With
16-bit floats it is none where the same nodes in double are nearer to metac's answer than to the other one. Ends with
'N passed, N failed'.
"""
import argparse
import collections
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "conformance"))
import double_answers  # noqa: E402
import reference_cases  # noqa: E402
from fuzz_cases import TOLERANCES, write_case, write_found  # noqa: E402
from grow_apart import Grower  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCH = 100
# Operators that no graph draws, with the reason.
LEFT_OUT = {
    "Bernoulli": "random", "Multinomial": "random", "RandomNormal": "random", "RandomNormalLike": "random", "RandomUniform": "random", "RandomUniformLike": "random",
    **dict.fromkeys(("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch"), "strings"), "ImageDecoder": "image files",
    **dict.fromkeys(("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength", "SequenceMap", "SplitToSequence", "ConcatFromSequence"), "sequences"),
    **dict.fromkeys(("Optional", "OptionalGetElement", "OptionalHasElement"), "optionals"),
}


def draw_ways(rng, cpus, count=3):
    """How the graphs of a batch run: {name: options}. What code relies on, and one fusion, processor and number of threads for each."""
    ways = {}
    for known in rng.permutation(["values", "shapes", "ranks"])[:count]:
        fusion, cpu, threads = rng.choice(["best", "best", "paper", "greedy"]), rng.choice(["native", *cpus]), rng.choice(["1", "2"])
        ways[f"{known}, {fusion}, {cpu}, {threads} threads"] = ["--known", known, "--fusion", fusion, "--cpu", cpu, "--threads", threads]
    return ways


def library_ways(rng, cpus):
    """{name: options} of libraries: each graph of that share goes through one of them."""
    ways = {}
    for compiler in ("", "g++", "clang++"):
        known, fusion = rng.choice(["shapes", "shapes", "ranks"]), rng.choice(["best", "best", "paper", "greedy"])
        if not compiler or shutil.which(compiler):
            ways[f"library by {compiler or 'metac'}, {known}, {fusion}"] = ["--aot", "--known", known, "--fusion", fusion, *(["--cxx", compiler] if compiler else []), "--cpu", rng.choice(["native", *cpus])]
    return ways


class Runner:
    def __init__(self, metac, evaluator, jobs, seconds):
        self.metac, self.evaluator, self.jobs, self.seconds = metac, evaluator, ["--jobs", str(jobs)], seconds

    def cpus(self):
        """The levels that this machine runs."""
        levels = ["x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"]
        with tempfile.TemporaryDirectory(prefix="metac-fuzz-") as folder:
            model = onnx.parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Neg (x) }')
            reference_cases.write_case(pathlib.Path(folder) / "case", model, {"x": np.zeros(2, np.float32)}, [np.zeros(2, np.float32)])
            return [level for level in levels if subprocess.run([self.metac, "verify", f"{folder}/case", "--cpu", level], capture_output=True).returncode == 0]

    def verify(self, folder, kind, options):
        rtol, atol = TOLERANCES[kind]
        return reference_cases.verify(self.metac, folder, "--rtol", rtol, "--atol", atol, "--timeout", str(self.seconds * (5 if "--aot" in options else 1)), *self.jobs, *options)

    def run(self, folder, kind, ways):
        """{(case, way): detail} of what failed, and of what was refused."""
        failed, refused = {}, {}
        for way, options in ways.items():
            for case, (status, detail) in self.verify(folder, kind, options).items():
                if status == "failed" and "the kernel spans" in detail:
                    refused[case, way] = detail
                elif status == "failed":
                    failed[case, way] = detail
                elif status == "skipped" and decides_a_rank(detail, options):
                    refused[case, way] = detail
                elif status == "skipped":
                    failed[case, way] = f"refused: {detail}"
        if self.evaluator and kind == "float32":
            done = subprocess.run([self.evaluator, str(folder)], capture_output=True, text=True)
            for line in done.stdout.splitlines():
                if line.startswith("FAIL "):
                    case, _, detail = line[5:].partition(": ")
                    failed[case, "evaluator"] = detail
        return failed, refused

    def fails(self, graph, steps, seed, options):
        with tempfile.TemporaryDirectory(prefix="metac-fuzz-") as folder:
            write_case(pathlib.Path(folder) / "case", graph, steps, seed)
            if options is None:
                return "FAIL " in subprocess.run([self.evaluator, folder], capture_output=True, text=True).stdout
            return any(s == "failed" or s == "skipped" and not decides_a_rank(d, options) for s, d in self.verify(folder, graph.float.name, options).values())

    def is_nearer(self, folder, kind):
        """Whether a stored answer of 16 bits, which rounds where ONNX's reference does, is worse than metac's."""
        rtol, atol = map(float, TOLERANCES[kind])
        try:
            return kind in ("float16", "bfloat16") and double_answers.compare(self.metac, folder, rtol, atol)[0]
        except Exception:  # the same graph in double, or metac's run of it, is refused
            return False

    def reduce(self, graph, seed, options):
        """Leaves out one step after the other, as long as the rest still fails; for some minutes."""
        steps, until = list(graph.steps), time.monotonic() + 200
        size = len(steps) // 2
        while size > 0:
            at = 0
            while at < len(steps) and time.monotonic() < until:
                fewer = steps[:at] + steps[at + size:]
                if fewer and self.fails(graph, fewer, seed, options):
                    steps = fewer
                else:
                    at += size
            size //= 2
        return steps


def decides_a_rank(detail, options):
    """Where code may not rely on values, what only they decide is refused; a window that nowhere fits is everywhere."""
    return "the kernel spans" in detail or "ranks" in options or "rank" in detail and "shapes" in options


class Record:
    """Of a long run in parts: the batches that are done, a line each, to go on from."""

    def __init__(self, path):
        self.path, self.done = path, {}
        if path and path.exists():
            for line in path.read_text().splitlines():
                start, passed, failed = map(int, line.split())
                self.done[start] = passed, failed

    def add(self, start, passed, failed):
        if self.path:
            with open(self.path, "a") as file:
                file.write(f"{start} {passed} {failed}\n")


def run_batch(runner, grower, numbers, arguments, cpus, counts):
    """How many graphs passed and failed."""
    rng, graphs = np.random.default_rng([arguments.seed, numbers[0], 5]), {}
    ways, libraries = draw_ways(rng, cpus, arguments.ways), library_ways(rng, cpus)
    broken, told = {}, set()
    with tempfile.TemporaryDirectory(prefix="metac-fuzz-") as temporary:
        for i in numbers:
            own = np.random.default_rng([arguments.seed, i])
            graph = grower.grow(arguments.seed, i, int(own.integers(2, arguments.nodes + 1)), arguments.only, arguments.without)
            if graph and graph.steps:
                name, built = f"seed{arguments.seed}_{i}", own.random() < arguments.libraries
                write_case(pathlib.Path(temporary) / graph.float.name / (f"library{i % len(libraries)}" if built else "jit") / name, graph, graph.steps, i)
                graphs[name] = (graph, i)
                counts["nodes"].update(graph.used)
                counts["types"].update(v.dtype.name for s in graph.steps for v in s.outputs)
                counts["runs"][len(graph.sets)] += 1
        for kind in sorted(os.listdir(temporary)):
            folder = pathlib.Path(temporary) / kind
            results = [runner.run(folder, kind, ways)] + [runner.run(folder / f"library{k}", kind, {way: options}) for k, (way, options) in enumerate(libraries.items()) if (folder / f"library{k}").exists()]
            for failures, refused in results:
                broken |= failures
                for (case, way), detail in refused.items():
                    counts["refused"][f"{way.split(',')[0]}: {detail.split('model.onnx: ')[-1][:150]}"] += 1
    wrong, ways = set(), ways | libraries
    for (case, way), detail in sorted(broken.items()):
        if case in told:  # another way of one that is reduced already
            print(f"      {case} ({way}): {detail[:150]}", flush=True)
            continue
        told.add(case)
        graph, seed = graphs[case]
        steps = runner.reduce(graph, seed, ways.get(way))
        folder = arguments.keep / f"graph_{case}"
        shutil.rmtree(folder, ignore_errors=True)
        write_case(folder, graph, steps, seed)
        if "elements differ" in detail and runner.is_nearer(folder, graph.float.name):
            print(f"{case} ({way}): what {', '.join(s.proto.op_type for s in steps)} stored is farther from the same graph in double than metac's answer", flush=True)
            continue
        wrong.add(case)
        print(f"FAIL  {case} ({way}): {detail[:300]}\n      reduced to {', '.join(s.proto.op_type for s in steps)} in {folder}", flush=True)
    return len(graphs) - len(wrong), len(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--evaluator")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the number of the first graph: a long run in several parts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=12, help="at most so many in a graph")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], help="graphs of these samplers alone: NAME,NAME")
    parser.add_argument("--without", type=lambda text: text.split(","), default=[], help="graphs of none of these samplers: NAME,NAME")
    parser.add_argument("--ways", type=int, default=3, help="how many of static shapes, a library's and open ranks each batch draws")
    parser.add_argument("--libraries", type=float, default=0.02, help="the share of the graphs that become libraries too")
    parser.add_argument("--jobs", type=int, default=0, help="graphs at once; 0: one per CPU")
    parser.add_argument("--seconds", type=int, default=120, help="what one graph may take")
    parser.add_argument("--record", type=pathlib.Path, help="where batches that are done are written down, and not done again")
    parser.add_argument("--keep", type=pathlib.Path, default=ROOT / "build/fuzz-failures")
    arguments = parser.parse_args()
    runner, record, passed, failed = Runner(arguments.metac, arguments.evaluator, arguments.jobs, arguments.seconds), Record(arguments.record), 0, 0
    counts, cpus = {k: collections.Counter() for k in ("nodes", "types", "refused", "runs")}, runner.cpus()
    grower = Grower()
    if not arguments.only and arguments.first == 0:
        ways = {"": {"values": [], "shapes": ["--known", "shapes", "--fusion", "greedy"], "ranks": ["--known", "ranks"]},
                "# library: g++": {"library by g++": ["--known", "shapes", "--fusion", "greedy", "--aot", "--cxx", "g++"]} if shutil.which("g++") else {}}
        for marked in ways:
            with tempfile.TemporaryDirectory(prefix="metac-found-") as temporary:
                write_found(pathlib.Path(temporary), marked=marked)
                failures, refused = runner.run(pathlib.Path(temporary), "float32", ways[marked])
                for (case, way), detail in sorted((failures | refused).items()):
                    print(f"FAIL  {case} ({way}): {detail[:300]}")
                wrong = len({case for case, _ in failures | refused})
                failed, passed = failed + wrong, passed + len(os.listdir(temporary)) - wrong
    end = arguments.first + arguments.count
    for start in range(arguments.first, end, BATCH):
        if start not in record.done:
            record.done[start] = run_batch(runner, grower, range(start, min(start + BATCH, end)), arguments, cpus, counts)
            record.add(start, *record.done[start])
        passed, failed = passed + record.done[start][0], failed + record.done[start][1]
        if arguments.count > 200:
            print(f"up to graph {min(start + BATCH, end) - 1}: {passed} passed, {failed} failed", flush=True)
    for text, count in counts["refused"].most_common(20):
        print(f"refused {count} times: {text}")
    known, used = {s.name for s in onnx.defs.get_all_schemas() if s.domain == "" and not s.deprecated}, counts["nodes"]
    missing = sorted(known - set(LEFT_OUT) - {n.split()[0] for n in used})
    print(f"{sum(used.values())} nodes of {len({n.split()[0] for n in used})} operators" + (f"; none of {', '.join(missing)}" if missing and arguments.count >= 1000 else ""))
    print("values: " + ", ".join(f"{n} of {t}" for t, n in counts["types"].most_common()))
    print(f"processors: {', '.join(cpus)}; {counts['runs'][3]} graphs ran with other numbers too" + "".join(f"; no {c}" for c in ("g++", "clang++") if not shutil.which(c)))
    if grower.lost:
        print(f"{len(grower.lost)} graphs left out: ONNX Runtime crashed or hung")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
