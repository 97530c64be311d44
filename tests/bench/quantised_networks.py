#!/usr/bin/env python3
"""Quantises networks to int8 with ONNX Runtime's tools, as its users do, for race.py to race.

    python3 quantised_networks.py DIR NET.onnx@input=SHAPE[@input=SHAPE] ... [--dynamic]
    python3 race.py --metac build/release/bin/metac DIR/*.onnx ... [--keep DIR2]
    needs: pip install numpy onnx onnxruntime sympy

Statically: QuantizeLinear and DequantizeLinear around convolutions, products and what lies between them; activations
uint8, weights int8 with a scale a channel, calibrated (min-max) on eight samples of normal numbers. --dynamic: products
of matrices as DynamicQuantizeLinear and MatMulInteger. DIR/NET_int8.onnx is written; files that are there stay.
"""
import argparse
import logging
import pathlib
import tempfile

import numpy as np
import onnxruntime
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static, shape_inference


class Samples(CalibrationDataReader):
    def __init__(self, model, shapes, count):
        session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
        rng = np.random.default_rng(0)

        def draw(value):
            shape = shapes[value.name]
            return rng.standard_normal(shape).astype(np.float32) if "float" in value.type else np.ones(shape, np.int64)

        self.feeds = iter([{value.name: draw(value) for value in session.get_inputs()} for _ in range(count)])

    def get_next(self):
        return next(self.feeds, None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("models", nargs="+", metavar="NET.onnx@input=SHAPE")
    parser.add_argument("--dynamic", action="store_true", help="scales are found while the network runs")
    arguments = parser.parse_args()
    logging.getLogger().setLevel(logging.ERROR)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for text in arguments.models:
        path, *inputs = text.split("@")
        shapes = {name: [int(n) for n in shape.split("x")] for name, shape in (part.split("=") for part in inputs)}
        to = arguments.folder / f"{pathlib.Path(path).stem}_int8.onnx"
        if to.exists():
            continue
        with tempfile.TemporaryDirectory() as folder:
            prepared = str(pathlib.Path(folder) / "prepared.onnx")
            shape_inference.quant_pre_process(path, prepared)
            if arguments.dynamic:
                quantize_dynamic(prepared, to, per_channel=True, weight_type=QuantType.QInt8)
            else:
                quantize_static(prepared, to, Samples(prepared, shapes, 8), quant_format=QuantFormat.QDQ, per_channel=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)
        print("@".join([str(to), *inputs]))


if __name__ == "__main__":
    main()
