"""Optimisers and losses of recipes (docs/training.md) for training loops written as code: the same formulas."""
import json

from . import _metac
from .var import Var


def _text(kind, options):
    return json.dumps({"kind": kind, **options})


def loss(kind, output, target, **options):
    """A recipe's loss of an output and its target, both with the batch first: "cross_entropy", "mse", "huber", ..."""
    return _metac.loss(_text(kind, options), output, target)


class Optimiser:
    """A recipe's optimiser of a Module's parameters, {name: Var} or a list of Vars: "sgd", "adam", "adamw", "adagrad",
    "rmsprop", "lion", with the recipe's options."""

    def __init__(self, parameters, kind, **options):
        if hasattr(parameters, "parameters"):
            parameters = parameters.parameters()
        self.parameters = dict(parameters) if isinstance(parameters, dict) else {str(k): p for k, p in enumerate(parameters)}
        self._optimiser = _metac.Optimiser(_text(kind, options), list(self.parameters.values()))

    def step(self, loss_or_gradients, rate=None):
        """Assigns the parameters' next values; of a loss the gradients are taken here. `rate`: this step's learning rate."""
        gradients = loss_or_gradients
        if isinstance(gradients, Var):
            gradients = _metac.gradient(gradients, tuple(self.parameters.values()))
        self._optimiser.step(list(gradients), -1.0 if rate is None else float(rate))

    @property
    def steps(self):
        """How many were made."""
        return self._optimiser.steps

    def state(self):
        """{"weight/momentum": Var, ...}: what it keeps, for checkpoints, beside `steps`."""
        return {f"{name}/{slot}": var for k, name in enumerate(self.parameters) for slot, var in self._optimiser.slots(k)}

    def load_state(self, state, steps):
        """Goes on from there."""
        for name, var in self.state().items():
            var.assign(state[name])
        self._optimiser.steps = steps
