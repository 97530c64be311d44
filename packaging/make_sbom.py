"""What is inside of a built metac, as CycloneDX: the Debian packages that headers and libraries were taken from.

Nothing is listed by hand: ninja knows every file that libmetac, the command and the Python module are made from, and dpkg the
package, version and licence of each.
"""
import json
import pathlib
import re
import subprocess

TARGETS = ("installed/metac", "metac_library", "metac_python")
# What everybody's C++ programs take from their system, and metac does not carry.
OF_THE_SYSTEM = re.compile(r"^(libc6|libc6-dev|libstdc\+\+6|libstdc\+\+-\d+-dev|libgcc-s1|libgcc-\d+-dev|linux-libc-dev|libpython3.*|python3.*)$")
# Debian's names of licences that SPDX calls otherwise.
SPDX = {"Expat": "MIT", "BSD-3-Clause~Google": "BSD-3-Clause", "BSD-3-Clause+CLA": "BSD-3-Clause", "BSD-3-clause": "BSD-3-Clause", "zlib": "Zlib",
        "APACHE-2-LLVM-EXCEPTIONS": "Apache-2.0 WITH LLVM-exception", "public-domain": "LicenseRef-public-domain"}


def files_of(build):
    """Every file outside of the build folder that what is installed was made from, by path."""
    def ninja(*words):
        return subprocess.run(["ninja", "-C", build, "-t", *words], check=True, stdout=subprocess.PIPE, text=True).stdout
    inputs = {line.strip() for line in ninja("inputs", *TARGETS).splitlines()}
    found, ours = {name for name in inputs if name.startswith("/")}, False
    for line in ninja("deps").splitlines():
        if not line.startswith(" "):
            ours = line.split(":")[0] in inputs
        elif ours and line.strip().startswith("/"):
            found.add(line.strip())
    listed = subprocess.run(["readelf", "-d", build / "lib/libmetac.so"], check=True, stdout=subprocess.PIPE, text=True).stdout
    needed = tuple(re.findall(r"NEEDED.*\[(.*)\]", listed))

    def is_inside(path):  # and no program, nor a library that such a program of the build alone was linked with
        return path.parent != pathlib.Path("/usr/bin") and (".so" not in path.name or path.name.startswith(needed))

    return set(filter(is_inside, (pathlib.Path(name).resolve() for name in found)))


def packages_of(files):
    """Debian package -> version, of the files that a package has."""
    names = set()
    listed = sorted(map(str, files))
    for at in range(0, len(listed), 1000):
        said = subprocess.run(["dpkg-query", "-S", *listed[at:at + 1000]], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in said.stdout.splitlines():
            names |= {name.split(":")[0].strip() for name in line.rsplit(": ", 1)[0].split(",")}
    names = {name for name in names if not OF_THE_SYSTEM.match(name)}
    said = subprocess.run(["dpkg-query", "-W", "-f", "${Package}\t${Version}\t${source:Package}\n", *sorted(names)], check=True, stdout=subprocess.PIPE, text=True)
    return {name: (version, source) for name, version, source in (line.split("\t") for line in said.stdout.splitlines())}


def copyright_of(package):
    return pathlib.Path(f"/usr/share/doc/{package}/copyright").read_text(errors="replace")


def licence_of(package):
    """As SPDX has it; what Debian calls it where SPDX has no such name."""
    text = copyright_of(package)
    whole = re.search(r"^Files: *\n?\s*\*\s*\n(?:.+\n|[ \t].*\n)*?License: *(\S+)", text, re.MULTILINE)
    name = whole[1] if whole else re.search(r"^License: *(\S+)", text, re.MULTILINE)[1]
    return SPDX.get(name, name)


def make_sbom(build, version):
    """The JSON text, and licence texts by file name: one for each source package."""
    packages, licences, components = packages_of(files_of(build)), {}, []
    for name, (package_version, source) in sorted(packages.items()):
        licence = licence_of(name)
        licences.setdefault(f"{source}.txt", copyright_of(name))
        components.append({"type": "library", "bom-ref": name, "name": name, "version": package_version,
                           "purl": f"pkg:deb/debian/{name}@{package_version.replace(':', '%3A').replace('+', '%2B')}",
                           "licenses": [{"expression": licence}]})
    metac = {"type": "application", "bom-ref": "metac", "name": "metac", "version": version, "licenses": [{"expression": "Apache-2.0"}]}
    document = {"$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json", "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
                "metadata": {"component": metac}, "components": components,
                "dependencies": [{"ref": "metac", "dependsOn": [c["bom-ref"] for c in components]}]}
    return json.dumps(document, indent=1) + "\n", licences
