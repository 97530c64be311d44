#!/usr/bin/env python3
"""Lazy Vars: values, gradients, training, tracing, costs, every operator function, the code of docs/lazy.md.

    python3 run_lazy.py --build build/ci --cases .cache/cases [--sample 60] [--seed 1] [--only WORD]
    needs: pip install numpy onnx; a C++ compiler; PyTorch where it is installed

--sample 0 compares the operator functions on all cases. The last line is 'N passed, N failed, N skipped'.
"""
import argparse
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="metac's build folder")
    parser.add_argument("--cases", type=pathlib.Path, required=True, help="ONNX's backend cases")
    parser.add_argument("--sample", type=int, default=60, help="cases of operators; 0: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="checks with this in their name")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    if not list((build / "python").glob("metac/_metac*")):
        print(f"the module is not built in {build}: no headers for python3, or no pybind11\n0 passed, 0 failed, 1 skipped")
        return 0
    sys.path[:0] = [str(build / "python"), str(HERE), str(HERE.parent / "python")]
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:3])
    os.environ.setdefault("METAC_PROGRAM", str(build / "bin/metac"))
    from cost_checks import CostChecks
    from cxx_checks import CxxChecks
    from cxx_function_checks import CxxFunctionChecks
    from cxx_module_checks import CxxModuleChecks
    from cxx_training_checks import CxxTrainingChecks
    from expectations import Skip
    from gradient_checks import GradientChecks
    from memory_checks import MemoryChecks
    from module_checks import ModuleChecks
    from paper_checks import PaperChecks
    from tracing_checks import TracingChecks
    from train_checks import TrainChecks
    from training_checks import TrainingChecks
    from update_checks import UpdateChecks
    from value_checks import ValueChecks
    passed = failed = skipped = 0
    for checks in (ValueChecks(), GradientChecks(), MemoryChecks(), TrainingChecks(), UpdateChecks(), ModuleChecks(),
                   TrainChecks(build), PaperChecks(), TracingChecks(build), CxxChecks(build),
                   CxxFunctionChecks(build), CxxModuleChecks(build), CxxTrainingChecks(build), CostChecks()):
        for name in [n for n in vars(type(checks)) if not n.startswith("_") and arguments.only in n]:
            try:
                told = getattr(checks, name)()
                passed += 1
                if told:
                    print(f"{name.replace('_', ' ')}: {told}", flush=True)
            except Skip as reason:
                skipped += 1
                print(f"SKIP  {name.replace('_', ' ')}: {reason}", flush=True)
            except Exception as error:  # a check that cannot run has failed
                failed += 1
                print(f"FAIL  {name.replace('_', ' ')}: {type(error).__name__}: {error}", flush=True)
    if not arguments.only:
        counts = compare_operators(arguments)
        passed, failed, skipped = passed + counts[0], failed + counts[1], skipped + counts[2]
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def compare_operators(arguments):
    import collections

    import operator_checks
    passed, failed, reasons = 0, 0, collections.Counter()
    cases = operator_checks.sampled(operator_checks.all_cases(arguments.cases / "node"), arguments.sample, arguments.seed)
    for folder in cases:
        try:
            differs = operator_checks.compare(folder)
        except Exception as error:
            differs = f"{type(error).__name__}: {error}"
        if differs is None:
            passed += 1
        elif isinstance(differs, tuple):
            reasons[differs[1]] += 1
        else:
            failed += 1
            print(f"FAIL  operator function of {folder.name}: {differs}", flush=True)
    told = ", ".join(f"{count} {reason}" for reason, count in reasons.most_common())
    print(f"operator functions: {passed} of {len(cases)} cases agree with their models; left out: {told or 'none'}")
    return passed, failed, 0  # what is left out is told above: no function can be asked


if __name__ == "__main__":
    sys.exit(main())
