"""Runs that another thread ends, and runs that nobody waits for."""
import os
import pathlib
import sys

from checks import command

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "models/digits"


class CallChecks:
    """Of run_project.py's Checks."""

    def runs_are_cancelled(self):
        """A run that is cancelled says so, whatever threads it has, and the context answers as before; a cancel that comes when nothing runs does nothing."""
        script = """
import threading, time, numpy as np, first
one = np.load(%r)
many = np.repeat(one, 4000, 0)
for threads in (1, 2):
    m = first.Model(threads=threads)
    right = m.run([one])["probabilities"].tobytes()
    m.cancel()
    assert m.run([one])["probabilities"].tobytes() == right
    ended = {"cancelled": 0, "done": 0}
    stop = threading.Event()
    def interrupt():
        while not stop.is_set():
            time.sleep(0.001)
            m.cancel()
    other = threading.Thread(target=interrupt)
    other.start()
    end = time.time() + 60
    while ended["cancelled"] < 5 and time.time() < end:
        try:
            m.run([many])
            ended["done"] += 1
        except first.Error as e:
            assert e.status == 9 and "cancelled" in str(e), (e.status, str(e))
            ended["cancelled"] += 1
    stop.set()
    other.join()
    assert ended["cancelled"] == 5, ended
    assert m.run([one])["probabilities"].tobytes() == right
    assert (m.run([many])["probabilities"] == np.frombuffer(right, "f4")).all()
""" % str(DIGITS / "digit_3.npy")
        command(sys.executable, "-c", script, env={**os.environ, "PYTHONPATH": str(self.first / "python")}, cwd=self.work)

    def runs_nobody_waits_for(self):
        """run_async answers what run does; the context is busy meanwhile; runs are cancelled, and end with the context."""
        script = """
import numpy as np, first
one = np.load(%r)
many = np.repeat(one, 3000, 0)
m, other = first.Model(threads=2), first.Model(threads=2)
right = m.run([many])["probabilities"].tobytes()
run = m.run_async([many])
assert other.run([many])["probabilities"].tobytes() == right
assert run.result()["probabilities"].tobytes() == right and run.done() and run.result() is run.result()
busy = 0
for k in range(50):
    run = m.run_async({"image": many})
    try: m.run([one])
    except first.Error as e:
        assert e.status == 6, str(e)
        busy += 1
    assert run.result()["probabilities"].tobytes() == right
assert busy > 0
out = np.zeros((3000, 10), "f4")
m.run_async([many], {"probabilities": out}).result()
assert out.tobytes() == right
try: m.run_async([np.zeros((1, 1, 9, 8), "f4")]).result(); raise SystemExit("ran")
except first.Error as e: assert e.status == 1 and "dim" in str(e), str(e)
cancelled = 0
for k in range(200):
    run = m.run_async([many])
    run.cancel()
    try: run.result()
    except first.Error as e:
        assert e.status == 9, str(e)
        cancelled += 1
    if cancelled == 3: break
assert cancelled == 3
assert m.run([many])["probabilities"].tobytes() == right
m.run_async([many])
m.close()
""" % str(DIGITS / "digit_3.npy")
        command(sys.executable, "-c", script, env={**os.environ, "PYTHONPATH": str(self.first / "python")}, cwd=self.work)

    def runs_that_call_back(self):
        """The end of a run calls back, when the context is free for the next one; a stream is a GPU's."""
        script = """
import ctypes, threading, numpy as np, first
one = np.load(%r)
m = first.Model(threads=2)
right = m.run([one])["probabilities"]
library, answers, ended = m._library, [], threading.Event()
inputs, outputs = m._tensors([one]), (first._Tensor * 1)()
@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def done(user):
    answers.append(np.frombuffer((ctypes.c_char * 40).from_address(outputs[0].data), "f4").copy())
    if len(answers) == 20: ended.set()
    elif begin() != 0: ended.set()
def begin():
    outputs[0].data = None
    return library.first_run_async(m._context, inputs, 1, outputs, 1, None, ctypes.cast(done, ctypes.c_void_p), None)
assert begin() == 0 and ended.wait(60)
assert library.first_wait(m._context) == 0 and library.first_poll(m._context) == 0
assert len(answers) == 20 and all((a == right[0]).all() for a in answers)
assert library.first_run_async(m._context, inputs, 1, outputs, 1, 1, None, None) == 1 and "--target cuda" in m._message()
""" % str(DIGITS / "digit_3.npy")
        command(sys.executable, "-c", script, env={**os.environ, "PYTHONPATH": str(self.first / "python")}, cwd=self.work)
