#!/usr/bin/env python3
"""metac's tokenizers against the packages tokenizers (Hugging Face) and sentencepiece: tokens of random texts, and texts of random tokens.

    python3 compare_tokenizers.py --library build/ci/lib/libmetac_tokenizer_calls.so [--count 300] [--seed 1] [--only REGEX]
    needs: pip install tokenizers sentencepiece

Tokenizers of every supported kind are trained on the pages of docs/ and on text made here: byte-level BPE with the patterns of GPT-2,
Llama 3, Qwen 2 and GPT-4o, BPE with byte fallback, unigram, SentencePiece's own. What is not supported must be refused with its name.
The last line is 'N passed, N failed'.
"""
import argparse
import ctypes
import json
import pathlib
import re
import sys
import tempfile

import numpy as np
import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
GPT4O = "|".join([r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                  r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                  r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
PARTS = ["the", "Straße", "naïve", "e\u0301tude", "ﬁ", "Ⅷ", "½", "日本語", "你好，世界", "привет", "שלום", "مرحبا", "हिन्दी", "한국어", "각", "👍🏽", "👩‍👩‍👧", "🇩🇪",
         "don't", "WE'LL", "I'VE", "it'ſ", "12345", "3.14", "x_1", "CamelCase", "http://a.b/c?d=e", "\t", "\n", "\n\n", "\r\n", " ", "  ", "    ", "\u00a0",
         "\u2003", "\u3000", "\u200b", "\ufeff", "\u0000", "\u0007", "\u001b[0m", "</s>", "<s>", "<|end|>", "<unk>", "[INST]", "▁", "▁the", "▁▁", "<0x41>", "…", "—", "\"", "'", "((",
         "\U0001d54f", "\ud7a3", "Å", "A\u030a", "q\u0307\u0323", "\u0344", "ｶﾞ", "１２", "a\u0300\u0301b"]


def corpus():
    text = [page.read_text() for page in sorted((ROOT / "docs").glob("*.md"))]
    return [line for page in text for line in page.splitlines()] + [f"{a} {b} {a}{b}" for a in PARTS for b in PARTS if "\0" not in a + b][::3]


def draw_text(rng, lines):
    kind = rng.integers(4)
    if kind == 0:
        return lines[rng.integers(len(lines))]
    if kind == 1:  # any code points
        codes = rng.choice([0x80, 0x250, 0x3000, 0x10000, 0x110000], rng.integers(1, 30))
        drawn = [int(rng.integers(0, c)) for c in codes]
        return "".join(chr(c) for c in drawn if not 0xD800 <= c < 0xE000 and not unassigned(c))
    joined = rng.choice(["", " ", "  "])
    return joined.join(PARTS[k] for k in rng.integers(0, len(PARTS), rng.integers(0, 25)))


def unassigned(code):
    """Code points that Unicode 15 and later versions may see differently."""
    import unicodedata
    return unicodedata.category(chr(code)) == "Cn"


# ---- tokenizers of Hugging Face ----
def trained(model, trainer, normalizer=None, pre_tokenizer=None, decoder=None, processor=None, added=()):
    t = Tokenizer(model)
    if normalizer is not None:
        t.normalizer = normalizer
    if pre_tokenizer is not None:
        t.pre_tokenizer = pre_tokenizer
    if decoder is not None:
        t.decoder = decoder
    t.train_from_iterator(corpus(), trainer)
    if processor is not None:
        t.post_processor = processor(t)
    t.add_tokens(list(added))
    return t


def byte_level(pattern=None, size=900, normalizer=None, ignore_merges=False, begin=False, prefix=False):
    split = [pre_tokenizers.Split(Regex(pattern), "isolated")] if pattern else []
    pre = pre_tokenizers.Sequence([*split, pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=not split)])
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=["<s>", "</s>", "<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    template = (lambda t: processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", t.token_to_id("<s>"))])])) if begin else None
    return trained(models.BPE(ignore_merges=ignore_merges), trainer, normalizer, pre, decoders.ByteLevel(), template)


