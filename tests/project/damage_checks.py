"""Files that a disk, a copy or another program has damaged: weights, manifests and schedules, also while libraries run."""
import os
import pathlib
import sys

from checks import command, expect

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "models/digits"


class DamageChecks:
    """Of run_project.py's Checks."""

    def weights_that_do_not_fit(self):
        program, weights = self.first / "bin/first_run", (self.first / "first.weights").read_bytes()
        for content, word in ((weights[:5000], "cut short"), (b"", "no weights file"), (b"x" * 9000, "no weights file"),
                              (weights[:30] + b"z" * 20 + weights[50:], "another model")):
            (self.work / "bad.weights").write_bytes(content)
            said = command(program, "--weights", self.work / "bad.weights", status=1)
            expect(word in said, f"expected '{word}' in: {said}")
        expect("cannot open" in command(program, "--weights", self.work / "missing", status=1), "a missing file is not named")

    def damaged_weights(self):
        """A bit that fell over anywhere in the block is found, read, mapped, copied or in the library; so it is in files without checksums."""
        program, weights, path = self.first / "bin/first_run", (self.first / "first.weights").read_bytes(), self.work / "bad.weights"
        places = [4096, 4096 + 7, 30001, len(weights) - 1, 152, 160]  # of the block, and of the checksums
        for at in places:
            for without in (False, True):
                changed = bytearray(weights)
                if without:
                    changed[152:160] = bytes(8)
                changed[at] ^= 0x80
                if without and at < 4096:
                    continue
                path.write_bytes(changed)
                for options in ([], ["--copy-weights"], ["--map-weights"]):
                    said = command(program, "--weights", path, *options, status=1)
                    expect("bad.weights is damaged: " in said, f"byte {at}: {said}")
        self.answer(program, "--weights", path, "--unchecked-weights")
        for options in (["--copy-weights"], ["--map-weights"], ["--unchecked-weights"], ["--copy-weights", "--unchecked-weights"]):
            expect(self.answer(program, *options) == self.expected, f"other bits with {options}")
        library = (self.work / "alone").read_bytes()
        block = library.index(weights[4096:]) + 4096
        (self.work / "alone broken").write_bytes(library[:block] + bytes([library[block] ^ 1]) + library[block + 1:])
        (self.work / "alone broken").chmod(0o755)
        expect("the library is damaged: " in command(self.work / "alone broken", "--shape", "image=1x1x8x8", status=1), "damage inside the library")
        script = """
import os, numpy as np, first
image, whole = np.load(%r), open(%r, "rb").read()
open("used.weights", "wb").write(whole)
for options in ({}, {"copy_weights": True}):
    open("used.weights", "wb").write(whole)
    m = first.Model(threads=2, weights="used.weights", **options)
    y = m.run([image])["probabilities"]
    os.truncate("used.weights", 100)  # of a mapping, this would be the end
    assert (m.run([image])["probabilities"] == y).all()
    open("used.weights", "wb").write(bytes(len(whole)))
    assert (m.run([image])["probabilities"] == y).all()
# Replaced under a mapping: the old file lives on.
open("used.weights", "wb").write(whole)
m = first.Model(threads=2, weights="used.weights", map_weights=True)
rng = np.random.default_rng(1)
values = {p.name: (rng.random(p.shape) / 10).astype(p.dtype) for p in m.parameters}
open("victim", "w").write("dear")
os.symlink("victim", "used.weights.tmp")
m.write_weights(values, "used.weights")
assert (m.run([image])["probabilities"] == y).all() and (first.Model(weights="used.weights").run([image])["probabilities"] != y).any()
assert open("victim").read() == "dear"
os.unlink("used.weights.tmp")
os.unlink("used.weights")
assert (m.run([image])["probabilities"] == y).all()
assert not [f for f in os.listdir(".") if f.endswith(".tmp")]
""" % (str(DIGITS / "digit_3.npy"), str(self.first / "first.weights"))
        command(sys.executable, "-c", script, env={**os.environ, "PYTHONPATH": str(self.first / "python")}, cwd=self.work)

    def weights_cut_while_runs_go_on(self):
        """Contexts that run answer as before while their file is cut, overwritten and replaced; new ones are made of a whole file or not at all."""
        script = """
import os, threading, numpy as np, first
image, whole = np.load(%r), open(%r, "rb").read()
def write():
    open("cut.part", "wb").write(whole)
    os.rename("cut.part", "cut.weights")
write()
models = [first.Model(threads=2, weights="cut.weights") for _ in range(2)]
right = models[0].run([image])["probabilities"].tobytes()
stop, wrong, runs = threading.Event(), [], [0, 0]
def run(k):
    while not stop.is_set():
        runs[k] += 1
        if models[k].run([image])["probabilities"].tobytes() != right: wrong.append("another answer")
def make():
    while not stop.is_set():
        try:
            if first.Model(threads=1, weights="cut.weights").run([image])["probabilities"].tobytes() != right: wrong.append("other weights")
        except first.Error as error:
            if not any(word in str(error) for word in ("cut short", "no weights file", "damaged", "became shorter", "another model", "cannot open")): wrong.append(str(error))
threads = [threading.Thread(target=run, args=(k,)) for k in range(2)] + [threading.Thread(target=make)]
for t in threads: t.start()
for k in range(150):
    os.truncate("cut.weights", (k * 977) %% len(whole))
    if k %% 3 == 1: open("cut.weights", "r+b").write(os.urandom(5000))
    if k %% 3 == 2: open("cut.weights", "wb").write(bytes(len(whole)))
    write()
while min(runs) < 3: pass
stop.set()
for t in threads: t.join()
assert not wrong, wrong[:5]
""" % (str(DIGITS / "digit_3.npy"), str(self.first / "first.weights"))
        command(sys.executable, "-c", script, env={**os.environ, "PYTHONPATH": str(self.first / "python")}, cwd=self.work)

    def damaged_manifests_and_schedules(self):
        """Cut anywhere, with other bytes in it, another file or none: a message with the file's name, or an answer; never a crash."""
        import random
        import shutil
        folder, shape = self.work / "worn", ("--shape", "image=1x1x8x8")
        shutil.copytree(self.first, folder, symlinks=True)
        emitted = command(self.metac, "compile", DIGITS / "digits.onnx", "--emit", "schedules", *shape)
        model, tuned = DIGITS / "digits.onnx", self.work / "worn.tune.json"
        uses = ((folder / "first.json", (self.first / "first.json").read_bytes(), ("bench", folder, *shape, "--seconds", "0.01"), "first.json"),
                (folder / "first.json", (self.first / "first.json").read_bytes(), ("diff", folder, self.first), "first.json"),
                (tuned, emitted.encode(), ("compile", model, "--emit", "schedules", "--tune-from", tuned, *shape), "worn.tune.json"))
        rng = random.Random(7)
        for path, whole, words, name in uses:
            certain = [whole[:at] for at in (0, 1, len(whole) // 3, len(whole) // 2, len(whole) - 4)] + [b"\0" * len(whole), (DIGITS / "digits.onnx").read_bytes(), b"[1]", b"{}"]
            for content in certain:
                path.write_bytes(content)
                said = command(self.metac, *words, status=1)
                expect(name in said or str(folder) in said, f"{words[0]}: {said}")
            for _ in range(12):
                changed = bytearray(whole)
                for _ in range(3):
                    changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
                path.write_bytes(changed)
                command(self.metac, *words, status=(0, 1, 3))
            path.unlink()
            command(self.metac, *words, status=1)
            path.write_bytes(whole)
