#!/usr/bin/env python3
"""Operators that users define: twenty functions as formulas and in C++, and what is refused of thirty others.

    python3 run_defined.py --build build/ci [--only WORD]

Values against NumPy, derivatives of first and second order in float64 against PyTorch where it is installed (1e-10), else
against central differences; the same by JSON, ONNX, --ops and the Python module, what docs/defining_operators.md shows, and the CUDA kernels on the
stand-in. Needs numpy and onnx. Ends with 'N passed, N failed'.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

import numpy as np

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[0] / "tools")]
from checks import command, expect, run_checks  # noqa: E402
from functions import FUNCTIONS, NUMPY, name_of  # noqa: E402
from models import FILE, operands_of, write_document  # noqa: E402
from refused import CPP, FORMULAS  # noqa: E402

try:
    import torch
except ImportError:
    torch = None


def points(dtype):
    """Operands of every function, away from kinks."""
    rng = np.random.default_rng(3)
    values = {"a": rng.uniform(-2, 2, 400), "b": rng.uniform(0.1, 0.9, 400), "c": rng.uniform(-1, 1, 400)}
    near = np.abs(values["a"] - values["b"]) - 1
    values["a"][np.abs(near) < 1e-2] += 0.1
    for kink in (-1, 0, 1):
        values["a"][np.abs(values["a"] - kink) < 1e-2] += 0.05
    return {k: v.astype(dtype) for k, v in values.items()}


def references(inputs):
    """{NAME, NAME/da, NAME/da/da: array} in float64."""
    out = {}
    for signature, formula, f in FUNCTIONS:
        name, letters = name_of(signature), "abc"[:len(operands_of(signature, formula))]
        given = [inputs[x].astype(np.float64) for x in letters]
        out[name] = f(NUMPY, *given)
        for k, x in enumerate(letters):
            if torch:
                tensors = [torch.tensor(v, requires_grad=True) for v in given]
                (first,) = torch.autograd.grad(f(torch, *tensors).sum(), tensors[k], create_graph=True)
                constant = not first.requires_grad
                second = torch.zeros_like(first) if constant else torch.autograd.grad(first.sum(), tensors[k], allow_unused=True)[0]
                out[f"{name}/d{x}"] = first.detach().numpy()
                out[f"{name}/d{x}/d{x}"] = np.zeros_like(given[k]) if second is None else second.detach().numpy()
            else:
                def at(step, k=k, f=f, given=given):
                    return f(NUMPY, *[v + step if i == k else v for i, v in enumerate(given)])
                out[f"{name}/d{x}"] = (at(1e-5) - at(-1e-5)) / 2e-5
                out[f"{name}/d{x}/d{x}"] = (at(1e-4) - 2 * at(0) + at(-1e-4)) / 1e-8
    a = inputs["a"].astype(np.float64)
    out["straight_round"], out["straight_round/da"], out["straight_round/da/da"] = np.rint(a), np.ones_like(a), np.zeros_like(a)
    return out


class Checks:
    def __init__(self, build, work):
        self.build, self.metac, self.work = build, build / "bin/metac", work

    def _compare(self, model, dtype, *more):
        inputs = points(dtype)
        for name, values in inputs.items():
            np.save(self.work / f"{name}.npy", values)
        answers = self.work / "answers"
        command(self.metac, "run", model, *[w for x in inputs for w in ("--input", f"{x}={self.work / x}.npy")],
                "--output-dir", answers, *more)
        exact = 1e-10 if torch else 1e-5
        for name, expected in references(inputs).items():
            file = answers / (name.replace("/", "_") + ".npy")
            found = np.load(file).astype(np.float64)
            tolerance = 2e-4 if dtype != np.float64 else 1e-12 if "/" not in name else exact
            if model.suffix == ".onnx":  # whose attributes are float32
                tolerance = max(tolerance, 1e-6)
            worst = np.max(np.abs(found - expected) / (1 + np.abs(expected)))
            expect(worst <= tolerance, f"{name}: off by {worst:.3g}")

    def formulas_in_a_document(self):
        self._compare(write_document(self.work / "formulas.json", "float64"), np.float64)
        self._compare(write_document(self.work / "formulas32.json", "float32"), np.float32)

    def functions_of_a_file(self):
        for dtype in ("float64", "float32"):
            self._compare(write_document(self.work / "file.json", dtype, defines=False), np.dtype(dtype).type, "--ops", FILE)

    def onnx_with_its_operators(self):
        """Converted, a model holds its definitions, and with --ops those of the file."""
        for source, more in (("formulas", ()), ("file", ("--ops", FILE))):
            document = write_document(self.work / f"{source}.json", "float64", defines=not more)
            model = self.work / f"{source}.onnx"
            command(self.metac, "convert", document, model, *more)
            self._compare(model, np.float64)

    def onnx_of_a_custom_domain(self):
        """A model of somebody else's exporter, whose operators are in a file; attributes by name."""
        import onnx
        from onnx import TensorProto, helper
        node = helper.make_node("swish", ["x"], ["y"], domain="user", beta=0.5)
        port = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in "xy"]
        model = helper.make_model(helper.make_graph([node], "g", port[:1], port[1:]), ir_version=8,
                                  opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("user", 1)])
        onnx.save(model, self.work / "custom.onnx")
        x = np.array([-1, 0.25, 3], np.float32)
        np.save(self.work / "x.npy", x)
        arguments = ("--input", f"x={self.work}/x.npy", "--output-dir", self.work / "custom")
        command(self.metac, "run", self.work / "custom.onnx", "--ops", FILE, *arguments)
        expect(np.allclose(np.load(self.work / "custom/y.npy"), x / (1 + np.exp(-0.5 * x)), atol=1e-6), "swish")
        said = command(self.metac, "run", self.work / "custom.onnx", *arguments, status=1)
        expect('op "swish" (domain user, opset 1) is not known' in said, said)
        command(self.metac, "check", self.work / "custom.onnx", "--ops", FILE)

    def derivatives_by_differences(self):
        document = write_document(self.work / "forward.json", "float64")
        text = json.loads(document.read_text())
        text["nodes"] = [n for n in text["nodes"] if n["op"] != "grad" and n["op"] != "straight_round"]
        text["outputs"] = [n["outputs"][0] for n in text["nodes"]]
        document.write_text(json.dumps(text))
        said = command(self.metac, "verify", document, "--grad", "--order", "2")
        expect("1 passed, 0 failed" in said, said)

    def operators_are_broadcast_and_fused(self):
        ports = [{"name": "a", "dtype": "float32", "shape": [300, 400]}, {"name": "b", "dtype": "float32", "shape": [400]}]
        for fusible, kernels in ((True, 1), (False, 3)):
            define = {"f(x, y)": {"body": "x * tanh(y)", "fusible": fusible}}
            nodes = [{"op": "tanh_", "inputs": ["a"], "outputs": ["t"]}, {"op": "f", "inputs": ["t", "b"], "outputs": ["u"]},
                     {"op": "tanh_", "inputs": ["u"], "outputs": ["v"]}]
            document = {"metac_ir": 1, "define": {**define, "tanh_(x)": "tanh(x)"}, "inputs": ports, "nodes": nodes, "outputs": ["v"]}
            (self.work / "fused.json").write_text(json.dumps(document))
            said = json.loads(command(self.metac, "compile", self.work / "fused.json", "-o", self.work / "fused", "--no-build", "--json"))
            expect(said["kernels"] == kernels, f"fusible {fusible}: {said['kernels']} kernels")

    def integers_truths_and_half_types(self):
        (self.work / "kinds.cpp").write_text("""#include <cstdint>
template <class T> T twice(T x) { return x + x; }
int32_t low_bits(int32_t x, int n = 3) { return x & ((1 << n) - 1); }
bool between(float x, float low = -1, float high = 1) { return low < x && x < high; }
template <class T> T pick(bool which, T a, T b) { return which ? a : b; }
""")
        ports = [{"name": "i", "dtype": "int32", "shape": [4]}, {"name": "x", "dtype": "float32", "shape": [4]},
                 {"name": "h", "dtype": "float16", "shape": [4]}]
        nodes = [("twice", ["i"], ["y0"], {}), ("low_bits", ["i"], ["y1"], {"n": 2}), ("between", ["x"], ["y2"], {}),
                 ("pick", ["y2", "x", "x"], ["y3"], {}), ("twice", ["h"], ["y4"], {})]
        document = {"metac_ir": 1, "inputs": ports, "outputs": ["y0", "y1", "y2", "y3", "y4"],
                    "nodes": [{"op": o, "domain": "user", "inputs": i, "outputs": y, "attributes": a} for o, i, y, a in nodes]}
        (self.work / "kinds.json").write_text(json.dumps(document))
        given = {"i": np.array([-7, 0, 5, 2**30], np.int32), "x": np.array([-1, 0, 0.5, 2], np.float32), "h": np.array([1, 2, 3, 0.1], np.float16)}
        for name, values in given.items():
            np.save(self.work / f"{name}.npy", values)
        command(self.metac, "run", self.work / "kinds.json", "--ops", self.work / "kinds.cpp", "--output-dir", self.work / "kinds",
                *[w for n in given for w in ("--input", f"{n}={self.work / n}.npy")])
        i, x, h = given.values()
        for k, expected in enumerate((i + i, i & 3, np.abs(x) < 1, x, h + h)):
            found = np.load(self.work / f"kinds/y{k}.npy")
            expect(found.dtype == expected.dtype and np.array_equal(found, expected), f"y{k}: {found}, expected {expected}")

    def cuda_kernels_on_the_stand_in(self):
        """Values and derivatives of both kinds by the kernels of the CUDA target, against the reference evaluator."""
        shim = self.build / "bin/metac_run_on_shim"
        for source, more in (("formulas", ()), ("file", ("--ops", FILE))):
            case = self.work / f"cuda/{source}"
            (case / "test_data_set_0").mkdir(parents=True)
            document = write_document(self.work / f"{source}.json", "float32", defines=not more)
            command(self.metac, "convert", document, case / "model.onnx", *more)
            import onnx
            for k, (name, values) in enumerate(points(np.float32).items()):
                tensor = onnx.numpy_helper.from_array(values, name)
                (case / f"test_data_set_0/input_{k}.pb").write_bytes(tensor.SerializeToString())
        toolkit = shutil.copytree(HERE.parent / "cuda/toolkit", self.work / "toolkit")
        stand_in = {**os.environ, "METAC_ALGORITHMS": "off", "METAC_SHIM_BUILDS": str(self.work / "builds"),
                    "PATH": f"{toolkit / 'bin'}:{os.environ['PATH']}"}
        said = command(shim, self.work / "cuda", env=stand_in)
        expect("2 passed, 0 failed, 0 skipped" in said, said)

    def python_module(self):
        """metac.define, metac.define_file and Session(ops=...): both kinds in one process, errors as ModelError."""
        document = json.dumps({"metac_ir": 1, "inputs": [{"name": "x", "dtype": "float64", "shape": ["n"]}], "outputs": ["y", "z", "dx"],
                               "nodes": [{"op": "mish", "domain": "user", "inputs": ["x"], "outputs": ["y"]},
                                         {"op": "rational", "domain": "user", "inputs": ["y"], "outputs": ["z"]},
                                         {"op": "grad", "of": "z", "inputs": ["x"], "outputs": ["dx"]}]})
        program = f"""if True:
            import metac, numpy as np
            x = np.linspace(-2, 2, 50)
            def answers(**more):
                with metac.Session({document.encode()!r}, **more) as session:
                    return session.run({{"x": x}})
            try:
                answers(), print("without operators")
            except metac.ModelError as error:
                assert "imports no opset of domain user" in str(error), error
            by_file = answers(ops=[{str(FILE)!r}])
            metac.define("mish", "x * tanh(log1p(exp(x)))")
            metac.define("rational(x)", "x / (1 + x * x)")
            by_formula = answers()
            metac.define_file({str(FILE)!r})
            for name, expected in by_file.items():
                for found in (by_formula, answers()):
                    assert np.abs(found[name] - expected).max() < 1e-12, name
            y = x * np.tanh(np.log1p(np.exp(x)))
            assert np.abs(by_file["z"] - y / (1 + y * y)).max() < 1e-12
            for wrong in ("x +", "x * nothing(x)"):
                try:
                    metac.define("f(x)", wrong), print("accepted", wrong)
                except metac.ModelError as error:
                    assert "column" in str(error), error
            print("good")"""
        environment = {**os.environ, "PYTHONPATH": str(self.build / "python")}
        said = command(sys.executable, "-c", program, env=environment)
        expect(said == "good\n", said)

    def functions_of_vars(self):
        """What is defined is a function of lazy Vars: values, first and second derivatives of all, numbers by name, another definition of
        the same name, models traced from them."""
        program = f"""if True:
            import sys
            sys.path[:0] = [{str(HERE)!r}]
            import metac, numpy as np
            from functions import FUNCTIONS, STRAIGHT, name_of
            from run_defined import points, references
            inputs = points(np.float64)
            def derivatives(name, function, operands):
                results = {{name: function(*operands.values())}}
                for x, operand in operands.items():
                    first, = metac.grad(metac.op.ReduceSum(results[name], keepdims=0), [operand])
                    second, = metac.grad(metac.op.ReduceSum(first, keepdims=0), [operand])
                    results[f"{{name}}/d{{x}}"], results[f"{{name}}/d{{x}}/d{{x}}"] = first, second
                return results
            found = {{}}
            for signature, formula, reference in FUNCTIONS:
                operands = {{x: metac.array(inputs[x]) for x in "abc"[:reference.__code__.co_argcount - 1]}}
                found.update(derivatives(name_of(signature), metac.define(signature, formula), operands))
            straight = metac.define("straight_round(x)", STRAIGHT[1], gradient=STRAIGHT[2])
            found.update(derivatives("straight_round", straight, {{"a": metac.array(inputs["a"])}}))
            for name, expected in references(inputs).items():
                worst = np.max(np.abs(found[name].numpy() - expected) / (1 + np.abs(expected)))
                assert worst <= (1e-12 if "/" not in name else 1e-5), (name, worst)
            x = metac.array(np.array([-1, 0.25, 3]))
            swish = metac.op.defined("swish")
            assert np.allclose(swish(x, beta=0.5).numpy(), x.numpy() / (1 + np.exp(-0.5 * x.numpy())), atol=1e-12)
            one, other = metac.define("twice_defined(x)", "x + 1"), None
            first = one(x)
            other = metac.define("twice_defined(x)", "x * 10")
            assert (first + other(x)).numpy().tolist() == (x.numpy() * 11 + 1).tolist()
            model = metac.trace(lambda x: swish(x, beta=2) * other(x), [x])
            model.save({str(self.work / 'traced.onnx')!r})
            metac.define_file({str(FILE)!r})
            assert np.allclose(metac.op.defined("mish")(x).numpy(), metac.op.Mish(x).numpy(), atol=1e-12)
            for wrong, word in ((lambda: swish(x, gamma=1), "no attribute"), (lambda: swish(x, beta="much"), "it must be a number"),
                                (lambda: swish(x, x), "takes 1 input"), (lambda: metac.op.defined("nothing"), "no operator")):
                try:
                    wrong(), print("accepted", word)
                except metac.ModelError as error:
                    assert word in str(error), error
            print("good")"""
        environment = {**os.environ, "PYTHONPATH": str(self.build / "python")}
        said = command(sys.executable, "-c", program, env=environment)
        expect(said == "good\n", said)
        x = np.array([-1, 0.25, 3])
        np.save(self.work / "x.npy", x)
        command(self.metac, "run", self.work / "traced.onnx", "--input", f"input={self.work}/x.npy", "--output-dir", self.work / "traced")
        found, = (np.load(f) for f in (self.work / "traced").glob("*.npy"))
        expect(np.allclose(found, x / (1 + np.exp(-2 * x)) * 10 * x, atol=1e-6), f"{found}")

    def the_page(self):
        """The commands and the program of docs/defining_operators.md."""
        page = (HERE.parents[1] / "docs/defining_operators.md").read_text()
        environment = {**os.environ, "PATH": f"{self.metac.parent}:{os.environ['PATH']}", "PYTHONPATH": str(self.build / "python")}
        blocks = re.findall(r"```(sh|python)\n(.*?)```", page, re.S)
        expect([kind for kind, _ in blocks] == ["sh", "sh", "sh", "python", "python"], "the page has lost its examples")
        programs = [text for kind, text in blocks if kind == "python"]   # one program, told in parts
        for kind, text in [*blocks[:3], ("python", "".join(programs))]:
            command(*(("bash", "-e", "-c") if kind == "sh" else (sys.executable, "-c")), text.replace("/tmp/", f"{self.work}/"), env=environment)

    def wrong_formulas(self):
        for define, message in FORMULAS:
            document = {"metac_ir": 1, "define": define, "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}],
                        "nodes": [{"op": "neg", "domain": "metac", "inputs": ["x"], "outputs": ["y"]}], "outputs": ["x"]}
            text = json.dumps(document)
            (self.work / "wrong.json").write_text(text)
            said = command(self.metac, "check", self.work / "wrong.json", status=1)
            expect(message in said, f"{define}: expected {message!r}, said {said!r}")

    def wrong_functions(self):
        (self.work / "any.json").write_text('{"metac_ir": 1, "inputs": ["x"], "nodes": [], "outputs": ["x"]}')
        for text, message in CPP:
            (self.work / "wrong.cpp").write_text(text)
            said = command(self.metac, "check", "any.json", "--ops", "wrong.cpp", status=1, cwd=self.work)
            expect(f"wrong.cpp:{message}" in said, f"{text!r}: expected {message!r}, said {said!r}")

    def no_text_of_a_model_is_code(self):
        """What an expression node may hold is a formula: anything else is refused, and files are named by nobody."""
        for body in ("system(x)", "x; }; void f() { abort(); } {", '__asm__("hlt")', "#include <unistd.h>", "*x", "x[0]", "x = 1; x"):
            document = {"metac_ir": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [2]}], "outputs": ["y"],
                        "nodes": [{"op": "expression", "inputs": ["x"], "outputs": ["y"], "parameters": ["x"], "body": [body]}]}
            (self.work / "hostile.json").write_text(json.dumps(document))
            for more in ((), ("--allow-code",)):
                said = command(self.metac, "run", self.work / "hostile.json", "--input", "x=random", *more, status=1)
                expect("expression " in said, said)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        return run_checks(Checks(args.build.resolve(), pathlib.Path(work)), only=args.only)


if __name__ == "__main__":
    sys.exit(main())
