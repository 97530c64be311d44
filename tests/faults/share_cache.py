#!/usr/bin/env python3
"""The cache of compiled kernels under processes that share it, are killed, and find it damaged.

    python3 share_cache.py --metac build/ci/bin/metac [--processes 16] [--kills 20] [--seed 1] [--whole]

Checked: processes that run the same model at once on an empty cache compile each kernel at most twice in sum; of two that
compile, one is killed at a random moment: the other answers, and so does the next; an entry that is changed anywhere, cut,
lengthened, or has another's bytes is found and made again (a sample of entries and changes; --whole: all). Needs no
packages. Ends with 'N passed, N failed'.
"""
import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
from checks import expect, run_checks  # noqa: E402

DIGITS = HERE.parents[1] / "models/digits"
HEAD = struct.Struct("<4sIQQ")  # compiler/jit/cache/object_cache.h
DIGEST = 64


def read_entry(path):
    """The key and the object of an entry; an exception where it is not whole, or not the one of its name."""
    data = path.read_bytes()
    magic, version, key_bytes, object_bytes = HEAD.unpack_from(data)
    end = HEAD.size + key_bytes + object_bytes
    expect((magic, version) == (b"MTCO", 1) and len(data) == end + DIGEST, f"{path.name}: not an entry")
    expect(hashlib.sha256(data[:end]).hexdigest().encode() == data[end:], f"{path.name}: another checksum")
    key = data[HEAD.size:HEAD.size + key_bytes]
    expect(hashlib.sha256(key).hexdigest() == path.stem, f"{path.name}: another entry's key")
    return key, data[HEAD.size + key_bytes:end]


