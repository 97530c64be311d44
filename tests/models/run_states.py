#!/usr/bin/env python3
"""States: networks of models/states, step by step, against ONNX Runtime and against the same library without states; the states
of a library, and those of a session's stream, whose programs change behind the runs.

    python3 run_states.py --metac build/release/bin/metac [--only REGEX]
    needs: pip install numpy onnx onnxruntime; metac's Python module beside bin/, else streams are left out, and said so

Every network is compiled with --state auto and without. The library with states is called with the other inputs alone; to ONNX Runtime and
to the library without states each call's present is given as the next one's past. Answers agree with ONNX Runtime's within 1e-4 of an
output's largest magnitude (or of 0.01), and with those of the library without states within 1e-5: sums may be cut elsewhere. The last line
is 'N passed, N failed'.
"""
import argparse
import importlib
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models/states"), str(ROOT / "tests/tools")]
import build  # noqa: E402
from checks import must_fail  # noqa: E402


class Failure(Exception):
    pass


def compare(what, answer, expected, tolerance):
    if answer.shape != expected.shape:
        raise Failure(f"{what} is {answer.shape}, expected {expected.shape}")
    if answer.size == 0:
        return
    worst = float(np.max(np.abs(answer - expected)) / max(0.01, float(np.max(np.abs(expected)))))
    if not worst <= tolerance:
        raise Failure(f"{what} differs by {worst:.2g} of its largest magnitude")


class Network:
    def __init__(self, name, work, metac):
        self.name, self.work, self.metac = name, work, metac
        self.file = work / f"{name}.onnx"
        onnx.save(build.BUILDERS[name](), self.file)
        quiet = onnxruntime.SessionOptions()
        quiet.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(str(self.file), quiet, providers=["CPUExecutionProvider"])
        self.names = [port.name for port in self.session.get_outputs()]

    def library(self, name, *options, target="cpu"):
        out = self.work / name
        where = ["--cpu", "native"] if target == "cpu" else ["--target", target]
        done = subprocess.run([self.metac, "compile", str(self.file), "-o", str(out), "--name", name, *where, *options], capture_output=True, text=True)
        if done.returncode:
            raise Failure(f"metac compile {' '.join(options)}: {done.stderr.strip()[-300:]}")
        sys.path.insert(0, str(out / "python"))
        return importlib.import_module(name)

    def pairs(self):
        """Input and output of each state, as metac check lists them."""
        listed = subprocess.run([self.metac, "check", str(self.file)], capture_output=True, text=True, check=True).stdout
        return dict(re.findall(r"--state (\S+)=(\S+)", listed))

    def reference(self, feeds):
        return dict(zip(self.names, self.session.run(None, feeds)))


# ---- a session's stream, by the names that a library's module has ----
class InSession:
    """Like the module of a library: Model() is a stream. Programs for shapes that came again are waited for now and then, so that
    they take over between two runs."""
    def __init__(self, network, metac, policy, target):
        self.session = metac.Session(str(network.file), specialise=policy, states="auto", threads=2, target=target)

    def Model(self, threads=2):  # noqa: N802, as in a library's module
        return self.Stream(self.session)

    class Stream:
        def __init__(self, session):
            self.session, self.stream, self.runs, self.states = session, session.stream(), 0, session.states

        def run(self, inputs, only=None):  # sessions make all outputs
            self.runs += 1
            if self.runs in (4, 9, 30, 73):
                self.session.wait()
            return {name: array for name, array in self.stream.run(inputs).items() if only is None or name in only}

        def state_reset(self):
            self.stream.reset()

        def state_get(self, name):
            return self.stream.get(name)

        def state_set(self, name, array):
            self.stream.set({name: array})

        def state_truncate(self, length):
            self.stream.truncate(length)

        def state_fork(self, other):
            self.stream = other.stream.fork()


# ---- each network: its steps, and its states at the beginning ----
def decoder_steps(batch, lengths, rng):
    return [{"ids": rng.integers(0, build.WORDS, (batch, n))} for n in lengths]


