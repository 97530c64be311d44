"""Gradients of lazily written code, of first and higher order, against PyTorch in float64 where it is installed, else
against central differences."""
import subprocess
import sys

import metac
import numpy as np
from expectations import Skip, expect, raises
from metac import op

RNG = np.random.default_rng(11)

# Functions of float64 arrays in words that metac.Var and PyTorch's tensors share, and their arguments' shapes.
FUNCTIONS = {
    "polynomial": (lambda f, x, y: (x * x * y - 3 * x + y / 2).sum(), [(3, 4), (4,)]),
    "mlp": (lambda f, x, w, b, v: ((f.tanh(x @ w + b) @ v) ** 2).mean(), [(5, 3), (3, 4), (4,), (4, 2)]),
    "softmax": (lambda f, x: (f.softmax(x) * x).sum(), [(4, 6)]),
    "exponentials": (lambda f, x: (f.exp(-x * x) * f.sin(x) + f.log(x * x + 1)).sum(), [(7,)]),
    "norm": (lambda f, x, s: (((x - f.mean(x)) / f.sqrt(f.mean((x - f.mean(x)) ** 2) + 1e-5)) * s).sum() ** 2,
             [(3, 8), (8,)]),
    "branches": (lambda f, x: f.relu(x).sum() + (f.sigmoid(x) * x).sum(), [(5, 5)]),
    "transposed": (lambda f, x, y: (f.transpose(x) @ y).sum() ** 2 / 7, [(4, 3), (4, 5)]),
}


class Words:
    """The functions of FUNCTIONS for Vars."""
    tanh, exp, log, sin, sqrt, relu, sigmoid = (
        staticmethod(lambda x, name=name: getattr(x, name)()) for name in "tanh exp log sin sqrt relu sigmoid".split())
    softmax = staticmethod(lambda x: x.softmax(-1))
    mean = staticmethod(lambda x: x.mean(-1, keepdims=True))
    transpose = staticmethod(lambda x: x.T)


def difference(function, arrays, k, element, step=1e-5):
    def at(offset):
        moved = [a.copy() for a in arrays]
        moved[k].flat[element] += offset
        return function(*[metac.array(a) for a in moved]).item()
    return (at(step) - at(-step)) / (2 * step)


