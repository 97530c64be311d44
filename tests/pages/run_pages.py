#!/usr/bin/env python3
"""Runs the commands and compiles the code of README.md and of the pages of docs/ that no other test runs.

    python3 run_pages.py --build build/ci --cases .cache/cases [--only WORD] [--keep DIR]

Every block of sh, C, C++, Python, CMake or JSON of every page is run here, belongs to a page that another test runs, or
stands in NOT_RUN with the reason. Needs numpy and onnx. Ends with 'N passed, N failed, N skipped'.
"""
import argparse
import os
import pathlib
import re
import shutil
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/tools"))
from checks import command, expect, run_checks  # noqa: E402

# The tests that take the blocks of a page out of it.
ELSEWHERE = {
    "docs/adapters.md": "tests/train/run_adapters.py",
    "docs/adding_a_dtype.md": "tests/unit/ir/dtype_test.cpp", "docs/adding_an_operator.md": "tests/ops/CMakeLists.txt", "docs/architecture.md": "tests/project/run_walk.py",
    "docs/defining_operators.md": "tests/defined/run_defined.py", "docs/embedding.md": "tests/consumer/run_consumer.py", "docs/exporting_from_pytorch.md": "tests/train/compare_exports.py",
    "docs/gradients.md": "tests/derivatives/run_derivatives.py", "docs/installing.md": "tests/package/run_package.py", "docs/lazy.md": "tests/lazy/tracing_checks.py",
    "docs/quantization.md": "tests/quantize/run_quantize.py", "docs/sessions.md": "tests/library/run_library.py", "examples/README.md": "tests/consumer/run_consumer.py"}
# Blocks that nothing runs, by how they begin.
NOT_RUN = {
    ("README.md", "# Installs what is missing"): "demo.sh and test.sh are what runs all tests",
    ("README.md", "find_package(metac REQUIRED)"): "a fragment; tests/consumer builds such a project",
    ("docs/generation.md", "metac compile decoder.onnx -o net"): "needs a tokenizer of the decoder; tests/generation has them",
    ("docs/generation.md", "metac compile llama.onnx --generate"): "needs adapters of the decoder; tests/generation has them",
    ("docs/generated_code.md", "find_package(net REQUIRED)"): "a fragment; tests/consumer/library is such a project",
    ("docs/generated_code.md", "// k015_relu"): "a kernel, to be read",
    ("docs/decisions/sessions.md", "cmake --preset tsan"): "./test.sh --all does it",
    ("docs/json_ir.md", '{"op": "code"'): "a node; tests/unit has documents with it",
    ("docs/training.md", '{"batch": 32'): "for a model that brings its algorithm; tests/unit has them",
    ("docs/programs.md", '{\n  "batch": 16'): "for networks of models/gan, whose recipes tests/train compiles"}
LANGUAGES = ("sh", "c", "cpp", "python", "cmake", "json")


