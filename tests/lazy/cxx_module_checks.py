"""metac/nn.hpp beside metac.nn: the same weights and inputs give the same outputs, gradients, states and files."""
import math
import pathlib
import tempfile

import metac
import numpy as np
from cxx_programs import answer_of, built
from expectations import expect
from metac import nn, op
from metac.nn.module import load_weights, save_weights

HERE = pathlib.Path(__file__).resolve().parent
RNG = np.random.default_rng(41)


class Net(nn.Module):
    def __init__(self):
        self.first, self.norm = nn.Conv(1, 4, 3, padding=1), nn.BatchNorm(4)
        self.blocks = [nn.Sequential(nn.Linear(8, 8), op.Relu), nn.Sequential(nn.Linear(8, 8, bias=False))]
        self.scale = self.same = metac.array(np.ones(1, "f4"))

    def forward(self, x):
        x = self.norm(self.first(x)).relu()
        for block in self.blocks:
            x = block(x)
        return x * self.scale


def one(module, inputs):
    return [module(inputs["x"])]


def to_memory(module, inputs):
    return [module(inputs["x"], inputs["memory"])]


def lstm_twice(module, inputs):
    y, state = module(inputs["x"])
    z, (h, c) = module(inputs["x"], state)
    return [y, z, h, c]


def gru_twice(module, inputs):
    y, h = module(inputs["x"])
    return [y, module(inputs["x"], h)[0]]


IMAGE = {"x": (2, 4, 6, 5)}
# As modules.cpp has them: the module, shapes of its inputs, its call.
MODULES = {
    "linear": (nn.Linear(5, 3), IMAGE, one),
    "linear without bias": (nn.Linear(5, 3, bias=False), IMAGE, one),
    "conv": (nn.Conv(4, 6, 3, stride=2, padding=(1, 2)), IMAGE, one),
    "conv of one axis": (nn.Conv(4, 6, (3,), groups=2), {"x": (2, 4, 7)}, one),
    "conv of three axes": (nn.Conv(2, 3, (2, 3, 3), dilation=(1, 2, 1), bias=False), {"x": (1, 2, 4, 7, 5)}, one),
    "transposed": (nn.ConvTranspose(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), IMAGE, one),
    "layer norm": (nn.LayerNorm((6, 5), epsilon=1e-3), IMAGE, one),
    "layer norm of one axis": (nn.LayerNorm(5), IMAGE, one),
    "group norm": (nn.GroupNorm(2, 4), IMAGE, one),
    "instance norm": (nn.InstanceNorm(4), IMAGE, one),
    "batch norm": (nn.BatchNorm(4, momentum=0.3), IMAGE, one),
    "embedding": (nn.Embedding(7, 3), {"x": (2, 5)}, one),
    "sequential": (nn.Sequential(nn.Linear(5, 4), op.Tanh, nn.Sequential(nn.Linear(4, 2), op.Relu)), IMAGE, one),
    "net": (Net(), {"x": (3, 1, 8, 8)}, one),
    "attention": (nn.MultiHeadAttention(8, 2, causal=True), {"x": (2, 5, 8)}, one),
    "attention to memory": (nn.MultiHeadAttention(8, 4), {"x": (2, 5, 8), "memory": (2, 7, 8)}, to_memory),
    "lstm": (nn.LSTM(3, 4), {"x": (5, 2, 3)}, lstm_twice),
    "gru": (nn.GRU(3, 4, bidirectional=True), {"x": (5, 2, 3)}, gru_twice),
}


def reported(module, inputs, call):
    """What modules.cpp writes of a module."""
    outputs = call(module, inputs)
    by = module.parameters()
    if inputs["x"].dtype == "float32":
        by = {**by, "x": inputs["x"]}
    total = sum(((y * y * y).sum() for y in outputs[1:]), (outputs[0] * outputs[0] * outputs[0]).sum())
    made = {f"slope of {path}": slope for path, slope in zip(by, metac.grad(total, list(by.values())))}
    made.update({f"output {k}": y for k, y in enumerate(outputs)})
    module.eval()
    made.update({f"later {k}": y for k, y in enumerate(call(module, inputs))})
    metac.evaluate(*made.values())
    return {name: var.numpy() for name, var in made.items()}


class CxxModuleChecks:
    def __init__(self, build):
        self._build = build

    def modules_in_cxx(self):
        inputs, worst = {}, 0.0
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for name, (module, shapes, _) in MODULES.items():
                # Other weights and states than those that all begin with, so that each is seen to count.
                for var in module.parameters(states=True).values():
                    var.assign(metac.array(RNG.uniform(0.5, 1, var.shape).astype("f4")) * 0.5 + var * 0.5)
                arrays = {key: RNG.standard_normal(shape).astype("f4") for key, shape in shapes.items()}
                if name == "embedding":
                    arrays = {"x": RNG.integers(0, 7, shapes["x"])}
                inputs[name] = {key: metac.array(value) for key, value in arrays.items()}
                save_weights(folder / f"{name}.inputs", inputs[name])
                module.save(folder / f"{name}.weights")
            answer_of(built(self._build, HERE / "cxx/modules.cpp", folder / "modules"), folder)
            for name, (module, _, call) in MODULES.items():
                wanted, got = reported(module, inputs[name], call), load_weights(folder / f"{name}.outputs")
                expect(list(wanted) == list(got), f"{name}: {list(got)} for {list(wanted)}")
                for key, value in wanted.items():
                    worst = max(worst, float(np.max(np.abs(got[key] - value) / np.maximum(1, np.abs(value)))))
                    expect(np.allclose(got[key], value, rtol=1e-6, atol=1e-6), f"{name}: {key}")
                states, saved = module.parameters(states=True), load_weights(folder / f"{name}.saved")
                expect(list(states) == list(saved), f"{name}: {list(saved)} for {list(states)}")
                for key, var in states.items():
                    expect(np.allclose(var.numpy(), saved[key], rtol=1e-6, atol=1e-7), f"{name}: {key} was saved")
                module.load(folder / f"{name}.saved")
            self._weights_were_drawn(load_weights(folder / "fresh.outputs"))
        return f"{len(MODULES)} modules differ from Python's by {worst:.1e} at most"

    def _weights_were_drawn(self, fresh):
        """By the distributions of metac.nn: uniform within a bound, which a few of many come close to; normal."""
        bounds = {"linear": 100 ** -0.5, "linear bias": 100 ** -0.5, "conv": 1 / math.sqrt(4 * 15),
                  "transposed": 1 / math.sqrt(4 * 9), "lstm": 64 ** -0.5}
        for name, bound in bounds.items():
            values = fresh[name]
            expect(np.abs(values).max() <= bound * 1.0001 and np.abs(values).max() > 0.98 * bound, f"{name}: the bound")
            spread = values.std() / bound * math.sqrt(3)
            expect(abs(spread - 1) < 0.06 and abs(values.mean()) < 0.1 * bound, f"{name}: spread {spread}")
        table = fresh["embedding"]
        expect(abs(table.std() - 1) < 0.02 and abs(table.mean()) < 0.02, f"{table.mean()} {table.std()}")
        expect(abs((np.abs(table) < 1).mean() - 0.6827) < 0.01 and 3.5 < np.abs(table).max() < 6, "no normal distribution")
