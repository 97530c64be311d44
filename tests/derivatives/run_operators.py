#!/usr/bin/env python3
"""First and second derivatives of every operator of the registry, judged in float64.

    python3 run_operators.py --build build/ci [--only WORD] [--sample N] [--seed N] [--torch]
    needs: pip install numpy onnx; with --torch: torch.

Every operator that `metac operators` lists has a generator of at least 30 samples in *_samples.py, or a reason in
no_derivative.py; one with neither fails. At every sample that has no kink: tangents (forward mode) against central differences
of the outputs, gradients (reverse mode) against tangents, Hessian-vector products (forward over reverse, and reverse over
reverse) against central differences of the gradients. At a kink: the gradient against the documented convention. --torch compares gradients and
products with PyTorch's instead. Ends with 'N passed, N failed, N skipped', operators each.
"""
import argparse
import importlib.util
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import numpy as np

import samples as all_samples
import sample_families  # noqa: F401  registers the generators
from no_derivative import NO_DERIVATIVE, NO_ZERO_SIZE
from samples import LEAST, OPERATORS, differentiated, samples_of, tangents_of

DIFFERENCES, MODES = 1e-6, 1e-10


class Wrong(Exception):
    pass


def deviation(a, b, what):
    """The largest difference, relative to the largest element above 1."""
    if a.shape != b.shape:
        raise Wrong(f"{what}: shapes {a.shape} and {b.shape}")
    if not np.isfinite(a).all():
        raise Wrong(f"{what}: {a.ravel()[~np.isfinite(a.ravel())][0]}")
    return float(np.abs(a - b).max(initial=0) / max(1.0, np.abs(b).max(initial=0)))


def within(a, b, limit, what, worst, kind):
    error = deviation(a, b, what)
    worst[kind] = max(worst.get(kind, 0), error)
    if not error <= limit:
        at = np.unravel_index(np.abs(a - b).argmax(), a.shape)
        raise Wrong(f"{what}: {a[at]:.12g}, expected {b[at]:.12g} at {tuple(map(int, at))} (off by {error:.2g})")


def named(results, prefix):
    return {name[len(prefix):]: value for name, value in results.items() if name.startswith(prefix)}


def judge(sample, results, worst, directions, first_order):
    gradients, cotangents = named(results, "gradient "), named(results, "cotangent ")
    gradients = {name: gradients[name] for name in sample.wrt}
    if sample.kink:
        for name, expected in zip(sample.wrt, sample.kink(cotangents)):
            within(gradients[name], expected, 1e-6 if "float32" in sample.what else 1e-12, f"at a kink, the gradient of {name}", worst, "kink")
    for d, along in enumerate(tangents_of(sample, directions)):
        tangents = named(results, f"tangent {d} ")
        forward = sum(float((cotangents[name] * tangents[name]).sum()) for name in cotangents)
        reverse = sum(float((gradients[name] * along[name]).sum()) for name in sample.wrt)
        size = 1 + sum(float(np.abs(cotangents[name] * tangents[name]).sum()) for name in cotangents)
        if not abs(forward - reverse) <= MODES * size and "float32" not in sample.what:
            raise Wrong(f"reverse mode says {reverse:.12g}, forward mode {forward:.12g}")
        for name, product in named(results, f"product {d} ").items():
            within(named(results, f"reverse product {d} ")[name], product, 1e-9, f"the product of {name}, reverse over reverse beside forward over reverse,", worst, "modes")
        if sample.kink:
            continue
        for name, slope in named(results, f"output slope {d} ").items():
            within(tangents[name], slope, DIFFERENCES, f"the tangent of {name}", worst, "first")
        if not first_order:
            for name, slope in named(results, f"gradient slope {d} ").items():
                within(results[f"product {d} {name}"], slope, DIFFERENCES, f"the product of {name}", worst, "second")


def check_by_differences(key, operator, tool, folder, seed, totals):
    made = samples_of(*key, seed=seed)
    if len(made) < LEAST:
        raise Wrong(f"{len(made)} samples, {LEAST} are wanted")
    if not any(sample.is_empty() for sample in made) and key not in NO_ZERO_SIZE:
        raise Wrong("no sample without elements")
    directions, worst, wrong = 2, {}, []
    for sample, results in zip(made, differentiated(tool, made, folder, directions)):
        try:
            if "error" in results:
                raise Wrong(results["error"])
            judge(sample, results, worst, directions, operator.first_order)
        except Wrong as error:
            wrong.append(f"{sample.what}: {error}")
    totals["samples"] = totals.get("samples", 0) + len(made)
    totals["kinks"] = totals.get("kinks", 0) + sum(sample.kink is not None for sample in made)
    totals["empty"] = totals.get("empty", 0) + sum(sample.is_empty() for sample in made)
    for kind, error in worst.items():
        totals[kind] = max(totals.get(kind, 0), error)
    if wrong:
        raise Wrong(f"{len(wrong)} of {len(made)} samples\n" + "\n".join(f"      {line}" for line in wrong[:4]))


def known_operators(metac):
    rows = json.loads(subprocess.run([metac, "operators", "--json"], check=True, capture_output=True, text=True).stdout)["operators"]
    return [("" if row["domain"] == "ai.onnx" else row["domain"], row["name"]) for row in rows]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="metac's build folder")
    parser.add_argument("--only", default="", help="operators with this word in their name; =NAME: that one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sample", type=int, help="so many operators, chosen by the seed")
    parser.add_argument("--torch", action="store_true", help="compare with PyTorch")
    arguments = parser.parse_args()
    if arguments.torch and importlib.util.find_spec("torch") is None:
        print("PyTorch is not installed: nothing is compared with it")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    if arguments.torch:
        from torch_comparison import check_by_torch as check
    else:
        check = check_by_differences
    known = known_operators(arguments.build / "bin/metac")
    passed, failed, skipped, totals, start = 0, 0, 0, {}, time.time()
    chosen = [key for key in known if (arguments.only[1:] == key[1] if arguments.only.startswith("=") else arguments.only.lower() in key[1].lower())]
    if arguments.sample:
        chosen = random.Random(arguments.seed).sample(chosen, min(arguments.sample, len(chosen)))
    stale = [] if arguments.only or arguments.sample else sorted((set(OPERATORS) | set(NO_DERIVATIVE)) - set(known))
    with tempfile.TemporaryDirectory(prefix="metac-operators-") as folder:
        for key in chosen:
            name = f"{key[0] or 'ai.onnx'}.{key[1]}"
            try:
                if key in NO_DERIVATIVE:
                    if key in OPERATORS:
                        raise Wrong("it has samples and a reason for having none")
                    skipped += 1
                    continue
                if key not in OPERATORS:
                    raise Wrong("no generator of samples (tests/derivatives/*_samples.py) and no reason (no_derivative.py)")
                if check(key, OPERATORS[key], arguments.build / "bin/metac_differentiate", pathlib.Path(folder), arguments.seed, totals) == "skipped":
                    skipped += 1
                else:
                    passed += 1
            except Exception as error:  # a generator that cannot run has failed
                failed += 1
                print(f"FAIL  {name}: {'' if isinstance(error, Wrong) else type(error).__name__ + ': '}{error}", flush=True)
    for key in stale:
        failed += 1
        print(f"FAIL  {key}: no such operator in the registry")
    print(f"{'PyTorch' if arguments.torch else 'differences'}: {', '.join(f'{k} {v:.2g}' if isinstance(v, float) else f'{v} {k}' for k, v in totals.items())} ({time.time() - start:.0f} s)")
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
