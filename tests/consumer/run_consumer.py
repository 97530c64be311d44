#!/usr/bin/env python3
"""Installs metac, moves the installation, and builds users' projects against it and against what it compiles.

    python3 run_consumer.py --build build/ci [--keep DIR]

Checked: find_package(metac) and metac_add_model() from a moved prefix; two libraries in one program; find_package(NAME) of a
compiled folder after it was moved; that the shared library exports its own prefix alone and needs nothing but the C and C++
run-time libraries; that the same input gives byte-identical sources. Ends with 'N passed, N failed'.
"""
import argparse
import filecmp
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
DIGITS = HERE.parents[1] / "models/digits"
ALLOWED_LIBRARIES = re.compile(r"^(libc|libm|libstdc\+\+|libpthread|libgcc_s|libdl|librt|ld-linux[^ ]*|linux-vdso)\.so")


def command(*argv, **more):
    """Runs a command and returns what it printed; a failure is an exception with its last lines."""
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, argv))}: status {done.returncode}\n" + "\n".join(done.stdout.splitlines()[-15:]))
    return done.stdout


def build_project(source, build, prefix, *definitions):
    command("cmake", "-G", "Ninja", "-S", source, "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release", *definitions)
    command("cmake", "--build", build)


def all_digits_right(program, expected):
    for digit in range(10):
        answer = command(program, DIGITS / f"digit_{digit}.pgm").strip()
        if answer != expected.format(digit):
            raise RuntimeError(f"{program.name} reads digit_{digit}.pgm as '{answer}'")


