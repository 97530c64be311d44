#!/usr/bin/env python3
"""Writes a network with random weights, a recipe to train it, and made data to train it on.

    python3 build.py alexnet|vgg19|resnet50|mobilenet_v2|gnmt|ncf FOLDER [--size 64] [--classes 10] [--batch N] [--samples N] [--epochs N]
    needs: pip install numpy

Then: metac compile FOLDER/net.json --train FOLDER/recipe.json -o out --name NAME && out/bin/NAME_train --data FOLDER
--size is the side of the images in pixels (the papers': 224), 64 at least.
"""
import argparse
import json
import pathlib

import numpy as np

import convolutional
import samples
import sequences

MOMENTUM = {"kind": "sgd", "momentum": 0.9, "weight_decay": 0.0001}
# Network, usual batch, samples, epochs, recipe.
IMAGES = {
    "alexnet": (convolutional.alexnet, 32, 1024, 8, {"optimizer": {**MOMENTUM, "learning_rate": 0.01}, "clip": {"norm": 1}}),
    "vgg19": (convolutional.vgg19, 16, 512, 8, {"optimizer": {**MOMENTUM, "learning_rate": 0.01}, "clip": {"norm": 1}}),
    "resnet50": (convolutional.resnet50, 16, 512, 6, {"optimizer": {**MOMENTUM, "learning_rate": 0.02}}),
    "mobilenet_v2": (convolutional.mobilenet_v2, 32, 1024, 6, {"optimizer": {**MOMENTUM, "learning_rate": 0.05}}),
}
OTHERS = {"gnmt": (64, 8192, 10), "ncf": (1024, 262144, 10)}


def options(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*IMAGES, *OTHERS])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--batch", type=int)
    parser.add_argument("--samples", type=int)
    parser.add_argument("--epochs", type=int)
    arguments = parser.parse_args(argv)
    if arguments.size < 64:
        parser.error("--size: 64 pixels are the least that these networks take")
    return arguments


def network_of(arguments, batch, count):
    """The network, its output, the samples and what the recipe says of it."""
    name = arguments.name
    if name == "gnmt":
        network, output, about = sequences.gnmt(batch)
        return network, output, samples.sentences(count, about["time"], about["classes"]), {"loss": {"kind": "cross_entropy", "axis": 2}, "metrics": ["perplexity"], "optimizer": {"kind": "adam", "learning_rate": 0.002}, "clip": {"norm": 5}}
    if name == "ncf":
        network, output, about = sequences.ncf(batch)
        return network, output, samples.ratings(count, **about), {"loss": "bce_with_logits", "metrics": ["binary_accuracy"], "optimizer": {"kind": "adam", "learning_rate": 0.002}}
    build, _, _, _, recipe = IMAGES[name]
    network, output, about = build(arguments.size, arguments.classes, 0.5)
    pixels = {"x": {"from": "x", "scale": 1 / 255, "mean": [0.5], "deviation": [0.25]}}
    return network, output, samples.images(count, arguments.size, about["classes"]), {"loss": "cross_entropy", "metrics": ["accuracy"], **recipe, "data": {"fields": pixels}}


def build(arguments):
    _, batch, count, epochs, *_ = IMAGES.get(arguments.name, (None, *OTHERS.get(arguments.name, ())))
    batch, count, epochs = arguments.batch or batch, arguments.samples or count, arguments.epochs or epochs
    network, output, data, recipe = network_of(arguments, batch, count)
    recipe = {"batch": batch, "epochs": epochs, **recipe, "data": {"format": "npz", "train": "data.npz", "validation_split": 0.125, **recipe.get("data", {})}}
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "net.json").write_text(json.dumps(network.document(output)))
    (folder / "recipe.json").write_text(json.dumps(recipe, indent=1))
    np.savez(folder / "data.npz", **data)
    weights = sum(v.size for v in network.weights.values())
    print(f"{folder}: {weights / 1e6:.1f} million weights, {count} samples")


if __name__ == "__main__":
    build(options())
