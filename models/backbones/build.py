#!/usr/bin/env python3
"""Writes a network as exporters write it, with seeded random weights: for benchmarks and tests, nothing is downloaded.

    python3 build.py NAME OUT.onnx [--size 224] [--width 1] [--depth N]
    python3 build.py --list
    needs: pip install numpy onnx

--size is the side of the image in pixels, --width divides the channels, --depth caps the blocks of a stage: small
networks of the same structure. Input `input` float32 [batch, 3, size, size], output `output` float32 [batch, 1000];
bert_base takes int64 `input_ids` and `attention_mask` [batch, 128].
"""
import argparse
import pathlib
import sys

import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import convolutional as c  # noqa: E402
import mobile as m  # noqa: E402
import transformers as t  # noqa: E402
from network import Network  # noqa: E402

BUILDERS = {
    "alexnet": c.alexnet,
    "vgg11": c.vgg(1, 1, 2, 2, 2),
    "vgg19": c.vgg(2, 2, 4, 4, 4),
    "squeezenet1_1": c.squeezenet1_1,
    "resnet18": c.resnet(c.basic_block, (2, 2, 2, 2)),
    "resnet50": c.resnet(c.bottleneck, (3, 4, 6, 3)),
    "resnet152": c.resnet(c.bottleneck, (3, 8, 36, 3)),
    "wide_resnet50_2": c.resnet(c.bottleneck, (3, 4, 6, 3), base=128),
    "wide_resnet101_2": c.resnet(c.bottleneck, (3, 4, 23, 3), base=128),
    "resnext50_32x4d": c.resnet(c.bottleneck, (3, 4, 6, 3), groups=32, base=4),
    "resnext101_32x8d": c.resnet(c.bottleneck, (3, 4, 23, 3), groups=32, base=8),
    "res2net50": c.resnet(c.res2_block, (3, 4, 6, 3)),
    "densenet121": c.densenet121,
    "mobilenet_v2": m.mobilenet_v2,
    "efficientnet_b0": m.efficientnet_b0,
    "convnext_tiny": m.convnext_tiny,
    "swin_t": t.swin_t,
    "vit_b_16": t.vit_b_16,
    "bert_base": t.bert_base,
}


def build(name, size=224, width=1, depth=None):
    return BUILDERS[name](Network(name, size, width, depth))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", choices=BUILDERS, metavar="NAME")
    parser.add_argument("out", nargs="?", type=pathlib.Path, metavar="OUT.onnx")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--width", type=int, default=1)
    parser.add_argument("--depth", type=int)
    parser.add_argument("--list", action="store_true", help="the names")
    arguments = parser.parse_args()
    if arguments.list:
        return print("\n".join(BUILDERS))
    if not arguments.out:
        parser.error("a name and a file are needed")
    model = build(arguments.name, arguments.size, arguments.width, arguments.depth)
    onnx.checker.check_model(model)
    onnx.save(model, arguments.out)
    count = sum(onnx.numpy_helper.to_array(t).size for t in model.graph.initializer)
    print(f"{arguments.out}: {count / 1e6:.1f} million weights")


if __name__ == "__main__":
    main()
