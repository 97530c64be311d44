"""Data and the course of a training, for loops written as code: what a recipe's training program has (docs/training.md,
docs/training_program.md), with the same files, formulas and words. docs/lazy.md shows a whole loop."""
import contextlib
import json
import os
import signal

from . import _metac
from .errors import ArgumentError
from .nn import Dropout, Module
from .optim import Optimiser
from .var import Var, array, dtype_name

_GREATER_IS_BETTER = ("accuracy", "binary_accuracy", "top_k")


def processes():
    """The processes that a launcher started together (`mpirun -n 4 python train.py`), or this one alone: `rank`, `size`,
    `average([Var, ...])`, `sum([float, ...])`, which all call in the same order, and `finish()`, after which all may end. To
    be called once; a Run that is given them does the rest."""
    return _metac.Processes()


def _described(value):
    return value if isinstance(value, str) else json.dumps(value)


class Batch(dict):
    """{field: Var of [batch, ...]}; the first `valid` samples count, the rest fills the batch up."""

    valid = 0


class Data:
    """Samples for training and, where a part of them is set aside, for validation.

    data: a recipe's "data", a dict or JSON text: format, train, validation or validation_split, shuffle, drop_last, fields.
    fields: {name: (dtype, shape of one sample)}, what batches shall have.
    folder: where the paths in `data` begin.
    arrays: {name: array} instead of files; the first axis counts the samples. `data` has no format and paths then, and fields
    are those of the arrays unless given.
    seed: chooses what is set aside, the order of each epoch and the augmentation.

    Raises ModelError, which names file and field, where the data are not there or do not fit; ArgumentError.
    """

    def __init__(self, data=None, fields=None, *, folder=".", arrays=None, seed=0):
        if fields is None:
            if arrays is None:
                raise ArgumentError("fields: {name: (dtype, shape of one sample)} says what batches shall have")
            fields = {name: (dtype_name(value.dtype), value.shape[1:]) for name, value in arrays.items()}
        described = [(name, _metac.dtypes[dtype_name(dtype)], list(shape)) for name, (dtype, shape) in fields.items()]
        self.seed = seed
        self._data = _metac.Data(_described(data or {}), os.fspath(folder), None if arrays is None else dict(arrays), seed,
                                 described)

    def samples(self, validation=False):
        """How many there are for training, or set aside for validation."""
        return self._data.samples(validation)

    @property
    def classes(self):
        """Names of classes by number: folders of pictures, words of a column."""
        return self._data.classes()

    def loader(self, batch=32, *, validation=False, threads=0, processes=None):
        """Batches of the samples for training, or with `validation` of those set aside."""
        return Loader(self, batch, validation, threads, processes)


class Loader:
    """Batches, made by threads of their own while the model works. A batch depends on the seed, the epoch and its number
    alone. With several processes each has its part of the batch of all."""

    def __init__(self, data, batch, validation=False, threads=0, processes=None):
        self.data, self.batch = data, batch
        self._loader = _metac.Loader(data._data, batch, validation, threads, processes)

    def __len__(self):
        """Batches of an epoch."""
        return self._loader.batches()

    def start(self, epoch, batch=0):
        """next() gives this batch of this epoch, both from 0."""
        self._loader.start(epoch, batch)

    def next(self):
        """The batch behind the one before; behind an epoch's last comes the next epoch's first."""
        fields, valid = self._loader.next()
        batch = Batch(fields)
        batch.valid = valid
        return batch

    def epoch(self, number=0, batch=0):
        """The batches of an epoch, from this one on."""
        self.start(number, batch)
        for _ in range(batch, len(self)):
            yield self.next()

    def __iter__(self):
        return self.epoch(0)


class Schedule:
    """A recipe's schedule as a function of the update, from 0: `Schedule("cosine", 0.003, updates=440, per_epoch=22,
    warmup=1)(17)`. learning_rate: the greatest; updates: of the whole run; per_epoch: updates of an epoch."""

    def __init__(self, kind, learning_rate, updates, per_epoch=1, **options):
        text = kind if isinstance(kind, dict) else {"kind": kind, **options}
        self._schedule = _metac.Schedule(json.dumps(text), learning_rate, updates, per_epoch)

    def __call__(self, update):
        return self._schedule.rate(update)


