#!/usr/bin/env python3
"""Compiles models with --grad and compares the derivatives of the libraries with central differences in float64.

    python3 run_derivatives.py --build build/ci [--only WORD]
    needs: pip install numpy onnx; a C++ compiler. With torch installed, the example of docs/gradients.md runs too.

For every model, at random points and along random directions of all inputs and parameters: jvp against differences of
the outputs, vjp against jvp (<c, J t> = <J'c, t>), hvp against differences of vjp; parameters are moved by set_weights.
The same bits for one and two threads. Ends with 'N passed, N failed'.
"""
import argparse
import importlib
import importlib.util
import json
import os
import pathlib
import re
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from checks import command, expect, run_checks  # noqa: E402

DIGITS = ROOT / "models/digits"
DOUBLE, INT64 = TensorProto.DOUBLE, TensorProto.INT64


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def model(nodes, inputs, outputs, weights=()):
    """inputs and outputs: (name, dtype, dims); weights: (name, array)."""
    def values(ports):
        return [helper.make_tensor_value_info(*port) for port in ports]
    graph = helper.make_graph(nodes, "g", values(inputs), values(outputs), [numpy_helper.from_array(w, n) for n, w in weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def networks():
    """Name, model, and inputs for one and for another value of the open dims."""
    rng = np.random.default_rng(7)

    def w(*shape):
        return rng.standard_normal(shape) * 0.5

    table, weights = w(5, 4), [("table", w(5, 4)), ("w1", w(4, 6)), ("b1", w(6)), ("w2", w(6, 3)), ("unused", w(2))]
    nodes = [node("Gather", "table ids", "rows"), node("Mul", "rows x", "m"), node("MatMul", "m w1", "h0"), node("Add", "h0 b1", "h1"), node("Tanh", "h1", "h2"),
             node("MatMul", "h2 w2", "y"), node("ArgMax", "y", "best", axis=1), node("Identity", "x", "same")]
    yield ("two inputs, one of integers; three outputs, one of integers",
           model(nodes, [("ids", INT64, ["n"]), ("x", DOUBLE, ["n", 4])], [("y", DOUBLE, ["n", 3]), ("best", INT64, None), ("same", DOUBLE, None)], weights),
           [{"ids": rng.integers(0, 5, n), "x": w(n, 4)} for n in (3, 7)])

    weights = [("k1", w(4, 3, 3, 3)), ("c1", w(4)), ("scale", 1 + 0.1 * w(4)), ("shift", w(4)), ("mean", w(4)), ("var", 1 + 0.1 * np.abs(w(4))), ("k2", w(6, 4, 3, 3)), ("fc", w(6, 5))]
    nodes = [node("Conv", "x k1 c1", "a", pads=[1, 1, 1, 1]), node("BatchNormalization", "a scale shift mean var", "b"), node("Sigmoid", "b", "s"), node("Mul", "b s", "silu"),
             node("Conv", "silu k2", "c", strides=[2, 2]), node("MaxPool", "c", "d", kernel_shape=[2, 2]), node("GlobalAveragePool", "d", "e"), node("Flatten", "e", "f"),
             node("Gemm", "f fc", "g"), node("Softmax", "g", "p")]
    yield "convolutions", model(nodes, [("x", DOUBLE, ["n", 3, 9, 9])], [("p", DOUBLE, ["n", 5])], weights), [{"x": w(n, 3, 9, 9)} for n in (2, 1)]

    weights = [("q", w(8, 8)), ("k", w(8, 8)), ("v", w(8, 8)), ("gain", 1 + 0.1 * w(8)), ("bias", w(8)), ("axes", np.array(8.0 ** -0.5))]
    nodes = [node("LayerNormalization", "x gain bias", "z"), node("MatMul", "z q", "Q"), node("MatMul", "z k", "K"), node("MatMul", "z v", "V"),
             node("Transpose", "K", "KT", perm=[0, 2, 1]), node("MatMul", "Q KT", "QK"), node("Mul", "QK axes", "scores"), node("Softmax", "scores", "P"), node("MatMul", "P V", "A"),
             node("Add", "A x", "R"), node("Erf", "R", "E"), node("Mul", "E R", "y")]
    yield "attention", model(nodes, [("x", DOUBLE, [2, "time", 8])], [("y", DOUBLE, [2, "time", 8])], weights), [{"x": w(2, t, 8)} for t in (3, 5)]

    weights = [("W", w(1, 16, 3)), ("R", w(1, 16, 4)), ("B", w(1, 32))]
    nodes = [node("LSTM", "x W R B", "Y Yh", hidden_size=4)]
    yield "a recurrent network", model(nodes, [("x", DOUBLE, ["time", 2, 3])], [("Y", DOUBLE, None), ("Yh", DOUBLE, None)], weights), [{"x": w(t, 2, 3)} for t in (4, 2)]

    body = helper.make_graph([node("Identity", "on", "on_out"), node("MatMul", "h inner", "a"), node("Add", "a x", "b"), node("Tanh", "b", "h_out")], "body",
                             [helper.make_tensor_value_info("k", INT64, []), helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("h", DOUBLE, ["n", 4])],
                             [helper.make_tensor_value_info("on_out", TensorProto.BOOL, []), helper.make_tensor_value_info("h_out", DOUBLE, ["n", 4])],
                             [numpy_helper.from_array(w(4, 4), "inner")])
    nodes = [node("Loop", "trips going x", "last", body=body), node("MatMul", "last outer", "y")]
    yield ("a loop whose number of trips is an input, with a parameter in its body",
           model(nodes, [("x", DOUBLE, ["n", 4]), ("trips", INT64, [])], [("y", DOUBLE, ["n", 2])], [("going", np.array(True)), ("outer", w(4, 2))]),
           [{"x": w(n, 4), "trips": np.array(t)} for n, t in ((3, 4), (2, 1), (2, 0))])

    for name, steps in (("grows", [node("Tanh", "h", "t"), node("Concat", "t x", "h_out", axis=0)]), ("shrinks", [node("Tanh", "h", "t"), node("Slice", "t one most", "h_out")])):
        body = helper.make_graph([node("Identity", "on", "on_out"), *steps], "body",
                                 [helper.make_tensor_value_info("k", INT64, []), helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("h", DOUBLE, None)],
                                 [helper.make_tensor_value_info("on_out", TensorProto.BOOL, []), helper.make_tensor_value_info("h_out", DOUBLE, None)])
        nodes = [node("Loop", "trips going x", "last", body=body), node("MatMul", "last outer", "a"), node("Sin", "a", "b"), node("ReduceSum", "b rows", "y")]
        yield (f"a loop whose value {name}",
               model(nodes, [("x", DOUBLE, ["n", 4]), ("trips", INT64, [])], [("y", DOUBLE, [1, 2])],
                     [("going", np.array(True)), ("outer", w(4, 2)), ("one", np.array([1])), ("most", np.array([99])), ("rows", np.array([0]))]),
               [{"x": w(n, 4), "trips": np.array(t)} for n, t in ((3, 1), (5, 0), (1, 1))])


def parameters_of(graph):
    """The initializers of a graph and of the bodies in it, by name."""
    found = {i.name: numpy_helper.to_array(i) for i in graph.initializer if i.data_type == DOUBLE}
    for each in graph.node:
        for attribute in each.attribute:
            found.update(parameters_of(attribute.g))
    return found


class Library:
    """A compiled model, at a point: inputs and parameters by name."""

    def __init__(self, module, threads=1):
        self.model = module.Model(threads=threads)
        self.values = [port.name for port in self.model.differentiable]

    def at(self, point):
        self.model.set_weights({port.name: point[port.name] for port in self.model.parameters})
        return {port.name: point[port.name] for port in self.model.inputs}


def moved(point, direction, step):
    return {name: value + step * direction[name] if name in direction else value for name, value in point.items()}


def near(a, b, what, tolerance=2e-6):
    expect(a.keys() == b.keys(), f"{what}: {list(a)} and {list(b)}")
    for name in a:
        expect(a[name].shape == b[name].shape, f"{what} of {name}: shapes {a[name].shape} and {b[name].shape}")
        error = np.abs(a[name] - b[name]).max(initial=0) / (1 + np.abs(b[name]).max(initial=0))
        expect(error <= tolerance, f"{what} of {name}: {error:.2g} beside central differences")


def total(a, b):
    return sum(float((a[name] * b[name]).sum()) for name in a)


def model_of_squares():
    return model([node("Mul", "x x", "y")], [("x", DOUBLE, [3])], [("y", DOUBLE, [3])])


class Checks:
    """Every method is a check, run in this order."""

    def __init__(self, work, metac):
        self.work, self.metac = work, metac
        sys.path.insert(0, str(work))

    def compile(self, name, what, *options, status=0):
        path = what if isinstance(what, pathlib.Path) else self.work / f"{name}.onnx"
        if path != what:
            onnx.save(what, path)
        cpu = () if "--cpu" in options else ("--cpu", "native")
        said = command(self.metac, "compile", path, "-o", self.work / f"{name}.library", "--name", name, *cpu, *options, status=status)
        if status:
            return said
        sys.path.insert(0, str(self.work / f"{name}.library/python"))
        return importlib.import_module(name)

    def differences(self, network, inputs, parameters, rng, threads):
        library = Library(network, threads)
        point = {**inputs, **parameters}
        along = {name: rng.standard_normal(point[name].shape) for name in library.values}
        given = library.at(point)
        outputs = library.model.run(given)
        cotangents = {name: rng.standard_normal(value.shape) for name, value in outputs.items() if value.dtype.kind == "f"}
        seen, gradients = library.model.vjp(given, cotangents)
        again, tangents = library.model.jvp(given, along)
        products = library.model.hvp(given, cotangents, along)
        near(seen, outputs, "vjp's output", 1e-13)
        near(again, outputs, "jvp's output", 1e-13)
        expect(abs(total(cotangents, tangents) - total(gradients, along)) <= 1e-10 * (1 + abs(total(gradients, along))), "vjp and jvp contradict each other")
        step, sides = 1e-5, []
        for sign in (1, -1):
            there = library.at(moved(point, along, sign * step))
            sides.append((library.model.run(there), library.model.vjp(there, cotangents)[1]))
        slope = [{name: (plus[name] - minus[name]) / (2 * step) for name in plus} for plus, minus in zip(*sides)]
        near(tangents, {name: slope[0][name] for name in cotangents}, "jvp")
        near(products, slope[1], "hvp")
        return gradients, tangents, products

    def central_differences(self):
        rng = np.random.default_rng(3)
        for k, (name, network, points) in enumerate(networks()):
            module = self.compile(f"net_{k}", network, "--grad")
            weights = parameters_of(network.graph)
            for inputs in points:
                seed = rng.integers(1 << 30)
                try:
                    results = [self.differences(module, inputs, weights, np.random.default_rng(seed), threads) for threads in (1, 2)]
                except RuntimeError as error:
                    raise RuntimeError(f"{name}: {error}") from None
                for one, two in zip(*results):
                    expect(all((one[value] == two[value]).all() for value in one), f"{name}: other bits with two threads")
            print(f"ok    {name}: by {', '.join(results[0][0])}")

    def by_inputs_or_parameters_alone(self):
        _, network, points = next(networks())
        everything = Library(self.compile("wrt_all", network, "--grad"))
        cotangents = {"y": np.ones((3, 3))}
        _, gradients = everything.model.vjp(points[0], cotangents)
        expect(set(gradients) == {"x", "table", "w1", "b1", "w2"}, f"gradients of {list(gradients)}")
        for wrt, names in (("inputs", ["x"]), ("parameters", ["table", "w1", "b1", "w2"])):
            some = Library(self.compile(f"wrt_{wrt}", network, f"--grad={wrt}"))
            expect(some.values == names, f"{wrt}: {some.values}")
            near(some.model.vjp(points[0], cotangents)[1], {name: gradients[name] for name in names}, "the gradient", 1e-13)
        expect('input "cotangent of y", dim 0 is 2' in str(self.failure(everything.model.vjp, points[0], {"y": np.ones((2, 3))})), "a cotangent of another shape")
        expect("unknown ['best']" in str(self.failure(everything.model.vjp, points[0], {"best": np.ones(3)})), "an output without a derivative")

    def some_of_the_functions(self):
        """--derivatives, and inline C++, which has those that its author gave."""
        square = self.work / "code.json"
        square.write_text(json.dumps({"metac_ir": 1, "inputs": [{"name": "a", "dtype": "float64", "shape": ["n"]}], "nodes": [
            {"op": "code", "inputs": ["a"], "outputs": ["b"], "shape": "a.shape", "cpu": "for (int64_t i = 0; i < in0_shape0; ++i) @out(i) = @in0(i) * @in0(i);",
             "grad": "for (int64_t i = 0; i < in0_shape0; ++i) @out(i) = @dout(i) * @in0(i) * 2;", "tangent": "for (int64_t i = 0; i < in0_shape0; ++i) @out(i) = @tin0(i) * @in0(i) * 2;"}],
            "outputs": ["b"]}))
        point, unit = {"a": np.array([1.0, 2, 3])}, np.array([1.0, 10, 100])
        for chosen in (["vjp"], ["jvp"], ["vjp", "jvp"]):
            model = self.compile("code_" + "_".join(chosen), square, "--allow-code", "--grad", "--derivatives", ",".join(reversed(chosen))).Model()
            expect([f for f in ("vjp", "jvp", "hvp") if hasattr(model, f)] == chosen, f"{chosen}: other functions")
            expect([port.name for port in model.differentiable] == ["a"], "differentiable")
            if "vjp" in chosen:
                near(model.vjp(point, {"b": unit})[1], {"a": np.array([2.0, 40, 600])}, "the gradient", 1e-15)
            if "jvp" in chosen:
                near(model.jvp(point, {"a": unit})[1], {"b": np.array([2.0, 40, 600])}, "the tangent", 1e-15)
        expect("--derivatives" in self.compile("code_hvp", square, "--allow-code", "--grad", status=1), "the second derivative of C++")
        expect("give --grad too" in self.compile("code_none", square, "--allow-code", "--derivatives", "vjp", status=2), "--derivatives alone")
        product = Library(self.compile("hvp_alone", model_of_squares(), "--grad", "--derivatives", "hvp")).model.hvp({"x": np.ones(3)}, {"y": np.ones(3)}, {"x": unit})
        near(product, {"x": 2 * unit}, "the product", 1e-15)

    @staticmethod
    def failure(function, *arguments):
        try:
            function(*arguments)
        except (RuntimeError, ValueError) as error:
            return error
        raise RuntimeError("accepted")

    def memory_with_an_open_batch(self):
        """The gradient by the image of a strided convolution with few channels: its windows must not be stored one by one."""
        network = model([node("Conv", "x k", "y", strides=[2, 2], pads=[3, 3, 3, 3])], [("x", TensorProto.FLOAT, ["n", 3, 64, 64])], [("y", TensorProto.FLOAT, ["n", 64, 32, 32])],
                        [("k", np.random.default_rng(5).standard_normal((64, 3, 7, 7)).astype("f4"))])
        self.compile("window", network, "--grad=inputs")
        said = command(sys.executable, "-c", """
import resource, numpy, window
model = window.Model(threads=1)
x, c = {"x": numpy.ones((1, 3, 64, 64), "f4")}, {"y": numpy.ones((1, 64, 32, 32), "f4")}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
_, gradients = model.vjp(x, c)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
""", env={**os.environ, "PYTHONPATH": str(self.work / "window.library/python")})
        expect(int(said) < 64, f"{said.strip()} MiB for the gradient of 12288 elements")

    def several_instruction_sets(self):
        module = self.compile("sets", DIGITS / "digits.onnx", "--grad", "--cpu", "x86-64,x86-64-v3,x86-64-v4")
        image, kept = {"image": np.load(DIGITS / "digit_3.npy")}, []
        for cpu in ("x86-64-v4", "x86-64-v3", "x86-64"):
            try:
                network = module.Model(cpu=cpu)
            except module.Error as error:
                expect("this CPU has no" in str(error), error)
                continue
            cotangents = {"probabilities": np.eye(10, dtype="f4")[3:4]}
            kept.append((network.vjp(image, cotangents)[1], network.hvp(image, cotangents, {"fc.bias": np.ones(10, "f4")})))
            for one, other in zip(kept[0], kept[-1]):
                near(one, other, f"{cpu}: the derivative", 1e-4)
        expect(np.abs(kept[0][0]["fc.weight"]).max() > 0, "no gradient")

    def what_has_no_derivative_is_said(self):
        count = model([node("NonZero", "x", "where"), node("Gather", "x where", "y")], [("x", DOUBLE, [4])], [("y", DOUBLE, None)])
        expect("can have no cotangent" in self.compile("late", count, "--grad", status=1), "a shape that the data decides")
        integers = model([node("ArgMax", "x", "y", axis=0)], [("x", DOUBLE, [4])], [("y", INT64, None)])
        expect("nothing to differentiate" in self.compile("integers", integers, "--grad", status=1), "no floating-point output")
        _, growing, _ = next(n for n in networks() if n[0] == "a loop whose value grows")
        library = Library(self.compile("growing", growing, "--grad", "--derivatives", "vjp"))
        twice = library.at({"x": np.ones((3, 4)), "trips": np.array(2), **parameters_of(growing.graph)})
        expect("a loop stacks values of different shapes" in str(self.failure(library.model.vjp, twice, {"y": np.ones((1, 2))})), "a value that grew twice")
        plain = model([node("Exp", "x", "y")], [("x", DOUBLE, [4])], [("y", DOUBLE, [4])])
        expect("nothing to differentiate by" in self.compile("plain", plain, "--grad=parameters", status=1), "no parameter")

    def from_cpp(self):
        """net.hpp and net.h, the library built by stock cmake."""
        square = model([node("Mul", "x x", "y0"), node("Mul", "y0 w", "y")], [("x", DOUBLE, ["n"])], [("y", DOUBLE, ["n"])], [("w", np.array([2.0]))])
        self.compile("square", square, "--grad")
        folder, program = self.work / "square.library", self.work / "from_cpp"
        command("cmake", "-G", "Ninja", "-S", folder, "-B", self.work / "square.build")
        command("cmake", "--build", self.work / "square.build")
        (self.work / "from_cpp.cpp").write_text(r"""
#include <cmath>
#include <cstdio>
#include <cstring>
#include "square.hpp"
static double at(const square::Tensor& t, int i) { return static_cast<const double*>(t.data)[i]; }
int main() {
  square::Model model(1);
  const double x[] = {1, -2, 3}, c[] = {1, 10, 100}, tx[] = {1, 1, 0}, tw[] = {0.5};
  const auto X = square::tensor(x, {3}), C = square::tensor(c, {3}), TX = square::tensor(tx, {3}), TW = square::tensor(tw, {1});
  if (SQUARE_VJP_INPUTS != 2 || SQUARE_VJP_OUTPUTS != 3 || std::strcmp(square_vjp_output(2)->name, "gradient of w") != 0) return 1;
  auto g = model.vjp({X, C});         // y = w x^2: dx = 2 w x c, dw = sum c x^2
  if (at(g[0], 2) != 18 || at(g[1], 0) != 4 || at(g[1], 1) != -80 || at(g[1], 2) != 1200 || at(g[2], 0) != 941) return 2;
  auto t = model.jvp({X, TX, TW});    // 2 w x tx + x^2 tw
  if (at(t[1], 0) != 4.5 || at(t[1], 1) != -6 || at(t[1], 2) != 4.5) return 3;
  auto h = model.hvp({X, C, TX, TW}); // 2 c (w tx + x tw); sum 2 c x tx
  if (at(h[0], 0) != 5 || at(h[0], 1) != 20 || at(h[0], 2) != 300 || at(h[1], 0) != -38) return 4;
  try { model.vjp({X}); return 5; } catch (const square::Error& e) { if (e.status != SQUARE_INVALID_ARGUMENT) return 6; }
  std::puts("good");
}
""")
        command("c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", self.work / "from_cpp.cpp", "-o", program, f"-I{folder}/include", f"-L{self.work}/square.build", "-lsquare",
                f"-Wl,-rpath,{self.work}/square.build")
        expect(command(program).strip() == "good", "answers of C++")

    def examples_of_the_documentation(self):
        examples = re.findall(r"```python\n(.*?)```", (ROOT / "docs/gradients.md").read_text(), re.S)
        expect(len(examples) == 2 and "torch" in examples[1], "docs/gradients.md has lost its examples")
        self.compile("digits", DIGITS / "digits.onnx", "--grad")
        environment = {**os.environ, "PYTHONPATH": str(self.work / "digits.library/python")}
        for text in examples:
            if "torch" in text and importlib.util.find_spec("torch") is None:
                print("ok    the example for torch: skipped, torch is not installed")
                continue
            command(sys.executable, "-c", text, cwd=ROOT, env=environment)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="metac's build folder")
    parser.add_argument("--only", default="", help="the checks with this word in their name")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="metac-derivatives-") as folder:
        return run_checks(Checks(pathlib.Path(folder), arguments.build.resolve() / "bin/metac"), ("compile", "differences", "failure"), arguments.only)


if __name__ == "__main__":
    sys.exit(main())
