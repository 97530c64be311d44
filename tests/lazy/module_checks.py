"""Modules, optimisers and losses: names, files, values against their formulas and, where it is installed, PyTorch."""
import pathlib
import tempfile

import metac
import numpy as np
from expectations import Skip, expect, raises
from metac import nn, op, optim

RNG = np.random.default_rng(31)


def torch_or_skip():
    try:
        import torch
    except ImportError:
        raise Skip("PyTorch is not installed") from None
    return torch


class Net(nn.Module):
    def __init__(self):
        self.first = nn.Conv(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm(4)
        self.blocks = [nn.Sequential(nn.Linear(8, 8), op.Relu), nn.Linear(8, 8, bias=False)]
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        x = self.norm(self.first(x)).relu()
        for block in self.blocks:
            x = block(x)
        return self.drop(x)


class ModuleChecks:
    def parameters_have_paths(self):
        names = list(Net().parameters())
        expect(names == ["first.weight", "first.bias", "norm.weight", "norm.bias", "blocks.0.0.weight", "blocks.0.0.bias",
                         "blocks.1.weight"], names)
        expect("norm.running_mean" in Net().parameters(states=True), "states")

    def weights_are_saved_and_loaded(self):
        nn.seed(1)
        net, other = Net(), Net()
        x = metac.array(RNG.standard_normal((3, 1, 8, 8)).astype("f4"))
        net(x).evaluate()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "net.safetensors"
            net.save(path)
            other.load(path)
            try:
                from safetensors.numpy import load_file
                expect((load_file(path)["first.weight"] == net.first.weight.numpy()).all(), "safetensors reads it")
            except ImportError:
                pass
            model = metac.trace(net.eval(), [x])
            model.save(path.with_suffix(".onnx"))
            third = Net().load(nn.module.load_weights(path.with_suffix(".onnx")), strict=False)
        expect(np.allclose(net.eval()(x).numpy(), other.eval()(x).numpy(), atol=1e-6), "loaded")
        expect((third.first.weight.numpy() == net.first.weight.numpy()).all(), "loaded from ONNX")
        raises(metac.ArgumentError, other.load, {"first.weight": np.zeros(3, "f4")})

    def dropout_draws_anew(self):
        nn.seed(2)
        drop, x = nn.Dropout(0.25), metac.array(np.ones((100, 100), "f4"))
        first, second = drop(x).numpy(), drop(x).numpy()
        expect(abs((first > 0).mean() - 0.75) < 0.03 and abs(first.mean() - 1) < 0.05, f"{first.mean()}")
        expect((first != second).any(), "the same twice")
        expect((drop.eval()(x).numpy() == 1).all(), "not in training")
        y = nn.Dropout(0.5)(x)
        kept = y.numpy() > 0
        expect((metac.grad(y.sum(), x).numpy() == kept * 2.0).all(), "the gradient has the mask that was drawn")

    def layers_beside_pytorch(self):
        torch = torch_or_skip()
        x = RNG.standard_normal((2, 4, 6, 5)).astype("f4")
        pairs = [(nn.Conv(4, 6, 3, stride=2, padding=1), torch.nn.Conv2d(4, 6, 3, 2, 1), x),
                 (nn.Conv(4, 6, (3,), groups=2), torch.nn.Conv1d(4, 6, 3, groups=2), x[:, :, 0]),
                 (nn.ConvTranspose(4, 6, 3, stride=2, output_padding=1),
                  torch.nn.ConvTranspose2d(4, 6, 3, 2, output_padding=1), x),
                 (nn.Linear(5, 3), torch.nn.Linear(5, 3), x),
                 (nn.LayerNorm((6, 5)), torch.nn.LayerNorm((6, 5)), x),
                 (nn.GroupNorm(2, 4), torch.nn.GroupNorm(2, 4), x),
                 (nn.BatchNorm(4), torch.nn.BatchNorm2d(4), x)]
        for own, other, given in pairs:
            own.load({k: v.detach().numpy() for k, v in other.state_dict().items() if "tracked" not in k})
            for _ in range(2):
                got, wanted = own(metac.array(given)), other(torch.tensor(given))
                expect(np.allclose(got.numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-5), type(own).__name__)
            own.eval(), other.eval()
            got, wanted = own(metac.array(given)), other(torch.tensor(given))
            expect(np.allclose(got.numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-5), type(own).__name__ + " later")

    def recurrent_and_attention(self):
        x = metac.array(RNG.standard_normal((5, 2, 3)).astype("f4"))
        y, (h, c) = nn.LSTM(3, 4)(x)
        expect(y.shape == (5, 2, 4) and h.shape == c.shape == (1, 2, 4), f"{y.shape} {h.shape}")
        expect(np.allclose(y.numpy()[-1], h.numpy()[0]), "the last step")
        y, h = nn.GRU(3, 4, bidirectional=True)(x)
        expect(y.shape == (5, 2, 8) and h.shape == (2, 2, 4), f"{y.shape}")
        attention = nn.MultiHeadAttention(8, 2, causal=True)
        a = RNG.standard_normal((2, 5, 8)).astype("f4")
        whole, part = attention(metac.array(a)).numpy(), attention(metac.array(a[:, :3])).numpy()
        expect(np.allclose(whole[:, :3], part, atol=1e-5), "a step saw one behind it")
        slopes = metac.grad((attention(metac.array(a)) ** 2).sum(), list(attention.parameters().values()))
        expect(all(np.isfinite(s.numpy()).all() for s in slopes), "gradients")
        expect(nn.Embedding(7, 3)(metac.array([[1, 2]])).shape == (1, 2, 3), "embedding")

    def optimisers_are_the_recipes(self):
        a = RNG.standard_normal(5)
        for kind, options in [("sgd", {}), ("sgd", {"momentum": 0.9, "nesterov": True}), ("adam", {}), ("adamw", {}),
                              ("adagrad", {}), ("rmsprop", {"momentum": 0.5}), ("lion", {})]:
            w = metac.array(a)
            optimiser = optim.Optimiser([w], kind, learning_rate=0.05, **options)
            losses = []
            for _ in range(30):
                loss = ((w - 1) ** 2).sum()
                optimiser.step(loss)
                losses.append(loss.item())
            expect(losses[-1] < losses[0], f"{kind}: {losses[0]} {losses[-1]}")
            expect(optimiser.steps == 30, "steps")
            again, copied = metac.array(w.numpy()), None
            copied = optim.Optimiser([again], kind, learning_rate=0.05, **options)
            copied.load_state(optimiser.state(), optimiser.steps)
            for var, own in ((w, optimiser), (again, copied)):
                own.step(((var - 1) ** 2).sum())
            expect((w.numpy() == again.numpy()).all(), f"{kind} did not go on from its state")
        raises(metac.ModelError, optim.Optimiser, [metac.array([1.0])], "newton")
        raises(metac.ModelError, optim.Optimiser, [metac.array([1.0])], "sgd", speed=1)

    def optimisers_beside_pytorch(self):
        torch = torch_or_skip()
        a = RNG.standard_normal(5)
        makers = {"sgd": (lambda p: torch.optim.SGD(p, 0.05, 0.9, weight_decay=0.1), {"momentum": 0.9, "weight_decay": 0.1}),
                  "adam": (lambda p: torch.optim.Adam(p, 0.05), {}), "adamw": (lambda p: torch.optim.AdamW(p, 0.05), {}),
                  "rmsprop": (lambda p: torch.optim.RMSprop(p, 0.05), {}),
                  "adagrad": (lambda p: torch.optim.Adagrad(p, 0.05), {})}
        for kind, (make, options) in makers.items():
            w, t = metac.array(a), torch.tensor(a, requires_grad=True)
            own, other = optim.Optimiser([w], kind, learning_rate=0.05, **options), make([t])
            for _ in range(10):
                own.step(((w - 1) ** 4).sum())
                other.zero_grad()
                ((t - 1) ** 4).sum().backward()
                other.step()
            expect(np.allclose(w.numpy(), t.detach().numpy(), rtol=1e-9), f"{kind}: {w} {t}")

    def losses_are_the_recipes(self):
        scores = RNG.standard_normal((6, 4))
        labels = np.array([0, 1, 2, 3, 1, 2])
        log = scores - np.log(np.exp(scores).sum(1, keepdims=True))
        got = optim.loss("cross_entropy", metac.array(scores), metac.array(labels)).item()
        expect(abs(got + log[np.arange(6), labels].mean()) < 1e-12, f"cross_entropy {got}")
        target = RNG.standard_normal((6, 4))
        got = optim.loss("mse", metac.array(scores), metac.array(target)).item()
        expect(abs(got - ((scores - target) ** 2).mean()) < 1e-12, f"mse {got}")
        got = optim.loss("l1", metac.array(scores), metac.array(target), reduction="sum").item()
        expect(abs(got - np.abs(scores - target).sum()) < 1e-10, f"l1 {got}")
        raises(metac.ModelError, optim.loss, "mse", metac.array(scores), metac.array(target[:3]))
        raises(metac.ModelError, optim.loss, "no_such", metac.array(scores), metac.array(target))
