#!/usr/bin/env python3
"""Quantisation-aware training beside PyTorch's fake quantisation: derivatives, losses of some updates, and the integers that come out.

    python3 compare_training.py --metac build/ci/bin/metac

Without PyTorch everything is skipped with a message. The last line is 'N passed, N failed, N skipped'.
"""
import argparse
import json
import pathlib
import shutil
import sys
import tempfile

import numpy as np
import onnx
from onnx import numpy_helper

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[0] / "tools")]
from checks import Skip, command, expect, run_checks  # noqa: E402
from networks import Network, residual_network, samples  # noqa: E402

try:
    import torch
except ImportError:
    torch = None

BATCH, UPDATES = 16, 20
# A sum that lies on the border between two steps goes either way, and moves a loss by about 1e-4: no more than a few may. Where scales are learned the two
# sides' scales differ in the last bit from the first update on, and with them, sooner or later, a weight of few bits.
MEDIAN, LIMIT = 1e-6, 1e-3
RUNS = {  # the recipe's "quantization", its optimiser, and PyTorch's
    "int8": ({}, {"kind": "adam", "learning_rate": 0.003}, lambda p: torch.optim.Adam(p, lr=0.003)),
    "weights_of_3_bits": ({"weight_bits": 3, "per_tensor": True, "activations": "int8", "calibration": "percentile", "percentile": 95},
                          {"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9},
                          lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9)),
    "learned_scales": ({"weight_bits": 4, "learn_scales": True}, {"kind": "sgd", "learning_rate": 0.05}, lambda p: torch.optim.SGD(p, lr=0.05)),
    "learned_scale_of_all": ({"weight_bits": 3, "learn_scales": True, "per_tensor": True}, {"kind": "adam", "learning_rate": 0.001},
                             lambda p: torch.optim.Adam(p, lr=0.001)),
}


def tensors_of(path):
    return {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}


def parameters_of(path):
    """The tensors of a safetensors file."""
    content = path.read_bytes()
    size = int.from_bytes(content[:8], "little")
    dtypes = {"F32": np.float32, "I8": np.int8, "I32": np.int32}
    about = {name: row for name, row in json.loads(content[8:8 + size]).items() if name != "__metadata__"}
    return {name: np.frombuffer(content[8 + size:][slice(*row["data_offsets"])], dtypes[row["dtype"]]).reshape(row["shape"]) for name, row in about.items()}


def network(path):
    n = Network(3)
    h = n("AveragePool", n("Relu", n.conv(n.input("x", ["batch", 2, 8, 8]), 2, 6, norm=True)), kernel_shape=[2, 2], strides=[2, 2])
    h = n("Relu", n.gemm(n("Flatten", h), 96, 16, transB=1))
    return n.save(path, y=n.linear(h, 16, 5))


def data():
    random = np.random.default_rng(5)
    x = random.standard_normal((BATCH * UPDATES, 2, 8, 8)).astype(np.float32)
    return x, (x.reshape(len(x), -1) @ random.standard_normal((128, 5))).argmax(1)


