"""Graphs that run step by step, in sessions and in libraries, beside what is known of their values."""
import importlib
import os
import pathlib
import subprocess
import sys
import time

import numpy as np
import onnx
from onnx import helper

import reference_cases
from fuzz_cases import TOLERANCES

TOOLS = pathlib.Path(__file__).resolve().parents[1] / "tools"


class Step:
    """before: what is done to the states, (name, arguments); feeds, and values: of everything in the graph."""

    def __init__(self, before, feeds, values):
        self.before, self.feeds, self.values = before, feeds, values


def draw_array(graph, v, lengths):
    """Other numbers; dims that have names have the lengths that are said."""
    shape = [lengths.get(graph.open.get((v.name, k)), d) for k, d in enumerate(v.shape)]
    return graph.random(shape, v.dtype)


def model_of(graph):
    """The model, and its outputs by name that are no states."""
    made, read = {v.name for s in graph.steps for v in s.outputs}, {v.name for s in graph.steps for v in s.inputs}
    states = {s.output.name: s for s in graph.states}
    feeds = {v.name: v.array for v in graph.inputs if v.name in read or v.name in graph.state_names}
    constants = {k: v.array for k, v in graph.constants.items() if k in read}
    outputs = [v for s in graph.steps for v in s.outputs if v.name in states or not s.hidden or v.name not in read]
    model = reference_cases.build_model([s.proto for s in graph.steps], feeds, [v.name for v in outputs], graph.opset, constants)
    for value in model.graph.input:
        for k, dim in enumerate(value.type.tensor_type.shape.dim):
            if (value.name, k) in graph.open:
                dim.dim_param = graph.open[value.name, k]
    for port, value in zip(model.graph.output, outputs):
        port.CopyFrom(helper.make_tensor_value_info(port.name, helper.np_dtype_to_tensor_dtype(value.dtype), [None] * value.ndim))
    return model, [v.name for v in outputs if v.name not in states], set(feeds) - graph.state_names


def expect_same(answer, other):
    """Of what a fork answers, and the stream or context that it was made of; another program may have answered one of them."""
    for name, array in answer.items():
        told = differs(name, other[name], np.asarray(array), str(array.dtype) if str(array.dtype) in TOLERANCES else "float32")
        if told:
            raise RuntimeError(f"beside a fork {told}")


class InSession:
    """A session's stream; programs are waited for now and then, so that they take over between two runs. What a fork was made of
    goes on beside it."""

    def __init__(self, model, states, policy, threads, rng, dims=None, target="cpu"):
        import metac
        self.session = metac.Session(model.SerializeToString(), states=states, specialise=policy, threads=threads, dims=dims, target=target)
        self.stream, self.rng, self.policy, self.left = self.session.stream() if states else self.session, rng, policy, None

    def run(self, feeds):
        answer = self.stream.run(feeds)
        if self.left:
            expect_same(answer, self.left.run(feeds))
        if self.policy == "background" and self.rng.random() < 0.5:
            self.session.wait()
        return answer

    def get(self, name):
        return self.stream.get(name)

    def act(self, action, *arguments):
        self.left = None
        if action == "fork":
            self.left, self.stream = self.stream, self.stream.fork()
        else:
            getattr(self.stream, action)(*arguments)


class InLibrary:
    """A library with the given states, made with these options of `metac compile`."""

    def __init__(self, metac, model, states, options, name, folder):
        path = pathlib.Path(folder) / f"{name}.onnx"
        onnx.save(model, path)
        given = [part for pair in states.items() for part in ("--state", "=".join(pair))]
        environment = dict(os.environ, PATH=f"{TOOLS / 'quick'}:{os.environ['PATH']}")
        given += [] if {"--cpu", "--target"} & set(options) else ["--cpu", "native"]
        command = [metac, "compile", path, "-o", f"{folder}/{name}", "--name", name, *given, *options]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise RuntimeError(f"metac compile: {done.stderr.strip()[-300:]}")
        sys.path.insert(0, f"{folder}/{name}/python")
        self.module, self.libmetac = importlib.import_module(name), str(metac.parents[1] / "lib/libmetac.so")
        sys.path.pop(0)
        self.has_states = bool(states)
        self.open()

    def open(self, cpu=None, specialises=False):
        """A new context, of code for an instruction set that the library has; False where this machine does not run it."""
        self.specialises, self.left, self.runs = specialises, None, 0
        try:
            self.model = self.module.Model(threads=2, cpu=cpu, **({"metac": self.libmetac} if specialises else {}))
        except RuntimeError as error:
            if cpu and "does not run" in str(error):
                return False
            raise
        return True

    def run(self, feeds):
        self.runs += 1
        answer = self.model.run(feeds, **({"only": []} if self.has_states and self.runs % 4 == 3 else {}))  # what nobody wants
        if self.left:
            expect_same(answer, self.left.run(feeds))
        for _ in range(400 if self.specialises else 0):  # its programs take over between two runs
            if not self.model.specialised()["waiting"]:
                break
            time.sleep(0.01)
        return answer

    def get(self, name):
        return self.model.state_get(name)

    def act(self, action, *arguments):
        self.left = None
        if action == "fork":
            other = self.module.Model(threads=2)
            other.state_fork(self.model)
            self.left, self.model = self.model, other
        elif action == "set":
            for name, array in arguments[0].items():
                self.model.state_set(name, array)
        else:
            getattr(self.model, f"state_{action}")(*arguments)


def differs(what, answer, expected, kind):
    answer, (rtol, atol) = np.asarray(answer), map(float, TOLERANCES[kind])
    if answer.shape != expected.shape or answer.dtype != expected.dtype:
        return f"{what} is {answer.dtype}{list(answer.shape)}, expected {expected.dtype}{list(expected.shape)}"
    if expected.dtype.kind != "f":
        return None if np.array_equal(answer, expected) else f"{what} is {answer.ravel()[:8]}, expected {expected.ravel()[:8]}"
    near = np.isclose(answer.astype(np.float64), expected.astype(np.float64), rtol, atol, equal_nan=True)
    return None if near.all() else f"{what}: {int((~near).sum())} of {near.size} differ, {answer[~near][:4]}, expected {expected[~near][:4]}"


def follow(graph, runner, outputs, needed):
    """The first difference of all steps, or None."""
    for number, step in enumerate(graph.script):
        for action in step.before:
            runner.act(*action)
        answer = runner.run({k: v for k, v in step.feeds.items() if k in needed})
        told = [differs(f"step {number}, {name}", answer[name], step.values[name], graph.float.name) for name in outputs if name in answer]
        told += [differs(f"step {number}, state {s.name}", runner.get(s.name), step.values[s.output.name], graph.float.name) for s in graph.states]
        if any(told):
            return next(filter(None, told))
    return None
