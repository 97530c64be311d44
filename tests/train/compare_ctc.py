#!/usr/bin/env python3
"""Compares the operator ctc_loss and its derivative with PyTorch's in float64: random lengths, repeated labels, several blanks.

    python3 compare_ctc.py --metac build/release/bin/metac [--trials 5]

Without PyTorch everything is skipped with a message. The last line is 'N passed, N failed, N skipped'.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

try:
    import torch
except ImportError as missing:
    torch, why = None, missing


def model(batch, steps, classes, most, blank):
    def port(name, dtype, *shape):
        return {"name": name, "dtype": dtype, "shape": list(shape)}
    return {"metac_ir": 1, "opset": {"": 17, "ai.onnx.preview.training": 1},
            "inputs": [port("p", "float64", batch, steps, classes), port("labels", "int64", batch, most), port("label_lengths", "int64", batch), port("step_lengths", "int64", batch)],
            "nodes": [{"op": "ctc_loss", "inputs": ["p", "labels", "label_lengths", "step_lengths"], "outputs": ["loss"], "blank": blank},
                      {"op": "Gradient", "domain": "ai.onnx.preview.training", "inputs": ["p"], "outputs": ["derivative"], "attributes": {"xs": ["p"], "y": "loss"}}],
            "outputs": ["loss", "derivative"]}


def trial(metac, folder, seed):
    random = np.random.default_rng(seed)
    batch, steps, classes, most = 6, int(random.integers(20, 60)), int(random.integers(4, 30)), int(random.integers(1, 10))
    blank = int(random.integers(0, classes))
    scores = random.standard_normal((batch, steps, classes)) * 2
    p = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    few = [c for c in range(classes) if c != blank][:3]
    labels = random.choice(few, (batch, most)).astype(np.int64)
    label_lengths = random.integers(0, most + 1, batch).astype(np.int64)
    step_lengths = random.integers(2 * most, steps + 1, batch).astype(np.int64)
    arrays = {"p": p, "labels": labels, "label_lengths": label_lengths, "step_lengths": step_lengths}
    (folder / "ctc.json").write_text(json.dumps(model(batch, steps, classes, most, blank)))
    inputs = []
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
        inputs += ["--input", f"{name}={folder / name}.npy"]
    done = subprocess.run([metac, "run", folder / "ctc.json", *inputs, "--output-dir", folder / "out"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
    x = torch.tensor(p, requires_grad=True)
    loss = torch.nn.functional.ctc_loss(x.transpose(0, 1), torch.tensor(labels), torch.tensor(step_lengths), torch.tensor(label_lengths), blank, reduction="none")
    loss.sum().backward()
    ours, derivative = np.load(folder / "out/loss.npy"), np.load(folder / "out/derivative.npy")
    # PyTorch's derivative is that of scores of which a softmax is taken behind it: exp(p) more in every step that counts.
    counts = (np.arange(steps)[None] < step_lengths[:, None])[..., None]
    theirs = x.grad.numpy() - np.exp(p) * counts
    return np.max([np.abs(ours - loss.detach().numpy()).max(), np.abs(derivative - theirs).max()])  # NaN if one is


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--trials", type=int, default=5)
    arguments = parser.parse_args()
    if torch is None:
        print(f"PyTorch is missing ({why}): nothing compared\n0 passed, 0 failed, {arguments.trials} skipped")
        return 0
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(arguments.trials):
            difference = trial(arguments.metac, pathlib.Path(folder), seed)
            good = difference <= 1e-10
            failed += not good
            print(f"{'ok  ' if good else 'FAIL'} trial {seed}: largest difference {difference:.1e}", flush=True)
    print(f"{arguments.trials - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