def pages():
    return [ROOT / "README.md", ROOT / "examples/README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page, *languages):
    """The blocks of a page in some languages that are to be run, in their order."""
    found = re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    return [text for language, text in found if language in languages and not any(page == p and text.startswith(b) for p, b in NOT_RUN)]


class Checks:
    """Every public method is a check."""

    def __init__(self, work, build, cases):
        self.work, self.build, self.cases = work, build, cases

    def _one_processor(self):
        """A folder with a `metac` that compiles for this processor alone where a page names none, not for four levels: what they compute is for tests/project."""
        folder = self.work / "bin"
        if not folder.exists():
            folder.mkdir()
            (folder / "metac").write_text(f'''#!/bin/sh
case " $* " in
  " compile "*" --cpu"* | " compile "*" --target "*) ;;
  " compile "*) shift && set -- compile --cpu native "$@" ;;
esac
exec {self.build}/bin/metac "$@"
''')
            (folder / "metac").chmod(0o755)
        return folder

    def _pasted(self, page, cwd=ROOT):
        """What the sh blocks of a page print, run in one shell, with the folders that they name below ours."""
        places = {"$PWD/build/release": str(self.build), "build/release": str(self.build), "$PWD/.cache/python/bin": str(pathlib.Path(sys.executable).parent),
                  "python tests/conformance/generate_cases.py /tmp/cases": f"ln -s {self.cases} {self.work}/tmp/cases", "/tmp/": f"{self.work}/tmp/", "~/": f"{self.work}/home/"}
        script = re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], "".join(blocks(page, "sh")))
        shutil.rmtree(self.work / "tmp", ignore_errors=True)
        (self.work / "tmp").mkdir()
        ours = f"{self._one_processor()}:" if page != "README.md" else ""  # what people type first is run as it stands
        path = f"{ours}{self.build}/bin:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        return command("bash", "-ec", script, cwd=cwd, env={**os.environ, "PATH": path}, timeout=3600)

    def _save(self, path, nodes, inputs, outputs, weights=()):
        values = [[helper.make_tensor_value_info(n, 1, d) for n, d in ports.items()] for ports in (inputs, outputs)]
        graph = helper.make_graph(nodes, "g", *values, [numpy_helper.from_array(np.ones(d, "f4"), n) for n, d in weights])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)

    def every_block_is_somebodys(self):
        run_here = pathlib.Path(__file__).read_text().split("\nclass Checks:", 1)[1]
        for path in pages():
            page = str(path.relative_to(ROOT))
            if not any(blocks(page, language) for language in LANGUAGES):
                continue
            tester = ELSEWHERE.get(page)
            if tester:
                expect(page in (ROOT / tester).read_text(), f"{tester} does not read {page}")
            else:
                expect(f'"{page}"' in run_here, f"nobody runs the blocks of {page}")
        for page, begin in NOT_RUN:
            expect(f"\n{begin}" in (ROOT / page).read_text(), f"{page} has no block that begins {begin!r}")

    def tour_of_the_readme(self):
        said = self._pasted("README.md").splitlines()
        expect(said.count("3") >= 2 and any("median" in line for line in said), "\n".join(said[-30:]))
        expect(any(line.startswith("1 passed") for line in said), "\n".join(said[-30:]))

    def completion_and_man_page(self):
        self._pasted("docs/cli.md")
        home = self.work / "home/.local/share"
        expect("etac" in (home / "man/man1/metac.1").read_text() and "_metac" in (home / "bash-completion/completions/metac").read_text(), "files")

    def library_for_a_gpu(self):
        self._pasted("docs/gpu.md")

    def costs_of_a_processor(self):
        expect(".multiply_adds = " in self._pasted("docs/adding_a_cpu.md"), "no table of costs")

    def texts(self):
        expect("tokens" in self._pasted("docs/generation.md"), "nothing is said of tokens")

    def states_schedules_and_derivatives(self):
        """In a folder that has the models that the commands name."""
        folder = self.work / "models"
        folder.mkdir()
        command(sys.executable, ROOT / "models/decoders/build.py", folder / "decoder.onnx", "--size", "tiny")
        self._save(folder / "odd.onnx", [helper.make_node("Add", ["x", "memory"], ["new_memory"]), helper.make_node("Mul", ["x", "h"], ["h_out"])],
                   {"x": [4], "memory": [4], "h": [4]}, {"new_memory": [4], "h_out": [4]})
        self._save(folder / "net.onnx", [helper.make_node("Conv", ["x", "w"], ["y"], strides=[4, 4])], {"x": [1, 3, 224, 224]}, {"y": None}, [("w", (8, 3, 3, 3))])
        self._pasted("docs/states.md", folder)
        self._pasted("docs/decisions/tuning.md", folder)
        self._pasted("docs/gradients.md", folder)

    def documents(self):
        """A model and a recipe in JSON, as they stand."""
        model, recipe = self.work / "shown.json", self.work / "recipe.json"
        model.write_text(blocks("docs/json_ir.md", "json")[0])
        command(self.build / "bin/metac", "check", model)
        recipe.write_text(blocks("docs/training.md", "json")[0])
        self._save(self.work / "scores.onnx", [helper.make_node("Gemm", ["x", "fc.weight", "fc.bias"], ["a"]), helper.make_node("Mul", ["a", "norm.scale"], ["scores"])],
                   {"x": ["batch", 8]}, {"scores": ["batch", 10]}, [("fc.weight", (8, 10)), ("fc.bias", (10,)), ("norm.scale", (10,))])
        command(self.build / "bin/metac", "compile", self.work / "scores.onnx", "--train", recipe, "-o", self.work / "trained", "--no-build")

    def fragments_of_c_and_python(self):
        """What stands in pages without a function around it: it compiles, and Python's runs."""
        metac, headers = self.build / "bin/metac", []
        decoder = self.work / "small.onnx"
        command(sys.executable, ROOT / "models/decoders/build.py", decoder, "--size", "tiny")
        for name, options in (("net", ["--generate"]), ("decoder", ["--state", "auto"])):
            command(metac, "compile", decoder, "-o", self.work / "fragments" / name, "--name", name, *options, "--no-build")
            headers.append(f"-I{self.work}/fragments/{name}/include")
        given = ("static float pixels[3 * 224 * 224]; static int64_t prompt[1], answer_[1]; static int count, length;\n"
                 "static void use(const void* data, const int64_t* dims, int rank) { (void)data; (void)dims; (void)rank; }\n"
                 "static int32_t print_token(void* user, int64_t token, const char* text, int64_t bytes);\n")
        around = {"docs/generated_code.md": "", "docs/embedding.md": "", "docs/generation.md": "net_context* context = 0; int64_t* answer = answer_;\n",
                  "docs/states.md": "decoder_context* context = 0; decoder_tensor ids = {0}, next = {0}, logits = {0};\n"}
        for page, before in around.items():
            for text in blocks(page, "c"):
                source = self.work / "fragment.c"
                includes = "".join(re.findall(r"#include.*\n", text))
                source.write_text(f"#include <stdio.h>\n#include <net.h>\n#include <decoder.h>\n{includes}{given if 'print_token' in text or 'pixels' in text else ''}"
                                  f"int main(void) {{\n{before}{text.replace(includes, '')}\nreturn 0; }}\n")
                command("cc", "-std=c99", "-Wall", "-Wno-unused", "-fsyntax-only", *headers, source)
        source = self.work / "fragment.cpp"
        include, body = blocks("docs/generated_code.md", "cpp")[0].split("\n", 1)
        source.write_text(f"{include}\nint main() {{ static float pixels[3 * 224 * 224];\n{body} }}\n")
        command("c++", "-std=c++17", "-Wall", "-Wno-unused", "-fsyntax-only", *headers, source)
        # A model of one input for the page's Model(...).run({"image": array}), and the decoder for its generate().
        command(metac, "compile", ROOT / "models/digits/digits.onnx", "-o", self.work / "python/net", "--name", "net", "--cpu", "native", "--no-programs")
        command(metac, "compile", decoder, "-o", self.work / "generate/net", "--name", "net", "--generate", "--cpu", "native")
        for page, folder, before in (("docs/generated_code.md", "python", "import numpy; array = numpy.zeros((1, 1, 8, 8), 'f4')\n"), ("docs/generation.md", "generate", "")):
            for text in blocks(page, "python"):
                command(sys.executable, "-c", before + text, env={**os.environ, "PYTHONPATH": str(self.work / folder / "net/python")})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="metac's build folder")
    parser.add_argument("--cases", type=pathlib.Path, required=True, help="what tests/conformance/generate_cases.py wrote")
    parser.add_argument("--only", default="", help="checks with this in their name")
    parser.add_argument("--keep", type=pathlib.Path, help="work here and leave it")
    arguments = parser.parse_args()
    work = (arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="metac-pages-"))).resolve()
    work.mkdir(parents=True, exist_ok=True)
    status = run_checks(Checks(work, arguments.build.resolve(), arguments.cases.resolve()), only=arguments.only)
    if not arguments.keep:
        shutil.rmtree(work, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
