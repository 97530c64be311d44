"""The command line that checks of random graphs in sessions share."""
import argparse
import pathlib
import sys

import numpy as np
from grow_apart import Grower, grow


def check_graphs(about, check, salt, every_other, nodes, make=grow, libraries=None, targets=False):
    """The command line of a check of random graphs in sessions. check(graph, rng): what is wrong, None, or "" where there is nothing
    to see; every_other: operators that every other graph is of alone; nodes: of a graph at most; make: what grows them. libraries:
    of how many graphs libraries are looked at too, check(graph, rng, metac) with the path of the program. targets: what they and sessions
    run on is asked, and given to check() as well. Returns the exit status."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="metac's build folder")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=nodes)
    parser.add_argument("--only", default="", help="of these operators alone, by commas")
    if libraries is not None:
        parser.add_argument("--libraries", type=float, default=libraries, help="the share of the graphs that become libraries too")
    if targets:
        parser.add_argument("--target", default="cpu", help="what sessions and libraries run on: cpu or cuda")
    arguments = parser.parse_args()
    package = arguments.build.resolve() / "python"
    if not list(package.glob("metac/_metac*")):
        print(f"the module is not built in {package}: no headers for python3, or no pybind11\n0 passed, 0 failed, 1 skipped")
        return 0
    sys.path.insert(0, str(package))
    grower, passed, failed, skipped = Grower(make), 0, 0, 0
    for i in range(arguments.first, arguments.first + arguments.count):
        rng = np.random.default_rng([arguments.seed, i, salt])
        only = tuple(filter(None, arguments.only.split(","))) or (every_other if i % 2 else ())
        graph = grower.grow(arguments.seed, i, int(rng.integers(1, arguments.nodes + 1)), only, ())
        more = () if libraries is None else (arguments.build.resolve() / "bin/metac" if rng.random() < arguments.libraries else None,)
        more += (arguments.target,) if targets else ()
        told = check(graph, rng, *more) if graph and graph.steps else ""
        passed, failed, skipped = passed + (told is None), failed + bool(told), skipped + (told == "")
        if told:
            print(f"FAIL  graph {i} of seed {arguments.seed}: {told}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0
