"""The list of hostile cases and the tools to build their models.

A case is a function that gets an empty folder, writes a model (and what lies beside it) there and returns how metac is to
be run on it. The decorators put it on the list:

    @refused("H17", r'"nope"')          metac must exit with status 1 and one line that matches
    @works("H23")                       metac must exit with status 0

The function returns a ModelProto or bytes (written as model.onnx and given to `metac compile --no-build`), or a Run.
"""
import dataclasses
import pathlib
import typing

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


@dataclasses.dataclass
class Run:
    """Arguments after `metac`; {folder} and {out} are filled in. `expect`: file of the output folder -> its array."""
    arguments: list
    environment: dict = dataclasses.field(default_factory=dict)
    expect: dict = dataclasses.field(default_factory=dict)
    after: typing.Callable = None       # called with (folder, out) when metac is done; returns a complaint or None
    may_write: bool = False             # the output path existed before and has its own content
    file_limit: int = 0                 # RLIMIT_FSIZE in bytes, 0: none


@dataclasses.dataclass
class HostileCase:
    id: str
    title: str
    make: typing.Callable
    status: int                         # the exit status that is right
    pattern: str = ""                   # what the message must match
    seconds: float = 0                  # 0: the run's own limit
    lines: int = 1                      # how many lines the message may have


cases: list[HostileCase] = []


def refused(id, pattern="", lines=1, status=1):
    def add(make):
        cases.append(HostileCase(id, make.__name__, make, status, pattern, lines=lines))
        return make
    return add


def works(id, seconds=0):
    def add(make):
        cases.append(HostileCase(id, make.__name__, make, 0, seconds=seconds))
        return make
    return add


def refused_node(id, title, op, inputs, pattern="", opset=17, output=(FLOAT, None), domain="", **attributes):
    """A case of one node, see node_model."""
    cases.append(HostileCase(id, title, lambda folder: node_model(op, inputs, opset, output, domain, **attributes), 1, pattern))


def info(name, dtype=FLOAT, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


def array(name, values, dtype=np.float32):
    return numpy_helper.from_array(np.asarray(values, dtype), name)


def model_of(nodes, inputs, outputs, weights=(), opset=17, functions=(), **more) -> ModelProto:
    """A model with no check at all."""
    graph = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(weights))
    opsets = more.pop("opsets", [helper.make_opsetid("", opset)])
    return helper.make_model(graph, opset_imports=opsets, ir_version=more.pop("ir", 8), functions=list(functions), **more)


def node_model(op, inputs, opset=17, output=(FLOAT, None), domain="", **attributes):
    """One node. An input is a shape (a float input of the model), (dtype, shape), an array (an initializer) or None."""
    names, ports, weights = [], [], []
    for i, given in enumerate(inputs):
        names.append("" if given is None else f"in{i}")
        if isinstance(given, np.ndarray):
            weights.append(numpy_helper.from_array(given, names[-1]))
        elif isinstance(given, tuple):
            ports.append(info(names[-1], *given))
        elif given is not None:
            ports.append(info(names[-1], FLOAT, given))
    outputs = attributes.pop("outputs", ["out0"])
    node = helper.make_node(op, names, outputs, "the_node", domain=domain, **attributes)
    ports = ports or [info("unused", FLOAT, [1])]
    return model_of([node], ports, [info(outputs[0], *output)], weights, opset)


def relu_model(**more):
    return model_of([helper.make_node("Relu", ["x"], ["y"], "the_node")], [info("x", FLOAT, [2])], [info("y", FLOAT, [2])], **more)


def weighted_model(tensor, shape=None):
    """y = x + w where w is the tensor given."""
    tensor.name = "w"
    return model_of([helper.make_node("Add", ["x", "w"], ["y"], "the_node")], [info("x", FLOAT, shape or [4])], [info("y")], [tensor])


def run_with(folder: pathlib.Path, model, feeds, expect=None, more=()):
    """`metac run` on the model with these arrays."""
    (folder / "model.onnx").write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    arguments = ["run", "{folder}/model.onnx", "--output-dir", "{out}", *more]
    for i, (name, value) in enumerate(feeds.items()):
        if isinstance(value, np.ndarray):
            np.save(folder / f"feed{i}.npy", value)
            value = f"{{folder}}/feed{i}.npy"
        arguments += ["--input", f"{name}={value}"]
    return Run(arguments, expect=expect or {})
