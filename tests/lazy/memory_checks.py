"""Next values in the memory of the last ones (compiler/lazy/next_values.h): what it saves, and that nobody sees it."""
import pathlib
import subprocess
import sys

import metac
import numpy as np
from expectations import expect, raises
from metac import nn, optim

WIDE, MANY = 1500, 6000  # two such weights with what Adam keeps are 206 MiB


class Net(nn.Module):
    def __init__(self):
        rng = np.random.default_rng(3)
        self.first = metac.array((rng.standard_normal((WIDE, MANY)) / 40).astype("f4"))
        self.second = metac.array((rng.standard_normal((MANY, WIDE)) / 40).astype("f4"))

    def forward(self, x):
        return (x @ self.first).tanh() @ self.second


def batch():
    return metac.array(np.random.default_rng(4).standard_normal((8, WIDE)).astype("f4"))


class MemoryChecks:
    def next_values_take_the_memory_of_the_last_ones(self):
        done = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=False,
                              cwd=pathlib.Path(__file__).resolve().parent)
        expect(done.returncode == 0, done.stderr[-300:])
        first, later = (float(word) for word in done.stdout.split())
        kept = 3 * 2 * WIDE * MANY * 4 / 2**20
        expect(later < 1.7 * kept, f"{later:.0f} MiB for {kept:.0f} that are kept")
        return f"{later:.0f} MiB for {kept:.0f} that are kept, {first:.0f} of them in the first step"

    def what_is_seen_is_not_overwritten(self):
        """Steps that may overwrite give what steps give of which an older version is held, or an array of one."""
        found = []
        for way in ("nobody looks", "an array", "a Var", "a reader"):
            net = Net()
            optimiser = optim.Optimiser(net, "sgd", learning_rate=0.01, momentum=0.9)
            seen = []
            for _ in range(3):
                before = net.first
                loss = (net(batch()) ** 2).mean()
                if way == "an array":
                    seen.append((before.numpy(), before.numpy(copy=True)))
                elif way == "a Var":
                    seen.append((before.stop_grad(), before.numpy(copy=True)))
                elif way == "a reader":
                    seen.append((before * 1, before.numpy(copy=True)))
                optimiser.step(loss)
                loss.evaluate()
            for had, copy in seen:
                expect(np.array_equal(had if isinstance(had, np.ndarray) else had.numpy(), copy), f"{way}: it changed")
            found.append([w.numpy(copy=True) for w in (net.first, net.second)])
        for other in found[1:]:
            for a, b in zip(found[0], other):
                expect(np.allclose(a, b, rtol=1e-5, atol=1e-7), f"differs by {np.abs(a - b).max()}")

    def a_stale_use_is_an_error(self):
        net = Net()
        x = batch()
        loss = (net(x) ** 2).mean()
        optim.Optimiser(net, "adam").step(loss)
        loss.evaluate()
        message = raises(metac.ArgumentError, metac.grad, loss, x)
        expect("overwritten" in message and "memory_checks.py:" in message, message)
        loss = (net(x) ** 2).mean()
        expect(np.isfinite(metac.grad(loss, x).numpy()).all(), "the next gradient")


STEPS = """
import sys
from memory_checks import Net, batch, metac, optim
def peak():
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024
def steps(count):
    for _ in range(count):
        loss = (net(batch()) ** 2).mean()
        optimiser.step(loss)
        loss.evaluate()
begin = peak()
net = Net()
optimiser = optim.Optimiser(net, "adam", learning_rate=0.001)
steps(1)
first = peak() - begin
steps(4)
print(first, peak() - begin)
"""
