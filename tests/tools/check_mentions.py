#!/usr/bin/env python3
"""Do the files exist that documents and comments name? 'compiler/ir/graph.h', `region/fusion/fuse`, tests/fuzz/run_fuzz.py.

    python3 check_mentions.py [REPOSITORY]

A mention is a path with a folder of the repository (or of compiler/) in front: in comments of sources with its ending, in
documents between backticks, with or without it. And every folder of the compiler has a row in docs/architecture.md. Prints
every one that is not there and ends with status 1 if there is one.
"""
import pathlib
import re
import subprocess
import sys

SOURCES = {".h", ".cpp", ".cu", ".def"}
ENDINGS = ("", ".h", ".cpp", ".py", ".def", ".md", ".cuh", ".cu")
PATH = r"[a-z_0-9]+(?:/[a-zA-Z_0-9]+)+"
IN_COMMENT = re.compile(r"(?<![\w/.@-])(" + PATH + r"\.(?:h|cpp|def|md|py|cu))\b")
IN_DOCUMENT = re.compile(r"`(" + PATH + r"(?:\.[a-z]+)?)`")
# Files of generated projects, of users, and of others' repositories.
ELSEWHERE = re.compile(r"^(src|include|tools|build|device|cuda|train|routines|out|lib|bin)/")


def mentions(path):
    text = path.read_text(errors="replace")
    if path.suffix == ".md":
        yield from ((line, m[1]) for line, row in enumerate(text.splitlines(), 1) for m in IN_DOCUMENT.finditer(row))
        return
    for line, row in enumerate(text.splitlines(), 1):
        comment = re.search(r"(?<![:\"])//(.*)", row)
        if comment:
            yield from ((line, m[1]) for m in IN_COMMENT.finditer(comment[1]))


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    listed = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
    files = [f for f in listed if pathlib.Path(f).suffix in SOURCES | {".md"} and f != "CHANGELOG.md"]
    tops = {p.name for p in root.iterdir() if p.is_dir()} | {p.name for p in (root / "compiler").iterdir() if p.is_dir()}
    tops |= {p.name for p in (root / "runtime").iterdir() if p.is_dir()}
    missing, seen = [], 0
    for name in files:
        for line, path in mentions(root / name):
            if path.split("/")[0] not in tops or ELSEWHERE.match(path):
                continue
            seen += 1
            places = [root, root / "compiler", root / "runtime", (root / name).parent]
            if not any((place / (path + end)).exists() for place in places for end in ENDINGS):
                missing.append(f"{name}:{line}: there is no {path}")
    told = {path for _, path in mentions(root / "docs/architecture.md")}
    folders = sorted({str(pathlib.Path(f).parent) for f in files if f.startswith("compiler/") and pathlib.Path(f).suffix in SOURCES})
    missing += [f"docs/architecture.md says nothing of {folder}" for folder in folders if folder not in told]
    print("\n".join(missing + [f"{len(files)} files, {seen} mentions, {len(missing)} of files that are not there"]))
    return 1 if missing or not seen else 0


if __name__ == "__main__":
    sys.exit(main())
