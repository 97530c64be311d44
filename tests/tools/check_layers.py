#!/usr/bin/env python3
"""Greps the includes against the layering of docs/architecture.md: a folder may include itself and what stands below.

    python3 check_layers.py [REPOSITORY]

Outside of compiler/target no file compares with a target's name or asks whether there is a device: what differs is a question that the object Target
answers, or data that it gives. Prints every include that points the wrong way, every such question, and ends with status 1 if there is one.
"""
import pathlib
import re
import sys

# Folder -> the folders it may include directly. What follows through them is allowed too (the closure is taken below).
DIRECT = {
    "compiler/support": ["runtime"],
    "compiler/ir": ["compiler/support"],
    "compiler/ops": ["compiler/ir"],
    "compiler/autodiff": ["compiler/ops"],
    "compiler/oracle": ["compiler/ir", "runtime"],
    "compiler/machine": ["compiler/support"],
    "compiler/tensor": ["compiler/ir", "compiler/machine"],
    "compiler/loops": ["compiler/tensor", "compiler/machine"],
    "compiler/region": ["compiler/tensor", "compiler/machine"],
    "compiler/printing": ["compiler/loops"],
    "compiler/target": ["compiler/region", "compiler/printing"],
    "compiler/target/cpu/tiles": ["compiler/target"],
    "compiler/target/cpu/strategies": ["compiler/target/cpu/tiles"],
    "compiler/target/cpu": ["compiler/target/cpu/strategies"],
    "compiler/target/gpu/vendor": ["compiler/target", "compiler/oracle"],
    "compiler/target/gpu/strategies": ["compiler/target/gpu/vendor"],
    "compiler/target/gpu": ["compiler/target/gpu/strategies"],
    "compiler/passes": ["compiler/autodiff", "compiler/oracle", "compiler/tensor"],
    "compiler/program": ["compiler/target", "compiler/passes", "runtime"],
    "compiler/codegen": ["compiler/program"],
    "compiler/jit": ["compiler/codegen"],
    "compiler/session": ["compiler/jit"],
    "compiler/lazy": ["compiler/session"],
    "compiler/library": ["compiler/lazy", "compiler/train", "frontends"],
    "compiler/train": ["compiler/ops", "frontends", "frontends/json", "frontends/onnx", "runtime"],
    "compiler/api": ["compiler/session", "compiler/train", "frontends"],
    "compiler/quantize": ["compiler/api"],
    "compiler/driver": ["compiler/quantize"],
    "frontends/onnx": ["compiler/ops"],
    "frontends/json": ["compiler/ops"],
    "frontends/cpp": ["compiler/ops"],
    "frontends/tokenizer": ["compiler/support", "runtime"],
    "frontends": ["frontends/onnx", "frontends/json", "frontends/cpp", "frontends/tokenizer"],
    "runtime": [],
    "python/extension": ["runtime"],
}
# Includes that point the wrong way and are known, each with its reason. This list may only shrink.
KNOWN = {
}
# What a question about the target looks like.
ASKS = re.compile(r"\bon_(?:device|gpu)\b|target\w*(?:\(\w*\))?(?:(?:\.|->)name\(\))? *(?:==|!=) *\"\w|target_named\(\"")
SOURCES = {".h", ".hpp", ".cpp", ".cc", ".c", ".cu", ".cuh", ".def", ".inc"}
INCLUDE = re.compile(r'^\s*#\s*include\s*"((?:compiler|frontends|runtime)/[^"]+)"')


def closure(folder, seen=None):
    seen = set() if seen is None else seen
    if folder not in seen:
        seen.add(folder)
        for below in DIRECT[folder]:
            closure(below, seen)
    return seen


def folder_of(path):
    return max((f for f in DIRECT if path.startswith(f + "/")), key=len, default=None)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    allowed = {folder: closure(folder) for folder in DIRECT}
    wrong, files, unused = [], 0, set(KNOWN)
    for top in ("compiler", "frontends", "runtime", "python"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SOURCES:
                continue
            files += 1
            name = path.relative_to(root).as_posix()
            here = folder_of(name)
            if here is None:
                wrong.append(f"{name}: its folder is in no layer")
                continue
            for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
                if not name.startswith(("compiler/target/", "runtime/")) and ASKS.search(line.split("//")[0]):
                    wrong.append(f"{name}:{number}: asks which target it is: {line.strip()}")
                match = INCLUDE.match(line)
                target = match and folder_of(match[1])
                if match and (name, match[1]) in KNOWN:
                    unused.discard((name, match[1]))
                elif match and target not in allowed[here]:
                    wrong.append(f"{name}:{number}: {here} may not include {match[1]}")
    wrong += [f"{name} no longer includes {target}: take it off the list of known ones" for name, target in sorted(unused)]
    print("\n".join(wrong + [f"{files} files, {len(wrong)} complaints"]))
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main())
