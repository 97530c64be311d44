#!/usr/bin/env python3
"""Writes networks that metac is not tuned to, as race.py takes them: 26 small ones of many kinds (others/) and fourteen of torchvision.

    python3 other_networks.py DIR [--only REGEX] [--open] [--list]
    python3 race.py --metac build/release/bin/metac DIR/*.onnx [--keep DIR2] [--threads 1,2]
    needs: pip install torch torchvision onnx numpy

Weights are random with a fixed seed, shapes are fixed; ONNX opset 17, written by torch.onnx. Files that are there stay.
With --open the batch, and heights, widths and lengths where the network has any size of them, are open dims, and the
inputs are called x0, x1 (race_open.py races such).
"""
import argparse
import pathlib
import re

import torch
import torchvision

from others import audio, tokens, vision

TORCHVISION = ["r3d_18", "googlenet", "efficientnet_v2_s", "inception_v3", "mobilenet_v3_small", "mobilenet_v3_large", "maxvit_t", "shufflenet_v2_x1_0", "regnet_x_3_2gf",
               "regnet_y_400mf", "swin_v2_t", "lraspp_mobilenet_v3_large", "deeplabv3_resnet50", "mnasnet1_0"]
SHAPES = {"r3d_18": (1, 3, 16, 112, 112), "inception_v3": (1, 3, 299, 299)}

# Axes that --open opens, where they are not all but the channels'.
OPENED = {"gpt": (0, 1), "llama": (0, 1), "bert": (0, 1), "detr": (0, 1), "linatt": (0, 1), "lstm": (0, 1), "gru": (0, 1), "dlrm": (0,), "mixer": (0,), "maxvit_t": (0,), "swin_v2_t": (0,)}


def opened(name, feeds):
    """torch.onnx's dynamic_axes: dims of the same axis of several inputs share a name, but for those of a pyramid's levels."""
    names = {}
    for i, feed in enumerate(feeds):
        axes = OPENED.get(name, [a for a in range(feed.dim()) if a != 1])
        names[f"x{i}"] = {a: f"n{a}" if a == 0 or name != "bifpn" else f"n{a}_{i}" for a in axes if a < feed.dim()}
    return {"input_names": list(names), "dynamic_axes": names}


class FirstOf(torch.nn.Module):
    """Segmentation networks give a dictionary."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x)["out"]


def of_torchvision(name):
    options = {"weights": None, **({"weights_backbone": None} if name.startswith(("lraspp", "deeplab")) else {}), **({"init_weights": False} if name in ("googlenet", "inception_v3") else {})}
    network = torchvision.models.get_model(name, **options)
    return FirstOf(network) if name.startswith(("lraspp", "deeplab")) else network


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--only", type=re.compile, default=re.compile(""), metavar="REGEX")
    parser.add_argument("--open", action="store_true", help="leave dims open")
    parser.add_argument("--list", action="store_true", help="say what each is, and write nothing")
    arguments = parser.parse_args()
    small = {**vision.NETWORKS, **tokens.NETWORKS, **audio.NETWORKS}
    for name in [*small, *TORCHVISION]:
        if not arguments.only.search(name):
            continue
        if arguments.list:
            print(f"{name}: {small[name].__doc__ if name in small else 'torchvision'}")
            continue
        file = arguments.folder / f"{name}.onnx"
        if file.exists():
            continue
        torch.manual_seed(1)
        network = (small[name]() if name in small else of_torchvision(name)).eval()
        feeds = [torch.randn(i) if isinstance(i, tuple) else i for i in (small[name].inputs if name in small else [SHAPES.get(name, (1, 3, 224, 224))])]
        arguments.folder.mkdir(parents=True, exist_ok=True)
        part = file.with_suffix(".part")
        torch.onnx.export(network, tuple(feeds), str(part), opset_version=17, dynamo=False, **(opened(name, feeds) if arguments.open else {}))
        part.rename(file)
        print(file, flush=True)


if __name__ == "__main__":
    main()
