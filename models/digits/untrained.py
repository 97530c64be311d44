#!/usr/bin/env python3
"""Writes what a training program for the digits needs, beside this file: a network with random weights and the data.

    python3 untrained.py        needs: pip install numpy scikit-learn onnx ; a second

untrained.onnx is as an exporter writes a network for inference, its Dropout included. train.npz and test.npz divide the
1797 images that scikit-learn ships: four fifths and one fifth, by a fixed seed.
"""
import pathlib

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits

HERE = pathlib.Path(__file__).resolve().parent


def write_data():
    digits = load_digits()
    images, labels = digits.images.astype(np.uint8)[:, None], digits.target.astype(np.uint8)
    order = np.random.default_rng(0).permutation(len(labels))
    for name, part in (("train", order[:1437]), ("test", order[1437:])):
        np.savez_compressed(HERE / f"{name}.npz", image=images[part], label=labels[part])


def write_network():
    random = np.random.default_rng(1)
    weights = {}

    def layer(name, *shape):
        fan_in = int(np.prod(shape[1:]))
        weights[f"{name}.weight"] = (random.standard_normal(shape) * np.sqrt(2 / fan_in)).astype(np.float32)
        weights[f"{name}.bias"] = np.zeros(shape[0], np.float32)
        return [f"{name}.weight", f"{name}.bias"]

    weights["ratio"] = np.array(0.3, np.float32)
    nodes = [
        helper.make_node("Conv", ["image", *layer("conv1", 16, 1, 3, 3)], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["a1"]),
        helper.make_node("Conv", ["a1", *layer("conv2", 32, 16, 3, 3)], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c2"], ["a2"]),
        helper.make_node("MaxPool", ["a2"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["flat"]),
        helper.make_node("Gemm", ["flat", *layer("hidden", 64, 512)], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["a3"]),
        helper.make_node("Dropout", ["a3", "ratio"], ["d"]),
        helper.make_node("Gemm", ["d", *layer("head", 10, 64)], ["scores"], transB=1),
    ]
    graph = helper.make_graph(nodes, "digits", [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["batch", 1, 8, 8])],
                              [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])],
                              [numpy_helper.from_array(value, name) for name, value in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, HERE / "untrained.onnx")


if __name__ == "__main__":
    write_data()
    write_network()
