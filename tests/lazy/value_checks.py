"""Vars against NumPy: arithmetic, dtypes, broadcasting, indices, printing, errors, lives."""
import gc
import os
import threading

import metac
import numpy as np
from expectations import expect, raises

RNG = np.random.default_rng(7)


def same(var, wanted, rtol=1e-6, atol=1e-6):
    got = var.numpy()
    expect(got.shape == np.shape(wanted), f"shape {got.shape}, wanted {np.shape(wanted)}")
    expect(np.allclose(got, wanted, rtol=rtol, atol=atol, equal_nan=True), f"{got} is not {wanted}")


def report():
    return metac._metac.graph_report()


class ValueChecks:
    def arithmetic_like_numpy(self):
        a, b = RNG.standard_normal((3, 4)).astype("f4"), RNG.random((4,)).astype("f4") + 0.5
        x, y = metac.array(a), metac.array(b)
        cases = [(x + y, a + b), (x - y, a - b), (x * y, a * b), (x / y, a / b), (x // y, a // b), (x % y, a % b),
                 (y ** 2, b ** 2), (y ** x, b ** a), (-x, -a), (abs(x), abs(a)), (2 - x, 2 - a), (2.5 * x, 2.5 * a),
                 (1 / y, 1 / b), (x @ metac.array(a.T), a @ a.T), (x + b, a + b), (b + x, b + a), (np.float32(2) * x, 2 * a)]
        for var, wanted in cases:
            same(var, wanted, 1e-5, 1e-5)
        for var, wanted in [(x < y, a < b), (x <= y, a <= b), (x > 0, a > 0), (x >= y, a >= b), (x == x, a == a),
                            (x != x, a != a), ((x > 0) & (x < 1), (a > 0) & (a < 1)), (~(x > 0), ~(a > 0))]:
            same(var, wanted)
        i, j = np.array([7, -7, 5], "i4"), np.array([2, 2, -3], "i4")
        p, q = metac.array(i), metac.array(j)
        for var, wanted in [(p + q, i + j), (p // q, i // j), (p % q, i % j), (p / q, (i / j).astype("f4")), (p * 3, i * 3)]:
            same(var, wanted)
            expect(var.dtype == str(wanted.dtype), f"{var.dtype} for {wanted.dtype}")

    def dtypes_meet(self):
        kinds = {"bool": 0, "int8": 1, "uint8": 1, "int32": 1, "int64": 1, "float16": 2, "float32": 2, "float64": 2}
        for a in kinds:
            for b in kinds:
                got = (metac.array(np.ones(2, a)) * metac.array(np.ones(2, b))).dtype
                if kinds[a] == kinds[b] > 0:
                    wanted = str(np.promote_types(a, b))
                else:
                    wanted = "int32" if a == b == "bool" else a if kinds[a] > kinds[b] else b
                expect(got == wanted, f"{a} and {b} meet in {got}, not {wanted}")
        expect((metac.array(np.ones(2, "i8")) * 0.5).dtype == "float32", "a real number beside integers")
        expect((metac.array(np.ones(2, "f8")) * 0.1).dtype == "float64", "a real number beside float64")
        expect((metac.array([1.0, -1.0]) > 0).sum().item() == 1, "truths are counted")
        expect(metac.array([1, 2]).mean().item() == 1.5, "the mean of integers")
        expect(metac.array([1.5]).dtype == "float32" and metac.array([1]).dtype == "int64", "lists")
        expect(metac.array([1, 2], "float16").dtype == "float16", "a dtype that is asked for")

    def reductions_and_shapes(self):
        a = RNG.standard_normal((2, 3, 4)).astype("f4")
        x = metac.array(a)
        for name in ("sum", "mean", "max", "min", "prod", "var"):
            for axis in (None, 0, -1, (0, 2)):
                for keep in (False, True):
                    same(getattr(x, name)(axis, keepdims=keep), getattr(a, name)(axis=axis, keepdims=keep), 1e-4, 1e-5)
        same(x.argmax(1), a.argmax(1))
        same(x.argmax(), a.argmax())
        same(x.reshape(4, -1), a.reshape(4, -1))
        same(x.transpose(2, 0, 1), a.transpose(2, 0, 1))
        same(x.T, a.T)
        same(x.flatten(1), a.reshape(2, 12))
        same(x.unsqueeze(1).squeeze(1), a)
        same(metac.array(a[:1]).broadcast_to(5, 3, 4), np.broadcast_to(a[:1], (5, 3, 4)))
        same(x.clip(-0.5, 0.5), a.clip(-0.5, 0.5))
        same(x.softmax(1).sum(1), np.ones((2, 4)), 1e-5)

    def indices(self):
        a = RNG.standard_normal((4, 5, 6)).astype("f4")
        keys = [0, -1, slice(1, 3), (slice(None), 2), (Ellipsis, 1), (1, slice(None, None, 2)), (slice(3, None, -1),),
                (None, 0), (0, None), (Ellipsis, None), (slice(None, None, -1), slice(4, 0, -2), 3), ([2, 0, 2],),
                (slice(None), [1, 1]), (1, [0, 4]), (slice(2, 2),), (None, Ellipsis, None), (0, 1, 2), slice(None)]
        for key in keys:
            for x in (metac.array(a), metac.array(a) * 1):  # that exists, and that is yet to be computed
                same(x[key], a[tuple(key) if isinstance(key, tuple) else key])
        raises(IndexError, lambda: metac.array(a)[4])
        raises(metac.ArgumentError, lambda: metac.array(a)[0, 0, 0, 0])
        expect(len(list(metac.array(a))) == 4, "iteration")

    def a_loop_over_batches_is_one_program(self):
        a = RNG.standard_normal((64, 3)).astype("f4")
        x = metac.array(a)
        (x[0:8] * 1.5).evaluate()
        before = report()["compiled"]
        for k in range(0, 64, 8):
            same(x[k:k + 8] * (1.5 + k), a[k:k + 8] * (1.5 + k))
        expect(report()["compiled"] == before, "batches were compiled one by one")

    def printing(self):
        text = repr(metac.array([[1.0, 2.0]]) + 1)
        expect(text == "metac.Var([[2., 3.]], shape=(1, 2), dtype=float32)", text)
        expect(float(metac.array(3.5)) == 3.5 and int(metac.array(3)) == 3 and bool(metac.array(1.0) > 0), "numbers")
        raises(metac.ArgumentError, metac.array([1.0, 2.0]).item)
        expect(metac.array([1.0], "bfloat16").tolist() == [1.0], "bfloat16")

    def errors_name_the_operator_and_leave_the_graph_whole(self):
        x, w = metac.array(np.ones((2, 3), "f4")), metac.array(np.ones((2, 3), "f4"))
        message = raises(metac.ModelError, lambda: x @ w)
        expect("MatMul" in message and "3" in message, message)
        message = raises(metac.ModelError, lambda: metac.op.Conv(x, w, pad=[1]))
        expect("pads" in message or "there is no attribute" in message, message)
        raises(metac.ModelError, lambda: metac.op.Relu())
        raises(AttributeError, lambda: metac.op.NoSuch)
        same(x + w, np.full((2, 3), 2.0))

    def values_decide_shapes(self):
        a = np.array([[1, 0], [0, 3.0]], "f4")
        same(metac.op.NonZero(metac.array(a)), np.array(a.nonzero()))
        shape = metac.array(np.array([4], "i8"))
        same(metac.op.Reshape(metac.array(a), shape), a.reshape(4))
        same(metac.op.Reshape(metac.array(a), shape * 1), a.reshape(4))
        same(metac.op.Range(metac.array(0), metac.array(5), metac.array(2)), np.arange(0, 5, 2))

    def what_nobody_looks_at_is_freed(self):
        gc.collect()
        x = metac.array(np.ones(16, "f4"))
        before = report()
        for _ in range(20000):
            y = (x * 2 + 1).exp()
        del y
        after = report()
        expect(after["pending"] == before["pending"] and after["live"] <= before["live"], f"{before} {after}")
        expect(after["looks"] == before["looks"], "something was computed")

    def writing_into_an_array_does_not_reach_a_var(self):
        a = np.ones(3, "f4")
        x = metac.array(a)
        a[:] = 5
        same(x, np.ones(3))
        raises(ValueError, lambda: x.numpy().__setitem__(0, 2))
        x.numpy(copy=True)[0] = 7
        same(x, np.ones(3))

    def threads_share_the_graph(self):
        wrong = []

        def work(seed):
            a = np.random.default_rng(seed).standard_normal((8, 8)).astype("f4")
            for k in range(50):
                got = ((metac.array(a) @ metac.array(a)) * 2 + k).numpy()
                if not np.allclose(got, (a @ a) * 2 + k, rtol=1e-4, atol=1e-4):
                    wrong.append((seed, k))
        threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        expect(not wrong, wrong)

    def a_child_of_fork_is_told(self):
        (metac.array([1.0]) + 1).evaluate()
        child = os.fork()
        if child == 0:
            try:
                (metac.array([2.0]) + 1).evaluate()
                os._exit(1)
            except metac.UnsupportedError:
                os._exit(0)
            except BaseException:
                os._exit(2)
        expect(os.waitpid(child, 0)[1] == 0, "the child was not refused")

    def lists_of_numbers_are_operands(self):
        x = metac.array(np.arange(4, dtype="f4").reshape(1, 1, 2, 2))
        expect(metac.op.Resize(x, None, [1.0, 1.0, 2.0, 2.0]).shape == (1, 1, 4, 4), "scales")
        expect(metac.op.Add(metac.array([1.0, 2.0]), [0.5, 0.25]).tolist() == [1.5, 2.25], "a list beside a Var")
        expect(metac.op.Pad(x, [0, 0, 1, 1, 0, 0, 1, 1], 7.0).shape == (1, 1, 4, 4), "a number that is an operand")
        expect(metac.op.Max([1.0, 3.0], [2.0, 2.0]).tolist() == [2, 3], "lists alone")

    def fetched_values_are_handed_over(self):
        told = []
        x = metac.array([1.0, 2.0])
        y, z = x * 2, x + 10
        metac.fetch(y, lambda value: told.append(("y", value.tolist())))
        metac.fetch(y, z, lambda *values: told.append(("both", [value.tolist() for value in values])))
        metac.fetch(x, lambda value: told.append(("x", value.tolist())))
        expect(told == [("x", [1, 2])], f"what is there is handed over at once: {told}")
        y.evaluate()
        expect(told[1:] == [("y", [2, 4]), ("both", [[2, 4], [11, 12]])] or told[1:] == [("y", [2, 4])], f"{told}")
        metac.sync()
        expect(told[2:] == [("both", [[2, 4], [11, 12]])], f"{told}")
        # A callback may use Vars, and look; a fetch in a callback is a fetch like others.
        metac.fetch(x * 3, lambda value: metac.fetch(metac.array(value) + 1, lambda more: told.append(more.tolist())))
        metac.sync()
        metac.sync()
        expect(told[-1] == [4, 7], f"{told}")
        losses, w = [], metac.array([1.0])
        for step in range(5):
            loss = (w * w).sum()
            metac.fetch(loss, lambda value, step=step: losses.append((step, value.item())))
            w.assign(w * 0.5)
            del loss
        w.evaluate()
        metac.sync()
        expect(sorted(losses) == [(k, 0.25 ** k) for k in range(5)], f"{losses}")
        raises(metac.DTypeError, metac.fetch, x)
        raises(metac.DTypeError, metac.fetch, 3, print)
