#!/usr/bin/env python3
"""Runs ONNX's backend cases through `metac verify --recursive` and judges every answer.

    python3 run_cases.py --metac build/release/bin/metac --cases DIR [--sample N --seed S] [--only REGEX] [--known ranks|shapes|values] [--aot [--cxx PROGRAM]] [--fusion F] [--csv FILE]
    DIR is what generate_cases.py wrote.

A case must pass, or be refused by name (`skipped`, with the operator, opset or type in the reason). Three things are
failures: a wrong answer, a crash or a case without a verdict, and a refusal although every operator of the case is in
`metac operators` and its types are floats of 16 to 64 bits, integers, bool and 8-bit. Exceptions stand in expected.txt, one a
line with its reason; a line whose case passes is a failure too, so that the list can only shrink. `category/name @shapes` is one
with --known shapes or ranks alone, `category/name @ranks` with ranks. `category/name @double` says that the stored answer is the
worse one: the case passes where metac's is nearer to what the same graph makes in double (double_answers.py), else it fails.
--known is `metac verify`'s: what code may rely on. `shapes` is what an ahead-of-time library knows, in this process; with `ranks`
every dim of every input is open.
The last line is 'N passed, N failed, N skipped'.
"""
import argparse
import collections
import csv
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import double_answers

TIERS = {"float", "double", "float16", "bfloat16", "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"}
LIST = pathlib.Path(__file__).with_name("expected.txt")
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/operators.md"


def expected_failures(known):
    """{case: reason} from lines `category/name[ @level]: reason`, of the levels that `known` has, and those that double decides."""
    lines = [line for line in LIST.read_text().splitlines() if line.strip() and not line.startswith("#")]
    pairs = [line.split(":", 1) for line in lines]
    for pair in pairs:
        if len(pair) != 2 or not pair[1].strip():
            sys.exit(f"{LIST}: '{pair[0]}' has no reason")
    levels = {"values": ["", "double"], "shapes": ["", "double", "shapes"], "ranks": ["", "double", "shapes", "ranks"]}[known]
    found, in_double = {}, set()
    for case, reason in pairs:
        name, _, level = case.partition(" @")
        if level.strip() in levels:
            found[name.strip()] = reason.strip()
        if level.strip() == "double":
            in_double.add(name.strip())
    return found, in_double


def supported_operators(metac):
    """'Conv', 'ai.onnx.ml.Scaler', ... as index.csv writes them."""
    table = json.loads(subprocess.run([metac, "operators", "--json"], check=True, capture_output=True, text=True).stdout)
    rows = table["operators"] if isinstance(table, dict) else table
    names = set()
    for row in rows:
        domain = row.get("domain", "")
        names.add(row["name"] if domain in ("", "ai.onnx") else f"{domain}.{row['name']}")
    return names


def verify(metac, folder, extra):
    """{path relative to folder: case row} of `metac verify --recursive --json`."""
    done = subprocess.run([metac, "verify", str(folder), "--recursive", "--json", *extra], stdout=subprocess.PIPE, text=True)
    try:
        rows = json.loads(done.stdout)["cases"]
    except (json.JSONDecodeError, KeyError):
        sys.exit(f"metac verify ended with status {done.returncode} and no JSON: {done.stdout[:300]!r}")
    verdicts = {}
    for row in rows:
        path = pathlib.Path(row["path"])
        path = path.relative_to(folder) if path.is_absolute() and path.is_relative_to(folder) else path
        verdicts["/".join(path.parts[-2:])] = row
    return verdicts