class GradientChecks:
    def first_and_second_order(self):
        try:
            import torch
        except ImportError:
            torch = None
        worst = [0.0, 0.0]
        for name, (function, shapes) in FUNCTIONS.items():
            arrays = [RNG.standard_normal(shape) for shape in shapes]
            xs = [metac.array(a) for a in arrays]
            first = metac.grad(function(Words, *xs), xs)
            along = sum(((g * g).sum() for g in first[1:]), (first[0] * first[0]).sum())
            second = metac.grad(along, xs)
            if torch:
                class TorchWords:
                    tanh, exp, log, sin, sqrt, relu, sigmoid = (torch.tanh, torch.exp, torch.log, torch.sin, torch.sqrt,
                                                                torch.relu, torch.sigmoid)
                    softmax = staticmethod(lambda x: torch.softmax(x, -1))
                    mean = staticmethod(lambda x: x.mean(-1, keepdim=True))
                    transpose = staticmethod(lambda x: x.T)
                ts = [torch.tensor(a, requires_grad=True) for a in arrays]
                tfirst = torch.autograd.grad(function(TorchWords, *ts), ts, create_graph=True)
                tsecond = torch.autograd.grad(sum((g * g).sum() for g in tfirst), ts, allow_unused=True)
                for order, (got, wanted) in enumerate([(first, tfirst), (second, tsecond)]):
                    for g, t in zip(got, wanted):
                        t = np.zeros(g.shape) if t is None else t.detach().numpy()
                        off = np.abs(g.numpy() - t).max() / max(1, np.abs(t).max())
                        worst[order] = max(worst[order], off)
                        expect(off < 1e-10, f"{name}: order {order + 1} differs by {off}")
            else:
                for k, g in enumerate(first):
                    element = int(RNG.integers(g.size))
                    wanted = difference(lambda *v: function(Words, *v), arrays, k, element)
                    expect(abs(g.numpy().flat[element] - wanted) < 1e-6 * max(1, abs(wanted)), f"{name}: first, {k}")

                def of_first(*v):
                    gs = metac.grad(function(Words, *v), list(v))
                    return sum(((g * g).sum() for g in gs[1:]), (gs[0] * gs[0]).sum())
                for k, g in enumerate(second):
                    element = int(RNG.integers(g.size))
                    wanted = difference(of_first, arrays, k, element)
                    expect(abs(g.numpy().flat[element] - wanted) < 1e-5 * max(1, abs(wanted)), f"{name}: second, {k}")
        return f"worst {worst[0]:.1e} and {worst[1]:.1e} beside PyTorch" if torch else "beside central differences"

    def third_order(self):
        x = metac.array(np.array([0.3, -1.2, 2.0]))
        y = (x ** 4).sum()
        for factor, power in ((4, 3), (12, 2), (24, 1)):
            y = metac.grad(y.sum(), x)
            expect(np.allclose(y.numpy(), factor * x.numpy() ** power, rtol=1e-12), f"derivative {power}")

    def after_a_look(self):
        a = RNG.standard_normal((3, 3))
        w, x = metac.array(a), metac.array(RNG.standard_normal((2, 3)))
        h = (x @ w).tanh()
        mask = h > 0
        loss = (op.Where(mask, h * h, h) * 2).sum()
        wanted = metac.grad(loss, w).numpy().copy()
        h = (x @ w).tanh()
        h.numpy()  # as print() in the middle of a step does
        mask = h > 0
        loss = (op.Where(mask, h * h, h) * 2).sum()
        loss.item()
        del h, mask
        expect(np.allclose(metac.grad(loss, w).numpy(), wanted, rtol=1e-12), "a look changed the gradient")
        g = metac.grad(loss, w)
        g.evaluate()
        second = metac.grad((g * g).sum(), w)
        expect(np.isfinite(second.numpy()).all() and np.abs(second.numpy()).max() > 0, "of a gradient that was looked at")

    def directions(self):
        x, t = metac.array(RNG.standard_normal(5)), metac.array(RNG.standard_normal(5))
        y = (x * x).exp()
        expect(np.allclose(metac.jvp(y, x, t).numpy(), (y * 2 * x * t).numpy(), rtol=1e-10), "jvp")
        expect(np.allclose(metac.vjp(y, x, t).numpy(), (y * 2 * x * t).numpy(), rtol=1e-10), "vjp")

    def what_no_derivative_passes(self):
        x = metac.array([2.0])
        expect(metac.grad((x * x.stop_grad()).sum(), x).item() == 2, "stop_grad")
        with metac.no_grad():
            y = x * x
        expect(metac.grad((x * y).sum(), x).item() == 4, "no_grad")
        raises(metac.ArgumentError, metac.grad, y.sum(), x)
        raises(metac.ArgumentError, metac.grad, (metac.array([1.0]) * 2).sum(), x)
        raises(metac.ArgumentError, metac.grad, (x > 0).sum(), x)
        raises(metac.ArgumentError, metac.grad, x.sum(), metac.array([1]))

    def assigned_vars_are_versions(self):
        w = metac.array([1.0, 2.0])
        y = (w * w).sum()
        w.assign(w - 1)
        expect(y.item() == 5, "what was written before reads the older version")
        expect(w.tolist() == [0, 1], "the version")
        message = raises(metac.ArgumentError, metac.grad, y, w)
        expect("version 1" in message and "gradient_checks.py:" in message, message)
        raises(metac.ArgumentError, w.assign, metac.array([1.0]))

    def shapes_that_values_decide_are_refused(self):
        x = metac.array([1.0, -1.0, 2.0])
        y = metac.op.Compress(x, x > 0)
        expect(y.tolist() == [1, 2], "Compress")
        raises(metac.ArgumentError, metac.grad, y.sum() + x.sum(), x)

    def checkpoints_change_no_derivative(self):
        rng = np.random.default_rng(5)
        ws = [metac.array(rng.standard_normal((6, 6)) * 0.5) for _ in range(6)]
        x = metac.array(rng.standard_normal((4, 6)))

        def part(h, *weights):
            for w in weights:
                h = (h @ w).tanh() * h.sigmoid()
            return h

        def slopes(first, second, inner):
            h = first(part, x, *ws[:3])
            both = second(lambda h: (inner(part, h, ws[3]) @ ws[4], h.exp()), h)
            loss = (both[0] * both[1] @ ws[5]).sum()
            firsts = metac.grad(loss, [x, *ws])
            seconds = metac.grad(sum((g * g).sum() for g in firsts), [x, *ws])
            metac.evaluate(firsts + seconds)
            return [g.numpy() for g in firsts + seconds]

        def plain(function, *inputs):
            return function(*inputs)

        wanted = slopes(plain, plain, plain)
        for ways in ((metac.checkpoint, plain, plain), (metac.checkpoint,) * 3, (plain, metac.checkpoint, metac.checkpoint)):
            for had, told in zip(slopes(*ways), wanted):
                expect(np.allclose(had, told, rtol=1e-12, atol=1e-13), f"differs by {np.abs(had - told).max()}")
        raises(metac.DTypeError, metac.checkpoint, lambda x: 3, x)

    def checkpoints_take_less_memory(self):
        """Of 48 layers of 4 MiB each, in parts of 8, 6 + 8 values are there at once."""
        peaks, values = {}, {}
        for name, way in (("kept", "(lambda f, *given: f(*given))"), ("computed again", "metac.checkpoint")):
            done = subprocess.run([sys.executable, "-c", CHAIN.replace("WAY", way)], capture_output=True, text=True,
                                  check=False)
            expect(done.returncode == 0, done.stderr[-300:])
            peaks[name], values[name] = (float(word) for word in done.stdout.split())
        expect(np.isclose(values["kept"], values["computed again"], rtol=1e-4), f"{values}")
        expect(peaks["computed again"] < 0.7 * peaks["kept"], f"{peaks}")
        return ", ".join(f"{name} {peak:.0f} MiB" for name, peak in peaks.items())


CHAIN = """
import numpy as np, metac
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024
rng = np.random.default_rng(0)
h = metac.array(rng.standard_normal((8192, 128)).astype("float32"))
ws = [metac.array(rng.standard_normal((128, 128)).astype("float32") / 11) for _ in range(48)]
def part(h, *weights):
    for w in weights:
        h = (h @ w).tanh()
    return h
for k in range(0, 48, 8):
    h = WAY(part, h, *ws[k:k + 8])
slopes = metac.grad(h.sum(), ws)
before = peak()
metac.evaluate(slopes)
print(peak() - before, float(abs(slopes[0]).sum()))
"""
