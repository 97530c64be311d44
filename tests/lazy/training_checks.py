"""Training loops written as code."""
import pathlib

import metac
import numpy as np
from expectations import expect
from metac import op

ROOT = pathlib.Path(__file__).resolve().parents[2]


def digits():
    """Images and labels to train with and to score by, as models/digits/recipe.json scales them."""
    parts = []
    for name in ("train", "test"):
        with np.load(ROOT / f"models/digits/{name}.npz") as data:
            parts += [((data["image"].astype("f4") * 0.0625) - 0.3) / 0.4, data["label"].astype("i8")]
    return parts


class TrainingChecks:
    def digits_are_learnt_by_one_program(self):
        images, labels, test_images, test_labels = digits()
        rng = np.random.default_rng(0)

        def weight(*shape):
            return metac.array((rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:]))).astype("f4"))
        weights = [weight(16, 1, 3, 3), weight(32, 16, 3, 3), weight(64, 512), weight(10, 64)]
        biases = [metac.array(np.zeros(w.shape[0], "f4")) for w in weights]

        def network(x):
            x = op.Conv(x, weights[0], biases[0], pads=[1, 1, 1, 1]).relu()
            x = op.Conv(x, weights[1], biases[1], pads=[1, 1, 1, 1]).relu()
            x = op.MaxPool(x, kernel_shape=[2, 2], strides=[2, 2]).flatten(1)
            x = (x @ weights[2].T + biases[2]).relu()
            return x @ weights[3].T + biases[3]

        parameters = weights + biases
        momenta = [metac.array(np.zeros(p.shape, "f4")) for p in parameters]
        before = metac._metac.graph_report()
        for epoch in range(8):
            order, rate = rng.permutation(len(images)), 0.025 * (1 + np.cos(np.pi * epoch / 8))
            for k in range(0, len(images) - 63, 64):
                batch = order[k:k + 64]
                loss = op.SoftmaxCrossEntropyLoss(network(metac.array(images[batch])), metac.array(labels[batch]))
                for p, v, g in zip(parameters, momenta, metac.grad(loss, parameters)):
                    v.assign(0.9 * v + g)
                    p.assign(p - rate * v)
                loss.item()
        after = metac._metac.graph_report()
        # The first and the last rates of the schedule are numbers that formulas have, and might be programs of their own.
        expect(after["compiled"] - before["compiled"] <= 2, f"{after['compiled'] - before['compiled']} programs")
        accuracy = (network(metac.array(test_images)).numpy().argmax(1) == test_labels).mean()
        expect(accuracy >= 0.98, f"accuracy {accuracy}")
        return f"accuracy {accuracy:.4f}, {after['compiled'] - before['compiled']} program for the steps"

    def steps_without_looks_fuse(self):
        w = metac.array(np.array([4.0, -2.0], "f4"))
        for _ in range(10):
            w.assign(w - 0.1 * metac.grad((w * w).sum(), w))
        before = metac._metac.graph_report()["looks"]
        expect(np.allclose(w.numpy(), np.array([4.0, -2.0]) * 0.8 ** 10, rtol=1e-5), f"{w}")
        expect(metac._metac.graph_report()["looks"] == before + 1, "ten steps in one program")
