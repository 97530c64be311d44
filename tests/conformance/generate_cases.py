#!/usr/bin/env python3
"""Writes every backend test case of the installed `onnx` package as a folder that `metac verify` reads.

    python3 generate_cases.py OUT_DIR            needs: pip install onnx numpy

OUT_DIR/<category>/<name>/model.onnx
OUT_DIR/<category>/<name>/test_data_set_0/input_0.pb ... output_0.pb ...    (TensorProto, SequenceProto or OptionalProto)
OUT_DIR/<category>/<name>/data.json          {"rtol", "atol"}, only where they are not ONNX's defaults 1e-3 and 1e-7
OUT_DIR/index.csv                            one row a case: category, name, op, opset, dtypes, containers, ops

The categories are ONNX's own: node and simple exist only as Python code in the package; pytorch-operator,
pytorch-converted and light (whole networks with constant weights) are files in it.
"""
import argparse
import csv
import json
import pathlib
import shutil
import sys
import warnings

import numpy as np
import onnx
import onnx.backend.test
from onnx import AttributeProto, TensorProto, numpy_helper

DATA = pathlib.Path(onnx.backend.test.__file__).parent / "data"
DEFAULT_TOLERANCE = (1e-3, 1e-7)


def to_proto(value, value_info):
    """The message that a data file of this value holds, by the type that the model declares."""
    kind = value_info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.from_list(value, value_info.name)
    if kind == "optional_type":
        return numpy_helper.from_optional(value, value_info.name)
    if kind == "map_type":
        return numpy_helper.from_dict(value, value_info.name)
    return value if isinstance(value, TensorProto) else numpy_helper.from_array(np.asarray(value), value_info.name)


def write_case(folder, model, data_sets, tolerance):
    folder.mkdir(parents=True)
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    for i, (inputs, outputs) in enumerate(data_sets):
        data = folder / f"test_data_set_{i}"
        data.mkdir()
        for word, values, infos in (("input", inputs, model.graph.input), ("output", outputs, model.graph.output)):
            for k, value in enumerate(values):
                (data / f"{word}_{k}.pb").write_bytes(to_proto(value, infos[k]).SerializeToString())
    write_tolerance(folder, tolerance)


def write_tolerance(folder, tolerance):
    if tuple(tolerance) != DEFAULT_TOLERANCE:
        (folder / "data.json").write_text(json.dumps(dict(rtol=tolerance[0], atol=tolerance[1])))


def copy_case(source, folder, tolerance):
    shutil.copytree(source, folder)
    (folder / "data.json").unlink(missing_ok=True)
    write_tolerance(folder, tolerance)
    return onnx.load(folder / "model.onnx")


def light_case(source, folder, tolerance):
    """A whole network; its input is what ONNX's own runner feeds: (0, 1, 2, ...) / count in the input's shape."""
    model = onnx.load(source)
    weights = {t.name for t in model.graph.initializer}
    inputs = [v for v in model.graph.input if v.name not in weights]
    feeds = []
    for value in inputs:
        shape = tuple(d.dim_value for d in value.type.tensor_type.shape.dim)
        count = int(np.prod(shape))
        feeds.append((np.arange(count).reshape(shape) / count).astype(np.float32))
    folder.mkdir(parents=True)
    shutil.copy(source, folder / "model.onnx")
    data = folder / "test_data_set_0"
    data.mkdir()
    for k, value in enumerate(feeds):
        (data / f"input_{k}.pb").write_bytes(numpy_helper.from_array(value, inputs[k].name).SerializeToString())
    for k in range(len(model.graph.output)):
        shutil.copy(source.with_name(f"{source.stem}_output_{k}.pb"), data / f"output_{k}.pb")
    write_tolerance(folder, tolerance)
    return model


