"""From code to a product: traced, saved, compiled ahead of time, called from C."""
import pathlib
import re
import subprocess
import sys
import tempfile

import metac
import numpy as np
import onnx
from expectations import expect, raises
from metac import op

ROOT = pathlib.Path(__file__).resolve().parents[2]
CALLER = r"""
#include <stdio.h>
#include "reader.h"

int main(int argc, char** argv) {
  float image[64], scores[10];
  FILE* file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  if (!file || fread(image, sizeof image[0], 64, file) != 64) return 2;
  fclose(file);
  reader_context* context = NULL;
  if (reader_create(NULL, &context) != READER_OK) return 3;
  reader_tensor input = {image, sizeof image, 4, {1, 1, 8, 8}, READER_TYPE(READER_FLOAT32)};
  reader_tensor output = {scores, sizeof scores, 0, {0}, READER_TYPE(READER_FLOAT32)};
  if (reader_run(context, &input, 1, &output, 1) != READER_OK) return 4;
  reader_destroy(context);
  for (int k = 0; k < 10; ++k) printf("%.9g\n", scores[k]);
  return 0;
}
"""


class TracingChecks:
    def __init__(self, build):
        self._build = build

    def saved_models_say_the_same(self):
        w, b = metac.array(np.random.default_rng(1).standard_normal((3, 4)).astype("f4")), metac.array(np.ones(4, "f4"))
        x = np.random.default_rng(2).standard_normal((2, 3)).astype("f4")

        def function(x, y):
            h = (x @ w + b).relu()
            for _ in range(3):
                h = h * 0.5 + 1
            return h.reshape(h.shape[0], -1), y
        model = metac.trace(function, [x, x], weights={"layer.weight": w}, output_names=["h", "same"])
        with tempfile.TemporaryDirectory() as folder:
            for name in ("net.onnx", "net.json"):
                path = str(pathlib.Path(folder) / name)
                model.save(path)
                with metac.Session(path) as session:
                    answer = session.run({"input0": x, "input1": x + 1})
                expect(np.allclose(answer["h"], function(metac.array(x), x)[0].numpy(), rtol=1e-6), name)
                expect((answer["same"] == x + 1).all(), name)
            loaded = onnx.load(str(pathlib.Path(folder) / "net.onnx"))
            onnx.checker.check_model(loaded, full_check=True)
            expect("layer.weight" in [i.name for i in loaded.graph.initializer], "the weight's name")

    def gradients_can_be_traced(self):
        x = np.linspace(-1, 1, 5).astype("f4")
        model = metac.trace(lambda x: metac.grad((x * x * x).sum(), x), [x])
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "slope.json")
            model.save(path)
            with metac.Session(path) as session:
                expect(np.allclose(session.run({"input": x})["output"], 3 * x * x, atol=1e-6), "the slope")

    def a_look_is_told_with_its_line(self):
        def looks(x):
            y = x * 2
            if y.sum() > 0:  # this line looks
                y = -y
            return y
        message = raises(metac.Error, metac.trace, looks, [np.ones(3, "f4")])
        expect("traced" in message and "tracing_checks.py:" in message, message)

    def compiled_and_called_from_c(self):
        rng = np.random.default_rng(3)
        kernel = metac.array((rng.standard_normal((4, 1, 3, 3)) / 3).astype("f4"))
        weight = metac.array((rng.standard_normal((10, 256)) / 16).astype("f4"))

        def net(x):
            h = op.Relu(op.Conv(x, kernel, pads=[1, 1, 1, 1]))
            return (h.flatten(1) @ weight.T).softmax(1)
        image = np.load(ROOT / "models/digits/digit_3.npy") / 16
        model = metac.trace(net, [image], input_names=["image"], output_names=["scores"])
        with tempfile.TemporaryDirectory() as folder:
            out = pathlib.Path(folder) / "out"
            model.compile(out, name="reader", cpu="native", embed_weights=True)
            (pathlib.Path(folder) / "caller.c").write_text(CALLER)
            image.astype("f4").tofile(pathlib.Path(folder) / "image")
            program = pathlib.Path(folder) / "caller"
            subprocess.run(["cc", "-I", out / "include", pathlib.Path(folder) / "caller.c", "-o", program,
                            out / "lib/libreader.a", "-lm", "-lstdc++", "-lpthread"], check=True)
            image_file = pathlib.Path(folder) / "image"
            printed = subprocess.run([program, image_file], check=True, stdout=subprocess.PIPE, text=True)
        scores = np.array(printed.stdout.split(), "f4")
        expect(np.allclose(scores, net(metac.array(image)).numpy()[0], rtol=1e-5, atol=1e-6), f"{scores}")

    def mistakes_of_compile_are_told(self):
        model = metac.trace(lambda x: x + 1, [np.ones(2, "f4")])
        with tempfile.TemporaryDirectory() as folder:
            message = raises(metac.ModelError, model.compile, pathlib.Path(folder) / "out", no_such_option=True)
            expect("no-such-option" in message, message)

    def the_page_does_what_it_shows(self):
        page = (ROOT / "docs/lazy.md").read_text()
        programs = re.findall(r"```python\n(.*?)```\n(?:```text\n(.*?)```)?", page, re.S)
        expect(len(programs) > 5, "the page shows no programs")
        done = subprocess.run([sys.executable, "-c", "".join(told for told, _ in programs)], capture_output=True, text=True,
                              cwd=ROOT, check=False)
        expect(done.returncode == 0, done.stderr[-1000:])
        shown = "".join(printed for _, printed in programs)
        expect(done.stdout == shown, f"the page shows\n{shown}\nand it is\n{done.stdout}")

    def open_dims_follow_from_several_calls(self):
        rng = np.random.default_rng(3)
        net = Attention(8, 2)
        x = rng.standard_normal((1, 6, 8)).astype("f4")
        model = metac.trace(net, [x], dims=[{0: "batch", 1: "length"}], output_names=list("abcdef"))
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "net.onnx")
            model.save(path)
            loaded = onnx.load(path)
            onnx.checker.check_model(loaded, full_check=True)
            for port in (loaded.graph.input[0], loaded.graph.output[0]):
                told = [dim.dim_param or dim.dim_value for dim in port.type.tensor_type.shape.dim]
                expect(told == ["batch", "length", 8], f"{port.name} is declared {told}")
            with metac.Session(path) as session:
                for shape in [(1, 6, 8), (2, 5, 8), (3, 1, 8), (4, 9, 8)]:
                    given = rng.standard_normal(shape).astype("f4")
                    answer = session.run({"input": given})
                    for name, wanted in zip("abcdef", net(metac.array(given))):
                        close = answer[name].shape == wanted.shape and np.allclose(answer[name], wanted.numpy(), atol=1e-5)
                        expect(close, f"output {name} of {shape}")

    def open_dims_of_modules_with_strides(self):
        nn = metac.nn
        net = nn.Sequential(nn.Conv(3, 4, 3, stride=2, padding=1), op.Relu, nn.Conv(4, 4, 3, stride=2, padding=1),
                            lambda h: op.Resize(h, None, [1.0, 1.0, 4.0, 4.0]), lambda h: h.reshape(h.shape[0], 4, -1)).eval()
        names = {0: "n", 2: "h", 3: "w"}
        model = metac.trace(net, [np.zeros((1, 3, 16, 32), "f4")], dims=[names])
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "net.onnx")
            model.save(path)
            with metac.Session(path) as session:
                for shape in [(2, 3, 8, 4), (1, 3, 7, 13)]:
                    given = np.random.default_rng(4).standard_normal(shape).astype("f4")
                    wanted = net(metac.array(given)).numpy()
                    expect(np.allclose(session.run({"input": given})["output"], wanted, atol=1e-5), f"{shape}")

    def what_open_dims_cannot_be(self):
        x = np.zeros((4, 6), "f4")

        def refused(function, *words, dims=({0: "n"},)):
            message = raises(metac.ModelError, metac.trace, function, [x], dims=list(dims))
            expect(all(word in message for word in words), message)

        refused(lambda x: x * 2 if x.shape[0] > 5 else x + 1, "tracing_checks.py:", "n=")
        refused(lambda x: x * float(x.shape[0] ** 3 + 1), "tracing_checks.py:", "is no dim")
        refused(lambda x: x + metac.array(np.arange(x.shape[0], dtype="f4")[:, None]), "constant of shape")
        refused(lambda x: metac.op.LayerNormalization(x.T, metac.array(np.ones(1, "f4")), epsilon=x.shape[0] * 1e-3),
                "attributes")
        refused(lambda x: [x] * x.shape[0], "more or fewer")
        raises(metac.ArgumentError, metac.trace, lambda x: x, [x], dims=[{2: "n"}])
        raises(metac.ArgumentError, metac.trace, lambda x: x, [x], dims=[{0: "n", 1: "n"}])
        raises(metac.ArgumentError, metac.trace, lambda x: x, [x], dims=[{0: "n"}, {0: "n"}])
        # Where odd sizes are refused, multiples are tried.
        model = metac.trace(halves, [x], dims=[{0: "n"}])
        with tempfile.TemporaryDirectory() as folder:
            path = str(pathlib.Path(folder) / "net.json")
            model.save(path)
            with metac.Session(path) as session:
                given = np.random.default_rng(5).standard_normal((10, 6)).astype("f4")
                expect((session.run({"input": given})["output"] == given[:5] - given[5:]).all(), "halves")

    def weights_that_are_yet_to_be_computed(self):
        w = metac.array(np.ones((6, 2), "f4"))
        w.assign(w * 3)
        model = metac.trace(lambda x: x @ w, [np.zeros((4, 6), "f4")], weights={"w": w})
        with tempfile.TemporaryDirectory() as folder:
            model.save(str(pathlib.Path(folder) / "net.onnx"))
            made = onnx.load(str(pathlib.Path(folder) / "net.onnx")).graph.initializer[0]
        expect(made.name == "w" and (onnx.numpy_helper.to_array(made) == 3).all(), "the weight")


def halves(x):
    if x.shape[0] % 2:
        raise ValueError("an odd number of rows")
    half = x.shape[0] // 2
    return x[:half] - x[half:]


class Attention(metac.nn.Module):
    """Numbers that depend on sizes in all ways: as dims, products, quotients, differences, real factors."""

    def __init__(self, width, heads):
        self.qkv, self.out, self.norm = metac.nn.Linear(width, 3 * width), metac.nn.Linear(width, width), metac.nn.LayerNorm(width)
        self.heads = heads

    def forward(self, x):
        b, n, width = x.shape
        split = self.qkv(self.norm(x)).reshape(b, n, 3, self.heads, width // self.heads).transpose(2, 0, 3, 1, 4)
        q, k, v = (split[i] for i in range(3))
        scores = (q @ k.transpose(0, 1, 3, 2) / (width // self.heads) ** 0.5).softmax()
        y = (scores @ v).transpose(0, 2, 1, 3).reshape(b * n, width)
        return (x + self.out(y).reshape(b, n, width), y.sum(0) / (b * n), x[:, :-1], x[:, :n // 2], x.sum() * n ** -0.5,
                op.Expand(x.sum(1, keepdims=True), [b, n + 2, width]))
