#!/usr/bin/env python3
"""Gives metac every hostile input of the list and checks how it answers.

    python3 run_errors.py --metac build/release/bin/metac [--only REGEX] [--seconds 2] [--keep DIR]
    python3 run_errors.py --table > README.md          which case stands for which id of the list
    needs: pip install numpy onnx

A refused input must end with exit status 1 (2 where the command line itself is wrong), say why on one line of standard
error, within the time (of the processor: other work on the machine does not count) and 1 GiB + 4 times the file, and leave
nothing behind: neither the output nor a temporary file. The odd inputs that are right must work. The last line is 'N passed, N failed'.
"""
import argparse
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import numpy as np

import case_list
import hostile_files  # noqa: F401  each import adds its cases to the list
import hostile_json  # noqa: F401
import hostile_names  # noqa: F401
import hostile_operators  # noqa: F401
import hostile_surroundings  # noqa: F401
from case_list import Run

GIB = 1 << 30
TOOK = "took"  # the complaint about time
SANITIZERS = {"ASAN_OPTIONS": "allocator_may_return_null=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
ASAN_WARNING = re.compile(r"^==\d+==WARNING: AddressSanitizer failed to allocate.*\n", re.MULTILINE)


def prepared(case, folder):
    """The Run of a case; a model is written as model.onnx and compiled without a build."""
    made = case.make(folder)
    if isinstance(made, Run):
        return made
    (folder / "model.onnx").write_bytes(made if isinstance(made, bytes) else made.SerializeToString())
    return Run(["compile", "{folder}/model.onnx", "-o", "{out}", "--no-build", "--cpu", "native"])


def files_below(folder):
    return {str(p.relative_to(folder)) for p in folder.rglob("*")}


def limited(file_limit):
    if file_limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # then a write fails with EFBIG, as on a full disk with ENOSPC
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))


def execute(run, metac, folder, out, limit):
    """(status or None after `limit` seconds, messages, seconds of the processor, peak bytes)"""
    argv = [metac] + [a.replace("{folder}", str(folder)).replace("{out}", str(out)) for a in run.arguments]
    environment = os.environ | SANITIZERS | run.environment
    messages = folder.parent / "messages"
    with open(messages, "wb") as stderr:
        start = time.monotonic()
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr, env=environment,
                                   start_new_session=True, preexec_fn=lambda: limited(run.file_limit))
        timer, status, usage = limit, None, None
        while timer > 0:
            pid, raw, usage = os.wait4(process.pid, os.WNOHANG)
            if pid:
                status = process.returncode = os.waitstatus_to_exitcode(raw)
                break
            time.sleep(0.005)
            timer = limit - (time.monotonic() - start)
        else:
            os.killpg(process.pid, signal.SIGKILL)
            _, raw, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(raw)
        seconds = time.monotonic() - start if status is None else usage.ru_utime + usage.ru_stime
    return status, ASAN_WARNING.sub("", messages.read_text(errors="replace")), seconds, usage.ru_maxrss * 1024


def complaints_of(case, metac, root, limit, memory):
    """What is wrong with metac's answer to one case; empty when nothing is."""
    folder, out = root / "case", root / "out"
    folder.mkdir()
    run = prepared(case, folder)
    before = files_below(folder)
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    allowed = max(limit, case.seconds * limit / 2)
    status, messages, seconds, peak = execute(run, metac, folder, out, max(120, 3 * allowed))
    lines = [line for line in messages.splitlines() if line.strip()]
    wrong = []
    if status is None:
        return [f"still running after {seconds:.0f} s"]
    if status != case.status:
        wrong.append(f"exit status {status}, not {case.status}: {lines[-1][:200] if lines else 'no message'}")
    if seconds > allowed:
        wrong.append(f"{TOOK} {seconds:.1f} s")
    if peak > memory + 4 * size:
        wrong.append(f"used {peak / GIB:.1f} GiB")
    if case.status:
        if not 1 <= len(lines) <= case.lines:
            wrong.append(f"{len(lines)} lines of message")
        if case.status == 1 and not messages.startswith("metac: "):
            wrong.append(f"the message does not begin with 'metac: ': {lines[0][:200] if lines else ''}")
        if case.status == 1 and "{folder}" in run.arguments[1] and str(folder) not in messages:
            wrong.append(f"the message does not name the file: {lines[0][:200] if lines else ''}")
        if not re.search(case.pattern, messages):
            wrong.append(f"the message does not match {case.pattern!r}: {lines[0][:200] if lines else ''}")
        if out.exists():
            wrong.append("the output path exists")
        elif any(p.name not in ("case", "messages") for p in root.iterdir()):
            wrong.append(f"left behind: {sorted(p.name for p in root.iterdir())}")
    if not run.may_write and files_below(folder) != before:
        wrong.append(f"wrote beside the model: {sorted(files_below(folder) - before)[:3]}")
    for name, expected in run.expect.items() if not wrong else ():
        got = np.load(out / f"{name}.npy") if (out / f"{name}.npy").exists() else None
        if got is None or got.shape != expected.shape or not np.array_equal(got, expected):
            wrong.append(f"{name} is {got}, not {expected}")
    if run.after and not wrong:
        wrong += filter(None, [run.after(folder, out)])
    return wrong


