#!/usr/bin/env python3
"""Lets go wrong around metac what can go wrong on a machine, and checks that it ends well.

    python3 run_faults.py --metac build/release/bin/metac [--only WORD] [--every N]

Every change to a file fails once, or kills metac; compilers fail, crash, hang and lie; metac is interrupted; memory, files,
the stack and permissions run short. metac must end with the right answer or with status 1 and one line that says why, leave
nothing half-written and no process behind, and the next run must work. --every N tries each N-th change to a file.
Needs cc. The last line is 'N passed, N failed, N skipped'.
"""
import argparse
import errno
import os
import pathlib
import re
import resource
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
DIGITS = HERE.parents[1] / "models/digits"
NOBODY = 65534


class Skipped(Exception):
    pass


def expect(condition, what):
    if not condition:
        raise RuntimeError(what)


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


class Faults:
    """Every method is a check; each has an empty folder of its own, self.folder."""

    def __init__(self, metac, work, every):
        self.metac, self.work, self.every = str(metac), work, every
        self.shim = work / "fail_nth.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.shim, HERE / "fail_nth.c", "-ldl"], check=True)

    def _run(self, *arguments, status=(0,), says="", limit=120, **more):
        """Runs metac; what it said on standard error."""
        environment = {**os.environ, "METAC_CACHE_DIR": str(self.folder / "cache"), **more.pop("environment", {})}
        environment = {k: v for k, v in environment.items() if v is not None}
        done = subprocess.run([self.metac, *map(str, arguments)], capture_output=True, text=True, errors="replace", env=environment, timeout=limit, **more)
        if done.returncode not in status:
            raise RuntimeError(f"status {done.returncode}, not {status}: {done.stderr[-600:]}")
        if done.returncode == 1 and not done.stderr.startswith("metac: "):
            raise RuntimeError(f"no message: {done.stderr[:300]}")
        if not re.search(says, done.stderr):
            raise RuntimeError(f"the message does not match {says!r}: {done.stderr[:600]}")
        return done.returncode

    def _compile(self, *arguments, **more):
        return self._run("compile", DIGITS / "digits.onnx", "-o", self.folder / "out", *arguments, **more)

    def _answer(self, **more):
        return self._run("run", DIGITS / "digits.onnx", "--input", f"image={DIGITS}/digit_3.npy", "--output-dir", self.folder / "answer", **more)

    def _nothing_left(self, *expected):
        left = sorted(p.name for p in self.folder.iterdir() if p.name not in ("cache", "count", *expected))
        expect(not left, f"left behind: {left}")

    def _changes(self, command, **environment):
        """How many changes to files the command makes when nothing fails."""
        command(environment={"LD_PRELOAD": str(self.shim), "FAULT_COUNT": str(self.folder / "count"), **environment})
        return int((self.folder / "count").read_text())

    # ---- every change to a file, once ----
    def every_write_of_compile_fails(self):
        self._compile("--no-build")
        old = contents(self.folder / "out")
        for number, word in ((errno.ENOSPC, "[Nn]o space left"), (errno.EIO, "Input/output error")):
            count = self._changes(lambda **more: self._compile("--no-build", "--shape", "image=3x1x8x8", **more))
            shutil.rmtree(self.folder / "out")
            self._compile("--no-build")
            refused = 0
            for n in range(1, count + 1, self.every):
                fault = {"LD_PRELOAD": str(self.shim), "FAULT_AT": str(n), "FAULT_ERROR": str(number)}
                status = self._compile("--no-build", "--shape", "image=3x1x8x8", environment=fault, status=(0, 1), says=f"{word}|warning|^$")
                refused += status
                if status:
                    expect(contents(self.folder / "out") == old, f"change {n} failed and the old output is not what it was")
                else:
                    shutil.rmtree(self.folder / "out")
                    self._compile("--no-build")
                self._nothing_left("out")
            expect(refused > count // self.every // 2, f"only {refused} of {count} failures were noticed")

    def killed_at_every_change_of_compile(self):
        self._compile("--no-build")
        old = contents(self.folder / "out")
        count = self._changes(lambda **more: self._compile("--no-build", "--shape", "image=3x1x8x8", **more))
        new = contents(self.folder / "out")
        shutil.rmtree(self.folder / "out")
        self._compile("--no-build")
        for n in range(1, count + 1, self.every):
            fault = {"LD_PRELOAD": str(self.shim), "FAULT_AT": str(n), "FAULT_ERROR": "kill"}
            self._compile("--no-build", "--shape", "image=3x1x8x8", environment=fault, status=(0, -9))
            expect(contents(self.folder / "out") in (old, new), f"killed at change {n}: the output is neither the old nor the new one")
        self._compile("--no-build")
        expect(contents(self.folder / "out") == old, "the last run made something else")

    def every_write_of_the_cache_fails_or_kills(self):
        count = self._changes(self._answer)
        for error in (str(errno.ENOSPC), "kill"):
            for n in range(1, count + 1, max(1, self.every // 3)):
                shutil.rmtree(self.folder / "cache", ignore_errors=True)
                fault = {"LD_PRELOAD": str(self.shim), "FAULT_AT": str(n), "FAULT_ERROR": error}
                self._answer(environment=fault, status=(0, 1) if error != "kill" else (0, -9), says="metac: |^$")
                self._answer(limit=60)  # finds the entry or makes it again; never waits on a dead process
        self._nothing_left("answer")

    # ---- the cache ----
    def cache_entry_changed(self):
        self._answer()
        cache = self.folder / "cache"
        whole = {entry: entry.read_bytes() for entry in cache.glob("*.obj")}
        for entry, good in whole.items():
            is_tree = b"CPCH" in good[:4096]  # of the device headers, which only a compilation reads
            for bad in (b"", good[:100], good[:-1], good + b"x", good[:5000] + b"\0" + good[5001:]):
                if bad == good:
                    continue
                for other in cache.glob("*.obj"):
                    other.unlink()
                for other, content in whole.items():
                    if other == entry or not is_tree:
                        other.write_bytes(bad if other == entry else content)
                self._answer(says="damaged and is compiled again")
                # A kernel that is compiled without its neighbours lies in an object of its own: other bytes than before.
                expect(entry.exists() and entry.read_bytes() != bad, "the entry was not made again")
                self._answer(says="^$")

    def cache_that_others_can_write(self):
        (self.folder / "cache").mkdir()
        (self.folder / "cache").chmod(0o777)
        self._answer(says="writable by others")
        expect(not list((self.folder / "cache").iterdir()), "it was written to")
        (self.folder / "link").symlink_to(self.folder / "cache")
        self._answer(says="symbolic link", environment={"METAC_CACHE_DIR": str(self.folder / "link")})

    def cache_of_another_user(self):
        if os.geteuid() != 0:
            raise Skipped("needs root")
        (self.folder / "cache").mkdir()
        os.chown(self.folder / "cache", NOBODY, NOBODY)
        self._answer(says="belongs to another user")

    def read_only_cache_and_a_user_without_a_name(self):
        if os.geteuid() != 0:
            raise Skipped("needs root")
        for entry in (self.folder, self.folder / "cache"):
            entry.mkdir(exist_ok=True)
            os.chown(entry, 54321, 54321)
        (self.folder / "cache").chmod(0o555)
        shutil.copy(self.metac, self.folder / "metac")
        shutil.copytree(DIGITS, self.folder / "digits")
        argv = [self.folder / "metac", "run", self.folder / "digits/digits.onnx", "--input", "random", "--dim", "batch=1"]
        for environment, word in (({"METAC_CACHE_DIR": str(self.folder / "cache")}, "cannot write"), ({}, "METAC_CACHE_DIR")):
            done = subprocess.run(argv, user=54321, group=54321, extra_groups=[], env=environment, capture_output=True, text=True)
            if done.returncode == 126 or "error while loading" in done.stderr:
                raise Skipped("the user cannot reach the folder")
            expect(done.returncode == 0 and word in done.stderr and done.stderr.count("\n") == 1, f"status {done.returncode}: {done.stderr}")

    def sixty_four_processes_want_one_model(self):
        log = subprocess.run([self.metac, "cache", "--json"], capture_output=True, text=True, env={**os.environ, "METAC_CACHE_DIR": str(self.folder / "cache")})
        expect(log.returncode == 0, log.stderr)
        argv = [self.metac, "run", str(DIGITS / "digits.onnx"), "--threads", "1", "--input", "random", "--dim", "batch=1"]
        environment = {**os.environ, "METAC_CACHE_DIR": str(self.folder / "cache")}
        processes = [subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment) for _ in range(64)]
        for process in processes:
            said = process.communicate(timeout=300)[1]
            expect(process.returncode == 0 and not said, f"status {process.returncode}: {said}")
        left = [p.name for p in (self.folder / "cache").iterdir() if p.suffix != ".obj" and p.name != "hits"]
        expect(not left, f"left in the cache: {left}")

    # ---- the compiler ----
    def _fake(self, script):
        path = self.folder / "fake"
        path.write_text("#!/bin/sh\ncase \"$*\" in --version) echo fake 1.0; exit 0;; esac\n"
                        "out=; while [ $# -gt 0 ]; do [ \"$1\" = -o ] && out=$2; shift; done\n" + script + "\n")
        path.chmod(0o755)
        return path

    def compiler_goes_wrong(self):
        for script, word in (("echo 'it is broken' >&2; exit 1", r"failed \(status 1\) on .*\.cpp.*(?s:.*)it is broken"), ("kill -SEGV $$", r"signal 11"),
                             ("kill -KILL $$", "signal 9, probably out of memory"), (": >$out", "no object file"), ("exit 0", "no object file"),
                             ("echo garbage >$out", "no object file")):
            fake = self._fake(script)
            (self.folder / "bin").mkdir(exist_ok=True)
            shutil.copy(fake, self.folder / "bin/c++")  # without --cxx the first compiler on PATH has all but the kernels
            path = f"{self.folder}/bin:{os.environ['PATH']}"
            for options, more in ((["--cxx", fake], {}), ([], {"PATH": path})):
                self._compile(*options, status=(1,), says=word, environment={"METAC_CACHE_DIR": None, "HOME": None, **more})
                for log in self.folder.glob("*.log"):
                    log.unlink()
                self._nothing_left("fake", "bin")

    def compiler_hangs(self):
        fake, start = self._fake("sleep 1000"), time.monotonic()
        self._compile("--cxx", fake, "--compiler-timeout", "1", status=(1,), says="was stopped after 1 s", environment={"METAC_CACHE_DIR": None, "HOME": None})
        expect(time.monotonic() - start < 20, "it took too long to stop it")
        self._nothing_left("fake", "out.build.log")

    def no_compiler(self):
        self._compile(status=(1,), says=r"no C\+\+ compiler found", environment={"PATH": str(self.folder)})
        self._compile("--cxx", "no-such-compiler", status=(1,), says="no-such-compiler")
        self._nothing_left()

    # ---- the end by a signal ----
    def interrupted_while_compiling(self):
        mark = self.folder / "started"
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            fake = self._fake(f"echo $$ >>{mark}; sleep 1000")
            environment = {k: v for k, v in os.environ.items() if k != "HOME"} | {"METAC_CACHE_DIR": ""}
            argv = [self.metac, "compile", str(DIGITS / "digits.onnx"), "-o", str(self.folder / "out"), "--cxx", str(fake)]
            process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
            for _ in range(600):
                if mark.exists() and mark.read_text():
                    break
                time.sleep(0.05)
            process.send_signal(number)
            expect(process.wait(timeout=10) == status, f"status {process.returncode}, not {status}")
            time.sleep(0.1)
            alive = [pid for pid in mark.read_text().split() if pathlib.Path(f"/proc/{pid}/stat").exists() and "Z" not in pathlib.Path(f"/proc/{pid}/stat").read_text().split()[2]]
            expect(not alive, f"compilers still run: {alive}")
            mark.unlink()
            self._nothing_left("fake")

    # ---- what runs short ----
    def memory_runs_short(self):
        good = 0
        for megabytes in (100, 150, 200, *range(260, 320, 4), 400, 600, 1000, 2000, 8000):
            limit = lambda size=megabytes << 20: resource.setrlimit(resource.RLIMIT_AS, (size, size))  # noqa: E731
            # The loader itself had no memory (glibc's says so, or crashes in init_tls), or what LLVM's library makes before main
            # had none and aborted: nobody's messages.
            if self._run("--version", status=(0, 1, 127, -6, -11), preexec_fn=limit) in (127, -6, -11):
                continue
            good += self._answer(status=(0, 1), preexec_fn=limit) == 0
            self._compile("--no-build", status=(0, 1), preexec_fn=limit)
        expect(good > 0, "it never worked")

    def few_file_descriptors(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))  # noqa: E731
        self._answer(preexec_fn=limit)
        self._compile(status=(0, 1), preexec_fn=limit)

    def small_stack(self):
        for kilobytes in (64, 256, 1024):
            limit = lambda size=kilobytes << 10: resource.setrlimit(resource.RLIMIT_STACK, (size, resource.RLIM_INFINITY))  # noqa: E731
            self._answer(preexec_fn=limit)

    def small_disk(self):
        disk = self.folder / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", str(disk)], capture_output=True).returncode != 0:
            raise Skipped("cannot mount a small disk here")
        try:
            self._run("compile", DIGITS / "digits.onnx", "-o", disk / "out", status=(1,), says="[Nn]o space left|failed", environment={"METAC_CACHE_DIR": str(self.folder / "cache")})
            expect(not (disk / "out").exists() and all(p.name.endswith(".log") for p in disk.iterdir()), f"left behind: {os.listdir(disk)}")
            self._answer(environment={"METAC_CACHE_DIR": str(disk / "cache")})
        finally:
            subprocess.run(["umount", str(disk)])

    # ---- what must make no difference ----
    def locale_umask_and_time_zone(self):
        self._compile("--no-build")
        plain = contents(self.folder / "out")
        for variables in ({"LC_ALL": "de_DE.UTF-8"}, {"LC_ALL": "tr_TR.UTF-8", "TZ": "Asia/Kathmandu"}, {"LANG": "C", "LC_NUMERIC": "de_DE"}):
            self._compile("--no-build", environment=variables)
            expect(contents(self.folder / "out") == plain, f"other sources with {variables}")
        self._compile("--no-build", umask=0o077)
        expect(contents(self.folder / "out") == plain, "other sources with umask 077")
        others = [p for p in (self.folder / "out").rglob("*") if p.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)]
        expect(not others, f"umask 077 was not kept: {others[:3]}")
        self._answer(umask=0o077, environment={"LC_ALL": "de_DE.UTF-8"})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="", help="the checks with this word in their name")
    parser.add_argument("--every", type=int, default=1)
    arguments = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="metac-faults-"))
    work.chmod(0o755)
    faults, passed, failed, skipped = Faults(arguments.metac.resolve(), work, arguments.every), 0, 0, 0
    for name in [n for n, member in vars(Faults).items() if callable(member) and not n.startswith("_")]:
        if arguments.only not in name:
            continue
        faults.folder = work / name
        faults.folder.mkdir()
        start = time.monotonic()
        try:
            getattr(faults, name)()
            passed += 1
        except Skipped as reason:
            skipped += 1
            print(f"skipped  {name.replace('_', ' ')}: {reason}", flush=True)
        except Exception as error:  # a check that cannot run has failed
            failed += 1
            print(f"FAIL  {name.replace('_', ' ')}: {error}", flush=True)
        if time.monotonic() - start > 20:
            print(f"      {name.replace('_', ' ')}: {time.monotonic() - start:.0f} s", flush=True)
        shutil.rmtree(faults.folder, ignore_errors=True)
    shutil.rmtree(work, ignore_errors=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