class Run:
    """The course of a training in a folder: checkpoints/, log.jsonl, curves.svg, and with patience best.safetensors.

    folder: of one program at a time. loader: of the batches to train with. epochs: how many.
    schedule: a recipe's schedule, a dict or its kind; `rate` is the learning rate of the next update by it.
    metrics: names beside the loss, or {name: whether greater is better}; watch: what patience looks at, "loss" or one of them.
    accumulate: steps of an update, as the optimiser has it.
    checkpoint_every: updates, 0: at the end of every epoch; checkpoints_kept; log_every: updates; patience: epochs without a
    better one after which it ends, 0: never.
    resume: go on from the newest whole checkpoint, if there is one; strict: a damaged one is refused instead of going back to
    the one before. restart: those of an earlier run are removed.
    quiet: no progress, warnings alone. catch_signals: Ctrl-C and SIGTERM end it behind the step, with a checkpoint.
    processes: of processes().
    non_finite: "stop": NaN or infinity in a loss or metric raises ModelError, with the place. "skip": the step is left out,
    with a warning, also where a kept optimiser (of non_finite="skip" too) left it out for its gradients: it is in no sum and
    no update, and all that is kept, running means included, is again what it was when batches() gave the batch. The eleventh
    such step in a row raises ModelError. `skipped` counts them.

        with train.Run("folder", loader, epochs=20, resume=True) as run:
            run.keep(net, optimiser)
            for epoch in run.epochs():
                for batch in run.batches():
                    loss = ...
                    optimiser.step(loss, rate=run.rate)
                    run.step(loss)
                run.end_epoch()
    """

    def __init__(self, folder, loader, epochs=10, *, name="run", about="", schedule="constant", learning_rate=1e-3,
                 metrics=(), watch="loss", accumulate=1, checkpoint_every=0, checkpoints_kept=2, log_every=1, patience=0,
                 resume=False, restart=False, strict=False, quiet=False, catch_signals=True, processes=None,
                 non_finite="stop"):
        if not isinstance(metrics, dict):
            metrics = {each: each in _GREATER_IS_BETTER for each in metrics}
        if watch != "loss" and watch not in metrics:
            raise ArgumentError(f"watch: {watch!r}; there are {', '.join(['loss', *metrics])}")
        self.loader, self.metrics, self.processes = loader, list(metrics), processes
        updates = max(1, epochs * len(loader) // accumulate)
        self.schedule = Schedule(schedule if isinstance(schedule, dict) else {"kind": schedule}, learning_rate, updates,
                                 len(loader) / accumulate)
        watched = 0 if watch == "loss" else 1 + self.metrics.index(watch)
        numbers = [loader.data.seed, epochs, len(loader), loader.batch, accumulate, checkpoint_every, checkpoints_kept,
                   log_every, patience]
        self._dropouts, self._optimisers, self._begun, self._skips = {}, [], False, non_finite == "skip"
        self._run = _metac.Run(os.fspath(folder), name, about, list(metrics.items()), watched, numbers,
                               [resume, restart, strict, quiet, catch_signals], processes, non_finite)

    def keep(self, *parts, **named):
        """What checkpoints have: modules, optimisers, {name: Var}. Parts of one kind have names of their own when they are
        given by name: keep(generator=g, critic=c). Several processes average the gradients of kept optimisers, and the
        states of modules that are no parameters (running means)."""
        for prefix, part in [("", each) for each in parts] + [(name + ".", each) for name, each in named.items()]:
            if isinstance(part, Optimiser):
                self._optimisers.append(part)
                self._run.keep_optimiser(part._optimiser, [prefix + path for path in part.parameters])
            elif isinstance(part, Module):
                self._keep_module(prefix, part)
            elif isinstance(part, dict):
                for path, var in part.items():
                    self._run.keep(prefix + path, var, False)
            else:
                raise ArgumentError(f"{type(part).__name__} is kept by no checkpoint; modules, optimisers and dicts of Vars are")

    def _keep_module(self, prefix, module):
        parameters = {id(var) for var in module.parameters().values()}
        for path, var in module.parameters(states=True).items():
            self._run.keep(prefix + path, var, id(var) not in parameters)
        for path, each in module.modules(prefix.rstrip(".")):
            if isinstance(each, Dropout):
                self._dropouts[f"{path}.calls"] = each
                if self.processes is not None:  # each process drops other elements
                    each.seed = (each.seed + self.processes.rank) % (1 << 31)

    def begin(self):
        """Takes the newest checkpoint, or begins; epochs() does it. True: it resumed."""
        for name, each in self._dropouts.items():
            self._run.set_number(name, each.calls)
        resumed = self._run.begin()
        for name, each in self._dropouts.items():
            each.calls = self._run.number(name)
        self._begun = True
        return resumed

    def __getattr__(self, name):
        if name in ("update", "epoch", "batch", "best_epoch", "best", "finished", "skipped"):
            return self._run.place()[name]
        raise AttributeError(name)

    @property
    def rate(self):
        """The learning rate of the next update."""
        return self.schedule(self.update)

    def epochs(self):
        """Numbers of the epochs that are left, from 0; each must be ended by end_epoch()."""
        if not self._begun:
            self.begin()
        while not self.finished:
            epoch = self.epoch
            yield epoch
            if self.epoch == epoch:
                raise ArgumentError(f"epoch {epoch} was not ended by end_epoch()")

    def batches(self):
        """The batches of this epoch that are left; behind each comes one step()."""
        place = self._run.place()
        self.loader.start(place["epoch"], place["batch"])
        for k in range(place["batch"], place["batches"]):
            if self._skips and self.batch == k:  # not where somebody takes batches ahead of their steps
                self._run.before_step()
            yield self.loader.next()

    def step(self, loss, rate=None, **metrics):
        """Behind a step of the optimiser: loss and metrics, scalar Vars or numbers, go into the log. rate: the learning rate it
        had, if not the schedule's. Raises ModelError where one is NaN or infinite, unless the run skips such steps;
        KeyboardInterrupt or SystemExit behind a signal, with a checkpoint written."""
        if sorted(metrics) != sorted(self.metrics):
            raise ArgumentError(f"metrics are {', '.join(self.metrics) or 'none'}, given are {', '.join(metrics) or 'none'}")
        for name, each in self._dropouts.items():
            self._run.set_number(name, each.calls)
        self._expect_own_parameters()
        values = [each if isinstance(each, Var) else array(each) for each in (metrics[name] for name in self.metrics)]
        number = self._run.step(loss, values, self.rate if rate is None else rate)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        if number:
            raise SystemExit(128 + number)

    def evaluate(self, loader, scores):
        """Means over all samples of a loader, and of all processes: scores(batch) gives {name: Var of [batch]}, "loss" and the
        metrics, one value a sample. What fills a batch up does not count."""
        names, sums, samples = ["loss", *self.metrics], [0.0] * (1 + len(self.metrics)), 0
        for batch in loader.epoch(0):
            values = scores(batch)
            if sorted(values) != sorted(names):
                raise ArgumentError(f"scores are {', '.join(values)}; there must be {', '.join(names)}")
            for k, name in enumerate(names):
                sums[k] += float(values[name].astype("float64").numpy()[:batch.valid].sum())
            samples += batch.valid
        if self.processes is not None:
            *sums, samples = self.processes.sum([*sums, float(samples)])
        return {name: total / samples for name, total in zip(names, sums)}

    def _expect_own_parameters(self):
        if any(each.is_averaged for each in self._optimisers):
            raise ArgumentError("the parameters are their averages here: leave averaged() before steps, epochs' ends and saving")

    def end_epoch(self, scores=None):
        """Behind an epoch's last step. scores: {"loss": ..., metric: ...} on the validation data. True: the best so far."""
        self._expect_own_parameters()
        if scores is None:
            return self._run.end_epoch(None)
        return self._run.end_epoch([float(scores[name]) for name in ("loss", *self.metrics)])

    def save(self):
        """A checkpoint now."""
        self._expect_own_parameters()
        self._run.save()

    def load_best(self):
        """What is kept becomes what it was behind the best epoch; that needs patience."""
        self._run.load_best()

    def close(self):
        self._run.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *unused):
        with contextlib.suppress(Exception) if kind else contextlib.nullcontext():
            self.close()
        if kind is None and self.processes is not None:
            self.processes.finish()
