"""Texts that join and leave at random steps: each has the tokens that it has alone. For run_generation.py."""
import importlib
import pathlib
import subprocess
import sys

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models/states"), str(ROOT / "tests/tools")]
import build  # noqa: E402
from checks import must_fail  # noqa: E402


def compiled(name, work, metac):
    """A network of models/states as a library that generates."""
    file, out = work / f"joined_{name}.onnx", work / f"joined_{name}"
    onnx.save(build.BUILDERS[name](), file)
    done = subprocess.run([metac, "compile", file, "-o", out, "--name", f"joined_{name}", "--cpu", "native", "--generate"], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr.strip()[-300:]}")
    sys.path.insert(0, str(out / "python"))
    return importlib.import_module(f"joined_{name}")


def drawn_options(rng):
    way = int(rng.integers(0, 3))
    if way == 0:
        return {}
    options = {"temperature": 0.8, "seed": int(rng.integers(0, 1000)), "top_k": 30}
    return options if way == 1 else {**options, "repetition_penalty": 1.3, "bias": {3: -1.0}, "stop_tokens": [int(rng.integers(0, 60))]}


def look(module, words, longest, steps=200, seed=1):
    """Up to 6 texts at once; prompts of 1 to 40 tokens that wait for nobody; some leave before they end."""
    rng, model, alone = np.random.default_rng(seed), module.Model(threads=1), module.Model(threads=1)
    running, finished, told = {}, 0, {}
    for step in range(steps):
        while len(running) < 6 and rng.random() < 0.3:
            prompt, count = rng.integers(0, words, rng.integers(1, 41)).tolist(), int(rng.integers(1, min(120, longest - 45)))
            options = drawn_options(rng)
            tokens = []
            number = model.generate_join(prompt, count, on_token=lambda token, text, tokens=tokens: tokens.append(token) if token >= 0 else None, **options)
            running[number], told[number] = (prompt, count, options), tokens
        leaving = list(model.generate_step())
        if running and rng.random() < 0.05:
            leaving.append(int(rng.choice([n for n in running if n not in leaving] or [0])))
        for number in filter(None, leaving):
            made = model.generate_leave(number)
            prompt, count, options = running.pop(number)
            alone.state_reset()
            whole = alone.generate(prompt, count, **options)
            expected = whole.tokens[:len(made.tokens)]
            ended = len(expected) == len(whole.tokens)
            if made.tokens != expected or told.pop(number) != expected or (ended and len(whole.tokens) < count and made.stopped_by != whole.stopped_by):
                raise RuntimeError(f"step {step}, text {number}: {made.tokens[:8]} ({made.stopped_by}), alone {whole.tokens[:8]} ({whole.stopped_by})")
            finished += 1
    if finished < steps // 20:
        raise RuntimeError(f"only {finished} texts have ended")
    must_fail("a generation beside joined texts", lambda: model.generate([1], 2), "sequences have joined")
    must_fail("a cut beside joined texts", lambda: model.state_truncate(0), "sequences have joined")
    must_fail("a text that is not there", lambda: model.generate_leave(10 ** 6), "no sequence")
    model.state_reset()
    first = model.generate([1], 5).tokens
    must_fail("a text that joins one that is there", lambda: model.generate_join([1], 5), "state_reset")
    model.state_reset()

    def throws(token, text):
        raise ValueError("the caller's own")
    number = model.generate_join([1], 5)
    must_fail("an exception in a first token", lambda: model.generate_join([1], 5, on_token=throws), "the caller's own")
    count = []
    other = model.generate_join([1], 5, on_token=lambda token, text: throws(token, text) if count else count.append(token))
    must_fail("an exception in a step", model.generate_step, "the caller's own")
    while number not in model.generate_step():
        pass
    if model.generate_leave(number).tokens != first or len(model.generate_leave(other).tokens) > 2:
        raise RuntimeError("a text beside one whose function throws is another")
    if [made.tokens for made in model.generate_all([[1], [2, 3], [1]], 5, together=2)][::2] != [first, first]:
        raise RuntimeError("generate_all has other tokens")


def looks(work, metac):
    for name in ("grouped", "padded"):
        yield f"joined texts: {name}", lambda name=name: look(compiled(name, work, metac), build.WORDS, 200)
    for name, words in (("decoder", "no input of the model says where"),):
        yield f"texts cannot join: {name}", lambda name=name, words=words: must_fail(name, lambda: compiled(name, work, metac).Model().generate_join([1], 2), words)