TABLE_HEAD = """# Hostile inputs

`run_errors.py` gives metac each of these and checks the exit status, the message, the time, the memory and that nothing was
written. This table is what `run_errors.py --table` prints; a run fails when it is not. The ids are those of the project's
list: H: models, J: JSON documents, data files and the command line; R: values for `metac run`, S: shapes, F: surroundings.

Ids without a case: H152 and H157 stand for nothing. J13 and J20 are about training, whose recipes and data tests/unit and
tests/train have.

| id | case | metac must |
|---|---|---|
"""


def table():
    """The README.md of this folder."""
    rows = []
    for case in sorted(case_list.cases, key=lambda case: (case.id[0], int(re.match(r"[A-Z](\d+)", case.id).group(1)))):
        pattern = case.pattern.replace("|", "\\|")
        must = "work" if case.status == 0 else f"refuse it{' as wrong usage' if case.status == 2 else ''}" + (f": `{pattern}`" if pattern else "")
        rows.append(f"| {case.id} | {case.title.replace('_', ' ')} | {must} |\n")
    return TABLE_HEAD + "".join(rows)


def answer_to(case, metac, arguments):
    """complaints_of() in folders that are removed again, copied to --keep before."""
    root = pathlib.Path(tempfile.mkdtemp(prefix="metac-errors-"))
    try:
        return complaints_of(case, metac, root, arguments.seconds, int(arguments.memory * GIB))
    finally:
        if arguments.keep:
            kept = arguments.keep / f"{case.id}_{case.title}".replace(" ", "_")
            shutil.copytree(root, kept, symlinks=True, dirs_exist_ok=True,
                            ignore=lambda d, names: [n for n in names if "pipe" in n])
        shutil.rmtree(root, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", type=pathlib.Path)
    parser.add_argument("--table", action="store_true", help="print the table of all cases and end")
    parser.add_argument("--only", default="", help="regular expression on 'ID title'")
    parser.add_argument("--seconds", type=float, default=2, help="per case; sanitizers need more")
    parser.add_argument("--memory", type=float, default=1, help="GiB, beside 4 times the input; sanitizers need more")
    parser.add_argument("--keep", type=pathlib.Path, help="leave the cases' folders here")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(), end="")
        return 0
    if not arguments.metac:
        parser.error("--metac is needed")
    metac = str(arguments.metac.resolve())
    passed = failed = 0
    if (pathlib.Path(__file__).parent / "README.md").read_text() != table():
        failed += 1
        print("FAIL  README.md is not what --table prints", flush=True)
    for case in case_list.cases:
        title = f"{case.id} {case.title}"
        if not re.search(arguments.only, title):
            continue
        for attempt in range(3):  # a processor's time depends on what shares its core: only what is always slow is
            wrong = answer_to(case, metac, arguments)
            if not wrong or any(not text.startswith(TOOK) for text in wrong):
                break
        passed, failed = passed + (not wrong), failed + bool(wrong)
        if wrong:
            print(f"FAIL  {title}: {'; '.join(wrong)}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
