"""The Jittor paper's examples, and networks whose graphs differ from one sample to the next."""
import json
import pathlib
import tempfile

import metac
import numpy as np
from expectations import expect
from metac import nn, op

RNG = np.random.default_rng(23)


def compiled():
    return metac._metac.graph_report()["compiled"]


def convolution(x, p):
    """Listing 1 of the paper, line by line."""
    N, C, H, W = x.shape
    o, i, h, w = p.shape
    xx = x.reindex(shape=(N, o, H, W, i, h, w), indices=("i0", "i4", "i2-i5", "i3-i6"))
    pp = op.metac.broadcast(p, xx, dims=[0, 2, 3])
    yy = xx * pp
    return yy.sum((4, 5, 6))


def instance_norm(x, epsilon=1e-5):
    mean = x.mean((2, 3), keepdims=True)
    deviation = x - mean
    return deviation / ((deviation * deviation).mean((2, 3), keepdims=True) + epsilon).sqrt()


class TreeLSTM(nn.Module):
    """Child-sum tree-LSTM (Tai and others, 2015): a tree is (leaf number) or a tuple of trees."""

    def __init__(self, words, width):
        self.embedding = nn.Embedding(words, width)
        self.iou, self.forget = nn.Linear(2 * width, 3 * width), nn.Linear(2 * width, width)
        self.width = width

    def forward(self, tree):
        n = self.width
        if isinstance(tree, int):
            x, children = self.embedding(metac.array([tree])), []
        else:
            x, children = metac.array(np.zeros((1, n), "f4")), [self(child) for child in tree]
        h = sum((h for h, _ in children), metac.array(np.zeros((1, n), "f4")))
        gates = self.iou(op.Concat(x, h, axis=1))
        c = gates[:, :n].sigmoid() * gates[:, 2 * n:].tanh()
        for child_h, child_c in children:
            c = c + self.forget(op.Concat(x, child_h, axis=1)).sigmoid() * child_c
        return gates[:, n:2 * n].sigmoid() * c.tanh(), c


def wgan():
    """A critic and a maker of points in the plane."""
    return tuple(nn.Sequential(nn.Linear(2, 16), op.Tanh, nn.Linear(16, outputs)) for outputs in (1, 2))


def wgan_batches(updates, rng):
    """For each update: real points and shares for two of the critic, noise for these and for one of the maker."""
    return {"real": (rng.standard_normal((updates, 2, 32, 2)) * 0.1 + [1, -1]).astype("f4"),
            "noise": rng.standard_normal((updates, 3, 32, 2)).astype("f4"),
            "share": rng.random((updates, 2, 32, 1)).astype("f4")}


def wgan_gp(critic, maker, batches):
    """WGAN-GP (Gulrajani and others, 2017), whose penalty is the norm of a gradient: the critic's penalty at each update."""
    of_critic, of_maker = (metac.optim.Optimiser(net, "adam", learning_rate=3e-3, beta1=0.5, beta2=0.9)
                           for net in (critic, maker))
    penalties = []
    for reals, noises, shares in zip(batches["real"], batches["noise"], batches["share"]):
        for real, noise, share in zip(reals, noises, shares):
            real, share = metac.array(real), metac.array(share)
            false = maker(metac.array(noise)).stop_grad()
            between = share * real + (1 - share) * false
            slope = metac.grad(critic(between).sum(), between)
            penalty = (((slope * slope).sum(1) + 1e-12).sqrt() - 1) ** 2
            of_critic.step(critic(false).mean() - critic(real).mean() + 10 * penalty.mean())
            penalties.append(penalty.mean().item())
        loss = -critic(maker(metac.array(noises[2]))).mean()
        of_maker.step(loss)
        loss.evaluate()
    return penalties


