"""Module, which names its parameters by their path, and Sequential; safetensors files."""
import json
import os
import struct
import tempfile

from .. import _metac
from ..errors import ArgumentError, ModelError
from ..var import Var, array

_SAFETENSORS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
                "I16": "int16", "I8": "int8", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64",
                "BOOL": "bool"}
_random = []


def seed(number):
    """Initial weights are drawn from here on as `number` says; without it, as 0 says."""
    import numpy
    _random[:] = [numpy.random.default_rng(number)]


def random():
    if not _random:
        seed(0)
    return _random[0]


def uniform(shape, bound):
    """A parameter of numbers in [-bound, bound)."""
    return array(random().uniform(-bound, bound, shape).astype("float32"))


def filled(shape, value):
    import numpy
    return array(numpy.full(shape, value, "float32"))


class Module:
    """A part of a network. Attributes that are Vars are parameters, but for those that `self.state(name, value)` set: they
    are kept and saved, and no optimiser sees them (running means). Attributes that are modules, or lists or dicts of
    modules, are its parts. Calling it calls `forward`. `train()` and `eval()` set `training` of it and of all parts."""

    training = True

    def state(self, name, value):
        """Keeps a Var that is no parameter."""
        setattr(self, name, value)
        self.__dict__.setdefault("_states", set()).add(name)

    def forward(self, *inputs):
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *inputs):
        return self.forward(*inputs)

    def _children(self):
        for name, value in self.__dict__.items():
            if isinstance(value, Module):
                yield name, value
            elif isinstance(value, (list, tuple)):
                yield from ((f"{name}.{k}", each) for k, each in enumerate(value) if isinstance(each, Module))
            elif isinstance(value, dict):
                yield from ((f"{name}.{k}", each) for k, each in value.items() if isinstance(each, Module))

    def modules(self, prefix=""):
        """(path, module) of it and of all its parts."""
        yield prefix, self
        for name, child in self._children():
            yield from child.modules(f"{prefix}.{name}" if prefix else name)

    def parameters(self, states=False):
        """{path: Var}: "encoder.0.weight". With `states` also what is kept beside parameters."""
        named, seen = {}, set()
        for path, module in self.modules():
            for name, value in module.__dict__.items():
                if not isinstance(value, Var) or id(value) in seen:
                    continue
                if states or name not in module.__dict__.get("_states", ()):
                    seen.add(id(value))
                    named[f"{path}.{name}" if path else name] = value
        return named

    def train(self, on=True):
        for _, module in self.modules():
            module.training = on
        return self

    def eval(self):
        return self.train(False)

    def load(self, weights, strict=True):
        """Assigns parameters and states: from {path: array}, a safetensors file, or the initialisers of an ONNX file."""
        if isinstance(weights, (str, os.PathLike)):
            weights = load_weights(weights)
        own = self.parameters(states=True)
        missing, unknown = sorted(own.keys() - weights.keys()), sorted(weights.keys() - own.keys())
        if strict and (missing or unknown):
            raise ArgumentError(f"weights do not fit: missing {missing or 'none'}, unknown {unknown or 'none'}")
        for path in own.keys() & weights.keys():
            value = weights[path]
            value = value if isinstance(value, Var) else array(value)
            if value.shape != own[path].shape:
                raise ArgumentError(f"{path} is {own[path].shape}, the weights have {value.shape}")
            own[path].assign(value.astype(own[path].dtype))
        return self

    def save(self, path):
        """Writes parameters and states as a safetensors file, whole or not at all."""
        save_weights(path, self.parameters(states=True))


class Sequential(Module):
    """Modules and functions one behind the other; parameters are named by their position."""

    def __init__(self, *parts):
        self.parts = list(parts)

    def _children(self):
        return ((str(k), each) for k, each in enumerate(self.parts) if isinstance(each, Module))

    def forward(self, x):
        for part in self.parts:
            x = part(x)
        return x


def save_weights(path, named):
    """Writes {name: Var} as a safetensors file, which appears whole."""
    header, blocks, at = {}, [], 0
    kinds = {dtype: kind for kind, dtype in _SAFETENSORS.items()}
    _metac.evaluate(list(named.values()))
    for name, var in named.items():
        block = memoryview(var.numpy()).cast("B") if var.size else b""
        header[name] = {"dtype": kinds[var.dtype], "shape": list(var.shape), "data_offsets": [at, at + len(block)]}
        blocks.append(block)
        at += len(block)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    folder = os.path.dirname(os.path.abspath(os.fspath(path)))
    handle, unfinished = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for block in blocks:
                file.write(block)
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise


def load_weights(path):
    """{name: array} of a safetensors file, or of the initialisers of an ONNX file."""
    import numpy
    path = os.fspath(path)
    if path.endswith(".onnx"):
        os.stat(path)  # what is not there is FileNotFoundError, as of open()
        read = _metac.read_weights(path)
        return {name: array(each) if each.dtype == "bfloat16" else numpy.asarray(each) for name, each in read}
    with open(path, "rb") as file:
        data = file.read()
    try:
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8:8 + length])
        named = {}
        for name, told in header.items():
            if name == "__metadata__":
                continue
            begin, end = told["data_offsets"]
            dtype = _SAFETENSORS[told["dtype"]]
            block = memoryview(data)[8 + length + begin:8 + length + end]
            bits = numpy.frombuffer(block, "uint16" if dtype == "bfloat16" else dtype).reshape(told["shape"])
            if dtype == "bfloat16":
                named[name] = array((bits.astype("uint32") << 16).view("float32")).astype("bfloat16")
            else:
                named[name] = bits
        return named
    except (struct.error, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{path} is no safetensors file: {error}") from None
