"""From code to a model: metac.trace(function, inputs) -> metac.Model, which is saved, or compiled ahead of time."""
import os

from . import _metac
from .errors import ArgumentError, DTypeError, ModelError
from .var import Var, array, _DTYPES


class Model:
    """What trace() made: `inputs` and `outputs` are the names, by which the compiled library is called."""

    def __init__(self, traced, inputs, outputs):
        self._traced, self.inputs, self.outputs = traced, tuple(inputs), tuple(outputs)

    def save(self, path):
        """Writes it as ONNX (.onnx) or as metac's JSON (.json)."""
        self._traced.save(os.fspath(path))

    def compile(self, folder, *arguments, **options):
        """Compiles it into a library in a new folder, as `metac compile` does: compile("out", target="cpu", grad=True).

        An option is the command's with _ for -; True is one without a value, a list gives it several times. Further
        `arguments` are given as they are.
        """
        words = list(arguments)
        for key, value in options.items():
            option = "--" + key.replace("_", "-")
            for each in value if isinstance(value, (list, tuple)) else [value]:
                if each is True:
                    words.append(option)
                elif each is not False and each is not None:
                    words += [option, str(each)]
        self._traced.compile(os.fspath(folder), words)


def trace(function, inputs, *, dims=None, input_names=None, output_names=None, weights=None):
    """The model that `function` is, called with Vars like `inputs`: arrays or Vars, of which type and shape are taken.

    The function is called once. It may branch and loop on shapes; where it looks at a value that depends on its arguments,
    ModelError is raised there. What it returns, a Var or several, are the outputs. Vars that it reads become the model's
    weights as they are now; `weights`, {name: Var}, names them, as Module.parameters() does, which is taken by itself where
    the function is a Module.

    `dims` names dims that are to be open, {axis: name} for each input (or None): dims=[{0: "batch"}]. The function is then
    called several times, with other sizes each time (multiples of those of `inputs`, and odd ones where it takes them), which
    shows what depends on them: numbers that do must be dims, products of dims or simple formulas of one, and what the
    function does must be the same, else ModelError names the line.
    """
    given = [each if isinstance(each, Var) else array(each) for each in inputs]
    open_dims = _open_dims(dims, given)
    if weights is None:
        weights = function.parameters(states=True) if hasattr(function, "parameters") else {}
    _metac.evaluate(list(weights.values()))  # before anything reads both these and arguments
    calls, odd = [], len({name for _, _, name in open_dims}) + 1
    for call, sizes in enumerate(_sizes_to_try(open_dims, given)):
        if len(calls) > odd:
            break  # the last stands for the one before it, which went well
        arguments = []
        for k, var in enumerate(given):
            shape = list(var.shape)
            for (of, axis, _), size in zip(open_dims, sizes):
                if of == k:
                    shape[axis] = size
            arguments.append(_metac.placeholder(shape, _DTYPES[var.dtype]))
        try:
            results = function(*arguments)
        except Exception:
            if call != odd or not sizes:
                raise
            continue
        results = list(results) if isinstance(results, (list, tuple)) else [results]
        for result in results:
            if not isinstance(result, Var):
                raise DTypeError(f"the traced function returned a {type(result).__name__}; it must return Vars")
        calls.append((arguments, results))
    if len({len(results) for _, results in calls}) > 1:
        raise ModelError("the traced function returns more or fewer Vars where open dims have other sizes")
    input_names = _names(input_names, "input", len(given))
    output_names = _names(output_names, "output", len(calls[0][1]))
    traced = _metac.TracedModel([pair for arguments, _ in calls for pair in zip(input_names, arguments)],
                                [pair for _, results in calls for pair in zip(output_names, results)],
                                list(weights.items()), open_dims, len(calls))
    return Model(traced, input_names, output_names)


def _open_dims(dims, given):
    """[(input, axis, name), ...]"""
    dims = list(dims) if dims is not None else []
    if len(dims) > len(given):
        raise ArgumentError(f"dims of {len(dims)} inputs for {len(given)} inputs")
    found = []
    for k, axes in enumerate(dims):
        for axis, name in (axes or {}).items():
            if not -given[k].ndim <= axis < given[k].ndim or not isinstance(name, str) or not name:
                raise ArgumentError(f"dims: {axes!r} of input {k}, which has {given[k].ndim} axes; it must be {{axis: name}}")
            found.append((k, axis % given[k].ndim, name))
    return found


def _sizes_to_try(open_dims, given):
    """The sizes of the open dims in one call after the other."""
    if not open_dims:
        yield []
        return
    own = [given[k].shape[axis] for k, axis, _ in open_dims]
    for call in range(len({name for _, _, name in open_dims}) + 3):
        yield _metac.open_sizes(open_dims, own, call)


def _names(given, kind, count):
    names = list(given) if given is not None else [kind + (str(k) if count > 1 else "") for k in range(count)]
    if len(names) != count:
        raise ArgumentError(f"{len(names)} {kind} names for {count} {kind}s")
    return names
