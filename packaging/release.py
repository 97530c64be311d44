#!/usr/bin/env python3
"""Makes what people install out of a build folder: a wheel, a .deb, a .tar.gz, what is inside (CycloneDX) and SHA256SUMS,
which --sign signs.

    python3 -m venv .cache/packaging && .cache/packaging/bin/pip install -r packaging/requirements.txt
    cmake --preset release && cmake --build --preset release
    .cache/packaging/bin/python packaging/release.py --build build/release --out dist

The .tar.gz is a prefix that works wherever it is unpacked. Files have the date of SOURCE_DATE_EPOCH, else of the last commit.
"""
import argparse
import gzip
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

from make_sbom import make_sbom
from make_wheel import make_wheel

ROOT = pathlib.Path(__file__).resolve().parents[1]


def quietly(*argv, **more):
    done = subprocess.run([str(word) for word in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, argv))}: status {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout


def date_of_release():
    if "SOURCE_DATE_EPOCH" not in os.environ:
        said = subprocess.run(["git", "-C", ROOT, "log", "-1", "--format=%ct"], stdout=subprocess.PIPE, text=True)
        os.environ["SOURCE_DATE_EPOCH"] = said.stdout.strip() or "315532800"
    return int(os.environ["SOURCE_DATE_EPOCH"])


def add_protobuf(prefix):
    """The one library that libmetac needs and not every system has, beside it, where it looks first."""
    said = quietly("ldd", next(prefix.glob("lib/libmetac.so.*.*.*")))
    name, path = re.search(r"(libprotobuf\.so\.\d+) => (\S+)", said).groups()
    shutil.copy2(path, prefix / "lib" / name)


def make_archive(prefix, name, licences, sbom, out):
    add_protobuf(prefix)
    share = prefix / "share/doc/metac"
    (share / "licenses").mkdir(parents=True, exist_ok=True)
    for file, text in licences.items():
        (share / "licenses" / file).write_text(text)
    (share / "metac.cdx.json").write_text(sbom)

    def plain(member):
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        member.mtime = date_of_release()
        return member

    with gzip.GzipFile(out / f"{name}.tar.gz", "wb", compresslevel=6, mtime=date_of_release()) as packed:
        with tarfile.open(fileobj=packed, mode="w") as archive:
            archive.add(prefix, name, filter=plain)


def make_deb(build, work, out):
    quietly("cpack", "-G", "DEB", "-B", work, cwd=build)
    for made in work.glob("*.deb"):
        shutil.move(made, out / made.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="a build folder that is up to date")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist", help="where the files go; what is there is removed")
    parser.add_argument("--sign", metavar="KEY", type=pathlib.Path, help="sign SHA256SUMS with this secret key of minisign, which asks for its password")
    parser.add_argument("--only", choices=["wheel", "deb", "tar"], action="append", help="not all of them")
    arguments = parser.parse_args()
    build, out = arguments.build.resolve(), arguments.out.resolve()
    if arguments.sign and not shutil.which("minisign"):
        sys.exit("--sign needs minisign (apt install minisign)")
    wanted = arguments.only or ["wheel", "deb", "tar"]
    version = re.search(r"^project\(metac VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
    date_of_release()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    sbom, licences = make_sbom(build, version)
    licences["LICENSE"] = (ROOT / "LICENSE").read_text()
    (out / f"metac-{version}.cdx.json").write_text(sbom)
    with tempfile.TemporaryDirectory(prefix="metac-release-") as name:
        work = pathlib.Path(name)
        quietly("cmake", "--install", build, "--prefix", work / "prefix", "--strip", env={k: v for k, v in os.environ.items() if k != "DESTDIR"})
        if "wheel" in wanted:
            make_wheel(work / "prefix", version, licences, sbom, work, out)
        if "tar" in wanted:
            make_archive(work / "prefix", f"metac-{version}-linux-x86_64", licences, sbom, out)
        if "deb" in wanted:
            make_deb(build, work / "deb", out)
    files = sorted(file for file in out.iterdir())
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (out / "SHA256SUMS").write_text("".join(sums))
    if arguments.sign:
        comment = f"SHA256SUMS of metac {version}"
        signed = subprocess.run(["minisign", "-S", "-s", arguments.sign, "-t", comment, "-m", out / "SHA256SUMS"])
        if signed.returncode:
            sys.exit(f"minisign: status {signed.returncode}: nothing is signed")
    for file in files:
        print(f"{file.stat().st_size / 1e6:8.1f} MB  {file}")


if __name__ == "__main__":
    main()
