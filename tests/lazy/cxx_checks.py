"""lazy_vars.cpp, built as users build against libmetac."""
import pathlib
import re
import subprocess
import tempfile

from expectations import expect

ROOT = pathlib.Path(__file__).resolve().parents[2]


class CxxChecks:
    def __init__(self, build):
        self._build = build

    def vars_in_cxx(self):
        with tempfile.TemporaryDirectory() as folder:
            program = self._built(ROOT / "tests/lazy/lazy_vars.cpp", pathlib.Path(folder) / "lazy_vars")
            done = subprocess.run([program, folder, "20000"], capture_output=True, text=True, check=False)
        expect(done.returncode == 0, f"status {done.returncode}: {done.stderr[-500:]}")
        return done.stdout.strip().replace("\n", "; ")

    def the_page_in_cxx(self):
        page = (ROOT / "docs/lazy.md").read_text()
        program, printed = re.search(r"```cpp\n(.*?)```\n```text\n(.*?)```", page, re.S).groups()
        with tempfile.TemporaryDirectory() as folder:
            source = pathlib.Path(folder) / "page.cpp"
            source.write_text(program)
            done = subprocess.run([self._built(source, source.with_suffix(""))], capture_output=True, text=True, check=False)
        expect(done.stdout == printed, f"{done.stdout!r} {done.stderr[-500:]}")

    def _built(self, source, program):
        library = self._build / "lib"
        subprocess.run(["c++", "-std=c++20", "-O1", "-Wall", "-Wextra", "-Werror", "-I", ROOT / "compiler/api/include",
                        "-I", self._build / "include", source, "-o", program, "-L", library, "-lmetac",
                        f"-Wl,-rpath,{library}"], check=True)
        return program
