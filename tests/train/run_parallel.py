#!/usr/bin/env python3
"""Trains the handwritten digits by several processes under Open MPI's mpirun, and looks at what comes out and at what happens when one is killed.

    python3 run_parallel.py --metac build/ci/bin/metac [--kills 3] [--keep DIR]

Needs numpy and mpirun; without mpirun all is skipped with a message. The last line is 'N passed, N failed, N skipped'.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/tools"))
from checks import command, expect, run_checks  # noqa: E402

DIGITS = ROOT / "models/digits"
CHECKS = ("several_equal_one", "twice_the_same_bits", "others_are_refused", "killed_processes_end_all", "a_silent_process_is_named", "a_signal_to_one_stops_all", "ctrl_c_at_the_launcher", "networks_in_several_steps", "outside_of_mpirun")
# A machine with fewer CPUs than processes, a container whose user is root.
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
               "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "PRTE_ALLOW_RUN_AS_ROOT": "1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
LIMIT = 30  # seconds in which all others have ended


def losses(run):
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return {line["update"]: line for line in lines if line["event"] == "train"}


def ended(pid, until):
    """Whether a process is gone at that time, but for an entry that nobody has collected."""
    while time.time() < until:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


class Checks:
    def __init__(self, work, metac, kills):
        self.work, self.metac, self.kills = work, metac, kills

    def compile(self):
        recipe = json.loads((DIGITS / "recipe.json").read_text())
        for batch in (16, 64):
            recipe.update({"batch": batch, "dropout": 0, "epochs": 4, "log_every": 1})
            (self.work / f"recipe{batch}.json").write_text(json.dumps(recipe))
            command(self.metac, "compile", DIGITS / "untrained.onnx", "--train", self.work / f"recipe{batch}.json", "-o", self.work / f"out{batch}", "--name", "digits")
        self.train = self.work / "out16/bin/digits_train"

    def start(self, count, *values, program=None, launcher=()):
        return subprocess.Popen(["mpirun", *launcher, "-np", str(count), program or self.train, *map(str, values)], env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, count, run, *values, status=0, program=None):
        process = self.start(count, "--data", DIGITS, "--out", self.work / run, "--threads", 1, *values, program=program)
        said = process.communicate(timeout=300)[0]
        expect(process.returncode == status or (status == 1 and process.returncode > 0), f"{values}: status {process.returncode}\n{said}")
        return said

    def ranks(self, mpirun, count):
        """Process ids by rank, once all have begun to train."""
        found, end = {}, time.time() + 60
        while len(found) < count and time.time() < end and mpirun.poll() is None:
            for entry in pathlib.Path("/proc").iterdir():
                try:
                    if entry.name.isdigit() and int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1]) == mpirun.pid and os.readlink(entry / "exe").endswith("digits_train"):
                        environment = dict(item.split("=", 1) for item in (entry / "environ").read_text().split("\0") if "=" in item)
                        if "OMPI_COMM_WORLD_RANK" in environment:  # empty while the process begins
                            found[int(environment["OMPI_COMM_WORLD_RANK"])] = int(entry.name)
                except OSError:
                    pass
            time.sleep(0.01)
        return found

    def several_equal_one(self):
        """The same batch of 64 in one process and in four: section 7 of the tolerances, 1e-5 at the tenth update."""
        command(self.work / "out64/bin/digits_train", "--data", DIGITS, "--out", self.work / "one", "--threads", 1)
        self.run(4, "four")
        one, four = losses(self.work / "one"), losses(self.work / "four")
        expect(sorted(one) == sorted(four), f"{len(one)} and {len(four)} updates")
        for update, limit in ((1, 1e-6), (10, 1e-5)):
            for value in ("loss", "accuracy"):
                expect(abs(one[update][value] - four[update][value]) <= limit * abs(one[update][value]), f"{value} {one[update][value]} and {four[update][value]} at update {update}")
        epochs = [[json.loads(line) for line in (self.work / run / "log.jsonl").read_text().splitlines() if '"epoch"' in line[:20]] for run in ("one", "four")]
        expect(len(epochs[0]) == len(epochs[1]) == 4 and abs(epochs[0][0]["validation loss"] - epochs[1][0]["validation loss"]) < 1e-3, "another validation")
        for file in ("digits.safetensors", "digits.onnx", "digits.weights"):
            expect((self.work / "four" / file).stat().st_size == (self.work / "one" / file).stat().st_size, file)
        differences = [abs(one[u]["loss"] - four[u]["loss"]) / one[u]["loss"] for u in (1, 10, len(one))]
        print(f"loss differs by {differences[0]:.1e} at the first update, {differences[1]:.1e} at the tenth, {differences[2]:.1e} at the last")

    def twice_the_same_bits(self):
        self.said = self.run(2, "first")
        expect("2 processes: 32 samples a batch in all, 1 thread each" in self.said, self.said)
        self.run(2, "second", "--threads", 2, "--loaders", 2)
        expect((self.work / "first/digits.safetensors").read_bytes() == (self.work / "second/digits.safetensors").read_bytes(), "other bits")

    def others_are_refused(self):
        np.savez(self.work / "train.npz", **{k: v[:100] for k, v in np.load(DIGITS / "train.npz").items()})
        shutil.copy(DIGITS / "test.npz", self.work)
        for what, other in (("another program (model or recipe)", [self.work / "out64/bin/digits_train", "--data", DIGITS]), ("another number of training samples", [self.train, "--data", self.work]),
                            ("another --updates", [self.train, "--data", DIGITS, "--updates", "3"])):
            arguments = ["mpirun", "-np", "1", self.train, "--data", DIGITS, "--out", self.work / "no", ":", "-np", "1", *other, "--out", self.work / "no"]
            done = subprocess.run(arguments, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
            expect(done.returncode != 0 and f"has {what} than process 0" in done.stderr and "process 1 (" in done.stderr, f"{what}: {done.stdout}{done.stderr}")

    def killed_processes_end_all(self):
        chance, slowest = random.Random(3), 0
        begin = time.time()
        self.run(2, "timed")
        length = time.time() - begin
        for k in range(self.kills):
            run = self.work / f"killed{k}"
            process = self.start(2, "--data", DIGITS, "--out", run, "--threads", 1, "--checkpoint-every", 5)
            ranks = self.ranks(process, 2)
            time.sleep(chance.uniform(0.2, 0.8) * length)
            victim = chance.randrange(2)
            try:
                os.kill(ranks.get(victim, 0) or process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            killed = time.time()
            said = process.communicate(timeout=LIMIT)[0]
            slowest = max(slowest, time.time() - killed)
            expect(all(ended(pid, killed + LIMIT) for pid in ranks.values()), "a process is left")
            expect(process.returncode == 0 or f"rank {victim}" in said or f"process {victim}" in said, f"it is not named who was killed: {said}")
            self.run(2, run.name, "--resume")
            expect((run / "digits.safetensors").read_bytes() == (self.work / "first/digits.safetensors").read_bytes(), "other bits after a resume")
        print(f"{self.kills} kills, the others had ended after {slowest:.1f} s at most")

    def a_silent_process_is_named(self):
        """It is not killed but stopped: the launcher sees nothing."""
        process = self.start(2, "--data", DIGITS, "--out", self.work / "silent", "--threads", 1, "--epochs", 10000, "--silence", 3)
        ranks = self.ranks(process, 2)
        expect(len(ranks) == 2, f"{ranks}")
        time.sleep(2)
        os.kill(ranks[1], signal.SIGSTOP)
        stopped = time.time()
        said = process.communicate(timeout=LIMIT)[0]
        expect("nothing has been heard of process 1 (" in said and f"pid {ranks[1]}" in said, said)
        expect(ended(ranks[1], stopped + LIMIT), "the stopped process is left")
        print(f"ended after {time.time() - stopped:.1f} s of silence")

    def a_signal_to_one_stops_all(self):
        process = self.start(2, "--data", DIGITS, "--out", self.work / "stopped", "--threads", 1)
        ranks = self.ranks(process, 2)
        while process.poll() is None and not (self.work / "stopped/checkpoints").exists():
            time.sleep(0.01)
        if process.poll() is None and 1 in ranks:
            os.kill(ranks[1], signal.SIGTERM)
        process.communicate(timeout=LIMIT)
        self.run(2, "stopped", "--resume")
        expect((self.work / "stopped/digits.safetensors").read_bytes() == (self.work / "first/digits.safetensors").read_bytes(), "other bits after a resume")

    def ctrl_c_at_the_launcher(self):
        """mpirun passes it on as SIGTERM, which writes the checkpoint, and kills what waits for its consent to end after so many seconds (1 unless it is told)."""
        run = self.work / "interrupted"
        process = self.start(2, "--data", DIGITS, "--out", run, "--threads", 1, "--epochs", 100000, launcher=("--mca", "odls_base_sigkill_timeout", "5"))
        ranks = self.ranks(process, 2)
        while process.poll() is None and not (run / "checkpoints").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        pressed = time.time()
        said = process.communicate(timeout=LIMIT)[0]
        expect(len(ranks) == 2 and all(ended(pid, pressed + LIMIT) for pid in ranks.values()), "a process is left")
        logged = max(losses(run))
        again = self.run(2, "interrupted", "--resume", "--updates", logged + 2)
        expect(f"after update {logged}\n" in again, f"the checkpoint is not that of the last update, {logged}: {said}{again}")

    def networks_in_several_steps(self):
        """WGAN-GP, whose critic's loss has a derivative in it: by two processes, twice."""
        folder = self.work / "gan"
        command(sys.executable, ROOT / "models/gan/build.py", "wgan_gp", folder, "--size", 16, "--channels", 1, "--batch", 4, "--samples", 56)
        command(self.metac, "compile", folder / "generator.json", "--train", folder / "recipe.json", "-o", folder / "out", "--name", "gan")
        alone = json.loads(json.dumps(losses(self.gan(folder, 1))))
        logs = [losses(self.gan(folder, 2, f"run{k}")) for k in range(2)]
        strip = [{u: {k: v for k, v in line.items() if k != "seconds"} for u, line in log.items()} for log in logs]
        expect(strip[0] == strip[1] and sorted(strip[0]) == list(range(1, 8)), f"{strip}")
        expect((folder / "run0/gan.safetensors").read_bytes() == (folder / "run1/gan.safetensors").read_bytes(), "other bits")
        expect(strip[0][1]["loss"] != alone["1"]["loss"] and abs(strip[0][1]["loss"] - alone["1"]["loss"]) < 0.5 * abs(alone["1"]["loss"]), f"{strip[0][1]}, alone {alone['1']}")

    def gan(self, folder, count, run="alone"):
        done = subprocess.run(["mpirun", "-np", str(count), folder / "out/bin/gan_train", "--data", folder, "--out", folder / run, "--epochs", "1", "--threads", "1"], env=ENVIRONMENT, capture_output=True, text=True, timeout=300)
        expect(done.returncode == 0, done.stdout + done.stderr)
        return folder / run

    def outside_of_mpirun(self):
        """One process under mpirun is as one without; without Open MPI's library the program says what is missing."""
        said = self.run(1, "single", "--updates", 3)
        expect("processes" not in said, said)
        broken = {**os.environ, "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0", "PMI_SIZE": "2"}
        done = subprocess.run([self.train, "--evaluate"], env=broken, capture_output=True, text=True, timeout=60)
        expect(done.returncode == 2 and "are for one process" in done.stderr, done.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", type=pathlib.Path, required=True)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--keep", type=pathlib.Path, help="work here and leave it")
    arguments = parser.parse_args()
    if shutil.which("mpirun") is None:
        for name in CHECKS:
            print(f"skipped {name}: there is no mpirun (Debian: openmpi-bin)")
        print(f"0 passed, 0 failed, {len(CHECKS)} skipped")
        return 0
    work = (arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="metac-parallel-"))).resolve()
    work.mkdir(parents=True, exist_ok=True)
    checks = Checks(work, arguments.metac.resolve(), arguments.kills)
    checks.compile()
    status = run_checks(checks, ("compile", "start", "run", "ranks", "gan"))
    if not arguments.keep:
        shutil.rmtree(work, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
