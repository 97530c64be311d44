"""What a lazy step costs before its kernels, and that nothing grows with the number of steps."""
import pathlib
import resource
import time

import metac
import numpy as np
from expectations import expect


def resident():
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def least(work, times=15):
    best = float("inf")
    for _ in range(times):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


class CostChecks:
    def a_repeated_step_of_small_operators(self):
        x = metac.array(np.ones(8, "f4"))

        def step():
            y = x
            for _ in range(500):
                y = y * 1.0001 + x
            y.evaluate()
        step(), step()
        walks = metac._metac.graph_report()["walks"]
        each = least(step) / 1000
        expect(metac._metac.graph_report()["walks"] == walks, "a repeated step was walked over")
        expect(each < 2e-6, f"an operator costs {each * 1e6:.2f} us")
        return f"{each * 1e6:.2f} us an operator of Python (1,000 in a step)"

    def steps_in_constant_memory(self):
        for style in ("assigned", "rebound"):
            w = metac.array(np.ones(4, "f4"))
            for step in range(8000):
                loss = ((w - 0.5) ** 2).sum()
                slope = metac.grad(loss, w)
                if style == "assigned":
                    w.assign(w - 0.001 * slope)
                else:
                    w = w - 0.001 * slope
                loss.evaluate()
                if step == 5000:
                    before, nodes = resident(), metac._metac.graph_report()["live"]
            grown = resident() - before
            expect(grown < 1 << 20, f"{style}: 3,000 steps took {grown} bytes")
            expect(metac._metac.graph_report()["live"] < 2 * nodes + 8192, f"{style}: nodes grow")