def damages_of(entry, others):
    """What may be found in the place of an entry: (what it is, its bytes)."""
    key_bytes, end = HEAD.unpack_from(entry)[2], len(entry) - DIGEST
    middle = HEAD.size + key_bytes
    regions = {"magic": 0, "version": 4, "key's length": 8, "object's length": 16, "key": HEAD.size, "middle of the key": (HEAD.size + middle) // 2,
               "end of the key": middle - 1, "object": middle, "middle of the object": (middle + end) // 2, "end of the object": end - 1,
               "checksum": end, "end of the checksum": len(entry) - 1}
    for name, at in regions.items():
        yield f"another byte: {name}", entry[:at] + bytes([entry[at] ^ 0x40]) + entry[at + 1:]
    for length in (0, 1, HEAD.size - 1, HEAD.size, middle, len(entry) // 2, end, len(entry) - 1):
        yield f"cut to {length} bytes", entry[:length]
    yield "a byte more", entry + b"x"
    yield "zeros", bytes(len(entry))
    for name, other in others:
        yield f"the bytes of {name}", other


class Checks:
    def __init__(self, metac, work, processes, kills, seed, whole):
        self.metac, self.work, self.cache = metac, work, work / "cache"
        self.processes, self.kills, self.whole, self.random = processes, kills, whole, random.Random(seed)
        self.runs = 0

    def _start(self):
        """One run of the model: the process, the folder of its answer, its trace."""
        self.runs += 1
        out, trace = self.work / f"answer {self.runs}", self.work / f"trace {self.runs}.json"
        argv = [self.metac, "run", DIGITS / "digits.onnx", "--threads", "1", "--input", f"image={DIGITS / 'digit_3.npy'}", "--output-dir", out]
        environment = {**os.environ, "METAC_CACHE_DIR": str(self.cache), "METAC_TRACE": str(trace)}
        return subprocess.Popen([str(a) for a in argv], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment), out, trace

    def _finish(self, process, out, trace, says=""):
        """The compilations of a run that must answer: how often each kernel was compiled."""
        said = process.communicate(timeout=600)[1]
        expect(process.returncode == 0, f"status {process.returncode}: {said}")
        expect(says in said if says else not said, f"it says: {said}")
        answer = (out / "probabilities.npy").read_bytes()
        self.expected = getattr(self, "expected", answer)
        expect(answer == self.expected, "another answer")
        compiled = collections.Counter()
        for event in json.loads(trace.read_text()):
            if event["name"].startswith("compile "):
                compiled.update(event.get("args", {}).get("kernels", event["name"]).splitlines())
        shutil.rmtree(out)
        trace.unlink()
        return compiled

    def _empty(self):
        shutil.rmtree(self.cache, ignore_errors=True)
        self.cache.mkdir(mode=0o700)

    def _entries(self, *allowed):
        """All entries, which must be whole, beside nothing but files of the `allowed` kinds."""
        entries = sorted(self.cache.glob("*.obj"))
        for path in entries:
            read_entry(path)
        strangers = [p.name for p in self.cache.iterdir() if p.suffix not in (".obj", *allowed) and p.name != "hits"]
        expect(not strangers, f"in the cache: {strangers}")
        return entries

    def processes_share_an_empty_cache(self):
        self._empty()
        begin = time.monotonic()
        alone = self._finish(*self._start())
        alone_s = time.monotonic() - begin
        expect(len(alone) > 10, f"one process compiled {sorted(alone)}: the test shows nothing")
        self._empty()
        begin = time.monotonic()
        started, compiled = [self._start() for _ in range(self.processes)], collections.Counter()
        for one in started:
            compiled += self._finish(*one)
        self._entries()
        expect(set(compiled) == set(alone), "other kernels than one process compiles")
        kernel, most = compiled.most_common(1)[0]
        print(f"{self.processes} processes on an empty cache: {len(alone)} kernels compiled {compiled.total()} times in sum, none more than {most} times; "
              f"{time.monotonic() - begin:.1f} s, one alone {alone_s:.1f} s", flush=True)
        expect(most <= 2, f"{kernel} was compiled {most} times")
        expect(not self._finish(*self._start()), "the next one compiles again")

    def processes_are_killed(self):
        self._empty()
        begin = time.monotonic()
        self._finish(*self._start())
        took, killed, left = time.monotonic() - begin, 0, collections.Counter()
        within = took  # what a run takes depends on the entries that it lacks and on the machine: learnt from what has ended
        for _ in range(self.kills):
            victim, other = self._start(), self._start() if self.random.random() < 0.5 else None
            time.sleep(self.random.uniform(0, within))
            victim[0].kill()
            victim[0].communicate()
            in_time = victim[0].returncode == -9
            killed += in_time
            within = min(took, within * 1.2) if in_time else within * 0.7
            if other:
                self._finish(*other)
            left.update(p.suffix for p in self.cache.iterdir())
            self._finish(*self._start())
            entries = self._entries(".tmp", ".lock")
            expect(not self._finish(*self._start()), "the second one after it compiles again")
            for path in entries if self.random.random() < 0.5 else self.random.sample(entries, len(entries) // 2):
                path.unlink()
            for path in (*self.cache.glob("*.tmp"), *self.cache.glob("*.lock")):
                path.unlink()
        print(f"{self.kills} kills, {killed} before the process had ended; they left {left['.tmp']} unfinished files, {left['.lock']} locks", flush=True)
        expect(killed * 4 > self.kills, "most processes had ended before they were killed: the test shows little")

    def the_command_tells_of_it(self):
        """metac cache: sizes, ages, how often all processes found what; bounds on age and size."""
        def told(*options):
            done = subprocess.run([str(self.metac), "cache", *options], capture_output=True, text=True, env={**os.environ, "METAC_CACHE_DIR": str(self.cache)})
            expect(done.returncode == 0, f"metac cache {' '.join(options)}: {done.stderr}")
            return json.loads(done.stdout) if "--json" in options else done.stdout
        self._empty()
        compiled = self._finish(*self._start())
        before = told("--json", "--list")
        for _ in range(3):
            self._finish(*self._start())
        report, files = told("--json", "--list"), {path.stem: path.stat().st_size for path in self._entries()}
        rows = {row["name"]: row for row in report["list"]}
        expect({name: row["bytes"] for name, row in rows.items()} == files, "other entries or sizes than in the folder")
        kernels = sum(n for kernel, n in compiled.items() if kernel.startswith("kernel"))
        expect(report["compiled"] == kernels > 10, f"{report['compiled']} kernels compiled, not {kernels}")
        expect({row["kind"] for row in rows.values()} == {"kernel", "module", "headers", "program"}, f"kinds: {rows}")
        found = {row["name"]: row["found"] - next(r["found"] for r in before["list"] if r["name"] == row["name"]) for row in rows.values()}
        for name, row in rows.items():
            expect(found[name] == (0 if row["kind"] == "headers" else 3), f"{row['kind']} {name} was found {found[name]} times by 3 processes")
            expect(0 <= row["used_seconds_ago"] < 600 and (row["made_seconds_ago"] is None or row["made_seconds_ago"] >= row["used_seconds_ago"] - 0.1), f"ages: {row}")
        expect(report["found"] == sum(row["found"] for row in rows.values()), "the sum is another one")
        oldest = self._entries()[0]
        os.utime(oldest, (0, 0))
        expect("freed 0 B" in told("--unused", "1000000d") and oldest.exists(), "it went although it is not that old")
        expect(told("--unused", "30d", "--json")["freed"] == files[oldest.stem] and not oldest.exists(), "what nobody used for 30 days is there")
        expect(len(told("--list").splitlines()) == 2 + len(files), "a line for each entry")
        expect(told("--limit", "100K", "--json")["bytes"] <= 100 << 10, "more than the limit")
        emptied = told("--clear", "--json")
        expect((emptied["entries"], emptied["found"], emptied["compiled"]) == (0, 0, 0), f"cleared: {emptied}")

    def entries_are_damaged(self):
        self._empty()
        self._finish(*self._start())
        whole = {path: path.read_bytes() for path in self._entries()}
        begins = {b"precompiled": "headers", b"kernel\n": "kernel", b"program\n": "program", b"": "object"}
        kind = {path: next(k for begin, k in begins.items() if read_entry(path)[0].startswith(begin)) for path in whole}
        expect(set(kind.values()) == set(begins.values()), f"kinds of entries: {set(kind.values())}")
        first = {k: next(path for path in whole if kind[path] == k) for k in begins.values()}
        last = {k: [path for path in whole if kind[path] == k][-1] for k in first}
        tried = 0
        for path, good in whole.items():
            if not self.whole and path != first[kind[path]]:
                continue
            others = [(f"another entry ({k})", whole[p]) for k in first for p in {first[k], last[k]} if p != path]
            damages = list(damages_of(good, others))
            for name, bad in damages if self.whole else self.random.sample(damages, 6):
                self._empty()
                for other, data in whole.items():
                    if other == path or kind[path] != "headers":  # they are read where there is something to compile
                        other.write_bytes(bad if other == path else data)
                try:
                    self._finish(*self._start(), says="" if name.startswith("the bytes") else "damaged and is compiled again")
                    expect(path.exists(), "it was not made again")
                    self._entries(".bad")
                    expect(not self._finish(*self._start()), "the next one compiles again")
                except Exception as error:
                    raise RuntimeError(f"entry {path.stem[:9]} ({kind[path]}), {name}: {error}") from error
                tried += 1
        print(f"{tried} damages of {len(whole) if self.whole else len(first)} entries, of {len(whole)} that the model has, were found and made good", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", type=pathlib.Path, required=True)
    parser.add_argument("--processes", type=int, default=16, help="that share a cache")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--whole", action="store_true", help="every entry with every damage")
    parser.add_argument("--only", default="", help="the checks with this word in their name")
    arguments = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="metac-cache-"))
    try:
        return run_checks(Checks(arguments.metac.resolve(), work, arguments.processes, arguments.kills, arguments.seed, arguments.whole), only=arguments.only)
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
