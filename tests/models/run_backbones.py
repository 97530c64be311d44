#!/usr/bin/env python3
"""Builds every network of models/backbones small and compares metac's answers with ONNX Runtime's.

    python3 run_backbones.py --metac build/release/bin/metac [--full] [--only REGEX]
    needs: pip install numpy onnx onnxruntime

A small network has the structure of the whole one: a quarter of the channels, two blocks a stage, an image of 64x64
(shifted windows need 96), batch 2. --full builds them as they are raced, at batch 1. Each must pass onnx.checker, answer
differently to different inputs, and metac's outputs must be within 1e-4 of the output's largest magnitude plus 1e-3 of the
element. One line a network; the last line is 'N passed, N failed', the exit status 1 if any failed.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "models" / "backbones"))
import build  # noqa: E402


def feeds_for(model, batch):
    rng, feeds = np.random.default_rng(5), {}
    for value in model.graph.input:
        shape = [batch, *(d.dim_value for d in value.type.tensor_type.shape.dim[1:])]
        integers = value.type.tensor_type.elem_type == onnx.TensorProto.INT64
        feeds[value.name] = rng.integers(0, 2, shape) if integers else rng.standard_normal(shape, dtype=np.float32)
    return feeds


def check(name, full, metac, work):
    """Throws with what is wrong."""
    model = build.build(name) if full else build.build(name, 96 if name == "swin_t" else 64, 4, 2)
    onnx.checker.check_model(model, full_check=True)
    file = work / f"{name}.onnx"
    onnx.save(model, file)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    feeds = feeds_for(model, 1 if full else 2)
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    answers = dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))
    largest = max(float(np.abs(a).max()) for a in answers.values())
    if not np.isfinite(largest) or not largest:
        raise RuntimeError(f"the network answers {largest}: its weights are badly scaled")
    if not full and any(np.abs(a[0] - a[1]).max() < 1e-3 * largest for a in answers.values()):
        raise RuntimeError("the network gives the same answer to different inputs")
    np.savez(work / "expected.npz", **feeds, **answers)
    argv = [str(metac), "verify", str(file), "--against", str(work / "expected.npz"), "--rtol", "1e-3", "--atol", str(1e-4 * largest), "--quiet"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600)
    file.unlink()
    if done.returncode:
        raise RuntimeError(f"metac verify, status {done.returncode}: {(done.stdout + done.stderr).strip()[-400:]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", type=pathlib.Path, required=True)
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--only", default="", metavar="REGEX")
    arguments = parser.parse_args()
    passed = failed = 0
    for name in (n for n in build.BUILDERS if re.search(arguments.only, n)):
        start = time.monotonic()
        try:
            with tempfile.TemporaryDirectory(prefix="metac-backbones-") as folder:
                check(name, arguments.full, arguments.metac, pathlib.Path(folder))
            passed, verdict = passed + 1, "PASS"
        except Exception as error:
            failed, verdict = failed + 1, f"FAIL: {error}"
        print(f"{name} ({time.monotonic() - start:.1f} s): {verdict}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
