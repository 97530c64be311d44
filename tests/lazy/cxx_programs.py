"""Programs of C++ that are built as users build against libmetac."""
import pathlib
import shutil
import subprocess

from expectations import Skip, expect

ROOT = pathlib.Path(__file__).resolve().parents[2]
STRICT = ["-std=c++20", "-Wall", "-Wextra", "-Werror"]


def includes(build):
    return ["-I", ROOT / "compiler/api/include", "-I", build / "include"]


def built(build, source, program, *options):
    """Builds `program` of one source and returns it."""
    library = build / "lib"
    subprocess.run(["c++", *STRICT, "-O1", *options, *includes(build), source, "-o", program, "-L", library, "-lmetac",
                    f"-Wl,-rpath,{library}"], check=True)
    return program


def answer_of(program, *arguments):
    """What it prints; an exception with what it says where it fails."""
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    expect(done.returncode == 0, f"status {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def clang_or_skip():
    """A second compiler, which finds other things wrong."""
    found = shutil.which("clang++-19") or shutil.which("clang++")
    if not found:
        raise Skip("there is no clang++")
    return found
