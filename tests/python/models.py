"""Small models as bytes, and what is known of the element types (runtime/dtypes.h)."""
import pathlib
import re

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = re.compile(r'ROW\(\w+, "(\w+)", \w+, "[^"]*", (\w+), (\d+), "([^"]+)"\)')


def element_types():
    """(name, ONNX's number, NumPy's dtype) of every numeric row of the table; bfloat16 has its bits' dtype."""
    rows = ROW.findall((ROOT / "runtime/dtypes.h").read_text())
    return [(name, int(number), np.dtype(numpy)) for name, kind, number, numpy in rows if kind != "text"]


def model(nodes, inputs, outputs, weights=()):
    """inputs and outputs: (name, ONNX's number of the dtype, shape or None); weights: {name: array}."""
    def values(ports):
        return [helper.make_tensor_value_info(*port) for port in ports]
    initialisers = [numpy_helper.from_array(array, name) for name, array in dict(weights).items()]
    graph = helper.make_graph(nodes, "small", values(inputs), values(outputs), initialisers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


def identity(onnx_dtype=TensorProto.FLOAT, shape=("n",)):
    return model([helper.make_node("Identity", ["x"], ["y"])], [("x", onnx_dtype, shape)], [("y", onnx_dtype, shape)])


def product(inner=64):
    """y = x w + 1 with x of n rows, and its weights."""
    weights = {"w": np.random.default_rng(0).standard_normal((inner, inner), np.float32) / 8, "one": np.ones(1, np.float32)}
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "one"], ["y"])]
    return model(nodes, [("x", TensorProto.FLOAT, ["n", inner])], [("y", TensorProto.FLOAT, ["n", inner])], weights), weights


def samples(dtype, shape, seed=0):
    """Values over the dtype's range, its ends among them."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "f":
        array = rng.standard_normal(shape).astype(dtype)
        limits = np.finfo(dtype)
        array.reshape(-1)[:4] = np.array([np.inf, -0.0, limits.max, limits.smallest_subnormal])[:array.size]
        return array
    limits = np.iinfo(dtype)
    array = rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)
    array.reshape(-1)[:2] = [limits.min, limits.max][:array.size]
    return array
