"""The programs of models/gan for train_race.py: their files, and an update of theirs in PyTorch."""
import pathlib
import sys

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models/gan"), str(ROOT / "tests/train")]
import build as gans  # noqa: E402

RATE = 2e-4
# Name of a run: batch, and the side of the images in pixels. CycleGAN as in its paper takes one image of each side at a time.
RUNS = {"dcgan": (16, 64), "lsgan": (16, 64), "wgan_gp": (16, 64), "cyclegan": (1, 64)}


def write_files(name, folder, batches=8):
    """Networks, recipe and data, random numbers included: generator.json, recipe.json, images.npz."""
    batch, size = RUNS[name]
    gans.build(name, folder, gans.options([name, str(folder), "--size", str(size), "--batch", str(batch), "--samples", str(batch * batches), "--drawn-outside", "--rate", str(RATE)]))


def torch_update(name, folder, compiled):
    """A function of the number of an update that makes it; `compiled`: each network by torch.compile."""
    import torch
    import torch_gans
    batch, _ = RUNS[name]
    with np.load(folder / "images.npz") as data:
        arrays = {field: torch.from_numpy(data[field]) for field in data.files}
    program = torch_gans.GANS[name](folder, RATE)
    for attribute, net in list(vars(program).items()):
        if compiled and isinstance(net, torch_gans.Net):
            setattr(program, attribute, torch.compile(net.__call__))
    batches = min(len(array) for array in arrays.values()) // batch

    def update(k):
        at = k % batches * batch
        program.update({field: array[at:at + batch] for field, array in arrays.items()})

    return update
