"""Samples of operators for the tests of derivatives: small models at one point each, made by rules, the same on every machine.

A generator of an operator is registered by @operator and yields samples: node(...) for one node, program(...) for several. It is called
until it has given enough of them. A sample at a kink says what the gradient is there by convention; all others are smooth
enough around their point for central differences. What PyTorch says the operator computes stands beside: a function of the
attributes and the operands.
"""
import hashlib
import importlib
import struct
import subprocess

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LEAST = 30  # samples an operator
OPSETS = {"": 28, "com.microsoft": 1, "metac": 1, "ai.onnx.preview": 1, "ai.onnx.preview.training": 1}


class Torch:
    """The module, imported when something asks for it."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, member):
        return getattr(importlib.import_module(self._name), member)


torch, F = Torch("torch"), Torch("torch.nn.functional")


class Fixed:
    """An operand that is a constant of the model and that nothing is differentiated by: axes, shapes, thresholds."""

    def __init__(self, value, dtype=None):
        self.value = np.asarray(value, dtype=dtype if dtype is not None else np.int64 if np.asarray(value).dtype.kind == "i" else None)


class Attributes(dict):
    """As the model holds them: ONNX's floats have 32 bits."""

    def __getattr__(self, name):
        return self[name]


def stored(value):
    if isinstance(value, float):
        return float(np.float32(value))
    return [stored(v) for v in value] if isinstance(value, (list, tuple)) else value


class Sample:
    def __init__(self, what, nodes, operands, outputs, attributes=None, kink=None, reference=None, opset=None, functions=()):
        self.what, self.kink, self.reference, self.operands = what, kink, reference, operands
        self.attributes = Attributes({k: stored(v) for k, v in (attributes or {}).items()})
        self.names = [f"x{k}" for k in range(len(operands))]
        self.inputs = {name: value for name, value in zip(self.names, operands) if isinstance(value, np.ndarray)}
        weights = [numpy_helper.from_array(value.value, name) for name, value in zip(self.names, operands) if isinstance(value, Fixed)]
        self.wrt = [name for name, value in self.inputs.items() if value.dtype.kind == "f"]
        self.outputs = outputs
        ports = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape) for name, value in self.inputs.items()]
        graph = helper.make_graph(nodes, "sample", ports, [onnx.ValueInfoProto(name=name) for name in outputs], weights)
        opsets = dict(OPSETS, **({"": opset} if opset else {}))
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*pair) for pair in opsets.items()], ir_version=10, functions=list(functions))

    def is_empty(self):
        return any(value.size == 0 for value in self.inputs.values())

    def spreads(self):
        """Operands of several shapes: something is broadcast."""
        return len({self.inputs[name].shape for name in self.wrt}) > 1


def node(op, *operands, outputs=1, domain="", kink=None, reference=None, opset=None, **attributes):
    """One node: float arrays are what is differentiated by, Fixed ones constants, None is absent. `outputs` is a number or names, "" for
    one that is not asked for."""
    names = [f"y{k}" for k in range(outputs)] if isinstance(outputs, int) else outputs
    operands = [np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else value for value in operands]
    given = ["" if value is None else f"x{k}" for k, value in enumerate(operands)]
    while given and given[-1] == "":
        given.pop()
    made = helper.make_node(op, given, names, domain=domain, **attributes)
    what = f"{op} of {', '.join(shape_text(value) for value in operands)}" + "".join(f" {k}={v}" for k, v in attributes.items() if isinstance(v, (int, float, str, list, tuple)))
    return Sample(what, [made], operands, [name for name in names if name], attributes, kink, reference, opset)


def program(what, nodes, operands, outputs, **more):
    """Several nodes over the operands x0, x1, ..."""
    return Sample(what, nodes, [np.asarray(v) if isinstance(v, np.generic) else v for v in operands], outputs, **more)


def shape_text(value):
    if value is None:
        return "nothing"
    if isinstance(value, Fixed):
        return f"{value.value.tolist()}" if value.value.size <= 8 else f"fixed {value.value.shape}"
    return "x".join(map(str, value.shape)) or "a number"


