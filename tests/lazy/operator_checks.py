"""Every operator function against the same one-node ONNX model, on ONNX's backend cases."""
import pathlib
import random

import metac
import numpy as np
import onnx
from onnx import numpy_helper

DRAWING = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli", "Multinomial"}


def attribute_of(attribute):
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], bytes):
        return [each.decode() for each in value]
    if attribute.type == onnx.AttributeProto.FLOATS:
        return [float(each) for each in value]
    return list(value) if attribute.type == onnx.AttributeProto.INTS else value


def function_of(node):
    where = metac.op if node.domain in ("", "ai.onnx") else getattr(metac.op, node.domain.replace(".", "_"), None)
    return getattr(where, node.op_type, None)


def array_of(path):
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def compare(folder):
    """None where both agree; else what differs, or ("skip", why)."""
    model = onnx.load(folder / "model.onnx")
    if len(model.graph.node) != 1 or model.functions:
        return "skip", "not one node"
    node = model.graph.node[0]
    if any(attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for attribute in node.attribute):
        return "skip", "subgraphs"
    if node.op_type in DRAWING or node.op_type == "Dropout" and len(node.input) > 2:
        return "skip", "random numbers: two calls differ"
    function = function_of(node)
    if function is None:
        return "skip", "no function"
    opset = max([each.version for each in model.opset_import if each.domain == node.domain] or [1])
    if not node.domain and onnx.defs.get_schema(node.op_type, onnx.defs.onnx_opset_version()).since_version > opset:
        return "skip", "an older opset"
    given = {}
    try:
        for k, value in enumerate(model.graph.input):
            given[value.name] = array_of(folder / "test_data_set_0" / f"input_{k}.pb")
    except Exception:  # a sequence, a map, elements that NumPy does not have
        return "skip", "inputs that are no arrays"
    if any(array.dtype.kind not in "fiub" for array in given.values()):
        return "skip", "elements that arrays do not carry"
    try:
        with metac.Session(str(folder / "model.onnx"), specialise="eager") as session:
            wanted = session.run(given)
    except metac.Error:
        return "skip", "models that metac does not run"
    outputs = len(node.output)
    answer = function(*[given[name] if name else None for name in node.input], outputs=outputs,
                      **{a.name: attribute_of(a) for a in node.attribute})
    for name, var in zip(node.output, answer):
        if not name:
            continue
        got, want = var.numpy(), wanted[name]
        if got.dtype != want.dtype or got.shape != want.shape:
            return f"{name} is {got.dtype}{got.shape}, of the model {want.dtype}{want.shape}"
        if not np.allclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True):
            return f"{name} differs by {np.nanmax(np.abs(got.astype(float) - want.astype(float)))}"
    return None


def all_cases(root):
    return sorted(path.parent for path in pathlib.Path(root).glob("**/model.onnx"))


def sampled(cases, count, seed):
    return cases if not count or count >= len(cases) else sorted(random.Random(seed).sample(cases, count))
