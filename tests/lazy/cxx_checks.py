"""The C++ headers, in programs that are built as users build against libmetac."""
import pathlib
import re
import subprocess
import tempfile

from cxx_programs import ROOT, STRICT, answer_of, built, clang_or_skip, includes
from expectations import expect


class CxxChecks:
    def __init__(self, build):
        self._build = build

    def vars_in_cxx(self):
        with tempfile.TemporaryDirectory() as folder:
            program = built(self._build, ROOT / "tests/lazy/lazy_vars.cpp", pathlib.Path(folder) / "lazy_vars")
            return answer_of(program, folder, "20000").strip().replace("\n", "; ")

    def the_page_in_cxx(self):
        page = (ROOT / "docs/lazy.md").read_text()
        blocks = re.findall(r"```cpp\n(.*?)```\n```text\n(.*?)```", page, re.S)
        expect(len(blocks) == page.count("```cpp") == 2, f"{len(blocks)} programs with what they print")
        with tempfile.TemporaryDirectory() as folder:
            for k, (program, printed) in enumerate(blocks):
                source = pathlib.Path(folder) / f"page_{k}.cpp"
                source.write_text(program)
                answer = answer_of(built(self._build, source, source.with_suffix("")))
                expect(answer == printed, repr(answer))

    def wrong_uses_in_cxx(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            program = built(self._build, ROOT / "tests/lazy/cxx/wrong_uses.cpp", folder / "wrong_uses")
            (folder / "files").mkdir()
            return answer_of(program, folder / "files").strip()

    def clang_has_no_complaint(self):
        for source in sorted((ROOT / "tests/lazy/cxx").glob("*.cpp")):
            done = subprocess.run([clang_or_skip(), *STRICT, "-fsyntax-only", *includes(self._build), source],
                                  capture_output=True, text=True, check=False)
            expect(done.returncode == 0, done.stderr[:1000])