def type_leaves(type_proto, containers, dtypes):
    kind = type_proto.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        dtypes.add(getattr(type_proto, kind).elem_type)
    elif kind in ("sequence_type", "optional_type"):
        containers.add(kind.removesuffix("_type"))
        type_leaves(getattr(type_proto, kind).elem_type, containers, dtypes)
    elif kind == "map_type":
        containers.add("map")
        dtypes.add(type_proto.map_type.key_type)
        type_leaves(type_proto.map_type.value_type, containers, dtypes)


def graph_facts(graph, ops, dtypes, containers):
    for value in [*graph.input, *graph.output, *graph.value_info]:
        type_leaves(value.type, containers, dtypes)
    dtypes.update(t.data_type for t in graph.initializer)
    nodes_facts(graph.node, ops, dtypes, containers)


def nodes_facts(nodes, ops, dtypes, containers):
    for node in nodes:
        ops.append(f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type)
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                dtypes.add(attribute.t.data_type)
            elif attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS):
                containers.add("subgraph")
                for graph in [attribute.g] if attribute.type == AttributeProto.GRAPH else attribute.graphs:
                    graph_facts(graph, ops, dtypes, containers)
            elif attribute.name in ("to", "dtype", "output_dtype") and attribute.type == AttributeProto.INT:
                dtypes.add(attribute.i)


def index_row(category, name, model, tested_op):
    ops, dtypes, containers = [], set(), set()
    graph_facts(model.graph, ops, dtypes, containers)
    for function in model.functions:
        nodes_facts(function.node, ops, dtypes, containers)
    opsets = {o.domain or "ai.onnx": o.version for o in model.opset_import}
    distinct = list(dict.fromkeys(ops))
    opset = opsets.get("ai.onnx") or opsets.get("") or ""
    names = sorted(TensorProto.DataType.Name(d).lower() for d in dtypes if d)
    return [category, name, tested_op or (distinct[0] if distinct else ""), opset, " ".join(names),
            " ".join(sorted(containers)), " ".join(sorted(distinct))]


def package_cases():
    """(kind, TestCase) of the cases that the package makes in Python; the light networks have an address only."""
    import onnx.backend.test.case.model as model_cases
    import onnx.backend.test.case.node as node_cases
    for case in node_cases.collect_testcases():
        yield "node", case
    for case in model_cases.collect_testcases():
        yield ("simple" if case.model is not None else "light"), case


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out_dir", type=pathlib.Path)
    out = parser.parse_args().out_dir
    if out.exists() and not (out / "index.csv").exists() and any(out.iterdir()):
        sys.exit(f"{out} is not empty and holds no cases; refusing to overwrite it")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")

    rows, seen = [], set()
    cases = list(package_cases())
    base_op = {}  # an expanded case tests the operator whose function body it is
    for kind, case in cases:
        if kind == "node" and "_expanded" not in case.name and case.model.graph.node:
            base_op[case.name] = case.model.graph.node[0].op_type
    for kind, case in cases:
        if (kind, case.name) in seen:
            continue
        seen.add((kind, case.name))
        tolerance = (case.rtol, case.atol)
        if kind == "light":
            model = light_case(DATA / "light" / f"light_{case.model_name}.onnx", out / kind / case.name, tolerance)
            rows.append(index_row(kind, case.name, model, None))
            continue
        write_case(out / kind / case.name, case.model, case.data_sets, tolerance)
        rows.append(index_row(kind, case.name, case.model, base_op.get(case.name.split("_expanded")[0])))
    from onnx.backend.test.loader import load_model_tests
    for kind in ("simple", "pytorch-operator", "pytorch-converted"):
        for case in sorted(load_model_tests(kind=kind), key=lambda c: c.name):
            if (kind, case.name) not in seen:
                model = copy_case(case.model_dir, out / kind / case.name, (case.rtol, case.atol))
                rows.append(index_row(kind, case.name, model, None))

    with open(out / "index.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["category", "name", "op", "opset", "dtypes", "containers", "ops"])
        writer.writerows(rows)
    print(f"{len(rows)} cases of onnx {onnx.__version__} in {out}")


if __name__ == "__main__":
    main()
