"""From code to a model: metac.trace(function, inputs) -> metac.Model, which is saved, or compiled ahead of time."""
import os

from . import _metac
from .errors import ArgumentError, DTypeError
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


def trace(function, inputs, *, input_names=None, output_names=None, weights=None):
    """The model that `function` is, called with Vars like `inputs`: arrays or Vars, of which type and shape are taken.

    The function is called once. It may branch and loop on shapes; where it looks at a value that depends on its arguments,
    ModelError is raised there. What it returns, a Var or several, are the outputs. Vars that it reads become the model's
    weights as they are now; `weights`, {name: Var}, names them, as Module.parameters() does, which is taken by itself where
    the function is a Module.
    """
    arguments = []
    for each in inputs:
        var = each if isinstance(each, Var) else array(each)
        arguments.append(_metac.placeholder(list(var.shape), _DTYPES[var.dtype]))
    results = function(*arguments)
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    for result in results:
        if not isinstance(result, Var):
            raise DTypeError(f"the traced function returned a {type(result).__name__}; it must return Vars")
    if weights is None:
        weights = function.parameters(states=True) if hasattr(function, "parameters") else {}
    input_names = _names(input_names, "input", len(arguments))
    output_names = _names(output_names, "output", len(results))
    traced = _metac.TracedModel(list(zip(input_names, arguments)), list(zip(output_names, results)), list(weights.items()))
    return Model(traced, input_names, output_names)


def _names(given, kind, count):
    names = list(given) if given is not None else [kind + (str(k) if count > 1 else "") for k in range(count)]
    if len(names) != count:
        raise ArgumentError(f"{len(names)} {kind} names for {count} {kind}s")
    return names
