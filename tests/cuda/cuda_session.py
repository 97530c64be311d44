"""Sessions on a GPU, or what stands in for it: shapes that come and go, specialised behind, new weights, threads; against the CPU's.

    python3 cuda_session.py PACKAGE          PACKAGE: the folder that holds the module metac

Prints the runs; the exit status is 1 where an answer differs.
"""
import pathlib
import sys
import threading

import numpy as np

sys.path[:0] = [sys.argv[1], str(pathlib.Path(__file__).resolve().parents[2] / "models/dynamic")]
import build  # noqa: E402
import metac  # noqa: E402


def feeds_of(name, rng):
    if name == "detector":
        return {"image": rng.standard_normal((int(rng.integers(1, 3)), 3, 8 * int(rng.integers(2, 5)), 8 * int(rng.integers(2, 5)))).astype("f")}
    batch, steps, past = int(rng.integers(1, 3)), int(rng.integers(1, 4)), int(rng.choice([0, 1, 5]))
    return {"ids": rng.integers(0, 64, (batch, steps)), **{k: rng.standard_normal((2, batch, 4, past, 8)).astype("f") for k in ("past_key", "past_value")}}


def compare(name, gpu, cpu, feeds):
    wanted, got = cpu.run(feeds), gpu.run(feeds)
    for port, array in wanted.items():
        a, b = np.asarray(array), np.asarray(got[port])
        if a.shape != b.shape or not np.allclose(a, b, rtol=2e-4, atol=2e-4):
            raise AssertionError(f"{name}: {port} differs: {a.shape} and {b.shape}")


def main():
    for name in ("detector", "decoder"):
        model, rng = getattr(build, name)(), np.random.default_rng(3)
        cpu = metac.Session(model.SerializeToString(), specialise="never")
        gpu = metac.Session(model.SerializeToString(), target="cuda", max_specialisations=6, max_contexts=2)
        shapes = [feeds_of(name, rng) for _ in range(3)]
        for k in range(9):
            compare(name, gpu, cpu, shapes[k % 3])
        gpu.wait()
        for feeds in shapes:
            compare(name, gpu, cpu, feeds)
        some = next(i for i in model.graph.initializer if i.data_type == 1 and np.prod(i.dims) > 100)
        weights = {some.name: rng.standard_normal(tuple(some.dims)).astype("f") / 8}
        for session in (cpu, gpu):
            session.set_weights(weights)
        wrong = []

        def repeat(feeds):
            try:
                for _ in range(3):
                    compare(name, gpu, cpu, feeds)
            except Exception as error:
                wrong.append(error)
        threads = [threading.Thread(target=repeat, args=[feeds]) for feeds in shapes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if wrong:
            raise wrong[0]
        report = gpu.report()
        if report["compiled"] == 0:
            raise AssertionError(f"{name}: {report}")
        print(f"{name}: {report['runs']} runs, {report['compiled']} compiled behind")


main()
