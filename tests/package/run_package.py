#!/usr/bin/env python3
"""What people install: the wheel in a clean environment, the .deb unpacked, the archive, and what they say is inside.

    python3 run_package.py --build build/ci --tools DIR [--zig] [--only NAME] [--keep DIR]

--tools: where packaging/requirements.txt is installed. --zig: also builds a library with the real ziglang, from PyPI.
Ends with 'N passed, N failed, N skipped'.
"""
import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/tools"))
from checks import Skip, command, expect, run_checks  # noqa: E402

DIGITS = ROOT / "models/digits"
BLOCKS = 5  # of commands in docs/installing.md, the first of which makes the files
MOST_BYTES = 100e6  # of a wheel
# What every Linux with the tag's glibc has (PEP 600); libz is on the list of auditwheel too.
OF_EVERY_SYSTEM = re.compile(r"^(libc|libm|libdl|libpthread|librt|libstdc\+\+|libgcc_s|libz|ld-linux-x86-64)\.so")
SAY = "import metac, numpy; print(metac.Session('{}').run({{'image': numpy.load('{}')}})['probabilities'].argmax())"


class Checks:
    """Every public method is a check, run in this order; what one makes, the next ones use."""

    def __init__(self, work, build, tools, zig):
        self.work, self.build, self.tools, self.zig = work, build, tools, zig
        self.dist, self.venv, self.root = work / "dist", work / "venv", work / "root"
        self.site = self.package = self.wheel = None

    def _clean(self, *argv, path=None, **more):
        """A command without this machine's tools: what is on the PATH is the environment alone."""
        environment = {"PATH": str(path or self.venv / "bin"), "HOME": str(self.work / "home"), "LC_ALL": "C.UTF-8"}
        return command(*argv, env=environment, cwd=self.work, **more)

    def _pasted(self, *numbers):
        """The sh blocks of docs/installing.md with these numbers, with its folders below ours."""
        blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/installing.md").read_text(), re.DOTALL)
        expect(len(blocks) == BLOCKS, f"the page has {len(blocks)} blocks of commands")
        places = {".cache/packaging": str(self.tools), "build/release": str(self.build), "--out dist": f"--out {self.dist} --sign {self.work}/test.key",
                  "ls dist": f"ls {self.dist}", "dist/": f"{self.dist}/", "/tmp/": f"{self.work}/pasted/", "metac.pub": f"{self.work}/test.pub"}
        script = re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], "".join(blocks[n] for n in numbers))
        return command("bash", "-ec", script, cwd=ROOT)

    def release(self):
        """The script of packaging/ as the page calls it, but with --sign, and the sums that it writes."""
        command("minisign", "-G", "-W", "-f", "-s", self.work / "test.key", "-p", self.work / "test.pub")
        self._pasted(0)
        self.wheel, = self.dist.glob("*.whl")
        names = {re.sub(r"\d.*?(?=linux|cdx|cp3|amd64|$)", "", f.name).split("_amd64")[0] for f in self.dist.iterdir()}
        expect(len(names) == 5 and (self.dist / "SHA256SUMS.minisig").exists(), f"five kinds of files were to be made, and a signature: {sorted(names)}")
        sums = dict(reversed(line.split()) for line in (self.dist / "SHA256SUMS").read_text().splitlines())
        for file in self.dist.iterdir():
            if not file.name.startswith("SHA256SUMS"):
                expect(sums.pop(file.name) == hashlib.sha256(file.read_bytes()).hexdigest(), f"the sum of {file.name} is another one")
        expect(not sums, f"sums of files that are not there: {sums}")

    def signature(self):
        """The commands of the page accept the release, and neither another file nor other sums."""
        said = self._pasted(1)
        expect("Signature and comment signature verified" in said and "SHA256SUMS of metac 0.1" in said, said)
        whole = self.wheel.read_bytes()
        self.wheel.write_bytes(whole[:1000] + bytes([whole[1000] ^ 1]) + whole[1001:])
        self._refused(f"{self.wheel.name}: FAILED", 1)
        sums = self.dist / "SHA256SUMS"
        signed = sums.read_text()
        sums.write_text(signed.replace(hashlib.sha256(whole).hexdigest(), hashlib.sha256(self.wheel.read_bytes()).hexdigest()))
        self._refused("Signature verification failed", 1)
        sums.write_text(signed)
        self.wheel.write_bytes(whole)

    def _refused(self, word, block):
        try:
            said = self._pasted(block)
        except RuntimeError as error:
            expect(word in str(error), str(error))
        else:
            raise RuntimeError(f"accepted, and {word} was to be said: {said}")

    def tag_and_size(self):
        """As many systems as the symbols allow: glibc 2.34 (docs/installing.md), and no compiler of our own in it twice."""
        expect(re.fullmatch(r"metac-[\d.]+-cp3\d+-cp3\d+-manylinux_2_34_x86_64\.whl", self.wheel.name), f"the tag: {self.wheel.name}")
        expect(self.wheel.stat().st_size <= MOST_BYTES, f"{self.wheel.stat().st_size / 1e6:.1f} MB")

    def contents(self):
        with zipfile.ZipFile(self.wheel) as wheel:
            names = wheel.namelist()
            for needed in ("metac/bin/metac", "metac/lib/libmetac.so.0.1", "metac/include/metac/metac.hpp", "metac/include/metac/op.hpp",
                           "metac/include/metac/nn/module.hpp", "metac/nn/__init__.py", "metac/lib/cmake/metac/metacConfig.cmake",
                           "metac/lib/pkgconfig/metac.pc"):
                expect(needed in names, f"{needed} is missing")
            large = [n for n in names if wheel.getinfo(n).file_size > 10e6]
            expect(large == ["metac/lib/libmetac.so.0.1"], f"large files: {large}")
            expect(not [n for n in names if n.endswith((".pyc", ".a", ".o"))], "files that are nobody's")
            metadata = wheel.read(next(n for n in names if n.endswith("/METADATA"))).decode()
        for line in ("License-Expression: Apache-2.0", "Requires-Dist: ziglang>=0.14; extra == \"link\""):
            expect(line in metadata, f"METADATA lacks {line}")

    def licences_and_what_is_inside(self):
        """Each component has a version and a licence, and its text is in the wheel; all archives that were linked are named."""
        document = json.loads(next(self.dist.glob("*.cdx.json")).read_text())
        parts = {part["name"]: part for part in document["components"]}
        for name in ("llvm-19-dev", "libclang-19-dev", "libprotobuf-dev", "nlohmann-json3-dev", "libcli11-dev", "libssl-dev", "zlib1g-dev", "libzstd-dev",
                     "libutf8proc-dev", "libstb-dev", "pybind11-dev"):
            expect(name in parts, f"{name} is inside and not named")
        bad = [name for name, part in parts.items() if not part["version"] or not re.search(r"Apache|MIT|BSD|Zlib|public-domain", part["licenses"][0]["expression"])]
        expect(not bad, f"no version, or a licence that nobody has looked at: {[(n, parts[n]['licenses']) for n in bad]}")
        with zipfile.ZipFile(self.wheel) as wheel:
            texts = {pathlib.Path(n).name for n in wheel.namelist() if "/licenses/" in n}
            inside = next(n for n in wheel.namelist() if n.endswith("sboms/metac.cdx.json"))
            expect(json.loads(wheel.read(inside)) == document, "the wheel holds another document")
        expect({"LICENSE", "llvm-toolchain-19.txt", "protobuf.txt", "openssl.txt"} <= texts, f"licences: {sorted(texts)}")

    def installs_into_a_clean_environment(self):
        (self.work / "home").mkdir()
        command(sys.executable, "-m", "venv", "--without-pip", self.venv)
        pip = [sys.executable, "-m", "pip", "--python", self.venv / "bin/python", "--disable-pip-version-check", "install", "--quiet"]
        command(*pip, "--no-index", self.wheel)
        self.site = next(self.venv.glob("lib/python3*/site-packages"))
        self.package = self.site / "metac"
        said = self._clean(self.venv / "bin/metac", "--version")
        expect(said.startswith("metac 0.1"), said)
        expect(said == self._clean(self.venv / "bin/python", "-m", "metac", "--version"), "python -m metac says something else")
        expect("the Python package" in self._clean(self.venv / "bin/python", "-c", "import metac; print('the Python package', metac.__version__)"), "import metac")

    def needs_nothing_of_the_system(self):
        """Every library of the wheel asks for what each Linux has, and for the one that lies beside."""
        for file in [self.package / "bin/metac", *self.site.glob("metac*/**/*.so*")]:
            if file.read_bytes()[:4] != b"\x7fELF":
                continue
            listed = command("readelf", "-d", file)
            needed = re.findall(r"NEEDED.*\[(.*)\]", listed)
            strangers = [n for n in needed if not OF_EVERY_SYSTEM.match(n) and not list(self.site.glob(f"metac*/**/{n}"))]
            expect(not strangers, f"{file.name} needs {strangers}")
            expect("$ORIGIN" in listed or not [n for n in needed if "metac" in n or "protobuf" in n], f"{file.name} finds nothing beside")

    def runs_a_model(self):
        """No compiler, no NumPy, nothing of the build folder: the kernels are compiled in the process."""
        said = self._clean(self.venv / "bin/metac", "run", DIGITS / "digits.onnx", "--input", f"image={DIGITS / 'digit_7.npy'}", "--output-dir", self.work / "answer")
        import numpy
        expect(numpy.load(self.work / "answer/probabilities.npy").argmax() == 7, said)

    def counts_what_its_cache_gave(self):
        """The command ends by itself in libmetac too: what it counts is written."""
        for _ in range(2):
            self._clean(self.venv / "bin/metac", "run", DIGITS / "digits.onnx", "--input", f"image={DIGITS / 'digit_7.npy'}", "--output-dir", self.work / "answer")
        counted = json.loads(self._clean(self.venv / "bin/metac", "cache", "--json"))
        expect(counted["found"] > 0 and counted["compiled"] > 0, f"nothing was counted: {counted}")

    def says_what_a_compiler_could_be(self):
        said = self._clean(self.venv / "bin/metac", "compile", DIGITS / "digits.onnx", "-o", self.work / "none", status=1)
        expect(len(said.splitlines()) == 1 and "no C++ compiler found" in said and "pip install ziglang" in said, said)

    def finds_ziglang_beside(self):
        """A package ziglang in the same environment compiles and links; here its zig hands over to this machine's compiler."""
        (self.site / "ziglang").mkdir()
        zig = self.site / "ziglang/zig"
        zig.write_text("""#!/bin/bash
echo "$@" >> "${0%/*}/log"
export PATH=/usr/bin:/bin
kind=$1; shift
[ "$kind" != ar ] || exec ar "$@"
words=()
while [ $# -gt 0 ]; do
  case $1 in -target) shift ;; -fno-sanitize=undefined) ;; *) words+=("$1") ;; esac
  shift
done
exec c++ "${words[@]}"
""")
        zig.chmod(0o755)
        self._compile(self.work / "by zig", "--no-programs")
        log = (self.site / "ziglang/log").read_text()
        expect("cc -target x86_64-linux-gnu.2.28" in log and "ar qcD" in log, log)
        expect(not list((self.work / "by zig/bin").iterdir()), "--no-programs made a program")
        shutil.rmtree(self.site / "ziglang")

    def _compile(self, out, *options):
        self._clean(self.venv / "bin/metac", "compile", DIGITS / "digits.onnx", "-o", out, "--name", "digits", *options)
        say = "import digits, numpy; print(digits.Model().run({'image': numpy.load('" + str(DIGITS / "digit_3.npy") + "')})['probabilities'].argmax())"
        said = command(sys.executable, "-c", say, env={**os.environ, "PYTHONPATH": str(out / "python")})
        expect(said.strip() == "3", f"the library reads a 3 as {said}")

    def tag_of_a_model(self):
        """auditwheel finds the tag of a compiled model's wheel to be right, and wheel the sums in it."""
        out = self.work / "packed model"
        command(self.build / "bin/metac", "compile", DIGITS / "digits.onnx", "-o", out, "--name", "digits", "--wheel")
        wheel, = (out / "dist").iterdir()
        said = command(self.tools / "bin/auditwheel", "show", wheel)
        tag = re.search(r"manylinux_\d+_\d+_x86_64", wheel.name)[0]
        expect(f'constrains the platform tag to "{tag}"' in " ".join(said.split()), f"{wheel.name}: {said}")
        command(self.tools / "bin/python", "-m", "wheel", "unpack", "--dest", self.work / "unpacked model", wheel)

    def builds_with_the_real_ziglang(self):
        if not self.zig:
            raise Skip("without --zig: 90 MB of PyPI")
        command(sys.executable, "-m", "pip", "--python", self.venv / "bin/python", "--disable-pip-version-check", "install", "--quiet", "ziglang")
        self._compile(self.work / "by ziglang")
        library = self.work / "by ziglang/lib/libdigits.so.1"
        newest = max(tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", command("objdump", "-T", library)))
        expect(newest <= (2, 28), f"the library asks for glibc {newest}")
        expect(library.stat().st_size < 200e3, f"{library.stat().st_size} bytes")

    def sessions_in_python(self):
        """import metac of the wheel in a Python that has NumPy; a traced model is compiled by the program beside."""
        environment = {**os.environ, "PYTHONPATH": str(self.site), "METAC_PROGRAM": ""}
        said = command(sys.executable, "-c", SAY.format(DIGITS / "digits.onnx", DIGITS / "digit_5.npy"), env=environment)
        expect(said.strip() == "5", said)
        script = ("import metac, numpy\nfrom metac import op\n"
                  "x = metac.array(numpy.ones((2, 3), 'float32'))\n"
                  f"metac.trace(lambda x: op.Relu(x), [x], input_names=['x'], output_names=['y']).compile('{self.work}/traced', name='traced')\n")
        command(sys.executable, "-c", script, env=environment)
        expect((self.work / "traced/lib/libtraced.so").exists(), "nothing was compiled")

    def cmake_against_the_wheel(self):
        self._build_consumer(self.package, "wheel user")

    def _build_consumer(self, prefix, name):
        build = self.work / name
        command("cmake", "-G", "Ninja", "-S", HERE / "consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DDIGITS={DIGITS / 'digits.onnx'}",
                f"-DREAD_DIGIT={ROOT / 'examples/c/read_digit.c'}")
        command("cmake", "--build", build)
        expect(command(build / "version").startswith("0.1"), "metac_version()")
        expect(command(build / "read_digit", DIGITS / "digit_3.npy").strip() == "3", "a 3 is read as something else")

    def commands_of_the_page(self):
        said = self._pasted(*range(2, BLOCKS)).splitlines()
        expect("3" in said and "metac 0.1" in said[-1] and (self.work / "pasted/answer/probabilities.npy").exists(), "\n".join(said[-9:]))

    def debian_package(self):
        """The fields, the files in Debian's folders, no second LLVM."""
        package, = self.dist.glob("metac_*_amd64.deb")
        fields = command("dpkg-deb", "--field", package)
        for wanted in (r"^Depends: .*libc6", r"^Depends: .*libprotobuf32", r"^Recommends: .*g\+\+"):
            expect(re.search(wanted, fields, re.MULTILINE), f"{wanted} is not in\n{fields}")
        expect("llvm" not in fields.lower(), f"LLVM is inside already:\n{fields}")
        command("dpkg-deb", "-x", package, self.root)
        for file in ("share/man/man1/metac.1", "share/bash-completion/completions/metac", "share/doc/metac/LICENSE"):
            expect("etac" in (self.root / "usr" / file).read_text() or "Apache" in (self.root / "usr" / file).read_text(), f"{file} is empty")
        expect((self.root / "usr/lib/python3/dist-packages/metac/__init__.py").exists(), "the module is where Debian's Python does not look")
        said = command("/usr/bin/python3", "-c", "import metac; print(metac.__version__)", env={"PYTHONPATH": str(self.root / "usr/lib/python3/dist-packages"), "PATH": "/usr/bin"})
        expect(said.startswith("0.1"), said)

    def cmake_against_the_debian_package(self):
        self._build_consumer(self.root / "usr", "deb user")

    def archive(self):
        """Unpacked anywhere it works, and brings the one library that systems lack."""
        archive, = self.dist.glob("*.tar.gz")
        command("tar", "-xf", archive, "-C", self.work)
        prefix = self.work / archive.name[:-len(".tar.gz")]
        expect(self._clean(prefix / "bin/metac", "--version").startswith("metac 0.1"), "metac --version")
        found = re.search(r"libprotobuf\S* => (\S+)", command("ldd", prefix / "lib/libmetac.so"))[1]
        expect(pathlib.Path(found).parent.resolve() == (prefix / "lib").resolve(), f"protobuf is taken from {found}")
        expect((prefix / "share/doc/metac/licenses/llvm-toolchain-19.txt").exists(), "no licences")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="metac's build folder, up to date")
    parser.add_argument("--tools", type=pathlib.Path, required=True, help="a virtual environment with packaging/requirements.txt")
    parser.add_argument("--zig", action="store_true", help="with ziglang from PyPI")
    parser.add_argument("--only", default="", help="checks with this in their name")
    parser.add_argument("--keep", type=pathlib.Path, help="work here and leave it")
    arguments = parser.parse_args()
    work = (arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="metac-package-"))).resolve()
    work.mkdir(parents=True, exist_ok=True)
    os.environ.pop("DESTDIR", None)
    # Not resolved: an environment's Python is a link.
    checks = Checks(work, arguments.build.resolve(), arguments.tools.absolute(), arguments.zig)
    status = run_checks(checks, only=arguments.only, always=("release", "installs_into_a_clean_environment", "debian_package"))
    if not arguments.keep:
        shutil.rmtree(work, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