class PaperChecks:
    def listing_1_is_a_convolution(self):
        a, b = RNG.standard_normal((2, 3, 8, 9)), RNG.standard_normal((4, 3, 3, 3))
        x, p = metac.array(a), metac.array(b)
        y = convolution(x, p)
        # x at i - k: ONNX's Conv with the kernel turned round and padded in front.
        same = op.Conv(x, metac.array(b[:, :, ::-1, ::-1].copy()), pads=[2, 2, 0, 0])
        expect(np.allclose(y.numpy(), same.numpy(), rtol=1e-12), "the values")
        dp, = metac.grad((convolution(x, p) ** 2).sum(), [p])
        flipped = metac.array(b[:, :, ::-1, ::-1].copy())
        wanted = metac.grad((op.Conv(x, flipped, pads=[2, 2, 0, 0]) ** 2).sum(), flipped).numpy()[:, :, ::-1, ::-1]
        expect(np.allclose(dp.numpy(), wanted, rtol=1e-10), "the gradient by the parameters")

    def instance_norm_is_one_kernel(self):
        x = RNG.standard_normal((2, 3, 16, 16)).astype("f4")
        model = metac.trace(instance_norm, [x])
        with tempfile.TemporaryDirectory() as folder:
            model.compile(pathlib.Path(folder) / "out", name="norm", cpu="native", no_build=True)
            kernels = json.loads((pathlib.Path(folder) / "out/norm.json").read_text())["kernels"]
        expect(len(kernels) == 1, f"{len(kernels)} kernels")
        wanted = (x - x.mean((2, 3), keepdims=True)) / np.sqrt(x.var((2, 3), keepdims=True) + 1e-5)
        expect(np.allclose(instance_norm(metac.array(x)).numpy(), wanted, atol=1e-4), "the values")

    def wgan_gp_in_a_loop(self):
        nn.seed(3)
        critic, maker = wgan()
        before = compiled()
        rng = np.random.default_rng(5)
        penalties = wgan_gp(critic, maker, wgan_batches(60, rng))
        expect(compiled() - before <= 4, f"{compiled() - before} programs")
        expect(np.mean(penalties[-10:]) < 0.5 * np.mean(penalties[:10]), f"penalty {penalties[:3]} ... {penalties[-3:]}")
        made = maker(metac.array(rng.standard_normal((256, 2)).astype("f4"))).numpy().mean(0)
        expect(np.isfinite(made).all(), f"{made}")
        return f"{compiled() - before} programs for 180 updates"

    def ragged_sequences_compile_once_a_length(self):
        nn.seed(4)
        cell, head = nn.Linear(3 + 8, 8), nn.Linear(8, 1)
        trained = {f"{name}.{k}": v for name, part in (("cell", cell), ("head", head)) for k, v in part.parameters().items()}
        optimiser = metac.optim.Optimiser(trained, "adam", learning_rate=0.01)
        lengths = [2, 5, 3, 5, 2, 4, 3, 5, 4, 2] * 6
        before, losses = compiled(), []
        for length in lengths:
            a = RNG.standard_normal((1, length, 3)).astype("f4")
            x, h = metac.array(a), metac.array(np.zeros((1, 8), "f4"))
            for step in range(length):
                h = cell(op.Concat(x[:, step], h, axis=1)).tanh()
            loss = ((head(h) - float(a[:, :, 0].sum())) ** 2).mean()
            optimiser.step(loss)
            losses.append(loss.item())
        expect(compiled() - before <= len(set(lengths)), f"{compiled() - before} programs for {len(set(lengths))} lengths")
        expect(np.mean(losses[-20:]) < np.mean(losses[:20]), "nothing was learnt")

    def trees(self):
        nn.seed(6)
        net, head = TreeLSTM(10, 6), nn.Linear(6, 1)
        shapes = [((1, 2), 3), (4, 5), ((6, 7), (8, 9)), (1, (2, 3))]
        trained = {**net.parameters(), **{"head." + k: v for k, v in head.parameters().items()}}
        optimiser = metac.optim.Optimiser(trained, "adam", learning_rate=0.03)
        before, losses = compiled(), []
        for _ in range(20):
            for k, tree in enumerate(shapes):
                loss = ((head(net(tree)[0]) - float(k % 2)) ** 2).sum()
                optimiser.step(loss)
                losses.append(loss.item())
        expect(compiled() - before <= len(shapes), f"{compiled() - before} programs for {len(shapes)} trees")
        expect(np.mean(losses[-4:]) < 0.5 * np.mean(losses[:4]), f"{losses[:4]} {losses[-4:]}")