class PyTorch:
    """The network with fake quantisation in the places where metac has it, from the scales that metac begins with."""

    def __init__(self, start, qdq, options, clipped=True):
        self.clipped = clipped  # else x has the derivative 1 beyond the range too
        self.o, self.most = options, 2 ** (options.get("weight_bits", 8) - 1) - 1
        self.low, self.high = (-128, 127) if options.get("activations") == "int8" else (0, 255)
        w, b, scale, shift, mean, variance = (start[f"w{k}"].astype(np.float64) for k in range(6))
        factor = scale / np.sqrt(variance + 1e-5)
        own = {"conv": w * factor[:, None, None, None], "conv bias": (b - mean) * factor + shift,
               "gemm": start["w6"], "gemm bias": start["w7"], "product": start["w8"], "product bias": start["w9"]}
        self.parameters = {name: torch.nn.Parameter(torch.tensor(value.astype(np.float32))) for name, value in own.items()}
        begun = tensors_of(qdq)
        values = [node.input for node in onnx.load(qdq).graph.node if node.op_type == "QuantizeLinear"]
        self.zeros = [int(begun[names[2]]) for names in values]
        self.scales = [torch.tensor(begun[names[1]]) for names in values]
        if options.get("learn_scales"):
            self.scales = [torch.nn.Parameter(s.reshape(1)) for s in self.scales]
            self.weight_scales = {name: torch.nn.Parameter(self.largest(name, axis)) for name, axis in (("conv", 0), ("gemm", 0), ("product", 1))}

    def trained(self):
        return [*self.parameters.values(), *(self.scales + [*self.weight_scales.values()] if self.o.get("learn_scales") else [])]

    def largest(self, name, axis):
        w = self.parameters[name].detach().abs()
        return (w.max().reshape(1) if self.o.get("per_tensor") else w.amax([k for k in range(w.dim()) if k != axis])) / self.most

    def weight(self, name, axis):
        w, learn, one = self.parameters[name], self.o.get("learn_scales"), self.o.get("per_tensor")
        s = self.weight_scales[name] if learn else self.largest(name, axis)
        if learn:
            zero, factor = torch.zeros_like(s), 1 / np.sqrt(w.numel() / len(s) * self.most)
            return (torch._fake_quantize_learnable_per_tensor_affine(w, s, zero, -self.most, self.most, factor) if one else
                    torch._fake_quantize_learnable_per_channel_affine(w, s, zero, axis, -self.most, self.most, factor))
        return (torch.fake_quantize_per_tensor_affine(w, s, torch.zeros(1, dtype=torch.int32), -self.most, self.most) if one else
                torch.fake_quantize_per_channel_affine(w, s, torch.zeros(len(s), dtype=torch.int32), axis, -self.most, self.most))

    def value(self, k, x):
        s, z = self.scales[k], self.zeros[k]
        if not self.o.get("learn_scales"):
            y = torch.fake_quantize_per_tensor_affine(x, float(s), z, self.low, self.high)
            return y if self.clipped else x + (y - x).detach()
        factor = 1 / np.sqrt(x[0].numel() * (self.high - z))
        return torch._fake_quantize_learnable_per_tensor_affine(x, s, torch.tensor([float(z)]), self.low, self.high, factor)

    def __call__(self, x):
        p = self.parameters
        h = torch.relu(torch.nn.functional.conv2d(self.value(0, x), self.weight("conv", 0), p["conv bias"], padding=1))
        h = self.value(2, torch.nn.functional.avg_pool2d(self.value(1, h), 2)).flatten(1)
        h = self.value(3, torch.relu(torch.nn.functional.linear(h, self.weight("gemm", 0), p["gemm bias"])))
        return h @ self.weight("product", 1) + p["product bias"]

    def losses(self, x, labels, optimiser):
        found, optimiser = [], optimiser(self.trained())
        for k in range(0, len(x), BATCH):
            optimiser.zero_grad()
            loss = torch.nn.functional.cross_entropy(self(torch.tensor(x[k:k + BATCH])), torch.tensor(labels[k:k + BATCH]))
            loss.backward()
            optimiser.step()
            found.append(loss.item())
        return np.array(found)


