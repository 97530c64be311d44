"""Names that would be code if anything printed them: no text of a model may reach a compiler, or name a file."""
import pathlib
import re

import numpy as np
from onnx import helper

from case_list import FLOAT, Run, array, info, model_of, works

EVIL = "EVIL_TEXT_OF_A_MODEL"
NAMES = {
    "closes_a_comment": f"*/ {EVIL} /*",
    "starts_an_include": f'x\n#include "{EVIL}"\n',
    "ends_a_string": f'"; {EVIL}; "',
    "backslash_at_the_end": f"{EVIL} \\",
    "trigraph": f"{EVIL}??/\n{EVIL}",
    "climbs_folders": f"../../{EVIL}",
    "c_keyword": "int",
    "right_to_left": f"\u202e{EVIL}\u202c",
    "megabyte": EVIL * ((1 << 20) // len(EVIL)),
    "nul": f"{EVIL}\0{EVIL}",
    "format": f"%s%n{{}}@name@{EVIL}",
}
# What a compiler does not read as code. A comment may hold a name that is harmless there; one that ends it is found.
NOT_CODE = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/|^#(?!\s*include)[^\n]*', re.DOTALL | re.MULTILINE)


def model_with(name):
    """(x + w) * x where everything that has a name has this one, told apart by a number in front."""
    nodes = [helper.make_node("Add", [f"0{name}", f"1{name}"], [f"2{name}"], name), helper.make_node("Mul", [f"2{name}", f"0{name}"], [f"3{name}"], name)]
    model = model_of(nodes, [info(f"0{name}", FLOAT, [2])], [info(f"3{name}", FLOAT, [2])], [array(f"1{name}", [1, 2])])
    model.graph.name = model.producer_name = model.doc_string = model.graph.doc_string = name
    model.metadata_props.add(key=name, value=name)
    return model


def no_evil_in(folder, out):
    """A complaint when model text stands outside of string literals and comments in a source, or in a file's name."""
    for path in sorted(out.rglob("*")):
        if EVIL in path.name:
            return f"the model named the file {path}"
        if path.suffix in (".cpp", ".h", ".hpp", ".c", ".txt", ".cmake", ".py") and EVIL in NOT_CODE.sub("", path.read_text(errors="replace")):
            return f"text of the model is code in {path.relative_to(out)}"
    if any(EVIL in p.name for p in folder.parent.rglob("*")):
        return "the model named a file"
    return None


def add(title, name):
    def make(folder):
        (folder / "model.onnx").write_bytes(model_with(name).SerializeToString())
        return Run(["compile", "{folder}/model.onnx", "-o", "{out}", "--no-build"], after=no_evil_in)

    make.__name__ = f"name_{title}"
    works("H51-61")(make)


for title, name in NAMES.items():
    add(title, name)


@works("H57")
def names_that_differ_in_punctuation(folder):
    nodes = [helper.make_node("Neg", ["a.b"], ["a_b"]), helper.make_node("Abs", ["a_b"], ["a/b"]), helper.make_node("Neg", ["a/b"], ["a b"])]
    model = model_of(nodes, [info("a.b", FLOAT, [2])], [info("a_b", FLOAT, [2]), info("a b", FLOAT, [2])])
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    np.save(folder / "x.npy", np.array([1, -2], np.float32))
    expect = {"a_b": np.array([-1, 2], np.float32)}
    return Run(["run", "{folder}/model.onnx", "--input", "a.b={folder}/x.npy", "--output-dir", "{out}"], expect=expect)


@works("H61", seconds=120)
def all_hostile_names_build(folder):
    """One model with every hostile name, compiled and built to the end."""
    nodes, last = [], "x"
    for i, name in enumerate(NAMES.values()):
        nodes.append(helper.make_node("Neg" if i % 2 else "Relu", [last], [f"{i}{name[:5000]}"], name[:5000]))
        last = nodes[-1].output[0]
    model = model_of(nodes, [info("x", FLOAT, [2])], [info(last, FLOAT, [2])])
    (folder / "model.onnx").write_bytes(model.SerializeToString())

    def built(folder, out: pathlib.Path):
        return no_evil_in(folder, out) or (None if any((out / "lib").glob("*.so")) else "no library was built")

    return Run(["compile", "{folder}/model.onnx", "-o", "{out}"], after=built)
