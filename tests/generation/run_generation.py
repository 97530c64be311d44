#!/usr/bin/env python3
"""Generation (metac compile --generate) with decoders of models/decoders: against a float64 evaluation, and against itself.

    python3 run_generation.py --metac build/release/bin/metac [--size tiny] [--tokens 500] [--weights f32,int4]

Greedy tokens of the program are those of models/decoders/float64.py, for each number of threads, with a prompt in chunks and with
guessed tokens; texts that join and leave have the tokens that each has alone (joined_texts.py), texts by low-rank adapters those of
the model that they were merged into (adapted_texts.py); tokens that are drawn are those that compare_sampler.py's reference draws from the
same logits. What a caller may do wrong is told. The last line is 'N passed, N failed'.
"""
import argparse
import ctypes
import importlib
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "models/decoders"), str(ROOT / "tests/tools"), str(pathlib.Path(__file__).parent)]
import adapted_texts  # noqa: E402
import compare_sampler  # noqa: E402
import float64  # noqa: E402
import joined_texts  # noqa: E402
from checks import must_fail  # noqa: E402

PROMPT = [5, 3, 77, 12, 5, 3, 9]
RULES = {"repetition": 1.2, "presence": 0.3, "frequency": 0.1, "biases": [(3, -float("inf")), (7, 1.5)], "temperature": 0.9, "top_k": 40,
         "top_p": 0.95, "min_p": 0.01, "seed": 7}


class Failure(Exception):
    pass


def same(what, answer, expected):
    if list(answer) != list(expected):
        first = next((k for k, (a, e) in enumerate(zip(answer, expected)) if a != e), min(len(answer), len(expected)))
        raise Failure(f"{what}: token {first} differs: {list(answer)[first:first + 5]}, expected {list(expected)[first:first + 5]}")


