"""The threads that all libraries of a process share."""
import os
import pathlib
import resource
import shutil
import sys

from checks import command, expect

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "models/digits"

BEGIN = """
import ctypes, os, sys, threading, time, _ctypes, numpy as np
sys.path[:0] = [%r, %r]
import first, second
image = np.repeat(np.load(%r), 300, 0)
def threads(): return len(os.listdir("/proc/self/task"))
def settled(wanted):
    end = time.time() + 30
    while threads() != wanted and time.time() < end: time.sleep(0.001)
    return threads()
"""


class ThreadChecks:
    """Of run_project.py's Checks."""

    def _threaded(self, script, **more):
        begin = BEGIN % (str(self.first / "python"), str(self.second / "python"), str(DIGITS / "digit_3.npy"))
        command(sys.executable, "-c", begin + script, cwd=self.work, env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}, **more)

    def one_pool_for_a_hundred_libraries(self):
        """A hundred libraries, half of them compiled from one folder and half from another, have one thread beside the caller's; contexts that run at once too."""
        folder = self.work / "copies"
        folder.mkdir()
        for k in range(100):
            name = ("first", "second")[k % 2]
            shutil.copy(getattr(self, name) / f"lib/lib{name}.so.1", folder / f"lib{k}.so")
            if k < 2:
                shutil.copy(getattr(self, name) / f"{name}.weights", folder)
        self._threaded("""
before = threads()
models = [(first, second)[k % 2].Model(threads=2, library=f"copies/lib{k}.so") for k in range(100)]
answers = {m.run([image])["probabilities"].tobytes() for m in models}
assert len(answers) == 1 and settled(before + 1) == before + 1, threads() - before
most, stop = [0], threading.Event()
def run(m):
    while not stop.is_set(): assert m.run([image])["probabilities"].tobytes() in answers
callers = [threading.Thread(target=run, args=(m,)) for m in models[:3]]
for caller in callers: caller.start()
for k in range(100): most[0] = max(most[0], threads()); time.sleep(0.002)
stop.set()
for caller in callers: caller.join()
assert most[0] == before + 1 + 3, most[0] - before
alone = [first.Model(threads=2, private_threads=True), second.Model(threads=2, pin=True)]
for m in alone: assert m.run([image])["probabilities"].tobytes() in answers
assert settled(before + 3) == before + 3, "private threads"
for m in models + alone: m.close()
assert settled(before) == before, "threads stay when no context does"
""")

    def calls_of_all_priorities_end(self):
        """Those in the background while urgent ones of another library go on, with the same bits; other priorities are refused."""
        self._threaded("""
urgent, background = first.Model(threads=2, priority=1), second.Model(threads=2, priority=-1)
right = first.Model(threads=1).run([image])["probabilities"].tobytes()
stop, wrong, runs = threading.Event(), [], [0]
def run():
    while not stop.is_set():
        if urgent.run([image])["probabilities"].tobytes() != right: wrong.append("urgent")
        runs[0] += 1
busy = threading.Thread(target=run)
busy.start()
for k in range(20):
    if background.run([image])["probabilities"].tobytes() != right: wrong.append("background")
stop.set()
busy.join()
assert not wrong and runs[0] > 0, wrong
try: first.Model(priority=2)
except first.Error as error: assert "priority is 2; expected -1 (background), 0 (usual) or 1 (urgent)" in str(error), error
else: raise SystemExit("a priority of 2")
""")

    def threads_outlive_the_library_that_made_them(self):
        """The library whose code they run is closed while others use them; it is unloaded when nobody does."""
        self._threaded("""
def loaded(name): return any(name in line for line in open("/proc/self/maps"))
for round in range(3):
    before = threads()
    maker = first.Model(threads=2, library="copies/lib0.so")
    right = maker.run([image])["probabilities"].tobytes()
    other = second.Model(threads=2, library="copies/lib1.so")
    library = maker._library
    maker.close()
    del maker
    _ctypes.dlclose(library._handle)
    assert loaded("copies/lib0.so") and settled(before + 1) == before + 1
    for k in range(50): assert other.run([image])["probabilities"].tobytes() == right
    library = other._library
    other.close()
    assert not loaded("copies/lib0.so") and settled(before) == before
    del other
    _ctypes.dlclose(library._handle)
    assert not loaded("copies/lib1.so")
""")

    def threads_of_what_is_linked_and_loaded(self):
        program = self.work / "linked_and_loaded"
        command("c++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", pathlib.Path(__file__).with_name("linked_and_loaded.cpp"), f"-I{self.first}/include",
                self.first / "lib/libfirst.a", "-pthread", "-ldl", "-lm", "-o", program)
        if not (self.work / "first.weights").exists():
            shutil.copy(self.first / "first.weights", self.work)
        said = command(program, self.second / "lib/libsecond.so.1")
        expect(said == "2 2 good\n", said)

    def threads_with_little_stack(self):
        """128 KiB for each thread, as docs/platforms.md says."""
        program, size = self.first / "bin/first_run", 128 << 10
        words = ("--input", "random", "--shape", "image=300x1x8x8", "--threads", "2")
        expect(command(program, *words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_STACK, (size, size))) == command(program, *words), "other answers")

    def threads_of_a_forked_process(self):
        """A child has threads of its own when it runs, whatever its parent's were doing."""
        self._threaded("""
models = [first.Model(threads=2), second.Model(threads=2)]
right = models[0].run([image])["probabilities"].tobytes()
stop = threading.Event()
def run():
    while not stop.is_set(): models[1].run([image])
busy = threading.Thread(target=run)
busy.start()
for k in range(10):
    child = os.fork()
    if child == 0:
        good = all(models[0].run([image])["probabilities"].tobytes() == right for _ in range(5)) and threads() == 2
        more = second.Model(threads=2)
        os._exit(0 if good and more.run([image])["probabilities"].tobytes() == right and threads() == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
busy.join()
""", timeout=120)
