"""A wheel of an installed metac: the command, libmetac with its headers and CMake package, and the Python module.

Everything lies in the package's folder, as in a prefix (metac/bin, metac/lib, metac/include), so that LLVM is there once and
find_package(metac) works with that folder. auditwheel puts protobuf's library beside, under a name that no other copy in a
process has, and finds the oldest system (the manylinux tag) that has all the rest.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
LAUNCHER = """\
\"\"\"The command `metac`: hands over to the program of this package. Also `python -m metac`.\"\"\"
import os
import pathlib
import sys


def main():
    program = str(pathlib.Path(__file__).resolve().parent / "bin" / "metac")
    os.execv(program, ["metac", *sys.argv[1:]])


if __name__ == "__main__":
    main()
"""
METADATA = """\
Metadata-Version: 2.4
Name: metac
Version: {version}
Summary: compiles neural networks ahead of time to small native libraries
License-Expression: Apache-2.0
{licences}Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C++
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Requires-Python: >={python}
Provides-Extra: link
Requires-Dist: ziglang>=0.14; extra == "link"
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Description-Content-Type: text/markdown

"""


def arrange(prefix, tree):
    """The files of an installed prefix as a wheel has them: no links, which wheels do not know. The tag of the interpreter."""
    module = next(prefix.glob("lib/python3*/site-packages/metac"))
    package = tree / "metac"
    shutil.copytree(module, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "bin").mkdir()
    shutil.copy2(prefix / "bin/metac", package / "bin/metac")
    shutil.copytree(prefix / "include", package / "include")
    for folder in ("cmake", "pkgconfig"):
        shutil.copytree(prefix / "lib" / folder, package / "lib" / folder)
    library = (prefix / "lib/libmetac.so").resolve()
    soname = re.fullmatch(r"(libmetac\.so\.\d+\.\d+)\.\d+", library.name)[1]
    shutil.copy2(library, package / "lib" / soname)
    (package / "lib/libmetac.so").write_text(f"INPUT({soname})\n")  # for the linker
    targets, = (package / "lib/cmake").glob("metac/metacTargets-*.cmake")
    targets.write_text(targets.read_text().replace(library.name, soname))
    (package / "__main__.py").write_text(LAUNCHER)
    python, = re.findall(r"cpython-(3)(\d+)-", next(package.glob("_metac.*.so")).name)
    return python


def write_metadata(tree, version, python, licences, sbom):
    info = tree / f"metac-{version}.dist-info"
    (info / "licenses").mkdir(parents=True)
    (info / "sboms").mkdir()
    for name, text in licences.items():
        (info / "licenses" / name).write_text(text)
    (info / "sboms/metac.cdx.json").write_text(sbom)
    head = METADATA.format(version=version, python=".".join(python), licences="".join(f"License-File: {name}\n" for name in licences))
    (info / "METADATA").write_text(head + (HERE.parent / "README.md").read_text())
    tag = "cp" + "".join(python)
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: metac\nRoot-Is-Purelib: false\nTag: {tag}-{tag}-linux_x86_64\n")
    (info / "entry_points.txt").write_text("[console_scripts]\nmetac = metac.__main__:main\n")


def make_wheel(prefix, version, licences, sbom, work, out):
    """Writes the wheel into `out` and returns its path. `licences`: texts by file name; `sbom`: JSON."""
    tree, packed = work / "tree", work / "packed"
    tree.mkdir()
    packed.mkdir()
    write_metadata(tree, version, arrange(prefix, tree), licences, sbom)
    tools = {**os.environ, "PATH": f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([sys.executable, "-m", "wheel", "pack", tree, "--dest-dir", packed], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", work / "repaired", *packed.iterdir()], check=True,
                   stdout=subprocess.DEVNULL, env=tools)
    made, = (work / "repaired").iterdir()
    return pathlib.Path(shutil.move(made, out / made.name))
