"""Optimisers and losses of recipes (docs/training.md) for training loops written as code: the same formulas."""
import contextlib
import json

from . import _metac
from .errors import ArgumentError
from .var import Var, array


def _text(kind, options):
    return json.dumps({"kind": kind, **options})


def loss(kind, output, target, **options):
    """A recipe's loss of an output and its target, both with the batch first: "cross_entropy", "mse", "huber", ..."""
    return _metac.loss(_text(kind, options), output, target)


def losses(kind, output, target, **options):
    """The same of each sample, [batch]: what an evaluation adds up."""
    return _metac.losses(_text(kind, options), output, target)


class Optimiser:
    """A recipe's optimiser of a Module's parameters, {name: Var} or a list of Vars: "sgd", "adam", "adamw", "adagrad",
    "rmsprop", "lion", with the recipe's options.

    clip: {"norm": 1} or {"value": 0.5}. accumulate: steps of one update, whose gradients are averaged. average: the decay
    of an exponential moving average of the parameters, or {"from": n}: their plain mean behind the updates from n on,
    counted from 0.

    groups: [{"match": ["*.bias"], "weight_decay": 0, "rate_scale": 0.1, "frozen": False}, ...]: deviations for the
    parameters whose names (paths; "0", "1", ... of a list) match, `*` any characters and `?` one; the later group wins. A
    frozen one stays as it is: nothing is kept and no gradient computed for it.

    non_finite: "stop": nobody looks; a Run does, at the loss. "skip": a step changes nothing where an element of a gradient
    is NaN or infinite, and does not count; with `accumulate` the next one takes its place.

    parameters: {name: Var}; trained: those of them that no group froze.

    Raises ModelError where an option, its value or a field of a group is not known, a pattern matches no parameter, or
    nothing is left to train; ArgumentError where a parameter is not of floats."""

    def __init__(self, parameters, kind, *, clip=None, accumulate=1, average=None, groups=None, non_finite="stop",
                 **options):
        if hasattr(parameters, "parameters"):
            parameters = parameters.parameters()
        self.parameters = dict(parameters) if isinstance(parameters, dict) else {str(k): p for k, p in enumerate(parameters)}
        update = {"optimizer": {"kind": kind, **options}, "accumulate": accumulate, "non_finite": non_finite}
        given = (("clip", clip), ("average", average), ("groups", groups))
        update.update({name: value for name, value in given if value is not None})
        self._optimiser = _metac.Optimiser(json.dumps(update), list(self.parameters), list(self.parameters.values()))
        self.trained = {name: var for k, (name, var) in enumerate(self.parameters.items()) if self._optimiser.trains(k)}

    is_averaged = False

    def step(self, loss_or_gradients, rate=None):
        """Assigns the parameters' next values; of a loss the gradients are taken here, else they are one for each of
        `trained`. `rate`: this step's learning rate."""
        gradients = loss_or_gradients
        if isinstance(gradients, Var):
            gradients = _metac.gradient(gradients, tuple(self.trained.values()))
        self._optimiser.step(list(gradients), -1.0 if rate is None else float(rate))

    @property
    def steps(self):
        """How many were made; `accumulate` of them are an update. With non_finite="skip" those left out do not count, and
        asking looks at them."""
        return self._optimiser.steps

    def state(self):
        """{"weight/momentum": Var, ...}: what it keeps, for checkpoints, beside `steps`."""
        return {f"{name}/{slot}": var for k, name in enumerate(self.parameters) for slot, var in self._optimiser.slots(k)}

    @contextlib.contextmanager
    def averaged(self):
        """Within it the parameters are their averages: to evaluate them, to save them, to trace. A step and a checkpoint must
        wait until it has ended."""
        state = self.state()
        if any(f"{name}/average" not in state for name in self.trained):
            raise ArgumentError("the optimiser keeps no average")
        own = {name: var.numpy(copy=True) for name, var in self.trained.items()}
        self.is_averaged = True
        try:
            for name, var in self.trained.items():
                var.assign(state[f"{name}/average"])
            yield
        finally:
            self.is_averaged = False
            for name, var in self.trained.items():
                var.assign(array(own[name]))

    def load_state(self, state, steps):
        """Goes on from there."""
        for name, var in self.state().items():
            var.assign(state[name])
        self._optimiser.steps = steps
