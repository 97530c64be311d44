"""Processes that make rows of the race ready side by side and race them one at a time.

torch.compile with max-autotune is minutes of the host's work for a row, and what it measures on the card is seconds. So each racer (racer.py) prepares a row while
others do, under a lock for whatever it measures; when it is ready, the lock is taken, all the others are stopped, host's work and all, and it races alone.
"""
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import threading
import time

from measured_alone import CardLock

RACER = pathlib.Path(__file__).with_name("racer.py")
GRACE_SECONDS = 15   # behind the end, for a racer that is in the midst of something
SETTLE_SECONDS = 0.2   # in which what the stopped ones have started on the card ends


class Racer:
    def __init__(self, *words, threads):
        environment = {"TORCHINDUCTOR_COMPILE_THREADS": str(threads), **os.environ}
        self.process = subprocess.Popen([sys.executable, str(RACER), *map(str, words)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def ask(self, what):
        """The answer; None: the process has ended."""
        try:
            self.process.stdin.write(json.dumps(what) + "\n")
            self.process.stdin.flush()
        except (OSError, ValueError):   # it has ended, or was ended by another thread
            return None
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def tell(self, number):
        """A signal to it and to what it has started, compilers above all."""
        for process in family(self.process.pid):
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

    def end(self):
        self.tell(signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):   # words that it has not read
                pipe.close()


def family(first):
    """A process and all that descend from it."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:   # it has ended
            continue
        children.setdefault(parent, []).append(int(stat.parent.name))
    found = [first]
    for process in found:
        found += children.get(process, [])
    return found


class Racers:
    def __init__(self, root, out, turn, end, count):
        self.words, self.end, self.count = (root, turn, out / "card.lock"), end, count
        self.lock, self.turn, self.bookkeeping = CardLock(out / "card.lock"), threading.Lock(), threading.Lock()
        self.racers, self.row_seconds, self.compile_seconds = {}, [6.0], [30.0]   # the first of what they took are guesses
        self.under_way = 0

    def run(self, jobs, late, take, compiled):
        """jobs: (batch, network). `late` says whether one is left out, `take` is given each row; `compiled`: torch.compile takes part where time is."""
        waiting, self.compiled = list(jobs), compiled
        threads = [threading.Thread(target=self.work, args=(k, waiting, late, take)) for k in range(self.count)]
        overdue = threading.Timer(max(1.0, self.end - time.monotonic() + GRACE_SECONDS), lambda: [racer.end() for racer in list(self.racers.values())])   # one that hangs
        overdue.start()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        overdue.cancel()

    def work(self, k, waiting, late, take):
        while True:
            with self.bookkeeping:
                if not waiting:
                    break
                batch, network = waiting.pop(0)
                if late(batch, network, 2 * statistics.mean(self.row_seconds)):
                    continue
                self.under_way += 1
                seconds = self.seconds_to_compile(len(waiting))
            row = self.row(k, {"network": network, "batch": batch, "seconds": seconds})
            with self.bookkeeping:
                self.under_way -= 1
                take(row)
        if k in self.racers:
            self.racers.pop(k).end()

    def seconds_to_compile(self, behind):
        """What torch.compile may take for the next row; 0: nothing, or the rows behind it have no time to race."""
        expected = statistics.mean(self.compile_seconds)
        spare = self.end - time.monotonic() - (behind + self.under_way) * statistics.mean(self.row_seconds)
        return 0 if not self.compiled or spare < expected else min(spare, max(60.0, 3 * expected))

    def row(self, k, job):
        if k not in self.racers:
            self.racers[k] = Racer(*self.words, threads=max(1, (os.cpu_count() or 1) // self.count))
        racer = self.racers[k]
        answer = racer.ask(job)
        if answer and "ready" in answer:
            answer = self.race(racer, answer)
        if answer is None:
            self.racers.pop(k).end()
            network = job["network"]
            return {"library": network["library"], "name": network["name"], "dtype": network["dtype"], "batch": job["batch"], "missing": ["metac"], "why": f"the process ended with status {racer.process.returncode}"}
        return answer["row"]

    def race(self, racer, ready):
        with self.turn, self.lock:   # nobody measures
            others = [other for other in list(self.racers.values()) if other is not racer]
            for other in others:
                other.tell(signal.SIGSTOP)
            time.sleep(SETTLE_SECONDS if others else 0)
            begin = time.monotonic()
            answer = racer.ask("go")
            with self.bookkeeping:
                self.row_seconds.append(time.monotonic() - begin)
                self.compile_seconds += [ready["compiling"]] if ready["compiling"] else []
            for other in others:
                other.tell(signal.SIGCONT)
        return answer