def grouped_steps(batch, lengths, rng):
    total, steps = 0, []
    for n in lengths:
        total += n
        steps.append({"ids": rng.integers(0, build.WORDS, (batch, n)), "seqlens_k": np.full(batch, total - 1, np.int32), "total_sequence_length": np.array(total, np.int32)})
    return steps


def parts_steps(shape, rng):
    return [{name: rng.standard_normal(shape(n)).astype(np.float32) for name in ("query", "key", "value")} for n in (3, 1, 1, 2, 1)]


def empty_caches(batch, heads, middle=""):
    return {f"past_key_values.{i}.{middle}{kind}": np.zeros((batch, heads, 0, build.SIZE), np.float32) for i in range(build.LAYERS) for kind in ("key", "value")}


def heard(batch, rng):
    return {name.replace("decoder.", "encoder."): rng.standard_normal((batch, build.HEADS, 21, build.SIZE)).astype(np.float32) for name in empty_caches(batch, 1, "decoder.")}


LENGTHS = [5] + [1] * 70 + [3, 1, 130, 1, 1]  # beyond the room of 64 and of 128 steps


def cases(rng):
    """Of each network: steps, states at the beginning, those of them that are set."""
    for batch in (1, 3):
        yield "decoder", decoder_steps(batch, LENGTHS, rng), empty_caches(batch, build.HEADS), ()
        # ONNX Runtime takes one token at a time of several sequences.
        yield "grouped", grouped_steps(batch, LENGTHS if batch == 1 else [5] + [1] * 130, rng), empty_caches(batch, 2), ()
        caches = {name: value for name, value in empty_caches(batch, build.HEADS).items() if ".0." in name}
        yield "operator", parts_steps(lambda n: (batch, build.HEADS, n, build.SIZE), rng), caches, ()
        yield "multihead", parts_steps(lambda n: (batch, n, build.HEADS * build.SIZE), rng), caches, ()
        zeros = {name: np.zeros((batch, build.HEADS, 32, build.SIZE), np.float32) for name in caches}
        steps, at = parts_steps(lambda n: (batch, build.HEADS, n, build.SIZE), rng), np.arange(batch)
        for step in steps:  # each sequence writes somewhere else
            step.update(write_indices=at, valid=at + step["key"].shape[2])
            at = at + step["key"].shape[2]
        yield "scattered", steps, zeros, ()
        given = heard(batch, rng)
        yield "transcriber", decoder_steps(batch, LENGTHS[:40], rng), {**empty_caches(batch, build.HEADS, "decoder."), **given}, tuple(given)
        zeros = {name: np.zeros((1, batch, 32), np.float32) for name in ("h", "c")}
        yield "recurrent", [{"x": rng.standard_normal((n, batch, 24)).astype(np.float32)} for n in (4, 1, 1, 7, 1)], zeros, ()
    yield "stack", [{"x": rng.standard_normal((1, n, 5)).astype(np.float32)} for n in (2, 1, 40, 3)], {"cache_in": np.zeros((1, 0, 5), np.float32)}, ()
    zeros = {f"cache_in_{k}": np.zeros((1, 8, 2), np.float32) for k in range(2)}
    yield "stream", [{"x": rng.standard_normal((1, 8, 8)).astype(np.float32)} for _ in range(6)], zeros, ()


def pairs_of(network, model):
    pairs = network.pairs()
    if sorted(pairs) != sorted(port.name for port in model.states):
        raise Failure(f"metac check lists {sorted(pairs)}, the library has {[port.name for port in model.states]}")
    return pairs


