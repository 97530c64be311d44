#!/usr/bin/env python3
"""Checks what every file of the repository promises: size, name, no large binaries.

    python3 check_files.py [REPOSITORY]

A source file has at most 500 lines (tests 700), its name says what is in it, nothing is larger than 1 MiB, and a document's
lines end at 125 columns (but for tables, what a program printed in one line, and docs/speed.md, which a race writes).
"""
import pathlib
import re
import shutil
import subprocess
import sys

SOURCES = {".h", ".hpp", ".cpp", ".c", ".cu", ".cuh", ".py", ".sh", ".cmake"}
EMPTY_NAME = re.compile(r"(^|_)(utils?|helpers?|common|manager|misc)(_|$)")
LIMIT, TEST_LIMIT, BYTES = 500, 700, 1 << 20


def wide_lines(path):
    """Numbers of the lines of a document that pass 125 columns where they could be broken."""
    fence = ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        mark = re.match(r"\s*(?:```|~~~)(.*)", line)
        if mark:
            fence = "" if fence else mark[1] or "code"
        elif len(line) > 125 and fence != "text" and not re.match(r"\s*(\||!\[)", line) and " " in line.strip()[:100]:
            yield number


def files_of(root):
    if shutil.which("git"):
        listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z"], capture_output=True, text=True)
        if listed.returncode == 0 and listed.stdout:
            return [root / name for name in listed.stdout.split("\0") if name]
    skipped = {"build", "out", ".git", ".cache"}  # a release archive has no history, a small machine no git
    return [p for p in root.rglob("*") if p.is_file() and p.relative_to(root).parts[0] not in skipped]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    wrong, count = [], 0
    for path in sorted(files_of(root)):
        if not path.is_file():
            continue
        count += 1
        name = path.relative_to(root).as_posix()
        if EMPTY_NAME.search(path.stem.lower()):
            wrong.append(f"{name}: the name does not say what is in it")
        if path.stat().st_size > BYTES:
            wrong.append(f"{name}: {path.stat().st_size} bytes, the limit is {BYTES}")
        if path.suffix == ".md" and name != "docs/speed.md":
            wrong += [f"{name}:{number}: the line passes 125 columns" for number in wide_lines(path)]
        if path.suffix in SOURCES:
            lines = path.read_bytes().count(b"\n")
            limit = TEST_LIMIT if name.startswith("tests/") else LIMIT
            if lines > limit:
                wrong.append(f"{name}: {lines} lines, the limit is {limit}; split it along its ideas")
    print("\n".join(wrong + [f"{count} files, {len(wrong)} complaints"]))
    return 1 if wrong or not count else 0


if __name__ == "__main__":
    sys.exit(main())
