#!/usr/bin/env python3
"""The Python module: arrays, sessions, threads, processes, what docs/sessions.md shows.

    python3 run_python.py --build build/ci [--only WORD]
    needs: pip install numpy onnx onnxruntime; a C compiler; PyTorch and ml_dtypes where they are installed

The last line is 'N passed, N failed, N skipped'.
"""
import argparse
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="metac's build folder")
    parser.add_argument("--only", default="", help="checks with this in their name")
    arguments = parser.parse_args()
    package = arguments.build.resolve() / "python"
    if not list(package.glob("metac/_metac*")):
        print(f"the module is not built in {package}: no headers for python3, or no pybind11\n0 passed, 0 failed, 1 skipped")
        return 0
    sys.path[:0] = [str(package), str(HERE)]
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
    from array_checks import ArrayChecks
    from expectations import Skip
    from process_checks import ProcessChecks
    from session_checks import SessionChecks
    passed = failed = skipped = 0
    for checks in (ArrayChecks(), SessionChecks(), ProcessChecks(arguments.build.resolve())):
        for name in [n for n in vars(type(checks)) if not n.startswith("_") and arguments.only in n]:
            try:
                told = getattr(checks, name)()
                passed += 1
                if told:
                    print(f"{name.replace('_', ' ')}: {told}", flush=True)
            except Skip as reason:
                skipped += 1
                print(f"SKIP  {name.replace('_', ' ')}: {reason}", flush=True)
            except Exception as error:  # a check that cannot run has failed
                failed += 1
                print(f"FAIL  {name.replace('_', ' ')}: {type(error).__name__}: {error}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
