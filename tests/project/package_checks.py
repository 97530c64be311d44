"""What people install of a compiled model: the wheel, the Debian package, the folder of the Python module."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile

from checks import Skip, command, expect

ROOT = pathlib.Path(__file__).resolve().parents[2]
DIGITS = ROOT / "models/digits"
READ = """
import importlib.metadata, numpy, Packed_Net
distribution = importlib.metadata.distribution("packed-net")
assert distribution.version == Packed_Net.__version__ == "%s", (distribution.version, Packed_Net.__version__)
assert distribution.requires == ["numpy"], distribution.requires
print(Packed_Net.__file__)
numpy.save("answer.npy", Packed_Net.Model().run({"image": numpy.load(%r)})["probabilities"])
"""


class PackageChecks:
    """Of run_project.py, whose work folder, program and answer of a library of the same model they use."""

    def _packages(self, folder, *options, version="1.2.0rc1", **more):
        """A compiled folder with both packages, and their paths."""
        said = self.compile(folder, "--wheel", "--deb", "--package-version", version, *options, name="Packed_Net", **more)
        paths = [pathlib.Path(line) for line in re.findall("^package: (.*)$", said, re.MULTILINE)]
        expect(sorted(paths) == sorted((folder / "dist").iterdir()) and len(paths) == 2, said)
        return paths

    def _install(self, what, version):
        """Installs into an environment that has nothing, and asks the module from another folder."""
        venv, elsewhere = self.work / "venv of a model", self.work / "elsewhere"
        shutil.rmtree(venv, ignore_errors=True)
        elsewhere.mkdir(exist_ok=True)
        command(sys.executable, "-m", "venv", "--without-pip", venv)
        pip = [sys.executable, "-m", "pip", "--python", venv / "bin/python", "--disable-pip-version-check"]
        command(*pip, "install", "--quiet", "--no-index", "--no-deps", what)
        import numpy
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(pathlib.Path(numpy.__file__).parents[1])}
        said = command(venv / "bin/python", "-c", READ % (version, str(DIGITS / "digit_3.npy")), cwd=elsewhere, env=environment)
        expect(said.startswith(str(venv)), f"imported from {said}")
        expect((elsewhere / "answer.npy").read_bytes() == self.answer(self.work / "packed/bin/Packed_Net_run"), f"{what} answers otherwise")
        command(*pip, "uninstall", "--quiet", "--yes", "packed-net")
        expect(not list(venv.glob("lib/python3*/site-packages/*acked*")), "files of the wheel are left")

    def package_for_pip(self):
        """pip takes it, its tag is what the library needs, RECORD has every file (pip compares none of the sums)."""
        wheel, _ = self._packages(self.work / "packed")
        symbols = command("objdump", "-T", self.work / "packed/lib/libPacked_Net.so.1")
        newest = max(tuple(map(int, v.split(".")[:2])) for v in re.findall(r"GLIBC_([\d.]+)", symbols))
        expect(wheel.name == "packed_net-1.2.0rc1-py3-none-manylinux_%d_%d_x86_64.whl" % newest, f"{wheel.name} needs glibc {newest}")
        import base64
        import hashlib
        with zipfile.ZipFile(wheel) as archive:
            expect(archive.testzip() is None, "a damaged archive")
            record = archive.read("packed_net-1.2.0rc1.dist-info/RECORD").decode().splitlines()
            for row in record[:-1]:
                name, digest, size = row.split(",")
                content = archive.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
                expect(digest == "sha256=" + expected and int(size) == len(content), row)
            expect([row.split(",")[0] for row in record] == archive.namelist(), f"{record} of {archive.namelist()}")
        self._install(wheel, "1.2.0rc1")

    def package_from_the_python_folder(self):
        """pip install DIR/python: nothing but Python is asked for; a folder that is not built says so."""
        self._install(self.work / "packed/python", "1.2.0rc1")
        self.compile(self.work / "unbuilt", "--no-build")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-index", "--no-deps", "-w", self.work / "none"]
        expect("build the project first" in command(*pip, self.work / "unbuilt/python", status=1), "a library that is not there")

    def packages_are_the_same_bytes(self):
        again = self._packages(self.work / "packed again/in another folder", env={**os.environ, "METAC_CACHE_DIR": str(self.work / "cache packages"), "TZ": "Asia/Tokyo"})
        for path in again:
            expect(path.read_bytes() == (self.work / "packed/dist" / path.name).read_bytes(), f"{path.name} has other bytes")

    def package_for_debian(self):
        """Fields and sums; unpacked anywhere it is found by CMake, pkg-config and Python, and its program answers."""
        if not shutil.which("dpkg-deb"):
            raise Skip("no dpkg-deb")
        package, = (self.work / "packed/dist").glob("*.deb")
        expect(package.name == "packed-net_1.2.0~rc1_amd64.deb", package.name)
        fields = command("dpkg-deb", "--field", package)
        for wanted in ("^Package: packed-net$", "^Version: 1.2.0~rc1$", "^Architecture: amd64$", r"^Depends: libc6 \(>= 2\.\d+\)", "^Maintainer: ", r"^Installed-Size: \d\d\d+$"):
            expect(re.search(wanted, fields, re.MULTILINE), f"{wanted} is not in\n{fields}")
        root = self.work / "root of a package"
        command("dpkg-deb", "-R", package, root)
        command("md5sum", "--quiet", "-c", "DEBIAN/md5sums", cwd=root)
        sums = (root / "DEBIAN/md5sums").read_text().splitlines()
        files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink() and "DEBIAN" not in path.parts]
        expect(len(sums) == len(files), f"sums of {len(sums)} of {len(files)} files")
        expect(self.answer(root / "usr/bin/Packed_Net_run") == self.answer(self.work / "packed/bin/Packed_Net_run"), "the program answers otherwise")
        script = f"import numpy, Packed_Net; assert Packed_Net.Model().run(numpy.load({str(DIGITS / 'digit_3.npy')!r}))['probabilities'].argmax() == 3; print(Packed_Net._find_library())"
        said = command(sys.executable, "-c", script, env={**os.environ, "PYTHONPATH": str(root / "usr/lib/python3/dist-packages")})
        expect(pathlib.Path(said.strip()).resolve() == root / "usr/lib/libPacked_Net.so.1", said)
        source = self.work / "user of a package"
        source.mkdir()
        (source / "main.cpp").write_text("#include <Packed_Net.hpp>\nint main() { Packed_Net::Model model; return Packed_Net_input(0) ? 0 : 1; }\n")
        (source / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.16)\nproject(user CXX)\nset(CMAKE_CXX_STANDARD 17)\nfind_package(Packed_Net REQUIRED)\n"
                                               "add_executable(user main.cpp)\ntarget_link_libraries(user PRIVATE Packed_Net::Packed_Net)\n")
        command("cmake", "-G", "Ninja", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={root / 'usr'}")
        command("cmake", "--build", source / "build")
        command(source / "build/user")
        if shutil.which("pkg-config"):
            flags = command("pkg-config", "--cflags", "--libs", "Packed_Net", env={**os.environ, "PKG_CONFIG_PATH": str(root / "usr/lib/pkgconfig")})
            command("c++", "-std=c++17", source / "main.cpp", "-o", source / "by pkg-config", *shlex.split(flags))
            command(source / "by pkg-config", env={"LD_LIBRARY_PATH": str(root / "usr/lib")})

    def packages_of_other_libraries(self):
        """Weights inside of the library are there once; without programs a package has none; long names fit."""
        name = "n" * 32 + "_" + "t" * 31
        said = self.compile(self.work / "long", "--wheel", "--deb", "--embed-weights", "--no-programs", name=name)
        wheel, package = re.findall("^package: (.*)$", said, re.MULTILINE)
        with zipfile.ZipFile(wheel) as archive:
            expect(not [n for n in archive.namelist() if n.endswith(".weights")], "the weights are there twice")
        data = subprocess.run(["ar", "p", package, "data.tar.gz"], stdout=subprocess.PIPE, check=True).stdout
        (self.work / "data.tar.gz").write_bytes(data)
        with tarfile.open(self.work / "data.tar.gz") as archive:
            names = archive.getnames()
            expect(f"./usr/lib/cmake/{name}/{name}-config-version.cmake" in names, f"{names}")
            expect(not [n for n in names if n.endswith(".weights") or "/bin" in n], f"{names}")
            expect({(m.uid, m.gid, m.mtime) for m in archive} == {(0, 0, 315532800)}, "owners and dates")

    def packages_that_are_refused(self):
        """Told before anything is compiled, and nothing is written."""
        folder = self.work / "refused package"
        for status, words, said in (
                (2, ["--wheel", "--no-build"], "--wheel is not for --no-build"), (2, ["--deb", "--emit", "loops"], "--deb is not for --emit"),
                (2, ["--wheel", "--target", "cuda"], "--wheel is not for --target"), (2, ["--deb", "--train", DIGITS / "recipe.json"], "--deb is not for --train"),
                (2, ["--wheel", "--package-version", "v1.0"], '"v1.0" is no version'), (2, ["--package-version", "1.0-rc1"], "is no version"),
                (2, ["--package-version", "1.0\nRequires-Dist: evil"], "is no version"), (2, ["--package-version", "../1"], "is no version"),
                (1, ["--deb", "--name", "d"], "Debian has no packages of one letter")):
            name = [] if "--name" in words else ["--name", "digits"]
            told = command(self.metac, "compile", DIGITS / "digits.onnx", "-o", folder, *name, *words, status=status)
            expect(said in told, f"{words}: not told: {said}: {told}")
            expect(not folder.exists(), f"{words}: something was written")
        command(self.metac, "compile", DIGITS / "digits.onnx", "-o", self.work / "one letter", "--name", "d", "--wheel")