class Checks:
    """Every method is a check, run in this order; what one makes, the next ones use."""

    def __init__(self, work, build):
        self.work, self.build = work, build
        self.prefix, self.metac = work / "moved prefix", work / "moved prefix/bin/metac"
        self.library = work / "moved library"

    def install_and_move(self):
        command("cmake", "--install", self.build, "--prefix", self.work / "prefix")
        (self.work / "prefix").rename(self.prefix)
        command(self.metac, "--version")

    def models_compiled_in_a_users_build(self):
        build_project(HERE, self.work / "consumer", self.prefix, f"-DDIGITS={DIGITS / 'digits.onnx'}")
        all_digits_right(self.work / "consumer/read_digits", "{0} {0}")

    def package_out_of_the_build_folder(self):
        """-DCMAKE_PREFIX_PATH=build/release, with nothing installed."""
        source = self._project("out of the build folder", "add_custom_target(told ALL COMMAND metac::program --version)")
        build_project(source, self.work / "from the build", self.build)

    def what_cmake_says_of_mistakes(self):
        """A model that is not there and a name that is taken are told when configuring, in our words; files that a model needs make it anew."""
        model = f"metac_add_model(digits MODEL {DIGITS}/digits.onnx)"
        for name, body, expected in (
                ("missing", "metac_add_model(digits MODEL no/such.onnx)", "there is no model .*no/such.onnx"),
                ("taken", f"{model}\n{model}", "there is a model of this name already, of .*digits.onnx"),
                ("unknown", f"metac_add_model(digits MODEL {DIGITS}/digits.onnx SHAPES x=1)", "unknown arguments: SHAPES")):
            done = subprocess.run(["cmake", "-G", "Ninja", "-S", self._project(name, body), "-B", self.work / f"{name} build", f"-DCMAKE_PREFIX_PATH={self.prefix}"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if not done.returncode or not re.search(expected, " ".join(done.stdout.split())):
                raise RuntimeError(f"{name}: status {done.returncode}, {done.stdout[-800:]}")
        source = self._project("needs", f"metac_add_model(digits MODEL {self.work}/big.onnx DEPENDS other.txt OPTIONS --tune-from tuned.json)")
        for file in (self.work / "big.onnx", self.work / "big.onnx.data", source / "other.txt", source / "tuned.json"):
            file.write_text("")
        command("cmake", "-G", "Ninja", "-S", source, "-B", self.work / "needs build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        rules = (self.work / "needs build/build.ninja").read_text()
        for file in ("big.onnx.data", "other.txt", "tuned.json"):
            if not re.search(rf"^build libdigits[.]metac[.]a.*{file}", rules.replace("$ ", " "), re.MULTILINE):
                raise RuntimeError(f"the library does not depend on {file}")

    def _project(self, name, body):
        source = self.work / name
        source.mkdir()
        (source / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.25)\nproject(user LANGUAGES CXX)\nfind_package(metac REQUIRED)\n{body}\n")
        return source

    def package_of_a_moved_library(self):
        command(self.metac, "compile", DIGITS / "digits.onnx", "-o", self.work / "library", "--name", "digits")
        (self.work / "library").rename(self.library)
        build_project(HERE / "library", self.work / "library user", self.library)
        all_digits_right(self.work / "library user/read_digits", "{}")
        all_digits_right(self.work / "library user/read_digits_static", "{}")
        self._versions((self.library / "lib/cmake/digits/digits-config-version.cmake").read_text())

    def _versions(self, file):
        """Which versions a compiled library says it serves: those that docs/versioning.md promises."""
        mine = re.search('PACKAGE_VERSION "(.*)"', file)[1]
        for version, wanted, served in ((mine, "", True), (mine, mine, True), ("0.1.4", "0.1", True), ("0.1.4", "0.1.5", False), ("0.2.0", "0.1", False), ("0.10.0", "0.1", False), ("1.0.0", "0.1", False),
                                        ("1.3.0", "1", True), ("1.3.0", "1.2.7", True), ("1.3.0", "1.4", False), ("2.0.0", "1.3", False), ("10.0.0", "1", False)):
            script = self.work / "version.cmake"
            script.write_text(f'set(PACKAGE_FIND_VERSION "{wanted}")\n' + file.replace(f'PACKAGE_VERSION "{mine}"', f'PACKAGE_VERSION "{version}"') + '\nmessage(STATUS "${PACKAGE_VERSION_COMPATIBLE}")\n')
            said = command("cmake", "-P", script)
            if str(served).upper() not in said:
                raise RuntimeError(f"version {version}, {wanted or 'any'} wanted: {said}")

    def examples_build_and_run(self):
        """Every program of examples/, by the commands of its page."""
        examples = HERE.parents[1] / "examples"
        printed = self._pasted("examples/README.md")
        lines = [line for line in printed.splitlines() if re.fullmatch(r"\d|image: 1 1 8 8|probabilities: 1 10", line)]
        if lines != ["3", "3", "7", "image: 1 1 8 8", "probabilities: 1 10", "3", "3", "3"]:
            raise RuntimeError(f"the examples print {lines}:\n{printed[-1500:]}")
        page = (examples / "README.md").read_text()
        named = {str(p.relative_to(examples)) for p in examples.rglob("*") if p.is_file() and p.name not in ("README.md", "CMakeLists.txt")}
        missing = [name for name in named if f"examples/{name}" not in page]
        if missing:
            raise RuntimeError(f"no command of the page runs {missing}")

    def commands_of_the_embedding_page(self):
        printed = self._pasted("docs/embedding.md")
        for said in ("read: 0 1 2 3 4 5 6 7 8 9 of 10 requests", "1 inputs and 1 outputs", "1 passed", "no worse", "! option fusion: best -> greedy"):
            if said not in printed:
                raise RuntimeError(f"'{said}' is not printed:\n{printed[-1500:]}")

    def _pasted(self, page):
        """What the sh blocks of a page print, with its folders below ours and this build's programs."""
        text = (HERE.parents[1] / page).read_text()
        folder = self.work / "pasted"
        folder.mkdir(exist_ok=True)
        script = "set -e\n" + "\n".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
        # What else the machine does is no difference here.
        places = {"/tmp/": f"{folder}/", "~/": f"{folder}/", '"$PWD/build/release"': str(self.build), "build/release": str(self.build),
                  "python examples": f"{sys.executable} examples", "python - <<": f"{sys.executable} - <<", "--threshold 10": "--threshold 10000"}
        script = re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], script)
        return command("bash", "-c", script, cwd=HERE.parents[1], env={**os.environ, "PATH": f"{self.build}/bin:{os.environ['PATH']}"})

    def pkg_config(self):
        """A C program by pkg-config alone, with a compiled folder and with libmetac."""
        for folder, package in ((self.library, "digits"), (self.prefix, "metac")):
            paths = [str(p.parent) for p in folder.glob("lib*/**/pkgconfig/*.pc")]
            flags = command("pkg-config", "--cflags", "--libs", package, env={**os.environ, "PKG_CONFIG_PATH": ":".join(paths)})
            source = self.work / f"{package}.c"
            call = "digits_version()" if package == "digits" else "metac_version()"
            header = "digits.h" if package == "digits" else "metac/metac.h"
            source.write_text(f"#include <{header}>\n#include <stdio.h>\nint main(void) {{ return puts({call}) < 0; }}\n")
            libraries = [str(p.parent) for p in folder.glob("lib*/**/*.so*")]
            command("cc", "-Wall", "-Wextra", "-Werror", source, *shlex.split(flags), f"-Wl,-rpath,{libraries[0]}", "-o", self.work / package)
            command(self.work / package)

    def exports_its_prefix_alone(self):
        names = command("nm", "-D", "--defined-only", "--format=posix", self.library / "lib/libdigits.so").splitlines()
        # Beside them what a program finds any model's library by, and the version that all are symbols of.
        strangers = [n.split()[0] for n in names if not n.startswith(("digits_", "metac_model_v1@@METAC_MODEL_1 ", "METAC_MODEL_1 "))]
        if strangers or not names:
            raise RuntimeError(f"libdigits.so exports {strangers[:5] or 'nothing'}")

    def needs_no_other_library(self):
        needed = re.findall(r"NEEDED.*\[(.*)\]", command("readelf", "-d", self.library / "lib/libdigits.so"))
        strangers = [n for n in needed if not ALLOWED_LIBRARIES.match(n)]
        if strangers:
            raise RuntimeError(f"libdigits.so needs {strangers}")

    def same_sources_twice(self):
        first, second = self.work / "first", self.work / "second"
        for out in (first, second):
            command(self.metac, "compile", DIGITS / "digits.onnx", "-o", out, "--name", "digits", "--no-build", cwd=self.work)
        files = sorted(p.relative_to(first) for p in first.rglob("*") if p.is_file())
        different = [str(f) for f in files if not filecmp.cmp(first / f, second / f, shallow=False)]
        if different or not files:
            raise RuntimeError(f"different from run to run: {different or 'no files'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="metac's build folder")
    parser.add_argument("--keep", type=pathlib.Path, help="work here and leave it")
    arguments = parser.parse_args()
    work = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="metac-consumer-"))
    work = work.resolve()
    work.mkdir(parents=True, exist_ok=True)
    os.environ.pop("DESTDIR", None)
    checks, passed, failed = Checks(work, arguments.build.resolve()), 0, 0
    for name in [n for n, member in vars(Checks).items() if callable(member) and not n.startswith("_")]:
        try:
            getattr(checks, name)()
            passed += 1
        except (RuntimeError, OSError) as error:
            failed += 1
            print(f"FAIL  {name.replace('_', ' ')}: {error}", flush=True)
    if not arguments.keep:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
