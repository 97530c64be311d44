"""Models by NNSmith, as folders with model.onnx and inputs.npz. Runs in the environment that run_nnsmith.py makes.

    python3 nnsmith_models.py --out DIR --first 0 --count 100 [--seed 1] [--nodes 10]
"""
import argparse
import hashlib
import pathlib
import random
import warnings

import numpy as np

for name, kind in (("float", float), ("int", int), ("bool", bool)):  # names that NumPy gave up and NNSmith uses
    if not hasattr(np, name):
        setattr(np, name, kind)
warnings.simplefilter("ignore")

import onnx  # noqa: E402
import torch  # noqa: E402
from nnsmith.abstract.extension import activate_ext  # noqa: E402
from nnsmith.graph_gen import model_gen  # noqa: E402
from nnsmith.materialize import Model  # noqa: E402
from nnsmith.narrow_spec import auto_opset  # noqa: E402

export = torch.onnx.export
torch.onnx.export = lambda *a, **k: export(*a, **(k | {"dynamo": False}))  # the exporter that NNSmith was written for


def generate(kind, opset, seed, nodes):
    random.seed(seed), np.random.seed(seed), torch.manual_seed(seed)
    graph = model_gen(opset=opset, method="symbolic-cinit", seed=seed, max_elem_per_tensor=4096, max_nodes=nodes, timeout_ms=10000).make_concrete()
    model = kind.from_gir(graph)
    model.refine_weights()
    return model.native_model, model.make_oracle().input


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    kind = Model.init("onnx")
    kind.add_seed_setter()
    opset = auto_opset(kind, None)  # asks PyTorch which operators it exports, once for a cache folder
    activate_ext(opset=opset, factory=None)
    for number in range(arguments.first, arguments.first + arguments.count):
        seed = int.from_bytes(hashlib.sha256(f"{arguments.seed} {number}".encode()).digest()[:4], "big")
        try:
            model, inputs = generate(kind, opset, seed, random.Random(seed).randint(3, arguments.nodes))
        except Exception as error:  # the solver found none in time, or PyTorch exports it not
            print(f"no model {number}: {type(error).__name__} {str(error).splitlines()[0][:150] if str(error) else ''}", flush=True)
            continue
        folder = arguments.out / f"nnsmith{arguments.seed}_{number}"
        folder.mkdir(parents=True)
        onnx.save(model, folder / "model.onnx")
        np.savez(folder / "inputs.npz", **inputs)


if __name__ == "__main__":
    main()