def judge(case, row, verdict, operators, exceptions):
    """(kind, text) where kind is passed, failed, skipped or expected."""
    status = verdict["status"] if verdict else "no verdict"
    detail = (verdict or {}).get("detail", "")
    if status in ("passed", "pass"):
        if case in exceptions:
            return "failed", f"passes; remove its line from {LIST.name}"
        return "passed", ""
    if case in exceptions:
        return "expected", exceptions[case]
    if status in ("skipped", "skip"):
        within = set(row["dtypes"].split()) <= TIERS and not row["containers"].replace("subgraph", "").strip()
        if within and set(row["ops"].split()) <= operators:
            return "failed", f"refused although its operators are supported: {detail}"
        if not detail:
            return "failed", "refused without a reason"
        return "skipped", detail
    return "failed", f"{status}: {detail}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metac", required=True)
    parser.add_argument("--cases", type=pathlib.Path, required=True)
    parser.add_argument("--sample", type=int, help="this many cases, drawn by --seed, instead of all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="regular expression on category/name")
    parser.add_argument("--known", choices=["ranks", "shapes", "values"], default="values")
    parser.add_argument("--aot", action="store_true")
    parser.add_argument("--cxx", help="with --aot: the compiler of everything")
    parser.add_argument("--fusion", choices=["paper", "greedy", "best"], default="best")
    parser.add_argument("--csv", type=pathlib.Path, help="write a row a case: case, verdict, max_ulp, max_rel, detail")
    arguments = parser.parse_args()
    cases_dir = arguments.cases.resolve()
    with open(cases_dir / "index.csv", newline="") as file:
        index = {f"{r['category']}/{r['name']}": r for r in csv.DictReader(file)}
    operators = supported_operators(arguments.metac)
    exceptions, in_double = expected_failures("shapes" if arguments.aot and arguments.known == "values" else arguments.known)
    for case in exceptions.keys() - index.keys():
        print(f"FAIL  {case} is in {LIST.name} but no such case exists")
    chosen = [c for c in index if re.search(arguments.only, c)]
    if arguments.sample and arguments.sample < len(chosen):
        chosen = random.Random(arguments.seed).sample(chosen, arguments.sample)

    extra = ["--fusion", arguments.fusion, "--known", arguments.known] + (["--aot"] if arguments.aot else []) + (["--cxx", arguments.cxx] if arguments.cxx else [])
    if len(chosen) == len(index):
        verdicts = verify(arguments.metac, cases_dir, extra)
    else:
        with tempfile.TemporaryDirectory(prefix="metac-cases-") as folder:
            for case in chosen:
                shutil.copytree(cases_dir / case, pathlib.Path(folder) / case)
            verdicts = verify(arguments.metac, pathlib.Path(folder), extra)

    kinds, refused, rows = collections.Counter(), collections.Counter(), []
    page = PAGE.read_text()
    for name in sorted(n for n in operators if f"| {n.split('.')[-1]} |" not in page):
        kinds["failed"] += 1
        print(f"FAIL  {name} is not in {PAGE.name}; write it anew: metac operators --markdown --measured FILE")
    kinds["failed"] += len(exceptions.keys() - index.keys())
    for case in sorted(chosen):
        verdict = verdicts.get(case)
        kind, text = judge(case, index[case], verdict, operators, exceptions)
        if kind == "expected" and case in in_double and verdict["status"] == "failed":
            nearer, text = double_answers.compare(arguments.metac, cases_dir / case)
            kind = "passed" if nearer else "failed"
            print(f"{case}: {text}")
        kinds[kind] += 1
        rows.append([case, kind, (verdict or {}).get("max_ulp", ""), (verdict or {}).get("max_rel", ""), text])
        if kind == "failed":
            print(f"FAIL  {case}: {text}")
        elif kind == "skipped":
            refused[index[case]["op"]] += 1
    if arguments.csv:
        with open(arguments.csv, "w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([["case", "verdict", "max_ulp", "max_rel", "detail"], *rows])
    if refused:
        print("refused by name: " + ", ".join(f"{op} {n}" for op, n in refused.most_common()))
    if kinds["expected"]:
        print(f"{kinds['expected']} failed as {LIST.name} says")
    print(f"{kinds['passed']} passed, {kinds['failed']} failed, {kinds['skipped'] + kinds['expected']} skipped")
    return 1 if kinds["failed"] or not kinds["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
