#!/usr/bin/env python3
"""Random graphs with states: streams of sessions, and contexts of libraries, step by step beside the same graph fed by hand.

    python3 state_graphs.py --build build/ci [--count 40] [--first 0] [--seed 1] [--nodes 8] [--only NAME,NAME] [--libraries 0.03]
                            [--target cuda]
    needs: pip install numpy onnx onnxruntime

A graph is made node by node as those of random_graphs.py are, around one to three states (state_samples.py): recurrences, windows that are
shifted, rings and caches that are written at places, values that grow in front or behind, states that trade places or become any other
value of the graph. It runs for some steps, each with other numbers and now and then other lengths; between them states are reset, set, cut
and forked. Answers and states are those of ONNX Runtime, node by node, or of ONNX's reference. Sessions take programs for shapes that came
again in between. --only names samplers of state_samples.py. Ends with 'N passed, N failed, N skipped'.
"""
import pathlib
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[0] / "tools"), str(HERE.parents[0] / "conformance")]
from check_graphs import check_graphs  # noqa: E402
from extremes import BFLOAT16, is_float  # noqa: E402
from fuzz_cases import COMPARES_SHAPES  # noqa: E402
from grow_graph import Graph, Value  # noqa: E402
from operator_samples import Unfit  # noqa: E402
from run_steps import InLibrary, InSession, Step, draw_array, follow, model_of  # noqa: E402
from state_samples import GROWTHS, UPDATES, read_grown  # noqa: E402

# Samplers that do for values of any extents.
OF_EXTENTS = {"Reshape", "Split", "Expand", "Tile", "Gather", "GatherND", "GatherElements", "TopK", "Range"}
ANY_EXTENTS = tuple(sorted((COMPARES_SHAPES - OF_EXTENTS) | {"Where of any type", "shared"}))


class State(Value):
    """An input that is an output of the run before. axis: along which it grows, or None; dims: names of its open dims."""

    def __init__(self, value, axis, pair):
        super().__init__(value.name, value.array, not is_float(value), False)
        self.axis, self.pair, self.output = axis, pair, None


