"""Sessions: opening, messages, threads, weights, closing, memory."""
import array
import contextlib
import os
import pathlib
import resource
import signal
import threading
import time

import metac
import numpy as np
from expectations import expect, raises
from models import ROOT, identity, model, product
from onnx import TensorProto, helper

DIGITS = ROOT / "models/digits/digits.onnx"


def resident():
    """Bytes of the process in memory."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


class SessionChecks:
    def opened_from_all_kinds(self):
        contents = DIGITS.read_bytes()
        for given in (str(DIGITS), DIGITS, contents, bytearray(contents), memoryview(contents), array.array("B", contents)):
            with metac.Session(given) as session:
                expect(session.run({"image": np.zeros((2, 1, 8, 8), "f4")})["probabilities"].shape == (2, 10), type(given))
        expect(repr(session) == "<metac.Session: image -> probabilities, closed>", repr(session))

    def what_cannot_be_opened(self):
        raises(FileNotFoundError, metac.Session, "no such file.onnx")
        raises(metac.ModelError, metac.Session, b"no model")
        raises(metac.ModelError, metac.Session, ROOT)
        raises(metac.ArgumentError, metac.Session, b"")
        expect("a path, or bytes of a model" in raises(metac.DTypeError, metac.Session, 3), "no path")
        dims = [{"batch": 0}, {"batch": (8, 4)}, {"batch": "8"}, {"batch": (1, 2, 3, 4)}, {"bach": 3}, {"batch": 1.5}]
        for options in ({"specialise": "sometimes"}, {"threads": -1}, {"threads": 1 << 40}, {"max_memory": -1},
                        {"cpu": "z80"}, {"target": "abacus"}, {"precision": "float8"}, *({"dims": declared} for declared in dims)):
            said = raises(metac.ArgumentError, metac.Session, DIGITS, **options)
            expect(next(iter(options)).rstrip("s") in said, f"{options}: {said}")

    def errors_are_pythons_too(self):
        for kind, also in ((metac.ArgumentError, ValueError), (metac.DTypeError, TypeError), (metac.DTypeError, ValueError),
                           (metac.OutOfMemoryError, MemoryError), (metac.UnsupportedError, NotImplementedError)):
            expect(issubclass(kind, also) and issubclass(kind, metac.Error), f"{kind} is no {also}")
        kinds = (metac.ArgumentError, metac.ModelError, metac.OutOfMemoryError, metac.UnsupportedError, metac.InternalError)
        expect([kind.status for kind in kinds] == [1, 2, 3, 4, 7], "the numbers of metac.h")
        try:
            metac.Session(b"no model")
        except metac.Error as error:
            expect(error.status == 2, error.status)

    def ports(self):
        with metac.Session(DIGITS) as session:
            expect(session.inputs == (metac.Port("image", "float32", ("batch", 1, 8, 8)),), session.inputs)
            expect(session.outputs[0].name == "probabilities", session.outputs)
        add = [helper.make_node("Add", ["a", "é"], ["y"])]
        rows = TensorProto.INT64, [None, 3]
        two = model(add, [("a", *rows), ("é", TensorProto.INT64, [3])], [("y", *rows)])
        session = metac.Session(two)
        expect([port.shape for port in session.inputs] == [(None, 3), (3,)], session.inputs)
        expect(session.run({"é": [1, 2, 3], "a": [[1, 1, 1]]})["y"].tolist() == [[2, 3, 4]], "names beyond ASCII")

    def wrong_inputs(self):
        session, image = metac.Session(DIGITS, dims={"batch": (1, 16)}), np.zeros((1, 1, 8, 8), "f4")
        for inputs, parts in (({}, ["image", "missing"]), ({"imag": image}, ['"imag"', '"image"']),
                              ({"image": image, "x": image}, ['"x"']), ({"image": image[0]}, ["1x8x8", "float32"]),
                              ({"image": image[:, :, 1:]}, ["1x1x7x8"]), ({"image\0": image}, ["image"]),
                              ({"image": np.zeros((17, 1, 8, 8), "f4")}, ["batch", "17", "16"])):
            said = raises(metac.ArgumentError, session.run, inputs)
            expect(all(part in said for part in parts), f"{said} should say {parts}")
        for inputs in ([image], image, None, {1: image}):
            raises(metac.DTypeError, session.run, inputs)
        expect(session.run({"image": image})["probabilities"].shape == (1, 10), "a session that refused goes on")

    def threads_share_a_session(self):
        contents, weights = product()
        session, failures = metac.Session(contents, max_contexts=4), []

        def work(seed):
            rng = np.random.default_rng(seed)
            for _ in range(100):
                x = rng.standard_normal((rng.integers(1, 40), 64), np.float32)
                error = np.abs(session.run({"x": x})["y"] - (x @ weights["w"] + 1)).max()
                if error > 1e-4:
                    failures.append(error)
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        expect(not failures and session.report()["runs"] == 800, f"{failures[:3]}, {session.report()}")
        return f"{session.report()}"

    def runs_do_not_hold_the_lock(self):
        contents, _ = product(2048)
        session, x, turns, done = metac.Session(contents, threads=1), np.zeros((2048, 2048), "f4"), 0, threading.Event()
        session.run({"x": x})

        def work():
            for _ in range(3):
                session.run({"x": x})
            done.set()
        threading.Thread(target=work).start()
        start = time.perf_counter()
        while not done.is_set():
            time.sleep(0.001)
            turns += 1
        expect(turns > 20, f"{turns} turns of a loop beside {time.perf_counter() - start:.3f} s of runs")

    def weights_are_replaced(self):
        contents, weights = product()
        session, x = metac.Session(contents), np.ones((3, 64), np.float32)
        session.run({"x": x})
        new = np.random.default_rng(1).standard_normal((64, 64), np.float32)
        for given in ({"w": new.astype("f8")}, {"w": new[:1]}, {"v": new}, {"w": [1]},
                      {"w": new * 2, "one": np.ones(2, "f4")}):
            raises(metac.ArgumentError, session.set_weights, given)
        expect(np.allclose(session.run({"x": x})["y"], x @ weights["w"] + 1, atol=1e-4), "refused weights are used")
        session.set_weights({"w": new.T})
        expect(np.allclose(session.run({"x": x})["y"], x @ new.T + 1, atol=1e-4), "the new weights are not used")

    def closing_beside_runs(self):
        for _ in range(10):
            session, others = metac.Session(product()[0]), []

            def work():
                try:
                    while True:
                        session.run({"x": np.ones((5, 64), np.float32)})
                except metac.ArgumentError as error:
                    others.append(str(error))
            threads = [threading.Thread(target=work) for _ in range(4)]
            for thread in threads:
                thread.start()
            time.sleep(0.02)
            session.close()
            for thread in threads:
                thread.join()
            expect(others == ["the session is closed"] * 4, others)
            session.close()
            for call in (session.wait, session.report):
                raises(ValueError, call)
            expect(session.inputs[0].name == "x", "ports are known after closing")

    def interrupted_by_a_signal(self):
        session, x = metac.Session(product()[0]), np.ones((5, 64), np.float32)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts tests in the background ignores it
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
        with contextlib.suppress(KeyboardInterrupt):
            end = time.monotonic() + 10
            while time.monotonic() < end:
                session.run({"x": x})
            raise AssertionError("no KeyboardInterrupt")
        session.run({"x": x})

    def shapes_that_come_again_are_specialised(self):
        session = metac.Session(product()[0])
        for _ in range(60):
            session.run({"x": np.ones((7, 64), np.float32)})
            time.sleep(0.001)
        session.wait()
        report = session.report()
        expect(report["runs"] == 60 and 0 < report["open_runs"] <= 60 and report["waiting"] == 0, report)
        expect(metac.Session(product()[0], specialise="never").report()["compiled"] == 0, "compiled with never")
        metac.Session(product()[0], precision="auto").run({"x": np.ones((7, 64), np.float32)})
        return f"{report}"

    def no_memory_is_lost(self):
        class Dlpack:
            def __dlpack__(self, **more):
                return given.__dlpack__(**more)

            def __dlpack_device__(self):
                return 1, 0
        given = np.ones((128, 64), np.float32)
        session, wrong = metac.Session(product()[0], specialise="eager"), np.ones((128, 64))
        before = 0
        for turn in range(10000):
            session.run({"x": given})
            session.run({"x": given.T[::-1].T if turn % 2 else Dlpack()}, as_numpy=False)["y"].__dlpack__()
            raises(TypeError, session.run, {"x": wrong})
            if turn == 1000:
                before = resident()
        grown = resident() - before
        expect(grown < 2 << 20, f"{grown} bytes more after 18,000 runs")
        return f"{grown} bytes more after 18,000 runs of 32 KiB"

    def cost_of_a_call(self):
        session, x = metac.Session(identity()), np.ones(4, np.float32)
        told = []
        for what, more in (("NumPy", {}), ("metac.Array", {"as_numpy": False})):
            times = []
            for _ in range(9):
                start = time.perf_counter()
                for _ in range(2000):
                    session.run({"x": x}, **more)
                times.append((time.perf_counter() - start) / 2000)
            told.append(f"{min(times) * 1e6:.2f} us with {what}")
        return f"session.run of 4 numbers, best of 9: {', '.join(told)}"