BYTES = [f"<0x{b:02X}>" for b in range(256)]


def fallback(pre_tokenizer=None, normalizer=None, first=True):
    """As Llama 2 (a normalizer) or newer conversions (Metaspace) have it."""
    t = trained(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True),
                trainers.BpeTrainer(vocab_size=1400, special_tokens=["<unk>", "<s>", "</s>", *BYTES], limit_alphabet=90, show_progress=False), normalizer, pre_tokenizer,
                decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *([decoders.Strip(" ", 1, 0)] if first else [])]))
    data = json.loads(t.to_str())
    data["added_tokens"] = [row for row in data["added_tokens"] if not row["content"].startswith("<0x")]
    return Tokenizer.from_str(json.dumps(data))


def unigram(byte_fallback=False):
    t = trained(models.Unigram(), trainers.UnigramTrainer(vocab_size=700, special_tokens=["<unk>", "<s>", *(BYTES if byte_fallback else [])], unk_token="<unk>", show_progress=False), None,
                pre_tokenizers.Metaspace(), decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]) if byte_fallback else decoders.Metaspace())
    data = json.loads(t.to_str())
    data["added_tokens"] = [row for row in data["added_tokens"] if not row["content"].startswith("<0x")]
    data["model"]["byte_fallback"] = byte_fallback
    return Tokenizer.from_str(json.dumps(data))


HUGGING = {
    "gpt2": lambda: byte_level(),
    "gpt2 with a space in front": lambda: byte_level(prefix=True),
    "llama3": lambda: byte_level(LLAMA3, ignore_merges=True, begin=True),
    "qwen2": lambda: byte_level(QWEN2, normalizer=normalizers.NFC()),
    "gpt4o": lambda: byte_level(GPT4O),
    "nfkc": lambda: byte_level(normalizer=normalizers.Sequence([normalizers.NFKC(), normalizers.Strip()])),
    "digits": lambda: trained(models.BPE(), trainers.BpeTrainer(vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False), None,
                              pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]), decoders.ByteLevel(),
                              added=["<|end|>"]),
    "llama2": lambda: fallback(normalizer=normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])),
    "gemma": lambda: fallback(normalizer=normalizers.Replace(" ", "▁"), pre_tokenizer=pre_tokenizers.Split(" ", "merged_with_previous"), first=False),
    "metaspace": lambda: fallback(pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
    "unigram": unigram,
    "unigram with bytes": lambda: unigram(True),
    **{f"split {how}": (lambda how=how: trained(models.BPE(), trainers.BpeTrainer(vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False), None,
                                              pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"\s|\p{P}+"), how), pre_tokenizers.ByteLevel(False, use_regex=False)]), decoders.ByteLevel()))
       for how in ("removed", "merged_with_previous", "merged_with_next", "contiguous")},
}
REFUSED = {
    "WordPiece": lambda: Tokenizer(models.WordPiece({"a": 0, "[UNK]": 1})),
    "BertNormalizer": lambda: trained(models.BPE(), trainers.BpeTrainer(show_progress=False), normalizers.BertNormalizer()),
    "Whitespace": lambda: trained(models.BPE(), trainers.BpeTrainer(show_progress=False), None, pre_tokenizers.Whitespace()),
    "end_of_word_suffix": lambda: Tokenizer(models.BPE({"a</w>": 0}, [], end_of_word_suffix="</w>")),
}
SENTENCEPIECE = {
    "spm bpe": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False, "vocab_size": 900},
    "spm unigram": {"model_type": "unigram", "vocab_size": 700},
    "spm unigram with symbols": {"model_type": "unigram", "vocab_size": 700, "user_defined_symbols": ["[INST]", "12345"], "byte_fallback": True},
    "spm bpe with symbols": {"model_type": "bpe", "vocab_size": 700, "user_defined_symbols": ["[INST]", "<|end|>"], "add_dummy_prefix": False},
}


