#!/usr/bin/env python3
"""libmetac as users have it: installed, moved, found by find_package(metac), linked, run.

    python3 run_library.py --build build/ci [--llvm /usr/lib/x86_64-linux-gnu/libLLVM-19.so] [--keep DIR]

Checked: the programs of docs/sessions.md, built as the page says, C as C99; what the library exports and needs; every call
that it must refuse; all of metac.hpp; that nothing is printed; a system that has no threads; allocations that fail; a
trace; two LLVMs in one process; 8 threads with one session. Ends with 'N passed, N failed'.
"""
import argparse
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from trace_checks import check_session_trace, unnoticed_faults  # noqa: E402

ROOT = HERE.parents[1]
DIGITS = ROOT / "models/digits"
NEEDED = re.compile(r"^(libc|libm|libstdc\+\+|libgcc_s|libprotobuf|ld-linux-x86-64)\.so")


def command(*argv, **more):
    """Runs a command and returns what it printed; a failure is an exception with its last lines."""
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-30:])
        raise RuntimeError(f"{' '.join(map(str, argv))}: status {done.returncode}\n{last}")
    return done.stdout


def build_project(source, build, prefix, *definitions):
    command("cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}",
            "-DCMAKE_BUILD_TYPE=Release", *definitions)
    command("cmake", "--build", build)


def write_pixels(digit, path):
    words = [w for line in (DIGITS / f"digit_{digit}.pgm").read_text().splitlines() for w in line.split("#")[0].split()]
    path.write_bytes(struct.pack("64f", *map(float, words[4:])))


