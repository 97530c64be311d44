"""Models that use the operators of functions.py: each with its result, its first and its second derivatives."""
import json
import pathlib
import re

from functions import FUNCTIONS, STRAIGHT, name_of

HERE = pathlib.Path(__file__).resolve().parent
FILE = HERE / "functions.cpp"


def operands_of(signature, formula):
    inside = re.search(r"\((.*)\)", signature)
    return [p for p in inside[1].split(",") if "=" not in p] if inside else ["x"]


def definitions():
    every = {signature: formula for signature, formula, _ in FUNCTIONS}
    signature, formula, gradient = STRAIGHT
    every[signature] = {"body": formula, "gradient": gradient}
    return every


def document(dtype, defines=True):
    """The model as a JSON document; `defines`: with the definitions in it. Outputs by name: NAME, NAME/da, NAME/da/da."""
    nodes, outputs = [], []
    for signature, formula in [(s, f) for s, f, _ in FUNCTIONS] + [STRAIGHT[:2]]:
        name, inputs = name_of(signature), "abc"[:len(operands_of(signature, formula))]
        nodes.append({"op": name, "domain": "user", "inputs": list(inputs), "outputs": [name]})
        first = [f"{name}/d{x}" for x in inputs]
        nodes.append({"op": "grad", "of": name, "inputs": list(inputs), "outputs": first})
        second = [f"{name}/d{x}/d{x}" for x in inputs]
        for x, d, dd in zip(inputs, first, second):
            nodes.append({"op": "grad", "of": d, "inputs": [x], "outputs": [dd]})
        outputs += [name, *first, *second]
    ports = [{"name": x, "dtype": dtype, "shape": ["n"]} for x in "abc"]
    out = {"metac_ir": 1, "inputs": ports, "nodes": nodes, "outputs": outputs}
    return {**out, "define": definitions()} if defines else out


def write_document(path, dtype, defines=True):
    path.write_text(json.dumps(document(dtype, defines)))
    return path
