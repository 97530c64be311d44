#!/usr/bin/env python3
"""The runtime's sampler against one in NumPy, written from docs/generation.md: random logits, rules, texts and masks.

    python3 compare_sampler.py [--count 2000] [--seed 1]

The last line is 'N passed, N failed'.
"""
import argparse
import ctypes
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]


def reference(logits, s, text, made, allowed, index):
    """The token, or None where the rules leave none."""
    x = logits.astype(np.float32).copy()
    if s["repetition"] not in (0, 1):
        for token in set(text):
            x[token] = x[token] * np.float32(s["repetition"]) if x[token] < 0 else x[token] / np.float32(s["repetition"])
    tokens, counts = np.unique(np.array(text[made:], np.int64), return_counts=True)
    for token, count in zip(tokens, counts):
        if s["presence"] or s["frequency"]:
            x[token] -= np.float32(s["presence"] + s["frequency"] * count)
    for token, bias in s["biases"]:
        x[token] += np.float32(bias)
    if allowed is not None:
        x[allowed == 0] = -np.inf
    if np.isnan(x).any() or np.max(x) == -np.inf:
        return None
    if s["temperature"] == 0:
        return int(np.argmax(x))
    keep = np.isfinite(x)
    if s["top_k"]:
        keep &= x >= np.sort(x)[::-1][min(s["top_k"], len(x)) - 1]
    weights = np.where(keep, np.exp((x.astype(np.float64) - float(np.max(x))) / s["temperature"]), 0.0)
    if 0 < s["top_p"] < 1:
        order = np.lexsort((np.arange(len(x)), -weights))
        before = np.concatenate([[0.0], np.cumsum(weights[order])[:-1]])
        weights[order[before >= s["top_p"] * np.sum(weights)]] = 0
    weights[weights < s["min_p"]] = 0
    place = float(np.random.Philox(key=s["seed"], counter=index).random_raw() >> 11) * 2.0 ** -53
    passed = np.cumsum(weights)
    return int(np.argmax(passed > place * passed[-1]))


def library(work):
    path = work / "sampler.so"
    subprocess.run(["c++", "-std=c++17", "-O1", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}", str(pathlib.Path(__file__).with_name("sampler_calls.cpp")),
                    "-o", str(path)], check=True)
    loaded = ctypes.CDLL(str(path))
    loaded.word.restype, loaded.word.argtypes = ctypes.c_uint64, [ctypes.c_uint64, ctypes.c_uint64]
    loaded.choose.restype = loaded.guesses.restype = ctypes.c_int64
    return loaded


class Bias(ctypes.Structure):
    _fields_ = [("token", ctypes.c_int64), ("bias", ctypes.c_float)]


def choose(loaded, logits, s, text, made, allowed, index):
    biases = (Bias * max(1, len(s["biases"])))(*[Bias(*b) for b in s["biases"]])
    numbers = (ctypes.c_double * 6)(s["repetition"], s["presence"], s["frequency"], s["temperature"], s["top_p"], s["min_p"])
    text = np.array(text, np.int64)
    message = ctypes.create_string_buffer(512)
    token = loaded.choose(logits.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(logits)), numbers, ctypes.c_int64(s["top_k"]),
                          ctypes.c_uint64(s["seed"]), biases, ctypes.c_int64(len(s["biases"])), text.ctypes.data_as(ctypes.c_void_p),
                          ctypes.c_int64(len(text)), ctypes.c_int64(made), None if allowed is None else allowed.ctypes.data_as(ctypes.c_void_p),
                          ctypes.c_uint64(index), message)
    return token, message.value.decode()


def draw_case(rng):
    size = int(rng.choice([1, 2, 7, 50, 1000]))
    logits = (rng.standard_normal(size) * rng.choice([0.1, 1, 5, 40])).astype(np.float32)
    if rng.random() < 0.3:  # ties
        logits = np.round(logits)
    if rng.random() < 0.1:
        logits[rng.random(size) < 0.3] = -np.inf
    if rng.random() < 0.02:
        logits[rng.integers(size)] = np.nan
    maybe = lambda chance, value: value if rng.random() < chance else 0  # noqa: E731
    s = {"repetition": maybe(0.3, rng.uniform(0.5, 2)), "presence": maybe(0.3, rng.uniform(-2, 2)), "frequency": maybe(0.3, rng.uniform(-2, 2)),
         "biases": [(int(rng.integers(size)), float(np.float32(rng.choice([-1, 3, -np.inf])))) for _ in range(maybe(0.3, rng.integers(1, 4)))],
         "temperature": maybe(0.8, rng.uniform(0.05, 3)), "top_k": int(maybe(0.4, rng.integers(1, size + 3))), "top_p": maybe(0.5, rng.uniform(0.01, 1)),
         "min_p": maybe(0.4, rng.uniform(0, 1)), "seed": int(rng.integers(0, 2**64, dtype=np.uint64))}
    text = rng.integers(0, size, rng.integers(0, 30)).tolist()
    allowed = (rng.random(size) < rng.choice([0.02, 0.5, 0.9])).astype(np.uint8) if rng.random() < 0.3 else None
    return logits, s, text, int(rng.integers(0, len(text) + 1)), allowed, int(rng.integers(0, 10000))


def reference_guesses(tokens, most):
    for length in (3, 2):
        for at in range(len(tokens) - length - 1, -1, -1):
            if at >= len(tokens) - length - 4096 and tokens[at:at + length] == tokens[len(tokens) - length:]:
                return tokens[at + length:][:most]
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="metac-sampler-") as work:
        loaded = library(pathlib.Path(work))
        for number in range(arguments.count):
            case = draw_case(rng)
            expected, (token, message) = reference(*case), choose(loaded, *case)
            good = token == expected if expected is not None else token == -1 and ("NaN" in message or "no token is allowed" in message)
            words = number % 10 != 0 or all(loaded.word(case[1]["seed"], k) == int(np.random.Philox(key=case[1]["seed"], counter=k).random_raw()) for k in (0, case[5]))
            tokens = rng.integers(0, 4, rng.integers(0, 40)).tolist()
            most = int(rng.integers(0, 9))
            drafts = (ctypes.c_int64 * 16)()
            found = loaded.guesses((ctypes.c_int64 * max(1, len(tokens)))(*tokens), ctypes.c_int64(len(tokens)), ctypes.c_int64(most), drafts)
            guessed = list(drafts[:found]) == reference_guesses(tokens, most)
            if good and words and guessed:
                passed += 1
                continue
            failed += 1
            print(f"FAIL  case {number}: token {token} ({message}), expected {expected}; random words {words}, guesses {guessed}; {case[1:]}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
