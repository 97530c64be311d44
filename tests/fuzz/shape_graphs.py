#!/usr/bin/env python3
"""Random graphs with several open dims: one session and one library at many shapes, there and back.

    python3 shape_graphs.py --build build/ci [--count 40] [--first 0] [--seed 1] [--nodes 8] [--only NAME,NAME] [--libraries 0.03]
    needs: pip install numpy onnx onnxruntime

The graphs are those of random_graphs.py, most of operators that do for any extents. Up to three lengths of their inputs' dims become
open dims, each of any length, of a range and divisor, or (libraries) with code of its own for some lengths beside code for all. A session
runs at some shapes, which come again and again, with other numbers: what answers is the open program, or one for the shape, made before
or behind (specialise). Libraries have a list of lengths or --jit, or code for several instruction sets, of which each runs. Answers are
those of ONNX Runtime, node by node, or of ONNX's reference. Ends with 'N passed, N failed, N skipped'.
"""
import pathlib
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[0] / "tools"), str(HERE.parents[0] / "conformance")]
from check_graphs import check_graphs  # noqa: E402
from extremes import BFLOAT16  # noqa: E402
from fuzz_cases import COMPARES_SHAPES  # noqa: E402
from grow_graph import Graph  # noqa: E402
from operator_samples import Unfit  # noqa: E402
from run_steps import InLibrary, InSession, Step, draw_array, follow, model_of  # noqa: E402
from state_graphs import ANY_EXTENTS  # noqa: E402


class Dim:
    """What is told of an open dim: least and most (None: any), what divides it, and lengths that get code of their own."""

    def __init__(self, rng):
        self.least, self.most, self.divisor, self.own = 1, None, 1, []
        way = rng.integers(0, 5)
        if way == 1:
            self.own = sorted({int(n) for n in rng.choice([1, 2, 3, 4, 8, 17, 32], rng.integers(1, 4))})
        elif way == 2:
            self.divisor = int(rng.choice([2, 4, 8]))
            self.least, self.most = self.divisor, 64
        elif way == 3:
            self.least, self.most = int(rng.integers(0, 4)), int(rng.choice([9, 20, 64]))

    def draw(self, rng):
        if self.own and rng.random() < 0.6:
            return int(rng.choice(self.own))
        found = [n for n in (0, 1, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 24, 31, 32, 33) if n >= self.least and n <= (self.most or 64) and n % self.divisor == 0]
        return int(rng.choice(found))

    def option(self):
        """For --dim; "" where nothing is told."""
        if self.own:
            return ",".join(map(str, self.own))
        return f"{self.least}..{self.most}" + (f"@{self.divisor}" if self.divisor > 1 else "") if self.most else ""


class ShapeGraph(Graph):
    def __init__(self, seed, nodes, only):
        rng = np.random.default_rng([*seed, 17])
        super().__init__(seed, nodes, only or (ANY_EXTENTS if rng.random() < 0.8 else ()), ("composed",))
        self.states, self.state_names, self.open, self.dims = [], set(), {}, {}
        self.rng = rng

    def takes_edges(self, dtype):
        return False

    def open_dims(self):
        """Names for up to three lengths, where other lengths do as well."""
        lengths = sorted({d for v in self.inputs if v.data for d in v.shape if d})
        for length in [int(n) for n in self.rng.permutation(lengths)[:3]]:
            kept = dict(self.open)
            self.open.update({(v.name, k): f"d{length}" for v in self.inputs if v.data for k, d in enumerate(v.shape) if d == length})
            try:
                self.answered({f"d{length}": length + 1})
                dim = self.dims[f"d{length}"] = Dim(self.rng)
                own = [n for n in dim.own if self.does_for({f"d{length}": n})]
                dim.own = own if len(own) > 1 else []  # one alone fixes the dim
            except (Unfit, ValueError):
                self.open = kept

    def does_for(self, lengths):
        try:
            return bool(self.answered(lengths))
        except (Unfit, ValueError):
            return False

    def answered(self, lengths):
        feeds = {v.name: draw_array(self, v, lengths) if v.data else v.array for v in self.inputs}
        return Step([], feeds, self.replay(feeds))

    def draw_steps(self):
        steps, shapes = [], [{name: d.draw(self.rng) for name, d in self.dims.items()} for _ in range(4)]
        for k in [0, 0, 0, 1, 0, 1, 1, 2, *self.rng.integers(0, 4, 5)]:
            try:
                steps.append(self.answered(shapes[k]))
            except (Unfit, ValueError):
                pass
        return steps


def grow(seed, number, nodes, only, without):
    try:
        graph = ShapeGraph([seed, number], nodes, only)
    except Unfit:
        return None
    if graph.float == BFLOAT16 or not graph.steps:
        return None
    graph.open_dims()
    graph.script = graph.draw_steps() if graph.dims else []
    return graph


def library_of(graph, rng):
    """Options of `metac compile`, and what the Model of its module is asked for."""
    options = [part for name, d in graph.dims.items() if d.option() for part in ("--dim", f"{name}={d.option()}")]
    way = rng.choice(["native", "jit", "portable"])
    if way == "jit" and not any(d.own for d in graph.dims.values()):
        return [*options, "--jit"], [{"specialises": True}]
    if way == "portable":
        return [*options, "--cpu", "x86-64,x86-64-v2,x86-64-v3,x86-64-v4"], [{"cpu": name} for name in ("x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4")]
    return options, [{}]


def is_refusal_alone(graph, told):
    """Whether the shapes may well be none of the operators': ONNX Runtime does not look, or answers with nothing where a window fits
    nowhere."""
    return "the kernel spans" in told or not all(s.proto.op_type in COMPARES_SHAPES for s in graph.steps)


def check(graph, rng, metac):
    """What differs, or None; "" where there is nothing to see."""
    import metac as module
    if not graph.script:
        return ""
    model, outputs, needed = model_of(graph)
    kept = {name: d for name, d in graph.dims.items() if any(v in needed and graph.open[v, k] == name for v, k in graph.open)}
    if not kept:
        return ""
    told_dims = {name: (max(d.least, 1), d.most, d.divisor) for name, d in kept.items() if d.most and d.least}
    about = "; " + ", ".join(f"{n}={d.option() or '?'}" for n, d in kept.items()) + f"; {' '.join(s.proto.op_type for s in graph.steps)}"
    graph.dims = kept
    policy = str(rng.choice(["background", "background", "eager", "never"]))
    if not any(d.least == 0 for d in kept.values()):  # sessions have no such dims
        try:
            told = follow(graph, InSession(model, {}, policy, int(rng.integers(1, 3)), rng, told_dims), outputs, needed)
        except module.Error as error:
            told = f"{type(error).__name__}: {error}"
            if is_refusal_alone(graph, told):
                return ""
        if told:
            return f"{policy}: {told}{about}"
    if metac:
        options, models = library_of(graph, rng)
        with tempfile.TemporaryDirectory(prefix="metac-shapes-") as folder:
            try:
                library = InLibrary(metac, model, {}, options, f"shapes{rng.integers(1 << 40)}", folder)
                for wanted in models:
                    told = library.open(**wanted) and follow(graph, library, outputs, needed)
                    if told:
                        return f"library {' '.join(options)} {wanted}: {told}{about}"
            except (RuntimeError, ValueError) as error:
                if is_refusal_alone(graph, str(error)):
                    return ""
                return f"library {' '.join(options)}: {error}{about}"
    return None


if __name__ == "__main__":
    sys.exit(check_graphs(__doc__, check, salt=19, every_other=(), nodes=8, make=grow, libraries=0.03))
