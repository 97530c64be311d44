"""Texts by low-rank adapters (metac compile --generate --adapters): each has the tokens of the model that its set was merged into, alone and
beside others. For run_generation.py."""
import importlib
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models/decoders"), str(ROOT / "tests/tools"), str(ROOT / "tests/train")]
import float64  # noqa: E402
from adapted_networks import write_adapters  # noqa: E402
from checks import must_fail  # noqa: E402

PROMPT, COUNT = [5, 3, 77, 12, 9], 60
NAMES = ("", "french", "poet \"2\"")


def call(*command, status=0):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != status:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return done


def same(what, answer, expected):
    if list(answer) != list(expected):
        raise RuntimeError(f"{what}: {list(answer)[:8]}, expected {list(expected)[:8]}")


def write_sets(work, model):
    """Two sets of different ranks that cover different layers of the decoder, in PEFT's names."""
    rng, files = np.random.default_rng(11), []
    for name, kinds, rank in (("french", ("q_proj", "v_proj", "down_proj"), 4), ("poet", ("k_proj", "o_proj", "up_proj", "gate_proj"), 2)):
        layers = {i.name[:-len(".weight")]: tuple(i.dims) for i in onnx.load(model).graph.initializer if any(i.name.endswith(f"{kind}.weight") for kind in kinds)}
        files.append(work / f"{name}.safetensors")
        draw = lambda shape: (rng.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)  # noqa: E731
        write_adapters(files[-1], {layer: (draw((inputs, rank)), draw((rank, outputs))) for layer, (inputs, outputs) in layers.items()}, {"alpha": str(2 * rank)})
    return files


def compiled(work, metac, model, name, *options):
    call(metac, "compile", model, "-o", work / name, "--name", name, "--cpu", "native", "--generate", *options)
    sys.path.insert(0, str(work / name / "python"))
    return importlib.import_module(name)


def greedy(file):
    exact, tokens = float64.Decoder(str(file)), []
    logits = exact.step(PROMPT)
    while len(tokens) < COUNT:
        tokens.append(int(np.argmax(logits[-1])))
        logits = exact.step([tokens[-1]])
    return tokens


def each_set_is_as_if_merged(work, metac):
    file = work / "adapted.onnx"
    call(sys.executable, ROOT / "models/decoders/build.py", file, "--size", "tiny", "--weights", "f32", "--context", "200")
    sets = write_sets(work, file)
    expected = [greedy(file)]
    for path in sets:
        call(metac, "convert", file, work / "merged.onnx", "--merge-adapters", path)
        expected.append(greedy(work / "merged.onnx"))
    if any(expected[i] == expected[j] for i in range(3) for j in range(i)):
        raise RuntimeError("the adapters make no difference")
    options = ["--adapters", ",".join(f"{name}={path}" for name, path in zip(NAMES[1:], sets))]
    rows, one = compiled(work, metac, file, "of_rows", *options, "--adapter-per-row"), compiled(work, metac, file, "of_all", *options)
    for module in (rows, one):
        model = module.Model(threads=1)
        same("names", model.generate_adapters(), NAMES)
        for number, (name, tokens) in enumerate(zip(NAMES, expected)):
            for adapter in (name, number):
                model.state_reset()
                same(f"with {adapter!r}", model.generate(PROMPT, COUNT, adapter=adapter, chunk=2, drafts=3 * (number == 1)).tokens, tokens)
        must_fail("a set that is not there", lambda: model.generate(PROMPT, 1, adapter=3), "adapter 3: the library has 2")
        must_fail("a number below 0", lambda: model.generate(PROMPT, 1, adapter=-1), "adapter -1")
        must_fail("a name that is not there", lambda: model.generate(PROMPT, 1, adapter="german"), "french")

    together = rows.Model(threads=1)
    numbers = {}
    for adapter in (1, 0, 2, 1):  # they join and leave at different steps
        numbers[together.generate_join(PROMPT, COUNT - 10 * len(numbers), adapter=adapter)] = adapter
        together.generate_step()
    while numbers:
        for number in together.generate_step():
            made = together.generate_leave(number).tokens
            same("beside others", made, expected[numbers.pop(number)][:len(made)])
    alike = one.Model(threads=1)
    first = alike.generate_join(PROMPT, COUNT, adapter="french")
    must_fail("another set for the same run", lambda: alike.generate_join(PROMPT, COUNT, adapter=0), "--adapter-per-row")
    alike.generate_join(PROMPT, COUNT, adapter=1)
    while first not in alike.generate_step():
        pass
    same("the same set together", alike.generate_leave(first).tokens, expected[1])

    program, prompt = work / "of_rows/bin/of_rows_generate", ["--tokens", ",".join(map(str, PROMPT))]
    for number, name in enumerate(NAMES):
        for adapter in {name, str(number)} - {""}:
            same(f"--adapter {adapter}", json.loads(call(program, *prompt, "--most", COUNT, "--json", "--adapter", adapter).stdout)["tokens"], expected[number])
    if json.loads(call(program, "--info", "--context", 100, "--json").stdout)["adapters"] != list(NAMES[1:]) or "adapter 1: french" not in call(program, "--info", "--context", 100).stdout:
        raise RuntimeError("--info does not list the adapters")
    said = call(program, *prompt, "--adapter", "german", status=2).stderr
    if '"german"' not in said or "french" not in said:
        raise RuntimeError(said)


def looks(work, metac):
    yield "texts by adapters", lambda: each_set_is_as_if_merged(work, metac)
