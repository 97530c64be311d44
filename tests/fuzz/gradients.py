#!/usr/bin/env python3
"""Random graphs that are differentiated: the gradient by their inputs and constants, beside central differences.

    python3 gradients.py --build build/ci [--count 40] [--first 0] [--seed 1] [--nodes 6] [--only NAME,NAME]
    needs: pip install numpy onnx onnxruntime

The graphs are those of random_graphs.py, in double, with a node of `Gradient` (ai.onnx.preview.training) by all of their
floats. The numbers of inputs are moved off the places where a slope jumps; where one is met none the less, one of several
steps must agree. Every other graph is of control flow and little else. What has no derivative is passed over, and what is
refused. Ends with 'N passed, N failed, N skipped'.
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[0] / "tools"), str(HERE.parents[0] / "conformance")]
import reference_cases  # noqa: E402
from check_graphs import check_graphs  # noqa: E402

DOUBLE, FLOAT = onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT
TRAINING = "ai.onnx.preview.training"
FLOWS = ("Loop", "Scan", "If", "Add", "Mul", "Concat", "ReduceSum", "Tanh", "Slice", "Gather", "MatMul")
STEPS = (1e-5, 1e-6, 1e-7, 3e-6)


def made_double(proto):
    """Of a node with its bodies: float32 becomes double."""
    for attribute in proto.attribute:
        if attribute.type == onnx.AttributeProto.TENSOR and attribute.t.data_type == FLOAT:
            attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype(np.float64)))
        if attribute.type == onnx.AttributeProto.GRAPH:
            for node in attribute.g.node:
                made_double(node)
            for port in [*attribute.g.input, *attribute.g.output]:
                if port.type.tensor_type.elem_type == FLOAT:
                    port.type.tensor_type.elem_type = DOUBLE
        if proto.op_type == "Cast" and attribute.name == "to" and attribute.i == FLOAT:
            attribute.i = DOUBLE
    return proto


def has_double(graph):
    """Whether it stays one in double: not with float16, numbers at the edges of their types, or scales that are float32."""
    if any(s.proto.op_type == "Resize" or "Linear" in s.proto.op_type for s in graph.steps):
        return False
    values = [v for s in graph.steps for v in [*s.inputs, *s.outputs]]
    return all(v.dtype.kind in "fiub" and v.dtype != np.float16 and not v.wild for v in values)


def model_of(graph, values, outputs):
    """The loss: for every float that the graph makes, the sum of v * sin(v)."""
    nodes = [made_double(onnx.NodeProto.FromString(s.proto.SerializeToString())) for s in graph.steps]
    for k, name in enumerate(outputs):
        nodes += [helper.make_node("Sin", [name], [f"sine{k}"]),
                  helper.make_node("Mul", [name, f"sine{k}"], [f"product{k}"]),
                  helper.make_node("ReduceSum", [f"product{k}"], [f"term{k}"], keepdims=0)]
    nodes.append(helper.make_node("Sum", [f"term{k}" for k in range(len(outputs))], ["loss"]))
    model = reference_cases.build_model(nodes, values, ["loss"], graph.opset, {})
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("loss", DOUBLE, []))
    for port in model.graph.input:  # open dims: their lengths are this run's alone
        for k, dim in enumerate(port.type.tensor_type.shape.dim):
            if dim.dim_value > 0 and values[port.name].dtype == np.float64:
                dim.dim_param = f"{port.name}_{k}"
    return model


def with_gradient(model, by):
    model = onnx.ModelProto.FromString(model.SerializeToString())
    model.graph.node.append(helper.make_node("Gradient", by, [f"by_{n}" for n in by], domain=TRAINING, xs=by, y="loss"))
    model.opset_import.append(helper.make_opsetid(TRAINING, 1))
    model.graph.output.extend(helper.make_tensor_value_info(f"by_{n}", DOUBLE, None) for n in by)
    return model


def slope_along(run, values, name, direction, step):
    there, back = ({**values, name: values[name] + sign * step * direction} for sign in (1, -1))
    return (run(there) - run(back)) / (2 * step)


def check(graph, rng):
    """What differs, or None; "" where there is nothing to see."""
    import metac
    made = {v.name: v for s in graph.steps for v in s.outputs}
    needed = {v.name: v.array for s in graph.steps for v in s.inputs if v.name not in made}
    if not has_double(graph):
        return ""
    values = {n: a + 0.06 * rng.standard_normal(a.shape) if a.dtype.kind == "f" else a for n, a in needed.items()}
    by = [n for n, a in values.items() if a.dtype.kind == "f" and a.size]
    outputs = [n for n, v in made.items() if v.dtype.kind == "f"]
    if not by or not outputs:
        return ""
    model = model_of(graph, values, outputs)
    told = f"; {' '.join(s.proto.op_type for s in graph.steps)}"
    try:
        plain = metac.Session(model.SerializeToString(), specialise="never")
        loss = float(plain.run(values)["loss"])
        policy = "never" if rng.random() < 0.5 else "eager"
        found = metac.Session(with_gradient(model, by).SerializeToString(), specialise=policy).run(values)
    except metac.InternalError as error:
        return f"{error}{told}"
    except metac.Error:
        return ""
    if not np.isfinite(loss):
        return ""
    if abs(float(found["loss"]) - loss) > 1e-9 * max(1, abs(loss)):
        return f"the loss is {found['loss']}, without the gradient {loss}{told}"
    for name in by:
        gradient = found[f"by_{name}"]
        if gradient.shape != values[name].shape:
            return f"the gradient by {name} is {gradient.shape}, which is {values[name].shape}{told}"
        pairs = []
        for step in STEPS:
            along = rng.standard_normal(gradient.shape)
            slope = slope_along(lambda v: float(plain.run(v)["loss"]), values, name, along, step)
            pairs.append((float((gradient * along).sum()), slope))
            if abs(pairs[-1][0] - slope) <= 2e-4 * max(0.1, *map(abs, pairs[-1]), 1e-3 * abs(loss)):
                break
        else:
            return f"by {name}, {policy}: (gradient, difference) are {pairs}{told}"
    return None


if __name__ == "__main__":
    sys.exit(check_graphs(__doc__, check, salt=11, every_other=FLOWS, nodes=6))