def at_kink(slopes):
    """The convention of an element-wise function: its derivative at each element of each operand."""
    return lambda cotangents: [next(iter(cotangents.values())) * np.asarray(s, dtype=np.float64) for s in slopes]


# ---- the generators ----
OPERATORS = {}  # (domain, name): Operator


class Operator:
    def __init__(self, generate, reference, no_reference, zero_size, first_order):
        self.generate, self.reference, self.no_reference, self.zero_size, self.first_order = generate, reference, no_reference, zero_size, first_order


def operator(*names, domain="", reference=None, no_reference="", zero_size="", first_order=""):
    """Registers a generator: a function of a Source and of the operator's name. `reference` is PyTorch's function (a sample may have
    one of its own), or `no_reference` the reason why there is none. `zero_size`, `first_order`: why no sample is without elements, why there is no
    second derivative to check."""
    def register(generate):
        for name in names:
            assert (domain, name) not in OPERATORS, f"two generators of {name}"
            OPERATORS[domain, name] = Operator(generate, reference, no_reference, zero_size, first_order)
        return generate
    return register


class Source:
    """Values of samples. Everything is float64 and of the order of 1."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def real(self, *shape, low=-1.5, high=1.5):
        return self.rng.uniform(low, high, shape)

    def away(self, *shape, kinks=(0.0,), low=-2.0, high=2.0, margin=0.05):
        """At least `margin` from every kink."""
        x = self.rng.uniform(low, high, shape)
        for _ in range(100):
            close = np.zeros(shape, bool)
            for kink in kinks:
                close |= np.abs(x - kink) < margin
            if not close.any():
                break
            x = np.where(close, self.rng.uniform(low, high, shape), x)
        return x

    def apart(self, *shape, gap=0.07):
        """All elements at least `gap` from each other and from 0."""
        count = int(np.prod(shape))
        steps = np.arange(count) - count // 2
        values = np.where(steps >= 0, steps + 1, steps) * gap + self.rng.uniform(-0.1, 0.1, count) * gap
        return self.rng.permutation(values).reshape(shape)

    def ints(self, *shape, low=0, high=2):
        return self.rng.integers(low, high, shape)


def samples_of(domain, name, seed=1, least=LEAST):
    """At least `least` different ones."""
    kept, seen = [], set()
    for turn in range(least):
        digest = hashlib.sha256(f"{domain}/{name}/{turn}/{seed}".encode()).digest()
        for sample in OPERATORS[domain, name].generate(Source(int.from_bytes(digest[:8], "little")), name):
            mark = sample.model.SerializeToString(deterministic=True) + b"".join(v.tobytes() for v in sample.inputs.values())
            if mark in seen:
                continue
            seen.add(mark)
            kept.append(sample)
        if len(kept) >= least:
            break
    return kept


# ---- through the tool metac_differentiate ----
def record(data):
    return struct.pack("<Q", len(data)) + data


def tangents_of(sample, directions):
    rng = np.random.default_rng(11)
    return [{name: rng.uniform(-1, 1, sample.inputs[name].shape).astype(sample.inputs[name].dtype) for name in sample.wrt} for _ in range(directions)]


def differentiated(tool, samples, folder, directions=2):
    """For every sample the results of the tool by name."""
    with open(folder / "batch", "wb") as out:
        for sample in samples:
            tensors = list(sample.inputs.items())
            for d, along in enumerate(tangents_of(sample, directions)):
                tensors += [(f"tangent {d} {name}", value) for name, value in along.items()]
            out.write(record(sample.model.SerializeToString()) + struct.pack("<Q", len(tensors)))
            for name, value in tensors:
                out.write(record(numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape), name).SerializeToString()))
    subprocess.run([tool, folder / "batch", folder / "results"], check=True, timeout=1800)
    data, at = (folder / "results").read_bytes(), 0
    for _ in samples:
        count, = struct.unpack_from("<Q", data, at)
        at += 8
        results = {}
        for _ in range(count):
            size, = struct.unpack_from("<Q", data, at)
            tensor = TensorProto.FromString(data[at + 8:at + 8 + size])
            results[tensor.name] = tensor.string_data[0].decode() if tensor.name == "error" else numpy_helper.to_array(tensor)
            at += 8 + size
        yield results
