#!/usr/bin/env python3
"""`metac quantize`: small random networks in int8, in blocks of few bits and in half types.

    python3 run_quantize.py --build build/ci [--only WORD]

What is written passes onnx.checker, runs in metac and, where onnxruntime can be imported, in ONNX Runtime, whose integers are at most a step from
metac's; better methods give smaller errors; the digits network keeps its accuracy; wrong data and models are refused by name. Needs numpy and onnx.
Ends with 'N passed, N failed, N skipped'.
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
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parents[0] / "tools")]
from checks import Skip, command, expect, run_checks  # noqa: E402
from networks import NETWORKS, Network, perceptron, residual_network, samples, transformer_block  # noqa: E402

try:
    import onnxruntime
except ImportError:
    onnxruntime = None


def decibels(exact, found):
    noise = np.sum((exact.astype(np.float64) - found) ** 2)
    return np.inf if noise == 0 else 10 * np.log10(np.sum(exact.astype(np.float64) ** 2) / noise)


def operators_of(path):
    return [node.op_type for node in onnx.load(path).graph.node]


class Checks:
    def __init__(self, build, work):
        self.metac, self.work = build / "bin/metac", work

    def _quantize(self, model, *more, status=0, name="quantized", check=True):
        """The model that is written and its report; the text that was printed where it is refused."""
        out, report = self.work / f"{name}.onnx", self.work / f"{name}.json"
        for file in (out, report):
            file.unlink(missing_ok=True)
        said = command(self.metac, "quantize", model, "-o", out, "--report", report, *more, status=status)
        if status:
            expect(not out.exists() and not report.exists(), "a file is left of what was refused")
            return said
        if check:
            onnx.checker.check_model(str(out), full_check=True)
        return out, json.loads(report.read_text())

    def _run(self, model, **inputs):
        answers = self.work / "answers"
        shutil.rmtree(answers, ignore_errors=True)
        for name, values in inputs.items():
            np.save(self.work / f"{name}.in.npy", values)
        command(self.metac, "run", model, "--output-dir", answers,
                *[w for name in inputs for w in ("--input", f"{name}={self.work / name}.in.npy")])
        return {file.stem: np.load(file) for file in sorted(answers.iterdir())}

    def _data(self, shape, seed=1, count=96, **more):
        """A file of samples; they are one distribution, whose channels' sizes hang on the seed."""
        path = self.work / f"data_{seed}.npz"
        np.savez(path, x=samples(shape, count, seed, **more))
        return path

    def _snr(self, model, *more, **kinds):
        report = self._quantize(model, *more, **kinds)[1]
        return min(200 if row["snr_db"] is None else row["snr_db"] for row in report["outputs"])

    def networks_in_int8(self):
        for name, (make, shape) in NETWORKS.items():
            for seed in range(2):
                model, data = make(self.work / f"{name}.onnx", seed), self._data(shape)
                out, report = self._quantize(model, "--data", data, "--activations", ("uint8", "int8")[seed])
                written = operators_of(out)
                expect("DequantizeLinear" in written and "BatchNormalization" not in written, f"{name}: {written}")
                expect(all(row["snr_db"] is None or row["snr_db"] > 20 for row in report["outputs"]), f"{name}: {report['outputs']}")
                expect(report["samples"] == 96 and len(report["values"]) > 2, f"{name}: {report}")
                expect(report["weight_bytes"]["after"] < 0.5 * report["weight_bytes"]["before"], f"{name}: {report['weight_bytes']}")
                x = np.load(data)["x"][:32]
                exact, small = self._run(model, x=x), self._run(out, x=x)
                for key in exact:
                    expect(decibels(exact[key], small[key]) > 20, f"{name} {key}: {decibels(exact[key], small[key])} dB")

    def integers_of_onnx_runtime(self):
        """Every quantised value as ONNX Runtime computes it, in float between the integers, and without that the outputs."""
        if onnxruntime is None:
            raise Skip("onnxruntime cannot be imported")
        for name, (make, shape) in NETWORKS.items():
            model, data = make(self.work / f"{name}.onnx", 5), self._data(shape)
            out, _ = self._quantize(model, "--data", data)
            x = np.load(data)["x"][:16]
            # Every value behind QuantizeLinear becomes an output, of both.
            shown = onnx.load(out)
            for node in list(shown.graph.node):
                if node.op_type == "QuantizeLinear":
                    shown.graph.output.append(helper.make_tensor_value_info(node.output[0], TensorProto.UINT8, None))
            onnx.save(shown, str(self.work / "shown.onnx"))
            options = onnxruntime.SessionOptions()
            options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            session = onnxruntime.InferenceSession(str(self.work / "shown.onnx"), options, providers=["CPUExecutionProvider"])
            expected = dict(zip([o.name for o in session.get_outputs()], session.run(None, {"x": x})))
            ours = self._run(self.work / "shown.onnx", x=x)
            for key, values in expected.items():
                apart = np.abs(values.astype(np.float64) - ours[key])
                if values.dtype == np.uint8:
                    # A sum on the border between two steps goes either way, and what reads it moves with it.
                    expect(apart.max() <= 2 and np.mean(apart > 1) < 1e-3 and np.mean(apart > 0) < 0.02, f"{name} {key}: {apart.max()}, {np.mean(apart > 0)}")
                else:
                    expect(decibels(values, ours[key]) > 35, f"{name} {key}: {decibels(values, ours[key])} dB")
            # Its integer kernels saturate in 16 bits on processors without VNNI: they only have to run.
            plain = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"]).run(None, {"x": x})
            expect(all(np.isfinite(v).all() for v in plain), name)

    def other_forms_in_onnx_runtime(self):
        if onnxruntime is None:
            raise Skip("onnxruntime cannot be imported")
        for make, shape in ((perceptron, (64,)), (transformer_block, (12, 64))):
            model = make(self.work / "float.onnx", 3)
            x = samples(shape, 16, 1)
            for more in (["--weights", "int4"], ["--weights", "int8", "--block", "64"], ["--to", "float16"]):
                out, _ = self._quantize(model, *more)
                try:
                    session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
                except Exception as error:  # versions without 8 bits in MatMulNBits
                    expect("int8" in more, f"{more}: {error}")
                    continue
                found = dict(zip([o.name for o in session.get_outputs()], session.run(None, {"x": x})))
                for key, values in self._run(out, x=x).items():
                    expect(decibels(values, found[key]) > 45, f"{more} {key}: {decibels(values, found[key])} dB")

    def shared_and_moved_values(self):
        """A value with several readers is quantised once; reshapes and pools move integers."""
        n = Network(1)
        x = n.input("x", ["batch", 8])
        shared = n("Relu", n.gemm(x, 8, 16))
        moved = n("Reshape", shared, n.weight([0, 4, 4], np.int64))
        model = n.save(self.work / "shared.onnx", a=n.gemm(shared, 16, 4), b=n.gemm(shared, 16, 4),
                       c=n("MatMul", n("Transpose", moved, perm=[0, 2, 1]), n.random(4, 4)))
        out, report = self._quantize(model, "--data", self._data((8,)))
        written = operators_of(out)
        expect(written.count("QuantizeLinear") == 2, f"x and the shared value: {written}")
        expect([row["name"] for row in report["values"]].count(shared) == 1, report["values"])
        scales = {row["name"]: row["scale"] for row in report["values"]}
        types = {v.name: v.type.tensor_type.elem_type for v in onnx.shape_inference.infer_shapes(onnx.load(out)).graph.value_info}
        transposed = next(node for node in onnx.load(out).graph.node if node.op_type == "Transpose")
        expect(types[transposed.output[0]] == TensorProto.UINT8 and len(scales) == len(report["values"]), types)

    def biases_and_scales(self):
        """int32 biases by the product of the scales, symmetric weights, zero exactly representable."""
        model = residual_network(self.work / "residual.onnx", 4)
        for more, channels in ((), True), (("--per-tensor",), False):
            out, _ = self._quantize(model, "--data", self._data((3, 16, 16)), *more)
            graph = onnx.load(out).graph
            tensors = {t.name: numpy_helper.to_array(t) for t in graph.initializer}
            made = {o: node for node in graph.node for o in node.output}
            for node in graph.node:
                if node.op_type in ("Conv", "Gemm"):
                    x, w, b = (made[name] for name in node.input)
                    weights, scales = tensors[w.input[0]], tensors[w.input[1]]
                    expect(weights.dtype == np.int8 and np.abs(weights.astype(int)).max() == 127 and not tensors[w.input[2]].any(), node.name)
                    expect(scales.shape == ((weights.shape[0],) if channels else ()), f"{node.name}: {scales.shape}")
                    expect(tensors[b.input[0]].dtype == np.int32, node.name)
                    expect(np.allclose(tensors[b.input[1]], tensors[x.input[1]] * scales, rtol=1e-6), node.name)

    def a_bias_beyond_int32(self):
        n = Network(2)
        x = n.input("x", ["batch", 8])
        w = n.weight(np.concatenate([n.rng.standard_normal((8, 1)) * 1e-9, n.rng.standard_normal((8, 3))], 1))
        model = n.save(self.work / "bias.onnx", y=n("Gemm", x, w, n.weight([300.0, 1, 2, 3])))
        out, report = self._quantize(model, "--data", self._data((8,)))
        found = self._run(out, x=np.load(self.work / "data_1.npz")["x"])["y"]
        expect(np.allclose(found[:, 0], 300, rtol=1e-3), f"{found[:, 0]}")

    def nodes_that_stay_in_float(self):
        model, data = residual_network(self.work / "residual.onnx", 6), self._data((3, 16, 16))
        for patterns, most in ((["Gemm"], 6), (["Conv_.*", "Gemm"], 0)):
            more = [w for p in patterns for w in ("--keep", p)]
            if most == 0:
                said = self._quantize(model, "--data", data, *more, status=1)
                expect("nothing to quantise" in said, said)
                continue
            out, report = self._quantize(model, "--data", data, *more)
            gemm = next(node for node in onnx.load(out).graph.node if node.op_type == "Gemm")
            expect(not gemm.input[1].endswith("_dequantized") and report["kept"], report["kept"])
        command(self.metac, "quantize", "--weights", "int8", "--keep", "Conv", model, "-o", self.work / "kept.onnx")
        _, report = self._quantize(model, "--data", data, "--keep", "Nobody")
        expect(any('"Nobody" names no node' in note for note in report["notes"]), report["notes"])
        expect("is not a regular expression" in self._quantize(model, "--data", data, "--keep", "(", status=1), "--keep (")

    def better_methods(self):
        """Per channel over per tensor, methods that see outliers over all that was seen, one with corrected biases over one without."""
        n = Network(7)
        sizes = np.exp(n.rng.uniform(-4, 1, (24, 1)))
        x = n.input("x", ["batch", 32])
        h = n("Relu", n("Gemm", x, n.weight(n.rng.standard_normal((24, 32)) * sizes / 6), transB=1))
        scaled = n("Mul", h, n.weight(1 / sizes[:, 0]))
        model, data = n.save(self.work / "sizes.onnx", y=scaled), self._data((32,))
        one, each = self._snr(model, "--data", data, "--per-tensor"), self._snr(model, "--data", data)
        expect(each > one + 10, f"per tensor {one:.1f} dB, per channel {each:.1f}")

        n = Network(8)
        model = n.save(self.work / "outliers.onnx", y=n.gemm(n.input("x", ["batch", 64]), 64, 16))
        outlying, plain = self._data((64,), seed=2, count=512, outliers=3), self._data((64,), seed=3, count=64)
        found, squares = {}, {}
        for method in ("minmax", "percentile", "entropy", "mse"):
            out, report = self._quantize(model, "--data", outlying, "--calibration", method)
            squares[method] = report["values"][0]["snr_db"]  # of x
            x = np.load(plain)["x"]
            found[method] = decibels(self._run(model, x=x)["y"], self._run(out, x=x)["y"])
        expect(all(found[m] > found["minmax"] + 3 for m in ("percentile", "entropy")), found)
        expect(max(squares, key=squares.get) == "mse", squares)

    def corrected_biases(self):
        n = Network(9)  # whose operands have means
        h = n("Relu", n.linear(n.input("x", ["batch", 64]), 64, 64))
        products = n.save(self.work / "products.onnx", y=n.linear(h, 64, 16))
        for model, shape in ((residual_network(self.work / "residual.onnx", 9), (3, 16, 16)), (products, (64,))):
            data = self._data(shape, count=256)
            x = np.load(data)["x"]
            exact = self._run(model, x=x)["y"]
            off = []
            for more in ((), ("--bias-correction",)):
                out, _ = self._quantize(model, "--data", data, "--per-tensor", *more)
                off.append(np.abs((self._run(out, x=x)["y"] - exact).mean(0)).sum())
            expect(off[1] < off[0], f"{model.name}: means are off by {off[0]:.3g}, with correction by {off[1]:.3g}")

    def smoothed_activations(self):
        """Channels of very different size behind normalisations of three kinds; the float32 function stays the same."""
        def network(kind):
            n = Network(21)
            x, sizes = n.input("x", ["batch", 6, 48]), n.rng.uniform(0.5, 1.5, 48)
            sizes[:3] = 60
            scale, shift = n.weight(sizes), n.weight(n.rng.standard_normal(48) * sizes / 5)
            if kind == "parts":
                centred = n("Sub", x, n("ReduceMean", x, axes=[-1]))
                h = n("Add", shift, n("Mul", n("Div", centred, n("Sqrt", n("ReduceMean", n("Mul", centred, centred), axes=[-1]))), scale))
            else:
                h = n("LayerNormalization", x, scale, shift, axis=-1)
            first, second = n.linear(h, 48, 32), n.linear(h, 48, 16)
            if kind == "shared":
                return n.save(self.work / f"{kind}.onnx", a=first, b=n("Mul", second, n("ReduceMax", h, axes=[-1])))
            return n.save(self.work / f"{kind}.onnx", a=n("Softmax", first, axis=-1), b=second)
        data = self._data((6, 48), count=128)
        x = np.load(data)["x"]
        for kind in ("whole", "parts"):
            model = network(kind)
            plain = self._snr(model, "--data", data, "--activations", "int8")
            out, report = self._quantize(model, "--data", data, "--activations", "int8", "--smooth", "0.5")
            smooth = min(row["snr_db"] for row in report["outputs"])
            expect(any("2 products read smoothed values" in note for note in report["notes"]), report["notes"])
            expect(smooth > plain + 6, f"{kind}: {plain:.1f} dB, smoothed {smooth:.1f}")
            # Without its roundings it is the float32 model: weights of 32 bits instead of what was stored, no pairs.
            small = onnx.load(out)
            names = {t.name: t for t in small.graph.initializer}
            h = next(node for node in small.graph.node if node.op_type in ("LayerNormalization", "Add") and "w1_smoothed" in node.input)
            divided = {name: numpy_helper.to_array(names[f"{name}_smoothed"]) for name in ("w0", "w1")}
            original = {t.name: numpy_helper.to_array(t) for t in onnx.load(model).graph.initializer}
            factors = original["w0"] / divided["w0"]
            expect(factors.max() / factors.min() > 3 and np.allclose(original["w1"] / divided["w1"], factors, rtol=1e-5), f"{kind}: {factors}")
            # Equation 4 over both products.
            exact = onnx.load(model)
            exact.graph.output.append(helper.make_tensor_value_info(h.output[0], TensorProto.FLOAT, None))
            onnx.save(exact, str(self.work / "shown.onnx"))
            largest = np.abs(self._run(self.work / "shown.onnx", x=x)[h.output[0]]).max((0, 1))
            weights = [w for w in original if original[w].ndim == 2]
            wanted = np.sqrt(largest) / np.sqrt(np.max([np.abs(original[w]).max(1) for w in weights], 0))
            expect(np.allclose(factors, wanted, rtol=1e-4), f"{kind}: {factors / wanted}")
            smoothed = onnx.load(model)
            for t in smoothed.graph.initializer:
                if t.name in ("w0", "w1"):
                    t.CopyFrom(numpy_helper.from_array(divided[t.name], t.name))
                elif t.name in weights:
                    t.CopyFrom(numpy_helper.from_array(original[t.name] * factors[:, None].astype(np.float32), t.name))
            onnx.save(smoothed, str(self.work / "smoothed.onnx"))
            rounded = next(numpy_helper.to_array(t) for t in small.graph.initializer if t.name == f"{weights[0]}_smoothed_quantized")
            ours = numpy_helper.to_array(names[f"{weights[0]}_smoothed_scale"]) * rounded
            expect(np.abs(ours - original[weights[0]] * factors[:, None]).max() <= 0.51 * numpy_helper.to_array(names[f"{weights[0]}_smoothed_scale"]).max(), f"{kind}: weights")
            for key, values in self._run(model, x=x).items():
                expect(np.allclose(values, self._run(self.work / "smoothed.onnx", x=x)[key], rtol=1e-4, atol=1e-5 * np.abs(values).max()), f"{kind}: {key} is another function")
        _, report = self._quantize(network("shared"), "--data", data, "--smooth", "0.5")  # which somebody else reads too
        expect(any("--smooth: no product" in note for note in report["notes"]), report["notes"])
        self._quantize(model, "--data", data, "--smooth", "1.5", status=2)

    def layers_kept_for_a_ratio(self):
        model, data = residual_network(self.work / "residual.onnx", 10), self._data((3, 16, 16))
        plain = self._snr(model, "--data", data)
        out, report = self._quantize(model, "--data", data, "--least-snr", str(plain + 4))
        reached = report["outputs"][0]["snr_db"]
        expect(reached >= plain + 4 and 0 < len(report["kept"]) < 7, f"{plain} -> {reached}, kept {report['kept']}")
        _, report = self._quantize(model, "--data", data, "--least-snr", str(plain - 1))
        expect(not report["kept"], report["kept"])
        said = self._quantize(model, "--data", data, "--samples", "8", "--least-snr", "150", status=1)
        expect("only with every layer in float32" in said, said)

    def where_errors_enter(self):
        """metac diff --data: as the report has them; of a damaged weight at its node; of a model with itself nowhere."""
        model, data = residual_network(self.work / "residual.onnx", 10), self._data((3, 16, 16))
        out, report = self._quantize(model, "--data", data)
        found = json.loads(command(self.metac, "diff", model, out, "--data", data, "--json"))
        snr, reported = found["outputs"][0]["snr_db"], report["outputs"][0]["snr_db"]
        expect(abs(snr - reported) < 0.3 and found["samples"] == report["samples"], f"{snr} dB, the report has {reported}")
        damaged = onnx.load(model)
        node = [n for n in damaged.graph.node if n.op_type == "Conv"][2]
        weight = next(w for w in damaged.graph.initializer if w.name == node.input[1])
        values = onnx.numpy_helper.to_array(weight).copy()
        values[1] *= 1.3
        weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
        onnx.save(damaged, self.work / "damaged.onnx")
        rows = json.loads(command(self.metac, "diff", model, self.work / "damaged.onnx", "--data", data, "--json"))["values"]
        first = max(rows, key=lambda row: row["noise_added"])
        expect(first["name"] == node.output[0] and first["snr_db_of_inputs"] is None and 5 < first["snr_db"] < 60, f"{first}, damaged was {node.output[0]}")
        before = rows[:rows.index(first)]
        expect(before and all(row["snr_db"] is None for row in before), before)
        said = command(self.metac, "diff", model, self.work / "damaged.onnx", "--data", data)
        expect(f'"{node.output[0]}" (Conv' in said.split("what it reads\n")[1].split("\n")[0], said)
        command(self.metac, "diff", model, out, "--data", data, "--least-snr", str(snr - 3))
        command(self.metac, "diff", model, out, "--data", data, "--least-snr", str(snr + 3), status=3)
        expect("no value differs" in command(self.metac, "diff", model, model, "--data", data), "a model differs from itself")
        expect("compares two models, or one with --precision" in command(self.metac, "diff", model, "--data", data, status=2), "one model alone")
        expect("is a folder" in command(self.metac, "diff", model, self.work, "--data", data, status=2), "a folder for a model")
        expect("--data" in command(self.metac, "diff", self.work, self.work, "--precision", "bfloat16", status=2), "an option that does nothing")
        expect("two folders are compared" in command(self.metac, "diff", model, status=2), "nothing to compare with")

    def weights_in_blocks(self):
        model, data = transformer_block(self.work / "transformer.onnx", 11), self._data((12, 64), count=256)
        found = {key: self._snr(model, "--data", data, "--weights", *more) for key, more in {
            "8": ("int8",), "4": ("int4",), "4 of 128": ("int4", "--block", "128"), "4 nearest": ("int4", "--nearest")}.items()}
        expect(found["8"] > found["4"] > found["4 nearest"] and found["4"] > found["4 of 128"] - 0.1 and found["8"] > 35, found)
        first = next(node.name for node in onnx.load(model).graph.node if node.op_type == "MatMul")
        out, report = self._quantize(model, "--weights", "int4", "--keep", first)
        written = operators_of(out)
        expect(written.count("MatMulNBits") + 1 == operators_of(model).count("MatMul") - 2, written)  # two have no weights
        expect(report["samples"] == 0 and report["weight_bytes"]["after"] < 0.25 * report["weight_bytes"]["before"], report)

    def what_the_numbers_in_blocks_are(self):
        """The weights that MatMulNBits stands for, computed here out of its bytes."""
        for bits, block, depth in ((4, 32, 50), (4, 64, 64), (8, 32, 33)):
            n = Network(bits + block)
            weights = n.rng.standard_normal((depth, 7)).astype(np.float32)
            model = n.save(self.work / "blocks.onnx", y=n("MatMul", n.input("x", ["batch", depth]), n.weight(weights)))
            out, _ = self._quantize(model, "--weights", f"int{bits}", "--block", str(block))
            found = self._run(out, x=np.eye(depth, dtype=np.float32))["y"]
            node, tensors = onnx.load(out).graph.node[0], {t.name: numpy_helper.to_array(t) for t in onnx.load(out).graph.initializer}

            def unpacked(bytes_, count):
                return np.stack([bytes_, bytes_] if bits == 8 else [bytes_ & 15, bytes_ >> 4], -1).reshape(7, -1)[:, ::2 if bits == 8 else 1][:, :count]
            blocks = -(-depth // block)
            scales = tensors[node.input[2]].reshape(7, blocks)
            zeros = unpacked(tensors[node.input[3]].reshape(7, -1), blocks) if len(node.input) > 3 else np.full((7, blocks), 128)
            integers = unpacked(tensors[node.input[1]].reshape(7, -1), depth)
            k = np.arange(depth) // block
            expected = ((integers.astype(int) - zeros.astype(int)[:, k]) * scales[:, k]).T
            expect(np.allclose(found, expected, rtol=1e-5, atol=1e-6), f"{bits} bits, blocks of {block}")
            expect(np.all(np.abs(expected - weights) <= (0.6 if bits == 8 else 3) * np.abs(scales[:, k]).T), f"{bits} bits: not near")

    def tables_of_rows(self):
        n = Network(4)
        table, ids = n.weight(n.rng.standard_normal((1100, 64))), n.input("x", ["batch", 6], TensorProto.INT64)
        x = n("Add", n("Gather", table, ids), n("Gather", table, n.weight([1, 2, 3, 4, 5, 6], np.int64)))
        model = n.save(self.work / "words.onnx", y=n.linear(x, 64, 16))
        words = n.rng.integers(0, 1100, (40, 6))
        np.savez(self.work / "words.npz", x=words.astype(np.int32))
        exact = self._run(model, x=words)["y"]
        for more, least in ((["--data", self.work / "words.npz"], 30), (["--weights", "int8"], 35), (["--weights", "int4"], 15)):
            out, report = self._quantize(model, *more)
            expect(report["weight_bytes"]["after"] < 0.3 * report["weight_bytes"]["before"], f"{more}: {report['weight_bytes']}")
            found = self._run(out, x=words)["y"]
            expect(decibels(exact, found) > least, f"{more}: {decibels(exact, found)} dB")
            if onnxruntime and "int8" in more:
                session = onnxruntime.InferenceSession(str(out), providers=["CPUExecutionProvider"])
                expect(decibels(found, session.run(None, {"x": words})[0]) > 40, more)
        out, report = self._quantize(model, "--weights", "int8", "--keep", "Gather")
        expect(report["weight_bytes"]["after"] > 0.9 * report["weight_bytes"]["before"], report["weight_bytes"])

    def weights_that_are_inputs_and_functions(self):
        """Files of IR version 3 list weights as inputs; what local functions compute stays as it is."""
        old = onnx.load(perceptron(self.work / "perceptron.onnx", 18))
        old.ir_version = 3
        old.graph.input.extend(helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in old.graph.initializer)
        onnx.save(old, str(self.work / "old.onnx"))
        x = np.load(self._data((64,)))["x"]
        for more in (["--data", self._data((64,))], ["--weights", "int8"], ["--to", "float16"]):
            out, _ = self._quantize(self.work / "old.onnx", *more)
            expect(decibels(self._run(self.work / "old.onnx", x=x)["y"], self._run(out, x=x)["y"]) > 25, more)
        n = Network(5)
        n.save(self.work / "called.onnx", y=n.gemm(n("Relu", n.gemm(n.input("x", ["batch", 8]), 8, 8)), 8, 4))
        called = onnx.load(self.work / "called.onnx")
        function = helper.make_function("local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 17)])
        called.functions.append(function)
        called.opset_import.append(helper.make_opsetid("local", 1))
        relu = next(node for node in called.graph.node if node.op_type == "Relu")
        relu.op_type, relu.domain = "Twice", "local"
        onnx.save(called, str(self.work / "called.onnx"))
        x = samples((8,), 20, 1)
        for more in (["--data", self._data((8,))], ["--weights", "int8"], ["--to", "float16"]):
            out, report = self._quantize(self.work / "called.onnx", *more)
            expect(any("local functions stay in float32" in note for note in report["notes"]), report["notes"])
            expect(decibels(self._run(self.work / "called.onnx", x=x)["y"], self._run(out, x=x)["y"]) > 25, more)

    def half_types(self):
        for name, (make, shape) in NETWORKS.items():
            model, data = make(self.work / f"{name}.onnx", 12), self._data(shape)
            snr = {}
            for half in ("float16", "bfloat16"):
                if half == "bfloat16" and name == "upsampling":  # Resize changed in between
                    expect("is not raised from opset 17" in self._quantize(model, "--to", half, status=1), name)
                    continue
                out, report = self._quantize(model, "--data", data, "--to", half)
                kinds = {t.data_type for t in onnx.load(out).graph.initializer if t.data_type not in (TensorProto.INT64,)}
                expect(kinds <= {TensorProto.FLOAT16 if half == "float16" else TensorProto.BFLOAT16, TensorProto.FLOAT}, kinds)
                snr[half] = min(row["snr_db"] for row in report["outputs"])
                ports = onnx.load(out).graph
                expect(all(p.type.tensor_type.elem_type == TensorProto.FLOAT for p in [*ports.input, *ports.output]), "ports")
            expect(snr["float16"] > 50 and (len(snr) == 1 or snr["float16"] > snr["bfloat16"] > 30), f"{name}: {snr}")
        out, report = self._quantize(NETWORKS["transformer"][0](self.work / "transformer.onnx", 12), "--to", "float16", "--keep", "LayerNormalization")
        casts = operators_of(out).count("Cast")
        expect(casts > 2 and any("2 nodes stay in float32" in note for note in report["notes"]), f"{casts} casts, {report['notes']}")

    def older_opsets(self):
        for opset in (11, 12, 13):
            model = residual_network(self.work / "old.onnx", 13, opset)
            out, _ = self._quantize(model, "--data", self._data((3, 16, 16)))
            expect(onnx.load(out).opset_import[0].version == 13, opset)
        n = Network(1, 11)
        x = n("Softmax", n("Squeeze", n("Unsqueeze", n.gemm(n.input("x", ["batch", 8]), 8, 4), axes=[1]), axes=[1]), axis=1)
        model = n.save(self.work / "old.onnx", y=n("ReduceSum", x, axes=[1], keepdims=0))
        out, _ = self._quantize(model, "--data", self._data((8,)))
        given = np.load(self.work / "data_1.npz")["x"]
        expect(np.allclose(self._run(out, x=given)["y"], 1, atol=1e-5), "sums of Softmax")
        for opset, wrong, message in ((10, lambda n, x: x, "the model has 10"),
                                      (11, lambda n, x: n("Softmax", n("Reshape", x, n.weight([0, 2, 2], np.int64)), axis=1), "means several axes")):
            n = Network(1, opset)
            model = n.save(self.work / "old.onnx", y=wrong(n, n.gemm(n.input("x", ["batch", 8]), 8, 4)))
            said = self._quantize(model, "--data", self._data((8,)), status=1)
            expect(message in said and "onnx.version_converter" in said, said)

    def ways_to_give_data(self):
        model = perceptron(self.work / "perceptron.onnx", 14)
        x = samples((64,), 40, 3)
        folder = self.work / "folder"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for k in range(4):
            np.savez(folder / f"{k}.npz", x=x[10 * k:10 * k + 10], label=np.zeros(10, np.int64))
        np.save(self.work / "x.npy", x)
        np.savez(self.work / "x.npz", x=x, label=np.zeros(40, np.int64))
        np.savez(self.work / "wide.npz", x=x.astype(np.float64))
        (self.work / "x.pb").write_bytes(numpy_helper.from_array(x, "x").SerializeToString())
        models = []
        for data in ([folder], sorted(folder.iterdir()), [self.work / "x.npy"], [self.work / "x.npz"], [self.work / "x.pb"], [self.work / "wide.npz"]):
            out, report = self._quantize(model, "--data", *data)
            expect(report["samples"] == 40, f"{data}: {report['samples']}")
            models.append(out.read_bytes())
        expect(len(set(models)) == 1, "the same samples give another model")
        _, report = self._quantize(model, "--data", self.work / "x.npz", "--samples", "12", "--batch", "5")
        expect(report["samples"] == 12, report["samples"])

        fixed = onnx.load(model)
        fixed.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 16
        onnx.save(fixed, str(self.work / "fixed.onnx"))
        _, report = self._quantize(self.work / "fixed.onnx", "--data", self.work / "x.npz")
        expect(report["samples"] == 32, report["samples"])

    def wrong_data(self):
        model = perceptron(self.work / "perceptron.onnx", 15)
        x = samples((64,), 4, 3)
        empty = self.work / "empty"
        empty.mkdir(exist_ok=True)
        with_nan, infinite = x.copy(), x.copy()
        with_nan[2, 5], infinite[3, 0] = np.nan, np.inf
        for name, arrays, message in (
                ("shape", {"x": x[:, :32]}, r'shape.npz: input "x": the model takes float32 .*x64, the array has the shape 4x32'),
                ("rank", {"x": x[0]}, "the array has the shape 64"), ("name", {"z": x, "t": x}, 'no such array; there are "t", "z"'),
                ("nan", {"x": with_nan}, "the element at position 133 is nan"), ("inf", {"x": infinite}, "position 192 is inf"),
                ("truth", {"x": x > 0}, None), ("text", {"x": x.astype(str)}, "text.npz"), ("none", {"x": x[:0]}, "the array has the shape 0x64")):
            np.savez(self.work / f"{name}.npz", **arrays)
            if message is None:
                continue
            said = self._quantize(model, "--data", self.work / f"{name}.npz", status=1)
            expect(re.search(message, said), f"{name}: {said}")
        (self.work / "cut.npz").write_bytes((self.work / "shape.npz").read_bytes()[:100])
        for path, message in ((empty, "there is no .npz, .npy or .pb file"), (self.work / "gone.npz", "gone.npz"),
                              (self.work / "x.txt", "ends with .npz"), (self.work / "cut.npz", "not a whole .npz file")):
            said = self._quantize(model, "--data", path, status=1)
            expect(message in said, f"{path}: {said}")
        expect("int8 needs --data" in self._quantize(model, status=2), "no data")
        for wrong in (("--weights", "int3"), ("--to", "int8"), ("--weights", "int4", "--to", "float16"), ("--block", "33", "--weights", "int4")):
            self._quantize(model, *wrong, status=2)

    def models_that_are_refused_or_left_alone(self):
        data = self._data((8,))
        n = Network(1)
        model = n.save(self.work / "bare.onnx", y=n("Relu", n.input("x", ["batch", 8])))
        for more in (["--data", data], ["--weights", "int4"]):
            expect("there is nothing to quantise" in self._quantize(model, *more, status=1), more)
        n = Network(1)
        model = n.save(self.work / "small.onnx", y=n.gemm(n.input("x", ["batch", 8]), 8, 4))
        out, _ = self._quantize(model, "--data", data, name="once")
        for more in (["--data", data], ["--to", "float16"]):
            said = self._quantize(out, *more, status=1)
            expect("quantised already" in said and "Linear" in said, said)
        out, _ = self._quantize(model, "--weights", "int4", name="once")
        expect("there is nothing to quantise" in self._quantize(out, "--weights", "int4", status=1), "MatMulNBits")
        n = Network(1)
        model = n.save(self.work / "nan.onnx", y=n("MatMul", n.input("x", ["batch", 8]), n.weight(np.full((8, 4), np.nan))))
        for more in (["--data", data], ["--weights", "int4"]):
            expect("must be finite" in self._quantize(model, *more, status=1), more)

    def values_that_are_no_numbers(self):
        n = Network(6)
        model = n.save(self.work / "log.onnx", y=n.gemm(n("Log", n.input("x", ["batch", 8])), 8, 4))
        said = self._quantize(model, "--data", self._data((8,)), status=1)
        expect('log.onnx: value "v0"' in said and "has no range" in said, said)
        n = Network(6)
        rows = n("Gather", n.random(50, 8), n.input("x", ["batch"], TensorProto.INT32))
        model = n.save(self.work / "rows.onnx", y=n.gemm(rows, 8, 4))
        np.savez(self.work / "large.npz", x=np.array([3, 2**40]))
        said = self._quantize(model, "--data", self.work / "large.npz", status=1)
        expect(f"holds {2**40} at position 1, which no int32 is" in said, said)

    def bodies_stay_in_float(self):
        n = Network(3)
        x = n.input("x", ["batch", 8])
        h = n("Relu", n.gemm(x, 8, 8))
        weights = n.random(8, 8)
        port = [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)], [helper.make_tensor_value_info("e", TensorProto.FLOAT, None)]
        then = helper.make_graph([helper.make_node("MatMul", [h, weights], ["t"])], "then", [], port[0])
        otherwise = helper.make_graph([helper.make_node("Neg", [h], ["e"])], "else", [], port[1])
        chosen = n("If", n("Greater", n("ReduceMax", h, keepdims=0), n.weight(1e-3)), then_branch=then, else_branch=otherwise)
        model = n.save(self.work / "bodies.onnx", y=n.gemm(chosen, 8, 4))
        for more in (["--data", self._data((8,))], ["--weights", "int8"], ["--to", "float16"]):
            out, report = self._quantize(model, *more)
            expect(any("bodies of If, Loop or Scan stay in float32" in note for note in report["notes"]), report["notes"])
            branch = next(node for node in onnx.load(out).graph.node if node.op_type == "If").attribute[1].g
            expect([node.op_type for node in branch.node] in (["MatMul"], ["Neg"]), branch)
            x = np.load(self.work / "data_1.npz")["x"]
            expect(decibels(self._run(model, x=x)["y"], self._run(out, x=x)["y"]) > 25, more)

    def external_data(self):
        model = perceptron(self.work / "perceptron.onnx", 16)
        loaded = onnx.load(model)
        onnx.save(loaded, str(self.work / "outside.onnx"), save_as_external_data=True, location="outside.bin", size_threshold=0)
        data = self._data((64,))
        a, b = (self._quantize(m, "--data", data)[0].read_bytes() for m in (model, self.work / "outside.onnx"))
        expect(len(a) == len(b), "weights outside of the file give another model")

    def digits(self):
        folder, test = ROOT / "models/digits", np.load(ROOT / "models/digits/test.npz")
        x, label = test["image"].astype(np.float32), test["label"]

        def right(model):
            return 100 * np.mean(self._run(model, image=x)["probabilities"].argmax(1) == label)
        exact = right(folder / "digits.onnx")
        for more, loss in ((["--data", folder / "train.npz"], 0.5), (["--data", folder / "train.npz", "--calibration", "mse"], 0.5),
                           (["--data", folder / "train.npz", "--activations", "int8", "--bias-correction"], 0.5),
                           (["--weights", "int4"], 1), (["--weights", "int4", "--data", folder / "train.npz"], 1),
                           (["--to", "float16"], 0.3)):
            out, _ = self._quantize(folder / "digits.onnx", *more)
            found = right(out)
            print(f"      digits {' '.join(m if isinstance(m, str) else m.name for m in more)}: {found:.2f} % right, float32 {exact:.2f} %", flush=True)
            expect(found >= exact - loss, f"{more}: {found:.2f} % right, float32 {exact:.2f} %")

    def the_page(self):
        """The commands of docs/quantization.md."""
        page = (ROOT / "docs/quantization.md").read_text()
        environment = {**os.environ, "PATH": f"{self.metac.parent}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"}
        blocks = re.findall(r"```sh\n(.*?)```", page, re.S)
        expect(len(blocks) >= 4, "the page has lost its commands")
        for text in blocks:
            command("bash", "-e", "-c", text.replace("/tmp/", f"{self.work}/"), env=environment, cwd=ROOT)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="", help="checks with this in their name")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="metac-quantize-") as work:
        return run_checks(Checks(arguments.build.resolve(), pathlib.Path(work)), only=arguments.only)


if __name__ == "__main__":
    sys.exit(main())