class Ours:
    def __init__(self, library, path):
        self.calls = library
        self.message = ctypes.create_string_buffer(512)
        self.calls.open_tokenizer.restype = ctypes.c_void_p
        self.calls.encode.restype = self.calls.decode.restype = ctypes.c_int64
        self.made = self.calls.open_tokenizer(str(path).encode(), self.message)
        if not self.made:
            raise ValueError(self.message.value.decode())

    def encode(self, text, plain=False):
        data = text.encode()
        tokens = np.empty(4 * len(data) + 16, np.int64)
        count = self.calls.encode(ctypes.c_void_p(self.made), data, ctypes.c_int64(len(data)), int(plain), tokens.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(tokens)), self.message)
        if count < 0:
            raise ValueError(self.message.value.decode())
        return tokens[:count].tolist()

    def decode(self, tokens):
        ids, room = np.array(tokens, np.int64), 4096
        out = ctypes.create_string_buffer(room)
        count = self.calls.decode(ctypes.c_void_p(self.made), ids.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(len(ids)), out, ctypes.c_int64(room))
        return out.raw[:count].decode()


def compare(ours, encode, decode, size, rng, lines, count):
    """size: of the vocabulary, to say random tokens too; 0: ByteFallback takes whole runs of bytes, in which a part may be UTF-8, for none."""
    for _ in range(count):
        text = draw_text(rng, lines)
        expected, answer = encode(text), ours.encode(text)
        if answer != expected:
            return f"{text!r} is {answer}, expected {expected}"
        tokens = rng.integers(0, size, rng.integers(0, 20)).tolist() if size and rng.random() < 0.3 else expected
        if decode is not None and ours.decode(tokens) != decode(tokens):
            return f"{tokens} say {ours.decode(tokens)!r}, expected {decode(tokens)!r}"
    return ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", required=True)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    a = parser.parse_args()
    library, lines, failed, passed = ctypes.CDLL(a.library), corpus(), 0, 0

    def told(name, problem):
        nonlocal passed, failed
        passed, failed = passed + (not problem), failed + bool(problem)
        print(f"FAIL  {name}: {problem}" if problem else f"pass  {name}", flush=True)

    with tempfile.TemporaryDirectory(prefix="metac-tokenizers-") as temporary:
        path = pathlib.Path(temporary) / "tokenizer.json"
        for name, make in HUGGING.items():
            if not re.search(a.only, name):
                continue
            t = make()
            t.save(str(path))
            try:
                told(name, compare(Ours(library, path), lambda text: t.encode(text).ids, t.decode, 0 if "ByteFallback" in t.to_str() else t.get_vocab_size(), np.random.default_rng(a.seed), lines, a.count))
            except ValueError as error:
                told(name, str(error))
        for name, make in REFUSED.items():
            if not re.search(a.only, name):
                continue
            make().save(str(path))
            try:
                Ours(library, path)
                told(name, "was not refused")
            except ValueError as error:
                told(name, "" if name in str(error) else str(error))
        words = pathlib.Path(temporary) / "words.txt"
        words.write_text("\n".join(line for line in lines if "\0" not in line and line))
        for name, options in SENTENCEPIECE.items():
            if not re.search(a.only, name):
                continue
            prefix = str(pathlib.Path(temporary) / "model")
            sentencepiece.SentencePieceTrainer.train(input=str(words), model_prefix=prefix, minloglevel=2, character_coverage=0.98, num_threads=1, **options)
            s = sentencepiece.SentencePieceProcessor(model_file=prefix + ".model")
            try:
                told(name, compare(Ours(library, prefix + ".model"), lambda text: [s.bos_id(), *s.encode(text)], None, s.vocab_size(), np.random.default_rng(a.seed), lines, a.count))
            except ValueError as error:
                told(name, str(error))
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
