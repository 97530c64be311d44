"""Cases as ONNX's backend tests have them, with ONNX Runtime's answers, for `metac verify --recursive`."""
import json
import pathlib
import subprocess

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

onnxruntime.set_default_logger_severity(4)


def port(name, array):
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)


def build_model(nodes, feeds, outputs, opset=17, weights=None):
    """A model of these nodes. feeds and weights: {name: array}; outputs: their names. Types of outputs are declared by `answer`."""
    blank = [helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None) for name in outputs]
    graph = helper.make_graph(nodes, "g", [port(k, v) for k, v in feeds.items()], blank,
                              [numpy_helper.from_array(np.asarray(v), k) for k, v in (weights or {}).items()])
    for output in graph.output:
        output.ClearField("type")
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(d, 1) for d in sorted({n.domain for n in nodes} - {""})]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def session_of(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def answer(model, feeds):
    """ONNX Runtime's outputs, in order; declares their types in the model."""
    results = session_of(model).run(None, feeds)
    for output, array in zip(model.graph.output, results):
        output.CopyFrom(helper.make_tensor_value_info(output.name, helper.np_dtype_to_tensor_dtype(array.dtype), [None] * array.ndim))
    return results


def write_case(folder, model, feeds, results):
    pathlib.Path(folder).mkdir(parents=True)
    (pathlib.Path(folder) / "model.onnx").write_bytes(model.SerializeToString())
    write_data_set(folder, model, feeds, results, 0)


def write_data_set(folder, model, feeds, results, number):
    data = pathlib.Path(folder) / f"test_data_set_{number}"
    data.mkdir()
    for kind, arrays in (("input", [feeds[v.name] for v in model.graph.input]), ("output", results)):
        for i, array in enumerate(arrays):
            (data / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape)).SerializeToString())


def verify(metac, folder, *options):
    """{name of a case: (status, detail)}"""
    done = subprocess.run([metac, "verify", str(folder), "--recursive", "--json", *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        rows = json.loads(done.stdout)["cases"]
    except (json.JSONDecodeError, KeyError):
        raise SystemExit(f"metac verify ended with status {done.returncode}: {done.stderr[-2000:]}")
    return {pathlib.Path(row["path"]).name: (row["status"], row["detail"]) for row in rows}


def verify_drawn(metac, folders, made, keep, *options):
    """Prints what `metac verify` makes of the drawn cases in {folder: its own options}, writes the models {name of a case: model} of those that fail into
    folder `keep`; the exit status."""
    passed = failed = 0
    results = {}
    for folder, own in folders.items():
        results |= verify(metac, folder, *own, *options)
    for case, (status, detail) in sorted(results.items()):
        passed, failed = passed + (status == "passed"), failed + (status != "passed")
        if status != "passed":
            keep.mkdir(parents=True, exist_ok=True)
            onnx.save(made[case], keep / f"{case}.onnx")
            print(f"FAIL  {case} ({', '.join(n.op_type for n in made[case].graph.node)}): {detail[:250]}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0