def step_by_step(network, kept, plain, steps, begin, given):
    pairs = pairs_of(network, kept)
    kept.state_reset()
    for name in given:
        kept.state_set(name, begin[name])
    pasts = [dict(begin), dict(begin)]
    for i, step in enumerate(steps):
        answer = kept.run(step)
        for past, call, tolerance, who in ((pasts[0], network.reference, 1e-4, "ONNX Runtime"), (pasts[1], plain.run, 1e-5, "the library without states")):
            expected = call({**step, **past})
            for name in answer:
                compare(f"step {i}, {name} against {who}", answer[name], expected[name], tolerance)
            for name, out in pairs.items():
                past[name] = np.array(expected[out])
                if i % 25 == 0 or i == len(steps) - 1:
                    compare(f"step {i}, state {name} against {who}", kept.state_get(name), past[name], tolerance)
    if set(answer) != set(network.names) - set(pairs.values()):
        raise Failure(f"the library answers {sorted(answer)}")


def truncated_and_forked(network, module, steps):
    """What is cut off has not been; a fork goes on where the other is; what fails changes nothing."""
    model, other = module.Model(threads=2), module.Model(threads=1)
    steps = steps[:6]
    answers = [model.run(step)["logits"] for step in steps]
    length = sum(step["ids"].shape[1] for step in steps)
    cut = sum(step["ids"].shape[1] for step in steps[:3])
    model.state_truncate(cut)
    for i in range(3, len(steps)):
        if i == 4:
            other.state_fork(model)
        compare(f"step {i} behind a cut", model.run(steps[i])["logits"], answers[i], 0)
    for i in range(4, len(steps)):
        compare(f"step {i} of the fork", other.run(steps[i])["logits"], answers[i], 0)
    model.state_truncate(cut)
    for i in range(3, len(steps)):  # what nobody wants is not made, and the states are the same
        answer = model.run(steps[i], only=["logits"] if i == len(steps) - 1 else [])
        if set(answer) != ({"logits"} if i == len(steps) - 1 else set()):
            raise Failure(f"step {i} answers {sorted(answer)}")
    compare("a step behind steps without logits", answer["logits"], answers[-1], 0)
    name = model.states[0].name
    state = model.state_get(name)
    if state.shape[2] != length:
        raise Failure(f"the state has {state.shape[2]} steps, expected {length}")
    must_fail("a longer cut", lambda: model.state_truncate(length + 1), "steps")
    must_fail("another batch", lambda: model.run({**steps[0], "ids": np.zeros((2, 1), np.int64)}), "")
    must_fail("a state of another size", lambda: model.state_set(name, np.zeros((1, state.shape[1] + 1, 2, build.SIZE), np.float32)), "dim 1")
    if "seqlens_k" in steps[0]:
        long = {**steps[-1], "seqlens_k": np.full(1, length + 7, np.int32), "total_sequence_length": np.array(length + 8, np.int32)}
        must_fail("a total that is not the state's", lambda: model.run(long), "total_sequence_length")
        more = np.array(length + steps[-1]["ids"].shape[1], np.int32)
        for what, keys in (("a sequence without the new keys", 0), ("a sequence of more keys than there are", int(more) + 1)):
            must_fail(what, lambda: model.run({**long, "seqlens_k": np.full(1, keys - 1, np.int32), "total_sequence_length": more}), "seqlens_k")
    compare("the state behind calls that fail", model.state_get(name), state, 0)
    given = {port.name: model.state_get(port.name) for port in model.states}
    other.state_reset()
    if other.state_get(name).size:
        raise Failure("a state behind a reset has elements")
    for port_name, value in given.items():
        other.state_set(port_name, value)
    step = {**steps[-1], "ids": steps[-1]["ids"] * 0 + 1}
    if "total_sequence_length" in step:
        more = step["ids"].shape[1]
        step["total_sequence_length"], step["seqlens_k"] = np.array(length + more, np.int32), np.full(1, length + more - 1, np.int32)
    compare("a step behind states that were set", other.run(step)["logits"], model.run(step)["logits"], 0)


def cut_without_room(network, module, steps):
    """A state that is written whole keeps its first steps, too."""
    model = module.Model(threads=1)
    for step in steps:
        model.run(step)
    whole = model.state_get("cache_in")
    model.state_truncate(7)
    compare("what is kept", model.state_get("cache_in"), whole[:, :7], 0)
    answer = model.run(steps[0])["y"]
    expected = np.concatenate([steps[0]["x"], whole[:, :7]], 1).mean(1, keepdims=True)
    compare("a step behind a cut", answer, expected, 1e-5)


