"""Whose answer is nearer to the truth: the one stored in a case of float16 or bfloat16, or metac's? The same graph in double says so.

A stored answer of 16 bits carries the roundings of whatever made it. Where it is off by more than the case tolerates, another answer
that rounds elsewhere fails without being worse.
"""
import pathlib
import subprocess
import tempfile

import ml_dtypes
import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator


NARROW = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


def widen_tensor(tensor):
    if tensor.data_type in NARROW:
        tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))


def widen_graph(graph):
    for tensor in graph.initializer:
        widen_tensor(tensor)
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.type.tensor_type.elem_type in NARROW:
            value.type.tensor_type.elem_type = TensorProto.DOUBLE
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                widen_tensor(attribute.t)
            elif attribute.type == AttributeProto.GRAPH:
                widen_graph(attribute.g)
            elif node.op_type == "Cast" and attribute.name == "to" and attribute.i in NARROW:
                attribute.i = TensorProto.DOUBLE


def double_answers(model, inputs):
    """The outputs of the model, all that was float16 or bfloat16 being double."""
    wide = onnx.ModelProto()
    wide.CopyFrom(model)
    widen_graph(wide.graph)
    feeds = {v.name: a.astype(np.float64) if a.dtype in (np.float16, ml_dtypes.bfloat16) else a for v, a in zip(model.graph.input, inputs)}
    return ReferenceEvaluator(wide).run(None, feeds)


def compare(metac, case, rtol=1e-3, atol=1e-7):
    """(whether metac's answers are the nearer ones, in words): in the largest error, in the mean, and wherever the two differ by more than tolerated."""
    folder = pathlib.Path(case)
    model, data = onnx.load(folder / "model.onnx"), folder / "test_data_set_0"
    files = sorted(data.glob("input_*.pb"), key=lambda f: int(f.stem.split("_")[1]))
    inputs = [numpy_helper.to_array(onnx.load_tensor(f)) for f in files]
    with tempfile.TemporaryDirectory(prefix="metac-double-") as out:
        feeds = [word for value, file in zip(model.graph.input, files) for word in ("--input", f"{value.name}={file}")]
        subprocess.run([metac, "run", str(folder / "model.onnx"), *feeds, "--output-dir", out], check=True, capture_output=True)
        answers = [np.load(pathlib.Path(out) / f"{v.name}.npy") for v in model.graph.output]
    nearer, words = True, []
    for k, (value, ours, exact) in enumerate(zip(model.graph.output, answers, double_answers(model, inputs))):
        stored = numpy_helper.to_array(onnx.load_tensor(data / f"output_{k}.pb"))
        if value.type.tensor_type.elem_type == TensorProto.BFLOAT16:  # .npy has no such type: its bits
            ours = ours.view(ml_dtypes.bfloat16)
        if ours.shape != stored.shape or ours.shape != np.shape(exact):
            return False, f"{value.name} has shape {ours.shape}, stored is {stored.shape}, in double it is {np.shape(exact)}"
        if value.type.tensor_type.elem_type not in NARROW:
            nearer = nearer and np.array_equal(ours, stored)
        elif ours.size:
            good, text = compare_output(ours.astype(np.float64), stored.astype(np.float64), exact, rtol, atol)
            nearer, words = nearer and good, [*words, text]
    return nearer, "; ".join(words)


def compare_output(ours, stored, exact, rtol, atol):
    error, theirs = np.abs(ours - exact), np.abs(stored - exact)
    apart = np.abs(ours - stored) > atol + rtol * np.abs(stored)
    nearer = bool(np.all(np.isfinite(error)) and error.max() <= theirs.max() and error.mean() <= theirs.mean() and np.all(error[apart] <= theirs[apart]))
    return nearer, f"off from the same graph in double by at most {error.max():.3g} and {error.mean():.3g} on average, the stored answer by {theirs.max():.3g} and {theirs.mean():.3g}"
