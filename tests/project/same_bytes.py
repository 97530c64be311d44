#!/usr/bin/env python3
"""Are compilations reproducible to the byte? Many of one model, each in other surroundings, compared file by file.

    python3 same_bytes.py --metac build/ci/bin/metac [--count 6] [--seed 1]

Each compilation has a folder, a home, a working folder, a cache (new, or the one before's), a time zone, a locale, a umask, a
number of jobs, a user (where this one is root) and a clock of the model's file drawn at random. All files are the first's, to
the byte: sources, libraries, programs, weights, manifest, packages, lock. Left out: DIR/build, the build tool's own notes.
Ends with 'N passed, N failed'.
"""
import argparse
import hashlib
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
from checks import expect  # noqa: E402

MODEL = HERE.parents[1] / "models/digits/digits.onnx"
ZONES = ["UTC", "Asia/Kathmandu", "America/St_Johns", "Pacific/Kiritimati", "Europe/Berlin"]
LOCALES = [{}, {"LC_ALL": "C"}, {"LC_ALL": "de_DE.UTF-8"}, {"LANG": "tr_TR.UTF-8"}, {"LC_ALL": "C.UTF-8", "LC_NUMERIC": "fr_FR.UTF-8"}]
PLACES = ["out", "a folder/with spaces", "tief/er/und/tiefer", "x" * 60, "naïve/日本"]


def sums_of(folder):
    """{relative path: SHA-256, or where a link leads} of what a compilation made."""
    sums = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            sums[name] = "-> " + os.readlink(path)
        elif path.is_file() and not name.startswith("build/"):
            sums[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return sums


class Surroundings:
    def __init__(self, arguments, work):
        self.metac, self.work, self.random = work / "metac", work, random.Random(arguments.seed)
        shutil.copyfile(arguments.metac, self.metac)  # which other users may run, wherever the build is
        self.metac.chmod(0o755)
        self.first = None
        self.cache = None

    def compile(self, number):
        """Compiles as the draw says; what differs from the first is an error."""
        draw, root = self.random, self.work / f"trial {number}"
        folder = root / draw.choice(PLACES)
        model = root / draw.choice(["models", "m/o/d"]) / MODEL.name
        for path in (folder.parent, model.parent, root / "home", root / "tmp"):
            path.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(MODEL, model)
        os.utime(model, (draw.randrange(1 << 31),) * 2)
        if self.cache is None or draw.random() < 0.5:
            self.cache = self.work / f"cache {number}"
        environment = {"PATH": os.environ["PATH"], "HOME": str(root / "home"), "TMPDIR": str(root / "tmp"), "TZ": draw.choice(ZONES),
                       "METAC_CACHE_DIR": str(self.cache), "USER": draw.choice(["ann", "bob"]), **draw.choice(LOCALES)}
        user = draw.choice([None, 65534, 12345]) if os.getuid() == 0 else None
        if user is not None:
            self.cache.mkdir(exist_ok=True)
            for path in [self.cache, *self.cache.rglob("*"), root, *root.rglob("*")]:
                os.chown(path, user, user)
        elif os.getuid() == 0 and self.cache.exists():
            for path in [self.cache, *self.cache.rglob("*")]:
                os.chown(path, 0, 0)
        jobs, umask = draw.choice(["1", "2", "5"]), draw.choice([0o000, 0o022, 0o027, 0o077])
        told = [str(self.metac), "compile", os.path.relpath(model, root) if draw.random() < 0.5 else str(model), "-o", str(folder), "--cpu", "x86-64-v3",
                "--jobs", jobs, "--wheel", "--deb", "--lock", str(folder.parent / "digits.lock.json")]
        done = subprocess.run(told, cwd=root, env=environment, umask=umask, user=user, group=user, extra_groups=[] if user else None, capture_output=True, text=True)
        expect(done.returncode == 0, f"status {done.returncode}: {done.stderr[-500:]}")
        sums = sums_of(folder)
        sums["the lock"] = hashlib.sha256((folder.parent / "digits.lock.json").read_bytes()).hexdigest()
        if self.first is None:
            expect(len(sums) > 20 and any(name.endswith(".so.1") or ".so" in name for name in sums), f"made {sorted(sums)} alone")
            self.first, self.kept = sums, root
            return
        other = sorted(name for name in sums.keys() | self.first.keys() if sums.get(name) != self.first.get(name))
        expect(not other, f"{len(other)} of {len(sums)} files differ from {self.kept}, such as {other[:5]} (zone {environment['TZ']}, user {user}, umask {umask:o}, jobs {jobs})")
        shutil.rmtree(root)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--metac", type=pathlib.Path, required=True)
    p.add_argument("--count", type=int, default=6)
    p.add_argument("--seed", type=int, default=1)
    arguments = p.parse_args()
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        surroundings = Surroundings(arguments, pathlib.Path(work))
        failed = 0
        for number in range(arguments.count):
            try:
                surroundings.compile(number)
            except Exception as error:  # a check that cannot run has failed
                failed += 1
                print(f"FAIL  compilation {number}: {error}", flush=True)
    print(f"{arguments.count - failed} passed, {failed} failed")
    return 1 if failed or arguments.count < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