class StateGraph(Graph):
    def __init__(self, seed, nodes, only):
        super().__init__(seed, 0, without=("composed",))
        self.states, self.open, self.updates = [], {}, only
        self.past, self.length = [self.int(1, 4) for _ in range(3)], [self.int(1, 3) for _ in range(3)]
        for _ in range(self.choice([1, 1, 2, 2, 3])):
            self.add_state()
        any_extents = ANY_EXTENTS if any(s.axis is not None for s in self.states) and self.chance(0.8) else ()
        for part in range(2):
            self.draw_nodes(self.int(0, nodes // 2), any_extents, ("composed",))
            if part == 0:
                for s in self.states:
                    self.close(s)
        for s in self.states:
            for v in (s, s.output):
                if s.axis is not None and self.chance():
                    self.attempt(lambda: read_grown(self, v, s.axis))
        self.draw_nodes(self.int(1, 2), any_extents, ("composed",))

    @property
    def state_names(self):
        return {s.name for s in self.states}

    def takes_edges(self, dtype):
        return False

    def add_state(self):
        grows = self.chance(0.5) and (not self.updates or any(n in GROWTHS for n in self.updates)) or all(n in GROWTHS for n in self.updates or UPDATES)
        dtype = np.dtype(self.choice([self.float] * 5 + ["int64", "int32", "bool", "uint8"]))
        alike = [s for s in self.states if s.dtype == dtype]
        if alike and self.chance() and not grows:
            shape = list(self.choice(alike).shape)
        elif self.chance(0.3):
            shape = [self.extent(4)] * self.int(1, 3)
        else:
            shape = [self.extent(5) for _ in range(self.choice([0, 1, 2, 2, 3, 3, 4]))]
        axis, pair = None, None
        if grows:
            shape = shape or [2]
            axis, pair = self.int(0, len(shape) - 1), self.choice([0, 0, 0, 1])
            shape[axis] = self.past[pair]
        state = State(self.new_input(self.random(shape, dtype)), axis, pair)
        self.inputs[-1] = state
        if grows:
            self.open[state.name, axis] = f"past{pair}"
        self.states.append(state)
        self.values.append(state)

    def chunk(self, shape, axis, dtype, name=None, length=None):
        """Fresh values whose extent along the axis is another one now and then."""
        shape = list(shape)
        if length is not None:
            shape[axis] = length
        value = self.fresh(shape, dtype)
        self.open[value.name, axis] = name or f"n_{value.name}"
        return value

    def more(self, state):
        """What comes to a state that grows."""
        return self.chunk(state.shape, state.axis, state.dtype, f"n{state.pair}", self.length[state.pair])

    def attempt(self, make):
        steps, values, inputs = len(self.steps), len(self.values), len(self.inputs)
        try:
            return make()
        except (Unfit, ValueError):
            del self.steps[steps:], self.values[values:], self.inputs[inputs:]
            return None

    def close(self, state):
        """Decides what the next run's value is."""
        kinds = UPDATES if state.axis is None else GROWTHS
        names = sorted(n for n in kinds if not self.updates or n in self.updates) or sorted(kinds)
        for _ in range(20):
            self.sampler = self.choice(names)
            made = self.attempt(lambda: self.checked(kinds[self.sampler](self, state), state))
            if made is not None:
                break
        else:
            made = self.more(state) if state.axis is not None else state
            made = self.node("Concat", [state, made], axis=state.axis, exact=True) if state.axis is not None else self.node("Identity", [state], exact=True)
            self.sampler = "same"
        self.used[self.sampler] += 1
        if any(made is s.output for s in self.states):
            made = self.node("Identity", [made], exact=True)
        state.output, state.kind = made, self.sampler

    def checked(self, made, state):
        fixed = [k for k in range(state.ndim) if k != state.axis]
        if made.dtype != state.dtype or made.ndim != state.ndim or any(made.shape[k] != state.shape[k] for k in fixed):
            raise Unfit
        if state.axis is not None and made.shape[state.axis] != state.shape[state.axis] + self.length[state.pair] or not made.exact and state.exact:
            raise Unfit
        if not any(made is v for step in self.steps for v in step.outputs):
            made = self.node("Identity", [made], exact=True)
        return made


# ---- steps ----
def open_a_length(graph, rng):
    """Dims of one length get a name, such as a batch's: {name: another length} where the graph does for that."""
    free = [(v.name, k) for v in graph.inputs if v.data or v.name in graph.state_names for k in range(v.ndim) if (v.name, k) not in graph.open]
    lengths = {(v.name, k): v.shape[k] for v in graph.inputs for k in range(v.ndim)}
    read = {v.name for step in graph.steps for v in step.inputs}
    told = {lengths[p] for p in free if lengths[p] and p[0] in read - graph.state_names}  # a state alone is reset to some length
    if not told or rng.random() < 0.4:
        return {}
    length, kept = int(rng.choice(sorted(told))), dict(graph.open)
    graph.open.update({p: f"d{length}" for p in free if lengths[p] == length})
    other = {f"d{length}": int(rng.choice([1, 2, 3, 5, 9, 17]))}
    try:
        graph.replay({v.name: draw_array(graph, v, other) if v.data or v.name in graph.state_names else v.array for v in graph.inputs})
        return other
    except (Unfit, ValueError):
        graph.open = kept
        return {}


def draw_steps(graph, seed):
    rng, steps = np.random.default_rng([seed, 3]), []
    lengths, states = open_a_length(graph, rng), {}
    reset = {s.name: None for s in graph.states}
    for _ in range(int(rng.integers(4, 8))):
        before, states = draw_actions(graph, rng, lengths, states or reset, not steps)
        chunks = [name for name in sorted(set(graph.open.values())) if name[0] == "n" and rng.random() < 0.5]
        now = lengths | {name: int(rng.choice([1, 2, 3, 7, 70], p=[0.5, 0.2, 0.15, 0.1, 0.05])) for name in chunks}
        feeds = {v.name: draw_array(graph, v, now) if v.data else v.array for v in graph.inputs if v.name not in states}
        given = {s.name: zeros_of(graph, s, lengths) if states[s.name] is None else states[s.name] for s in graph.states}
        try:
            values = graph.replay(feeds | given)
        except (Unfit, ValueError):
            break
        for s in graph.states:
            if values[s.output.name].shape != tuple(d if k != s.axis else values[s.output.name].shape[k] for k, d in enumerate(given[s.name].shape)):
                return steps
        states = {s.name: values[s.output.name] for s in graph.states}
        steps.append(Step(before, feeds, values))
    return steps


def zeros_of(graph, s, lengths):
    return np.zeros([0 if k == s.axis else lengths.get(graph.open.get((s.name, k)), d) for k, d in enumerate(s.shape)], s.dtype)


def draw_actions(graph, rng, lengths, states, first):
    """What is done to the states before a step, and what they are then: None is what a reset makes of one."""
    before, states, way = [], dict(states), rng.random()
    grown = sorted({s.pair for s in graph.states if s.axis is not None})
    if way < (0.4 if first else 0.1):
        pasts = {f"past{pair}": int(rng.integers(0, 5)) for pair in range(3)}
        values = {s.name: draw_array(graph, s, lengths | pasts) for s in graph.states}
        states = values
        before.append(("set", values))
    elif first:
        pass
    elif way < 0.2:
        states = dict.fromkeys(states)
        before.append(("reset",))
    elif way < 0.35 and len(grown) == 1 and all(s.axis is None or states[s.name] is not None for s in graph.states):
        grows = [s for s in graph.states if s.axis is not None]
        length = int(rng.integers(0, min(states[s.name].shape[s.axis] for s in grows) + 1))
        for s in grows:
            states[s.name] = states[s.name].take(range(length), s.axis)
        before.append(("truncate", length))
    if rng.random() < 0.15 and not first:
        before.append(("fork",))
    return before, states


def grow(seed, number, nodes, only, without):
    try:
        graph = StateGraph([seed, number], nodes, only)
    except Unfit:
        return None
    if graph.used and graph.float == BFLOAT16:
        return None  # NumPy has none
    graph.rng = np.random.default_rng([number, 5])
    graph.script = draw_steps(graph, number)
    return graph


# ---- running ----
def check(graph, rng, metac, target):
    """What differs, or None; "" where there is nothing to see."""
    import metac as module
    if not graph.script:
        return ""
    model, outputs, needed = model_of(graph)
    states = {s.name: s.output.name for s in graph.states}
    if not outputs:
        return ""
    about = f"; states {', '.join(s.kind for s in graph.states)}; {' '.join(s.proto.op_type for s in graph.steps)}"
    policy = str(rng.choice(["background", "background", "eager", "never"]))
    threads = int(rng.integers(1, 3))
    try:
        told = follow(graph, InSession(model, states, policy, threads, rng, target=target), outputs, needed)
    except (module.Error, RuntimeError) as error:
        if "must be equal to broadcast" in str(error):  # an open dim that is 1 in this run: such an Expand is refused
            return ""
        told = f"{type(error).__name__}: {error}"
    if told:
        return f"{policy}: {told}{about}"
    if metac:
        with tempfile.TemporaryDirectory(prefix="metac-states-") as folder:
            try:
                told = follow(graph, InLibrary(metac, model, states, [] if target == "cpu" else ["--target", target], f"states{rng.integers(1 << 40)}", folder), outputs, needed)
            except (RuntimeError, ValueError) as error:
                told = str(error)
        if told:
            return f"library: {told}{about}"
    return None


if __name__ == "__main__":
    sys.exit(check_graphs(__doc__, check, salt=13, every_other=(), nodes=8, make=grow, libraries=0.03, targets=True))
