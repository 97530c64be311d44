"""First and second derivatives of the samples beside PyTorch's, in float64."""
import warnings

import numpy as np

from run_operators import Wrong, deviation, named
from samples import Fixed, differentiated, samples_of, tangents_of, torch
from without_torch import NO_COUNTERPART

LIMIT = 1e-10
warnings.filterwarnings("ignore")  # variances of nothing, which the samples mean


def limit_of(sample):
    """Operators that know float32 alone have constants of 32 bits, whatever computes them."""
    narrow = "float32" in sample.what or any(value.dtype == np.float32 for value in sample.inputs.values())
    return 1e-6 if narrow else LIMIT


def operand(value):
    if value is None:
        return None
    array = value.value if isinstance(value, Fixed) else value
    if array.dtype == np.float32:
        array = array.astype(np.float64)
    return torch.as_tensor(np.ascontiguousarray(array).reshape(array.shape))


def by_torch(sample, reference, cotangents, tangents):
    """Outputs, gradients, and for every direction Hessian-vector products, by name."""
    operands = [operand(value) for value in sample.operands]
    at = [sample.names.index(name) for name in sample.wrt]
    for k in at:
        operands[k].requires_grad_()
    results = reference(sample.attributes, *operands)
    results = [value for value in (results if isinstance(results, (tuple, list)) else [results])]
    # Of several results those that have a name and are floats.
    given = {}
    for k, value in enumerate(results):
        name = f"y{k}"
        if value is not None and name in cotangents:
            given[name] = value
    total = sum((value * torch.as_tensor(cotangents[name].astype(np.float64))).sum() for name, value in given.items())
    wrt = [operands[k] for k in at]
    zeros = [torch.zeros_like(x) for x in wrt]

    def derivatives(of, create_graph):
        if not getattr(of, "requires_grad", False):
            return zeros
        found = torch.autograd.grad(of, wrt, create_graph=create_graph, allow_unused=True)
        return [z if g is None else g for g, z in zip(found, zeros)]
    gradients = derivatives(total, True)
    products = []
    for along in tangents:
        inner = sum((g * torch.as_tensor(along[name].astype(np.float64))).sum() for g, name in zip(gradients, sample.wrt))
        products.append(dict(zip(sample.wrt, derivatives(inner, True))))
    plain = lambda values: {name: value.detach().numpy(force=True) for name, value in values.items()}
    return plain(given), plain(dict(zip(sample.wrt, gradients))), [plain(p) for p in products]


def check_by_torch(key, operator, tool, folder, seed, totals):
    if key in NO_COUNTERPART:
        return "skipped"
    made = [(sample, operator.reference if sample.reference is None else sample.reference) for sample in samples_of(*key, seed=seed)]
    if any(reference is None for _, reference in made):
        raise Wrong("samples without PyTorch's function, and no reason in without_torch.py")
    totals["left out"] = totals.get("left out", 0) + sum(reference is False for _, reference in made)
    made = [(sample, reference) for sample, reference in made if reference]
    wrong = []
    for (sample, reference), results in zip(made, differentiated(tool, [sample for sample, _ in made], folder)):
        try:
            if "error" in results:
                raise Wrong(results["error"])
            outputs, gradients, products = by_torch(sample, reference, named(results, "cotangent "), tangents_of(sample, 2))
            compared = [(f"output {name}", f"output {name}", value, "outputs") for name, value in outputs.items()]
            compared += [(f"gradient of {name}", f"gradient {name}", value, "first") for name, value in gradients.items()]
            compared += [(f"product of {name}", f"product {d} {name}", value, "second") for d, product in enumerate(products) for name, value in product.items()]
            for what, place, value, kind in compared:
                error = deviation(results[place], value, f"{what}, beside PyTorch's")
                if not error <= limit_of(sample):
                    at = np.unravel_index(np.abs(results[place] - value).argmax(), value.shape)
                    raise Wrong(f"{what}: {results[place][at]:.15g}, PyTorch says {value[at]:.15g} (off by {error:.2g})")
                if limit_of(sample) == LIMIT:
                    totals[kind] = max(totals.get(kind, 0), error)
            totals["samples"] = totals.get("samples", 0) + 1
        except (Wrong, RuntimeError, ValueError, TypeError, AttributeError, IndexError) as error:  # PyTorch's own among them
            wrong.append(f"{sample.what}: {error}")
    totals["operators"] = totals.get("operators", 0) + 1
    if wrong:
        raise Wrong(f"{len(wrong)} of {len(made)} samples\n" + "\n".join(f"      {line}" for line in wrong[:4]))