def nothing_is_copied(network):
    """tests/models/state_copies.cpp, with the static library."""
    library, program = network.work / "decoder_kept", network.work / "state_copies"
    build = ["c++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{library}/include", str(pathlib.Path(__file__).with_name("state_copies.cpp")),
             str(library / "lib/libdecoder_kept.a"), "-o", str(program), "-pthread", "-ldl", "-lm", "-Wl,--wrap=calloc,--wrap=aligned_alloc"]
    for command in (build, [str(program), str(library / "decoder_kept.weights")]):
        done = subprocess.run(command, cwd=library, capture_output=True, text=True)
        if done.returncode:
            raise Failure(f"{command[0]} ended with {done.returncode}: {(done.stdout + done.stderr).strip()[-300:]}")


def module_of_sessions(folder):
    if not list(folder.glob("metac/_metac*")):
        return None
    sys.path.insert(0, str(folder))
    return importlib.import_module("metac")


def looks_at_streams(network, sessions, target, plain, steps, begin, given):
    """What is looked at of a library with states, of streams."""
    looks = []
    for policy in ("background", "eager") if network.name in ("decoder", "recurrent", "stack") else ("background",):
        module = InSession(network, sessions, policy, target)
        title = f"{network.name} in a stream, {policy}"
        looks.append((title, lambda module=module: step_by_step(network, module.Model(), plain, steps, begin, given)))
        if network.name in ("decoder", "grouped"):
            looks.append((f"{title}, cut, forked and set", lambda module=module: truncated_and_forked(network, module, steps)))
        if network.name == "stack":
            looks.append((f"{title}, cut", lambda module=module: cut_without_room(network, module, steps)))
    return looks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--target", default="cpu", help="of the libraries with states; not cpu: copies are not counted")
    parser.add_argument("--sessions", default="cpu", help="what streams of sessions run on; none: they are left out")
    arguments = parser.parse_args()
    on_cpu, wanted = arguments.target == "cpu", arguments.sessions != "none"
    sessions = module_of_sessions(pathlib.Path(arguments.metac).absolute().parents[1] / "python") if wanted else None
    if wanted and not sessions:
        print("streams of sessions are left out: there is no Python module beside bin/")
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="metac-states-") as temporary:
        made = {}
        for name, steps, begin, given in cases(np.random.default_rng(12)):
            if not re.search(arguments.only, name):
                continue
            looks = []
            if name not in made:
                network = Network(name, pathlib.Path(temporary), arguments.metac)
                try:
                    empty = ["--dim", "kept=0..4096"] if name == "stack" else []  # nothing is put behind it there
                    modules = [network.library(f"{name}_kept", "--state", "auto", target=arguments.target), network.library(f"{name}_plain", *empty)]
                    made[name] = network, modules[0], modules[0].Model(threads=2), modules[1].Model(threads=2)
                except Failure as error:
                    failed += 1
                    print(f"FAIL  {name}: {error}", flush=True)
                    continue
                if name in ("decoder", "grouped"):
                    looks.append((f"{name} cut, forked and set", lambda: truncated_and_forked(network, made[name][1], steps)))
                if name == "stack":
                    looks.append(("stack is cut", lambda: cut_without_room(network, made[name][1], steps)))
                if name == "decoder" and on_cpu:
                    looks.append(("decoder copies no cache", lambda: nothing_is_copied(network)))
                if sessions:
                    looks += looks_at_streams(network, sessions, arguments.sessions, made[name][3], steps, begin, given)
            network, _, kept, plain = made[name]
            looks.insert(0, (f"{name} in {len(steps)} steps", lambda: step_by_step(network, kept, plain, steps, begin, given)))
            for title, look in looks:
                try:
                    look()
                    passed += 1
                    print(f"pass  {title}", flush=True)
                except (Failure, RuntimeError, ValueError, KeyError) as error:
                    failed += 1
                    print(f"FAIL  {title}: {error}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
