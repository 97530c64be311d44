#!/usr/bin/env python3
"""Checks that a type has one definition: two of one name in one namespace are undefined behaviour that no linker tells.

    python3 check_types.py ROOT

Functions of templates, such as a vector's, are kept once a type's name; with two types they are the wrong one's. Read are
the definitions at namespace scope of compiler and frontends that begin in the first column, as clang-format leaves them. Of
the runtime each project takes the one target that it is for.
"""
import collections
import pathlib
import re
import sys

OPENS = re.compile(r"(?:inline )?namespace\s*([\w:]*)\s*\{")
CLOSES = re.compile(r"\}\s*// namespace")
TYPE = re.compile(r"(?:struct|class|union|enum class)\s+(?:alignas\(\w+\)\s*)?(\w+)(?:\s+final)?\s*(?::(?!:)[^;]*)?\{")


def types_of(path):
    """Qualified names of the types that a file defines for others to see."""
    namespaces = []
    for line in path.read_text(errors="replace").splitlines():
        if opened := OPENS.match(line):
            namespaces.append(opened[1])
        elif CLOSES.match(line) and namespaces:
            namespaces.pop()
        elif (found := TYPE.match(line)) and "" not in namespaces:
            yield "::".join([*namespaces, found[1]])


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    defined, files = collections.defaultdict(list), 0
    for folder in ("compiler", "frontends"):
        for path in sorted(p for p in (root / folder).rglob("*") if p.suffix in (".h", ".cpp")):
            files += 1
            for name in types_of(path):
                defined[name].append(path.relative_to(root).as_posix())
    wrong = [f"{name} is defined in {' and in '.join(where)}" for name, where in defined.items() if len(where) > 1]
    print("\n".join(wrong + [f"{files} files, {len(defined)} types, {len(wrong)} defined twice"]))
    return 1 if wrong or not defined else 0


if __name__ == "__main__":
    sys.exit(main())