class Checks:
    def __init__(self, metac, work):
        self.metac, self.work, self.runs = metac, work, {}

    def derivatives(self):
        """fake_quantize by its operands; no quotient is halfway between two integers, where dividing and multiplying by the inverse differ."""
        if torch is None:
            raise Skip("PyTorch cannot be imported")
        random = np.random.default_rng(1)
        for axis, learn in ((None, False), (1, False), (None, True), (1, True)):
            low, high, count = (0, 255, 1) if axis is None else (-7, 7, 6)
            zero = 30 if axis is None else 0
            s = random.uniform(0.01, 0.3, count).astype(np.float32)
            q = random.integers(2 * low - 200 if axis is None else -20, 2 * high, (4, 6, 9)) + random.uniform(-0.45, 0.45, (4, 6, 9))
            x = ((q - zero) * (s if axis is None else s[:, None])).astype(np.float32)
            dy = random.standard_normal(x.shape).astype(np.float32)
            gain = 0.125 if learn else 0
            document = {"metac_ir": 1, "opset": 17, "inputs": [{"name": n, "dtype": "float32", "shape": list(a.shape)} for n, a in (("x", x), ("s", s), ("dy", dy))],
                        "parameters": [{"name": "z", "dtype": "int32", "shape": [count], "data": [zero] * count}],
                        "nodes": [{"op": "fake_quantize", "domain": "metac", "inputs": ["x", "s", "z"], "outputs": ["y"],
                                   "attributes": {"low": low, "high": high, **({"scale_gradient": gain} if learn else {})}},
                                  {"op": "elementwise", "inputs": ["y", "dy"], "outputs": ["p"], "body": "y*dy"}, {"op": "sum", "inputs": ["p"], "outputs": ["total"]},
                                  {"op": "grad", "of": "total", "inputs": ["x", "s"], "outputs": ["dx", "ds"]}], "outputs": ["y", "dx", "ds"]}
            (self.work / "fake.json").write_text(json.dumps(document))
            given = []
            for name, array in (("x", x), ("s", s), ("dy", dy)):
                np.save(self.work / f"{name}.npy", array)
                given += ["--input", f"{name}={self.work / name}.npy"]
            command(self.metac, "run", self.work / "fake.json", *given, "--output-dir", self.work / "found")
            tx, ts = torch.tensor(x, requires_grad=True), torch.tensor(s, requires_grad=True)
            zeros = torch.full((count,), zero, dtype=torch.float32)
            if learn:
                y = (torch._fake_quantize_learnable_per_tensor_affine(tx, ts, zeros, low, high, gain) if axis is None else
                     torch._fake_quantize_learnable_per_channel_affine(tx, ts, zeros, axis, low, high, gain))
            else:
                y = (torch.fake_quantize_per_tensor_affine(tx, float(s[0]), zero, low, high) if axis is None else
                     torch.fake_quantize_per_channel_affine(tx, ts.detach(), zeros.int(), axis, low, high))
            (y * torch.tensor(dy)).sum().backward()
            ours = {n: np.load(self.work / f"found/{n}.npy") for n in ("y", "dx", "ds")}
            expect(np.abs(ours["y"] - y.detach().numpy()).max() <= 1e-5 * np.abs(ours["y"]).max(), f"axis {axis}: values")
            expect(np.array_equal(ours["dx"], tx.grad.numpy()) and 0.2 < np.mean(ours["dx"] != 0) < 0.9, f"axis {axis}: derivative by x")
            theirs = ts.grad.numpy() if learn else np.zeros(count)
            expect(np.allclose(ours["ds"], theirs, rtol=1e-4, atol=1e-4), f"axis {axis}: derivative by the scale {ours['ds']}, {theirs}")

    def _train(self, name):
        """The losses, the trained file, the file that it began as; made once."""
        if name in self.runs:
            return self.runs[name]
        options, own, _ = RUNS[name]
        model, (x, labels) = network(self.work / "net.onnx"), data()
        np.savez(self.work / "data.npz", x=x, target=labels)
        recipe = {"batch": BATCH, "epochs": 1, "loss": "cross_entropy", "optimizer": own, "quantization": options,
                  "data": {"format": "npz", "train": "data.npz", "shuffle": False}}
        if options.get("learn_scales"):
            recipe["groups"] = [{"match": "*_scale", "rate_scale": 1}]  # that a pattern may name them
        (self.work / "recipe.json").write_text(json.dumps(recipe))
        said = command(self.metac, "compile", model, "--train", self.work / "recipe.json", "-o", self.work / "out")
        expect("3 nodes train quantised" in said and "1 BatchNormalization was taken into convolutions" in said, said)
        run = self.work / f"{name}-run"
        command(self.work / "out/bin/net_train", "--data", self.work, "--out", run, "--quiet")
        losses = [json.loads(line)["loss"] for line in (run / "log.jsonl").read_text().splitlines() if '"event":"train"' in line.replace(" ", "")]
        expect(len(losses) == UPDATES, f"{len(losses)} losses")
        start = shutil.copy(self.work / "out/train/net.onnx", self.work / f"{name}.onnx")
        self.runs[name] = np.array(losses), run / "net.onnx", start
        return self.runs[name]

    def _compare(self, name, updates=UPDATES):
        if torch is None:
            raise Skip("PyTorch cannot be imported")
        losses, _, start = self._train(name)
        options, _, optimiser = RUNS[name]
        begin = tensors_of(self.work / "net.onnx"), start, options
        theirs = PyTorch(*begin).losses(*data(), optimiser)
        apart = (np.abs(losses - theirs) / theirs)[:updates]
        print(f"{name}: loss {losses[0]:.4f} to {losses[-1]:.4f}, relative differences of {updates} updates at most {apart.max():.1e}")
        expect(np.median(apart) < MEDIAN and apart.max() < LIMIT, f"{name}: {apart}")
        return begin, losses

    def losses_of_int8(self):
        self._compare("int8")

    def losses_of_weights_of_3_bits(self):
        begin, losses = self._compare("weights_of_3_bits")
        other = PyTorch(*begin, clipped=False).losses(*data(), RUNS["weights_of_3_bits"][2])
        expect(np.max(np.abs(losses - other) / other) > 2 * LIMIT, "the derivative beyond the range makes no difference: nothing was compared")

    def losses_of_learned_scales(self):
        self._compare("learned_scales", 5)
        self._compare("learned_scale_of_all", 5)

    def integers_that_come_out(self):
        """Those of the file are the trained weights' by its scales, which follow the weights or are learned; biases by the products of scales."""
        for name in ("int8", "weights_of_3_bits", "learned_scales"):
            _, path, _ = self._train(name)
            most = 2 ** (RUNS[name][0].get("weight_bits", 8) - 1) - 1
            onnx.checker.check_model(str(path), full_check=True)
            own, graph = tensors_of(path), onnx.load(path).graph
            expect(not any(t.data_type == onnx.TensorProto.FLOAT and len(t.dims) > 1 for t in graph.initializer), f"{name}: float weights are left")
            trained = parameters_of(path.with_suffix(".safetensors"))
            made = {o: node for node in graph.node for o in node.output}
            seen = 0
            for node in graph.node:
                if node.op_type not in ("Conv", "Gemm", "MatMul"):
                    continue
                names = made[node.input[1]].input
                w, s, axis = trained[names[0].removesuffix("_quantized")], own[names[1]], {"Conv": 0, "Gemm": 0, "MatMul": 1}[node.op_type]
                if s.ndim:
                    s = s.reshape([-1 if k == axis else 1 for k in range(w.ndim)])
                    largest = np.abs(w).max(tuple(k for k in range(w.ndim) if k != axis), keepdims=True)
                else:
                    largest = np.abs(w).max()
                if not RUNS[name][0].get("learn_scales"):
                    expect(np.allclose(s, largest / most, rtol=1e-6), f"{name}: scales of {names[0]}")
                expect(np.array_equal(own[names[0]], np.clip(np.rint(w / s), -most, most)), f"{name}: {names[0]}")
                seen += 1
                if node.op_type == "MatMul":
                    continue
                q, scale = made[node.input[2]].input
                expect(np.allclose(own[scale], own[made[node.input[0]].input[1]] * own[names[1]], rtol=1e-6), f"{name}: {scale}")
                expect(np.abs(own[q] - trained[q.removesuffix("_quantized")] / own[scale]).max() <= 0.5001 + 1e-6 * np.abs(own[q]).max(), f"{name}: {q}")
            expect(seen == 3, f"{name}: {seen} products")

    def a_network_of_many_parts(self):
        """Normalisations, depthwise convolutions, clips, additions, a concatenation; averaged weights. The program's evaluation is that of the file."""
        model, x = residual_network(self.work / "residual.onnx", 3), samples((3, 16, 16), 64, 1)
        target = np.random.default_rng(1).standard_normal((64, 10)).astype(np.float32)
        np.savez(self.work / "residual.npz", x=x, target=target)
        (self.work / "residual.json").write_text(json.dumps({
            "batch": 16, "epochs": 6, "loss": "mse", "optimizer": {"kind": "adam", "learning_rate": 0.003}, "average": 0.5, "quantization": {"activations": "int8"},
            "groups": [{"match": "w0", "rate_scale": 0.5}], "data": {"format": "npz", "train": "residual.npz", "validation": "residual.npz"}}))
        said = command(self.metac, "compile", model, "--train", self.work / "residual.json", "-o", self.work / "many")
        expect("5 BatchNormalizations were taken into convolutions" in said and "14 parameters train" in said, said)
        command(self.work / "many/bin/residual_train", "--data", self.work, "--out", self.work / "many-run", "--quiet")
        told = [json.loads(line)["validation loss"] for line in (self.work / "many-run/log.jsonl").read_text().splitlines() if "validation loss" in line]
        expect(told[-1] < 0.97 * told[0], f"it learned nothing: {told}")
        file = self.work / "many-run/residual.onnx"
        onnx.checker.check_model(str(file), full_check=True)
        np.save(self.work / "x.npy", x)
        command(self.metac, "run", file, "--input", f"x={self.work / 'x.npy'}", "--output-dir", self.work / "answers")
        found = np.mean((np.load(self.work / "answers/y.npy") - target) ** 2)
        expect(abs(found - told[-1]) < 2e-3 * told[-1], f"{found}, the program says {told[-1]}")

    def integers_do_not_train(self):
        n = Network(5)
        n.save(self.work / "plain.onnx", y=n.gemm(n.input("x", ["batch", 8]), 8, 4))
        np.savez(self.work / "rows.npz", x=np.random.default_rng(2).standard_normal((64, 8)).astype(np.float32), target=np.zeros(64, np.int64))
        command(self.metac, "quantize", self.work / "plain.onnx", "--data", self.work / "rows.npz", "-o", self.work / "integers.onnx")
        recipe = {"batch": 16, "loss": "cross_entropy", "optimizer": "sgd", "data": {"format": "npz", "train": "rows.npz"}}
        for more, words in (({}, "weights that are integers do not train"), ({"quantization": {}}, "the model is quantised already"),
                            ({"quantization": {"keep": ["Gemm"]}}, "")):
            (self.work / "integers.json").write_text(json.dumps({**recipe, **more}))
            model = self.work / ("plain.onnx" if not words else "integers.onnx")
            said = command(self.metac, "compile", model, "--train", self.work / "integers.json", "-o", self.work / "integers", status=1)
            expect((words or "there is nothing to quantise") in said, said)

    def quantised_models_train_too(self):
        """A network of pairs over float weights, as PyTorch exports quantisation-aware ones: its pairs have the derivative, and stay."""
        n = Network(5)
        n.save(self.work / "plain.onnx", y=n.gemm(n.input("x", ["batch", 8]), 8, 4))
        model = onnx.load(self.work / "plain.onnx")
        pairs = []
        for k, (name, scale) in enumerate((("x", 0.05), ("w0", 0.02))):
            model.graph.initializer.extend([numpy_helper.from_array(np.float32(scale), f"s{k}"), numpy_helper.from_array(np.int8(0), f"z{k}")])
            pairs += [onnx.helper.make_node("QuantizeLinear", [name, f"s{k}", f"z{k}"], [f"q{k}"]), onnx.helper.make_node("DequantizeLinear", [f"q{k}", f"s{k}", f"z{k}"], [f"d{k}"])]
        model.graph.node[0].input[0], model.graph.node[0].input[1] = "d0", "d1"
        for node in reversed(pairs):
            model.graph.node.insert(0, node)
        onnx.save(model, self.work / "pairs.onnx")
        random = np.random.default_rng(2)
        x = random.standard_normal((64, 8)).astype(np.float32)
        np.savez(self.work / "rows.npz", x=x, target=x[:, :4].argmax(1))
        (self.work / "pairs.json").write_text(json.dumps({"batch": 16, "epochs": 5, "loss": "cross_entropy", "optimizer": {"kind": "sgd", "learning_rate": 0.3},
                                                          "data": {"format": "npz", "train": "rows.npz"}}))
        said = command(self.metac, "compile", self.work / "pairs.onnx", "--train", self.work / "pairs.json", "-o", self.work / "pairs")
        expect("2 pairs of QuantizeLinear and DequantizeLinear have the straight-through derivative" in said, said)
        command(self.work / "pairs/bin/pairs_train", "--data", self.work, "--out", self.work / "pairs-run", "--quiet")
        before, after = tensors_of(self.work / "pairs.onnx"), tensors_of(self.work / "pairs-run/pairs.onnx")
        expect(np.abs(after["w0"] - before["w0"]).max() > 0.01 and after["s1"] == before["s1"], "the weights behind the pair did not move")
        expect([n.op_type for n in onnx.load(self.work / "pairs-run/pairs.onnx").graph.node] == [n.op_type for n in model.graph.node], "other nodes")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True, type=pathlib.Path)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        return run_checks(Checks(arguments.metac.resolve(), pathlib.Path(folder)), only=arguments.only)


if __name__ == "__main__":
    sys.exit(main())