class Checks:
    """Every method is a check, run in this order; what one makes, the next ones use."""

    def __init__(self, work, build, llvm, every):
        self.work, self.build, self.llvm, self.every = work, build, llvm, every
        self.prefix, self.user = work / "moved prefix", work / "user"

    def install_and_move(self):
        command("cmake", "--install", self.build, "--prefix", self.work / "prefix")
        (self.work / "prefix").rename(self.prefix)
        self.library = next(p for p in self.prefix.rglob("libmetac.so*") if not p.is_symlink())
        headers = ROOT / "compiler/api/include/metac"
        for header in [*(h.relative_to(headers) for h in headers.rglob("*.h*")), "op.hpp"]:
            if not (self.prefix / "include/metac" / header).is_file():
                raise RuntimeError(f"{header} is not installed")

    def programs_of_the_page(self):
        page, source = (ROOT / "docs/sessions.md").read_text(), self.work / "page"
        source.mkdir()
        for language, name in (("cmake", "CMakeLists.txt"), ("c", "read_digits.c"), ("cpp", "read_digits.cpp")):
            blocks = re.findall(rf"```{language}\n(.*?)```", page, re.S)
            if len(blocks) != 1:
                raise RuntimeError(f"docs/sessions.md has {len(blocks)} blocks of {language}")
            (source / name).write_text(blocks[0])
        strict = "-Wall -Wextra -Werror -pedantic"
        build_project(source, self.work / "page build", self.prefix, f"-DCMAKE_C_FLAGS=-std=c99 {strict}",
                      f"-DCMAKE_CXX_FLAGS={strict}", "-DCMAKE_NO_SYSTEM_FROM_IMPORTED=ON")
        for digit in range(10):
            write_pixels(digit, self.work / "pixels")
            for program in ("read_digits_c", "read_digits_cpp"):
                answer = command(self.work / "page build" / program, DIGITS / "digits.onnx", self.work / "pixels").strip()
                if answer != str(digit):
                    raise RuntimeError(f"{program} reads digit {digit} as '{answer}'")

    def exports_the_interface_alone(self):
        listed = command("nm", "-D", "--defined-only", "--format=posix", self.library).splitlines()
        names = {line.split()[0] for line in listed}
        header = "".join(each.read_text() for each in sorted((ROOT / "compiler/api/include/metac").glob("*.h")))
        declared = set(re.findall(r"METAC_API [^;(]*?(metac_\w+)\(", header))
        declared.add("metac_command_line")  # for the installed program alone (compiler/driver/command_line.h)
        if names != declared:
            raise RuntimeError(f"exported and not declared: {sorted(names - declared)[:9]}; "
                               f"declared and not exported: {sorted(declared - names)}")
        undefined = command("nm", "-DC", "--undefined-only", self.library)
        if re.search(r"\b(llvm|clang)::|LLVM[A-Z]", undefined):
            raise RuntimeError("names of LLVM are taken from elsewhere")

    def needs_few_libraries(self):
        needed = re.findall(r"NEEDED.*\[(.*)\]", command("readelf", "-d", self.library))
        strangers = [n for n in needed if not NEEDED.match(n)]
        if strangers:
            raise RuntimeError(f"needs {strangers}")

    def users_project(self):
        build_project(HERE / "user", self.user, self.prefix, f"-DLLVM_LIBRARY={self.llvm}")

    def calls_that_are_refused(self):
        print("calls that are refused:", command(self.user / "refused_calls", DIGITS / "digits.onnx").splitlines()[-1])

    def all_of_the_header(self):
        command(self.user / "whole_header", DIGITS / "digits.onnx")

    def nothing_is_printed(self):
        """Not even where the cache's folder cannot be used."""
        blocked = self.work / "no folder"
        blocked.write_text("")
        environment = {**os.environ, "METAC_CACHE_DIR": str(blocked)}
        printed = command(self.user / "whole_header", DIGITS / "digits.onnx", env=environment)
        if printed != "good\n":
            raise RuntimeError(f"printed: {printed}")

    def no_threads_to_be_had(self):
        """Calls are answered all the same, by the callers' threads; nothing is compiled behind."""
        shim = next(self.user.glob("libno_threads.*"))
        environment = {**os.environ, "LD_PRELOAD": str(shim), "METAC_CACHE_DIR": str(self.work / "empty cache")}
        command(self.user / "runs_alone", DIGITS / "digits.onnx", env=environment)

    def every_allocation_fails_once(self):
        environment = {**os.environ, "METAC_CACHE_DIR": str(self.work / "short cache")}
        print("allocations that fail:", command(self.user / "no_memory", self.every, env=environment).splitlines()[-1])

    def trace_of_new_shapes(self):
        trace = self.work / "trace.json"
        command(self.user / "new_shapes", env={**os.environ, "METAC_TRACE": str(trace), "METAC_CACHE_DIR": str(self.work / "cold cache")})
        print("trace of new shapes:", check_session_trace(trace))
        if faults := unnoticed_faults(trace):
            raise RuntimeError(f"faults that are not noticed: {faults}")

    def trace_that_cannot_be_written(self):
        printed = command(self.user / "new_shapes", env={**os.environ, "METAC_TRACE": str(self.work / "no folder" / "trace.json")})
        if printed != "good\n":
            raise RuntimeError(f"printed: {printed}")

    def two_llvms(self):
        for program in ("opened", "metac_first", "llvm_first"):
            for first in ("metac-first", "llvm-first"):
                order = first if program == "opened" else f"linked-{first}"
                command(self.user / f"two_llvms_{program}", order, self.library, self.llvm, DIGITS / "digits.onnx")

    def threads_share_a_session(self):
        print("8 threads:", command(self.user / "share_session").splitlines()[-2])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="metac's build folder")
    parser.add_argument("--llvm", type=pathlib.Path, default="/usr/lib/llvm-19/lib/libLLVM-19.so", help="another LLVM")
    parser.add_argument("--every", type=int, default=100, help="of the allocations one in so many fails")
    parser.add_argument("--keep", type=pathlib.Path, help="work here and leave it")
    arguments = parser.parse_args()
    work = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="metac-library-"))
    work = work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    os.environ.pop("DESTDIR", None)
    checks, passed, failed = Checks(work, arguments.build.resolve(), arguments.llvm.resolve(), arguments.every), 0, 0
    for name in [n for n, member in vars(Checks).items() if callable(member) and not n.startswith("_")]:
        try:
            getattr(checks, name)()
            passed += 1
        except (RuntimeError, OSError, AttributeError) as error:
            failed += 1
            print(f"FAIL  {name.replace('_', ' ')}: {error}", flush=True)
    if not arguments.keep:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