class Decoder:
    def __init__(self, work, metac, size, weights, context, tokenizer=()):
        self.name, self.work, self.metac, self.speaks = f"{size}_{weights}", work, metac, bool(tokenizer)
        self.file, self.out = work / f"{self.name}.onnx", work / self.name
        self.call(sys.executable, str(ROOT / "models/decoders/build.py"), str(self.file), "--size", size, "--weights", weights, "--context", str(context))
        self.call(metac, "compile", str(self.file), "-o", str(self.out), "--name", "net_" + weights, "--cpu", "native", "--generate", *tokenizer)
        self.program = self.out / f"bin/net_{weights}_generate"
        sys.path.insert(0, str(self.out / "python"))
        self.module = importlib.import_module("net_" + weights)

    def call(self, *command, status=0):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != status:
            raise Failure(f"{' '.join(map(str, command))} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        return done

    def made(self, *options):
        return json.loads(self.call(str(self.program), "--json", "--tokens", ",".join(map(str, PROMPT)), *options).stdout)

    def greedy(self, count):
        exact = float64.Decoder(str(self.file))
        logits, tokens = exact.step(PROMPT), []
        while len(tokens) < count:
            tokens.append(int(np.argmax(logits[-1])))
            logits = exact.step([tokens[-1]])
        return tokens


def greedy_tokens(decoder, count):
    expected = decoder.greedy(count)
    for options in ([], ["--threads", "1"], ["--chunk", "2"], ["--drafts", "4"]):
        made = decoder.made("--most", str(count), *options)
        same(" ".join(options), made["tokens"], expected)
        if made["stopped_by"] != "limit" or made["prompt_tokens"] != len(PROMPT):
            raise Failure(f"{made}")
    plain = decoder.call(str(decoder.program), "--tokens", " ".join(map(str, PROMPT)), "--most", "20", "--ids")
    same("as text", [int(t) for t in plain.stdout.split()], expected[:20])
    if "20 tokens in" not in plain.stderr:
        raise Failure(f"no figures: {plain.stderr}")


def long_prompts(decoder, count):
    """Of a prompt's tokens but the last one nobody reads the logits: most runs make none."""
    model, prompt = decoder.module.Model(threads=1), [(7 * i * i + 3) % 150 for i in range(150)]
    logits = model.run({"input_ids": np.array([prompt]), "attention_mask": np.ones((1, len(prompt)), np.int64)})["logits"][0, -1]
    model.state_reset()
    whole = model.generate(prompt, count).tokens
    same("the first token", whole[:1], [int(np.argmax(logits))])
    for chunk in (1, 64, 149):
        model.state_reset()
        same(f"in chunks of {chunk}", model.generate(prompt, count, chunk=chunk).tokens, whole)


def drawn_tokens(decoder, count):
    plain, model = decoder.module.Model(threads=1), decoder.module.Model(threads=2)
    allowed = np.ones(plain.outputs[0].shape[-1], np.uint8)
    allowed[::3] = 0
    text, expected, past, new = list(PROMPT), [], 0, PROMPT
    while len(expected) < count:
        past += len(new)
        logits = plain.run({"input_ids": np.array([new]), "attention_mask": np.ones((1, past), np.int64)})["logits"][0, -1]
        expected.append(compare_sampler.reference(logits, RULES, text, len(PROMPT), allowed, len(expected)))
        new = [expected[-1]]
        text += new

    def mask(tokens, may):
        same("the text that the mask is told", tokens, text[:len(tokens)])
        may[::3] = 0

    keywords = {"temperature": 0.9, "top_k": 40, "top_p": 0.95, "min_p": 0.01, "seed": 7, "repetition_penalty": 1.2, "presence_penalty": 0.3,
                "frequency_penalty": 0.1, "bias": dict(RULES["biases"])}
    same("drawn by rules and a mask", model.generate(PROMPT, count, mask=mask, **keywords).tokens, expected)
    options = ["--most", str(count), "--temperature", "0.9", "--seed", "3"]
    drawn = [decoder.made(*options, "--threads", threads)["tokens"] for threads in ("1", "2")]
    same("two threads", drawn[0], drawn[1])
    if decoder.made("--most", str(count), "--temperature", "0.9", "--seed", "4")["tokens"] == drawn[0]:
        raise Failure("another seed draws the same tokens")


def going_on(decoder, count):
    """Texts are continued, forked and cut, and what comes is what comes in one go."""
    model, other = decoder.module.Model(threads=1), decoder.module.Model(threads=1)
    whole = model.generate(PROMPT, count).tokens
    same("the text", model.generate_text(), PROMPT + whole)
    model.state_reset()
    half = model.generate(PROMPT, count // 2)
    other.state_fork(model)
    same("a second call", half.tokens + model.generate([], count - count // 2).tokens, whole)
    same("a fork", half.tokens + other.generate([], count - count // 2).tokens, whole)
    model.state_truncate(len(PROMPT) - 1)
    same("behind a cut", model.generate(PROMPT[-1:], count).tokens, whole)
    model.state_reset()
    stopped = model.generate(PROMPT, count, stop_tokens=[whole[6]])
    same("up to a stop token", stopped.tokens, whole[:whole.index(whole[6])])
    if stopped.stopped_by != "stop token" or stopped.stop != whole[6]:
        raise Failure(f"stopped by {stopped.stopped_by}")
    model.state_reset()
    told = []
    ended = model.generate(PROMPT, on_token=lambda token, text: told.append(token) or len(told) < 5)
    same("up to the caller's end", told, whole[:5])
    if ended.stopped_by != "caller":
        raise Failure(f"stopped by {ended.stopped_by}")
    same("behind it", model.generate([], 5).tokens, whole[5:10])


def guessed_by_others(decoder, count):
    """A model that guesses for itself is always right; whatever guesses changes no token."""
    model, draft = decoder.module.Model(threads=1), decoder.module.Model(threads=1)
    whole = model.generate(PROMPT, count).tokens
    rng = np.random.default_rng(3)
    for what, guess in (("its own", draft), ("a function's", lambda tokens, most: rng.integers(0, 160, rng.integers(0, most + 1))), ("right and wrong ones", lambda tokens, most: [*whole[len(tokens) - len(PROMPT):][:2], 1])):
        for _ in range(2):  # the draft's text is another one then
            model.state_reset()
            made = model.generate(PROMPT, count, drafts=4, draft=guess)
            same(f"with {what} guesses", made.tokens, whole)
            if made.drafted < count / 4 or (guess is draft and made.accepted != made.drafted):
                raise Failure(f"{made.accepted} of {what} {made.drafted} guesses are right")
    model.state_reset()

    def throws(tokens, most):
        raise ValueError("the guesser's own")
    must_fail("an exception in a guess", lambda: model.generate(PROMPT, count, drafts=4, draft=throws), "the guesser's own")
    model.state_reset()
    must_fail("a token beyond the vocabulary", lambda: model.generate(PROMPT, count, drafts=4, draft=lambda tokens, most: [160]), "160 tokens")


def what_is_wrong(decoder, context):
    model = decoder.module.Model(threads=1)
    must_fail("no prompt", lambda: model.generate([]), "the prompt is empty")
    must_fail("a token below 0", lambda: model.generate([1, -1]), "is -1")
    must_fail("a token beyond the vocabulary", lambda: model.generate([1, 160]), "160 tokens")
    must_fail("a temperature that is none", lambda: model.generate([1], 2, temperature=float("nan")), "not finite")
    must_fail("stop texts", lambda: model.generate([1], 2, stop_texts=["x"]), "tokenizer")
    must_fail("a text", lambda: model.encode("a"), "tokenizer")
    must_fail("a mask of nothing", lambda: model.generate([1], 2, mask=lambda tokens, allowed: allowed.fill(0)), "no token is allowed")

    def throws(token, text):
        raise ValueError("the caller's own")
    must_fail("an exception", lambda: model.generate([1], 2, on_token=throws), "the caller's own")
    model.state_reset()
    must_fail("a text that is too long", lambda: model.generate([1], context + 5), "cos_cache")
    if len(model.generate_text()) < context:
        raise Failure("it failed too early")
    program = str(decoder.program)
    for options, words in (([], "no prompt"), (["--tokens", "1,x"], "whole numbers"), (["--tokens", "1", "--tempreture", "1"], "--temperature"),
                           (["--tokens", "1", "--top-p", "2"], "from 0"), (["--tokens", "1", "--bias", "3"], "TOKEN=NUMBER")):
        said = decoder.call(program, *options, status=2).stderr
        if words not in said:
            raise Failure(f"{options}: {said}")
    decoder.call(program, "--tokens", "99999999", status=1)


def what_is_told(decoder):
    info = json.loads(decoder.call(str(decoder.program), "--info", "--context", "300", "--json").stdout)
    elements = sum(np.prod([n for n in port.shape if n > 0]) for port in decoder.module.Model().states)
    if info["state_bytes"] != 4 * elements * 300 or info["state_bytes_with_room"] != 4 * elements * 512 or info["working_bytes"] <= 0:
        raise Failure(f"{info}")
    if [row["is"] for row in info["inputs"]] != ["tokens", "mask of all tokens"]:
        raise Failure(f"{info}")
    listed = decoder.call(decoder.metac, "check", str(decoder.file)).stdout
    for words in ("input input_ids: tokens", "input attention_mask: mask of all tokens", "output logits: logits"):
        if words not in listed:
            raise Failure(f"metac check does not say '{words}'")


def small_tokenizer(path):
    """Words of a few letters, by merges; what is unknown is token 0."""
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)] + list(".,é日") + ["▁"]
    pieces = ["<unk>", "<s>", "<|end|>", *letters]
    merges = []
    for k in range(len(letters) * 3):  # of pieces that there are by then
        left, right = pieces[3 + k * 7 % (len(pieces) - 3)], pieces[3 + k * 11 % (len(pieces) - 3)]
        if left + right not in pieces and "▁" not in right:
            merges.append([left, right])
            pieces.append(left + right)
    added = [{"id": k, "content": pieces[k], "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": k < 2} for k in range(3)]
    single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    path.write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
        "post_processor": {"type": "TemplateProcessing", "single": single, "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "fuse_unk": False, "byte_fallback": False, "vocab": {p: k for k, p in enumerate(pieces)},
                  "merges": merges}}))
    return pieces


def what_is_spoken(decoder, pieces):
    """Text in and out; what tokenizers do is compare_tokenizers.py's business."""
    model = decoder.module.Model(threads=1)
    text = "a day, at the sea é日"
    tokens = model.encode(text)
    if tokens[0] != 1 or model.encode(text, plain=True) != tokens[1:] or model.decode(tokens) != text or model.encode("§")[-1] != 0:
        raise Failure(f"{tokens} say {model.decode(tokens)!r}")
    said = []
    made = model.generate(text, 60, on_token=lambda token, piece: said.append(piece))
    spoken = "".join("" if t < 2 else pieces[t].replace("▁", " ") for t in made.tokens if t < len(pieces))
    if made.text != spoken or "".join(said) != spoken:
        raise Failure(f"{made.tokens} say {made.text!r} and {said}, expected {spoken!r}")
    stop = spoken[len(spoken) // 2:len(spoken) // 2 + 3]
    model.state_reset()
    cut = model.generate(text, 60, stop_texts=["never here", stop])
    if cut.text != spoken[:spoken.index(stop)] or cut.stopped_by != "stop text" or cut.stop != 1:
        raise Failure(f"up to {stop!r}: {cut.text!r}, stopped by {cut.stopped_by}, expected {spoken[:spoken.index(stop)]!r}")
    program = str(decoder.program)
    printed = decoder.call(program, "--prompt", text, "--most", "60", "--quiet").stdout
    if printed != spoken + "\n":
        raise Failure(f"the program says {printed!r}, expected {spoken!r}")
    told = json.loads(decoder.call(program, "--prompt", text, "--most", "60", "--json", "--stop", stop).stdout)
    if told["text"] != cut.text or told["stopped_by"] != "stop text":
        raise Failure(f"{told}")
    must_fail("no UTF-8", lambda: model._check(model._library[f"{decoder.module.__name__}_encode"](model._context, b"a\xff", 2, 0, None, 0, ctypes.byref(ctypes.c_int64()))), "no UTF-8 from byte 1")
    decoder.call(program, "--prompt", "a", "--tokens", "1", status=2)


def many_prompts(decoder, lines):
    """A file of prompts: each line's answer is the one that it has alone."""
    file, program = decoder.work / "prompts.txt", str(decoder.program)
    file.write_text("\n\n".join(lines) + "\r\n")
    alone = "--prompt" if decoder.speaks else "--tokens"
    done = decoder.call(program, "--prompts", str(file), "--together", "3", "--most", "15")
    if f"{len(lines)} texts: " not in done.stderr:
        raise Failure(f"no figures: {done.stderr}")
    rows = [json.loads(row) for row in done.stdout.splitlines()]
    if sorted(row["line"] for row in rows) != list(range(1, 2 * len(lines), 2)):
        raise Failure(f"answers for lines {[row['line'] for row in rows]}")
    for row in rows:
        whole = json.loads(decoder.call(program, alone, lines[row["line"] // 2], "--most", "15", "--json").stdout)
        same(f"line {row['line']}", row["tokens"], whole["tokens"])
        if row.get("text") != whole.get("text"):
            raise Failure(f"line {row['line']} says {row.get('text')!r}, alone {whole.get('text')!r}")
    for options, words in ((["--prompts", str(file), "--tokens", "1"], "no --prompt, --tokens"), (["--tokens", "1", "--together", "2"], "--together is for --prompts"),
                           (["--prompts", str(file), "--drafts", "2"], "one text")):
        said = decoder.call(program, *options, status=2).stderr
        if words not in said:
            raise Failure(f"{options}: {said}")
    decoder.call(program, "--prompts", str(file) + ".not", status=1)
    if not decoder.speaks:
        file.write_text("1,2\n1,x\n")
        said = decoder.call(program, "--prompts", str(file), status=1).stderr
        if f"{file}:2: expected tokens" not in said:
            raise Failure(said)


def from_cxx(decoder):
    """The C++ interface, without a warning."""
    name = decoder.module.__name__
    source, program = decoder.work / "generates.cpp", decoder.work / "generates"
    source.write_text(f"""#include <cstdio>
#include "{name}.hpp"
int main(int, char** weights) {{
  {name}_options options = {{}};
  options.size = sizeof options;
  options.weights = weights[1];
  {name}::Model model(options);
  {name}_generation settings = {{}};
  settings.most_tokens = 9;
  model.generate({{{", ".join(map(str, PROMPT))}}}, settings, [](int64_t token, std::string_view) {{ return std::printf("%lld ", static_cast<long long>(token)) > 0; }});
  const std::vector<int64_t> text = model.generate_text();
  {name}::Model draft(options);
  model.state_reset();
  settings.drafts = 3;
  const auto made = model.generate({{{", ".join(map(str, PROMPT))}}}, settings, {{}}, model.guesses_of(draft));
  const bool guessed = made.accepted == made.drafted && made.drafted > 0 && model.generate_text() == text;
  model.state_reset();
  settings.drafts = 0;
  const int64_t one = model.generate_join({{{", ".join(map(str, PROMPT))}}}, settings);
  while (model.generate_step() > 0) {{}}
  const bool joined = model.generate_ended() == one && model.generate_leave(one).tokens == 9;
  return text.size() != {len(PROMPT) + 9} || !guessed || !joined;
}}
""")
    decoder.call("c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", f"-I{decoder.out}/include", str(source), str(decoder.out / f"lib/lib{name}.a"), "-o", str(program),
                 "-pthread", "-ldl", "-lm")
    printed = decoder.call(str(program), str(decoder.out / f"{name}.weights")).stdout
    same("the C++ program's", [int(t) for t in printed.split()], decoder.made("--most", "9")["tokens"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--tokens", type=int, default=500)
    parser.add_argument("--weights", default="int4,f32")
    arguments = parser.parse_args()
    passed = failed = 0
    context = arguments.tokens + 100
    with tempfile.TemporaryDirectory(prefix="metac-generation-") as temporary:
        for number, weights in enumerate(arguments.weights.split(",")):
            looks = [("as float64", lambda: greedy_tokens(decoder, arguments.tokens))]
            if number == 0:
                looks += [("drawn", lambda: drawn_tokens(decoder, 60)), ("long prompts", lambda: long_prompts(decoder, 20)), ("going on", lambda: going_on(decoder, 40)),
                          ("guessed by others", lambda: guessed_by_others(decoder, 60)),
                          ("what is wrong", lambda: what_is_wrong(decoder, context)), ("what is told", lambda: what_is_told(decoder)),
                          ("from C++", lambda: from_cxx(decoder)), ("joined texts", lambda: joined_texts.look(decoder.module, 160, context)),
                          ("many prompts", lambda: many_prompts(decoder, ["5,3,77", "1", "9 9 9 9 9 9 9", "12,4", "100"]))]
            if number == 1:
                looks += [("what is spoken", lambda: what_is_spoken(decoder, pieces)), ("many prompts", lambda: many_prompts(decoder, ["a day", "sea", "at the sea é日", "a"]))]
            try:
                work = pathlib.Path(temporary)
                pieces = small_tokenizer(work / "tokenizer.json")
                tokenizer = [str(work / "tokenizer.json")] if number > 0 else []
                decoder = Decoder(work, arguments.metac, arguments.size, weights, context, tokenizer)
            except Failure as error:
                looks, failed = [], failed + 1
                print(f"FAIL  {arguments.size} {weights}: {error}", flush=True)
            for title, look in looks:
                try:
                    look()
                    passed += 1
                    print(f"pass  {decoder.name}: {title}", flush=True)
                except (Failure, RuntimeError, ValueError, KeyError) as error:
                    failed += 1
                    print(f"FAIL  {decoder.name}: {title}: {error}", flush=True)
        work = pathlib.Path(temporary)
        for title, look in [*joined_texts.looks(work, arguments.metac), *adapted_texts.looks(work, arguments.metac)]:
            try:
                look()
                passed += 1
                print(f"pass  {title}", flush=True)
            except (RuntimeError, ValueError) as error:
                failed += 1
                print(f"FAIL  {title}: {error}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
