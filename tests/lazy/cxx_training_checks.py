"""Training loops in C++: the numbers of the same loop in Python, and images of digits that are learnt."""
import pathlib
import tempfile

import metac
import numpy as np
from cxx_programs import answer_of, built
from expectations import expect
from metac import nn
from metac.nn.module import load_weights, save_weights
from paper_checks import wgan, wgan_batches, wgan_gp
from training_checks import digits

HERE = pathlib.Path(__file__).resolve().parent


def save_arrays(path, arrays):
    save_weights(path, {name: metac.array(value) for name, value in arrays.items()})


class CxxTrainingChecks:
    def __init__(self, build):
        self._build = build

    def training_in_cxx(self):
        nn.seed(3)
        nets, batches = dict(zip(("critic", "maker"), wgan())), wgan_batches(30, np.random.default_rng(5))
        images, labels, test_images, test_labels = digits()
        order = np.random.default_rng(0).permutation(len(images))
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            save_arrays(folder / "batches.safetensors", batches)
            save_arrays(folder / "digits.safetensors", {"images": images[order], "labels": labels[order],
                                                        "test images": test_images, "test labels": test_labels})
            for name, net in nets.items():
                net.save(folder / f"{name}.safetensors")
            answer = answer_of(built(self._build, HERE / "cxx/training.cpp", folder / "training"), folder).strip()
            wanted, got = wgan_gp(*nets.values(), batches), load_weights(folder / "penalties.safetensors")["penalties"]
            expect(np.allclose(got, wanted, rtol=1e-3, atol=1e-5), f"penalties {got[:4]} ... {got[-4:]} for {wanted[-4:]}")
            for name, net in nets.items():
                trained = load_weights(folder / f"{name}.trained")
                for path, var in net.parameters().items():
                    expect(np.allclose(trained[path], var.numpy(), rtol=1e-3, atol=1e-4), f"{name}: {path}")
            saved, traced = (load_weights(folder / f"lenet.{kind}") for kind in ("safetensors", "onnx"))
            same = [(saved[path] == traced[path]).all() for path in saved if path in traced]
            expect(len(saved) == len(same) == 8 and all(same), f"{list(traced)} for {list(saved)}")
        expect(wanted[-1] < 0.5 * wanted[0], f"penalty {wanted[0]} ... {wanted[-1]}")
        accuracy = float(answer.split()[1].rstrip(","))
        expect(accuracy > 0.95, answer)
        return f"penalties differ by {np.abs(got / wanted - 1).max():.1e} of them at most; digits: {answer}"
