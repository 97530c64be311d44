#!/usr/bin/env python3
"""The walk of docs/architecture.md: its model is made, its commands run, and what it shows of each print-out is there.

    python3 run_walk.py --metac build/release/bin/metac
    needs: pip install numpy onnx; a C++ compiler, objdump

A line that is shown may be a part of the printed one; lines stand in the order in which they are printed. The last line is
'N passed, N failed'.
"""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/architecture.md"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    text = PAGE.read_text()
    section = text[text.index("## A convolution, step by step"):]
    section = section[:section.index("\n## ", 3)]
    model = re.search(r"```python\n(.*?)```", section, re.S)[1]
    steps = re.findall(r"```sh\n(.*?)```\n```text\n(.*?)```", section, re.S)
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="metac-walk-") as folder:
        subprocess.run([sys.executable, "-c", model], cwd=folder, check=True)
        environment = {**os.environ, "PATH": f"{arguments.metac.resolve().parent}:{os.environ['PATH']}"}
        for commands, shown in steps:
            if "objdump" in commands and not shutil.which("objdump"):
                print("without objdump no instructions are shown")
                continue
            done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", commands], cwd=folder, env=environment, capture_output=True, text=True)
            printed, at, missing = done.stdout + done.stderr, 0, []
            for line in shown.splitlines():
                found = printed.find(line.rstrip(), at)
                missing += [line] if found < 0 else []
                at = max(found, at)
            passed, failed = passed + (not missing and done.returncode == 0), failed + bool(missing or done.returncode)
            if missing or done.returncode:
                print(f"FAIL  {commands.strip()} (status {done.returncode}): not printed: {missing}\n{printed[-1500:]}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or passed < 6 else 0


if __name__ == "__main__":
    sys.exit(main())
