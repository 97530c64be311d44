#!/usr/bin/env python3
"""Does another metac write the same sources? Compares what two of them write for many models, file by file.

    python3 generated_sources.py --metac A --against B [--only REGEX] [--keep DIR] [--jobs 2] [--list]
    needs: pip install numpy onnx ml_dtypes

For a change that is to leave generated code as it is: A is the changed program, B the one before. The models are the networks of
models/backbones at batches 1 and 8 (CPU) and 8 (CUDA), with open dims, with --fusion paper and for AVX2 where they are small; the
training programs of models/training and models/gan (CPU and CUDA); models/dynamic; tests/cuda's models for CUDA. Compared are the
kernels and tables of src/ and include/, not the runtime's headers, which are copies, nor the manifest. What B wrote is kept in
DIR under the hash of B, so that later comparisons with it write one side alone. The last line is 'N passed, N failed'.
"""
import argparse
import concurrent.futures
import difflib
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAKING = threading.Lock()
sys.path += [str(ROOT / "models/backbones"), str(ROOT / "tests/cuda")]


def image_shape(name, batch):
    if name == "bert_base":
        return ["--shape", f"input_ids={batch}x128", "--shape", f"attention_mask={batch}x128"]
    return ["--shape", f"input={batch}x3x224x224"]


def made(path, script, name, *options):
    """What a script of models/ makes, made once: several compare the same model side by side."""
    with MAKING:
        if not path.exists():
            partial = path.with_name(f"partial {path.name}")
            subprocess.run([sys.executable, ROOT / "models" / script, name, partial, *options], check=True, capture_output=True)
            partial.rename(path)
    return path


def backbone(folder, name):
    return made(folder / f"{name}.onnx", "backbones/build.py", name)


def built(folder, kind, name, *options):
    """The folder of a training program of models/training or models/gan."""
    return made(folder / f"{kind}-{name}", f"{kind}/build.py", name, *options)


def subjects(folder):
    """Name -> function that makes the model and returns metac's arguments."""
    from build import BUILDERS
    table = {}
    small = ("squeezenet1_1", "resnet18", "mobilenet_v2", "densenet121", "efficientnet_b0", "swin_t")
    for name in BUILDERS:
        for batch in (1, 8):
            table[f"{name}@{batch}"] = lambda n=name, b=batch: [backbone(folder, n), *image_shape(n, b)]
        table[f"{name}@8-cuda"] = lambda n=name: [backbone(folder, n), *image_shape(n, 8), "--target", "cuda"]
        if name in small:
            table[f"{name}-open"] = lambda n=name: [backbone(folder, n)]
            table[f"{name}@2-avx2"] = lambda n=name: [backbone(folder, n), *image_shape(n, 2), "--cpu", "x86-64-v3"]
            table[f"{name}@2-paper"] = lambda n=name: [backbone(folder, n), *image_shape(n, 2), "--fusion", "paper"]
    sizes = {"ncf": (), "gnmt": ()}
    for name in ("alexnet", "resnet50", "mobilenet_v2", "gnmt", "ncf"):
        for target in ("cpu", "cuda"):
            table[f"train-{name}-{target}"] = lambda n=name, t=target: (
                lambda f: [f / "net.json", "--train", f / "recipe.json", "--target", t])(built(folder, "training", n, *sizes.get(n, ("--samples", "64"))))
    for name in ("dcgan", "lsgan", "wgan_gp", "cyclegan"):
        for target in ("cpu", "cuda"):
            table[f"gan-{name}-{target}"] = lambda n=name, t=target: (
                lambda f: [f / "generator.json", "--train", f / "recipe.json", "--target", t])(built(folder, "gan", n, "--samples", "32"))
    for name in ("detector", "decoder"):
        table[name] = lambda n=name: [dynamic(folder, n)]
    table["digits-grad"] = lambda: [ROOT / "models/digits/digits.onnx", "--grad"]
    for case in cuda_models(folder):
        table[f"cuda-{case.name}"] = lambda c=case: [c / "model.onnx", "--target", "cuda"]
    return table


def dynamic(folder, name):
    return made(folder / f"{name}.onnx", "dynamic/build.py", name)


def cuda_models(folder):
    cases = folder / "cuda"
    if not cases.exists():
        import make_models
        partial = pathlib.Path(tempfile.mkdtemp(dir=folder))
        make_models.make_models(partial)
        partial.rename(cases)
    return sorted(path.parent for path in cases.rglob("model.onnx"))


def write(metac, arguments, out):
    done = subprocess.run([metac, "compile", *(() if "--cpu" in arguments else ("--cpu", "native")), *arguments, "-o", out, "--name", "net", "--no-build"], capture_output=True, text=True, errors="replace")
    for heavy in out.glob("*.weights"):
        heavy.unlink()
    return "" if done.returncode == 0 else f"status {done.returncode}: {done.stderr.strip()[-300:]}"


def sources(out):
    return {str(p.relative_to(out)): p.read_text(errors="replace") for folder in ("src", "include") for p in sorted((out / folder).rglob("*"))
            if p.is_file() and "runtime" not in p.relative_to(out).parts}


def compare(name, make, arguments, folder, old):
    given = [str(a) for a in make()]
    before = old / name
    if not (before / "done").exists():
        shutil.rmtree(before, ignore_errors=True)
        before.mkdir(parents=True)
        (before / "error").write_text(write(arguments.against, given, before / "net"))
        (before / "done").touch()
    with tempfile.TemporaryDirectory(dir=folder) as work:
        error = write(arguments.metac, given, pathlib.Path(work) / "net")
        a, b = sources(before / "net"), sources(pathlib.Path(work) / "net")
        if error != (before / "error").read_text():
            return [f"{(before / 'error').read_text() or 'compiled'}; now {error or 'compiled'}"]
        found = []
        for file in sorted({*a, *b}):
            if a.get(file) != b.get(file):
                lines = list(difflib.unified_diff(a.get(file, "").splitlines(), b.get(file, "").splitlines(), "before", "now", lineterm="", n=1))
                found += [f"{file}: {len(lines)} lines of difference", *(f"    {line[:200]}" for line in lines[2:arguments.lines + 2])]
        return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", type=pathlib.Path, required=True)
    parser.add_argument("--against", type=pathlib.Path, required=True)
    parser.add_argument("--only", type=re.compile, default=re.compile(""))
    parser.add_argument("--keep", type=pathlib.Path, default=ROOT / "build/generated-sources")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--lines", type=int, default=8, help="of each file's difference")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    arguments.metac, arguments.against = arguments.metac.resolve(), arguments.against.resolve()
    models = arguments.keep / "models"
    models.mkdir(parents=True, exist_ok=True)
    chosen = {n: f for n, f in subjects(models).items() if arguments.only.search(n)}
    if arguments.list:
        return print("\n".join(chosen))
    old = arguments.keep / hashlib.sha256(arguments.against.read_bytes()).hexdigest()[:16]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        work = {pool.submit(compare, n, f, arguments, arguments.keep, old): n for n, f in chosen.items()}
        for done in concurrent.futures.as_completed(work):
            differences = done.result()
            failed += bool(differences)
            if differences:
                print(f"DIFFERS  {work[done]}", *differences, sep="\n  ", flush=True)
    print(f"{len(chosen) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
