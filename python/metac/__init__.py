"""metac: neural networks that run at once, in whatever shapes come, from any thread.

    import metac
    with metac.Session("net.onnx") as session:
        outputs = session.run({"x": array})      # {name: array}

Models are written as code with metac.array, metac.op and metac.grad; nothing of that runs until a value is looked at
(docs/lazy.md).

Arrays go in and out without copies, by the buffer protocol and DLPack; NumPy is used where it is installed and is not
needed. docs/sessions.md tells the whole.
"""
import atexit
import operator
import os
import weakref
from typing import Any, Callable, Dict, Iterable, Mapping, NamedTuple, Optional, Tuple, Union

from . import _metac
from ._metac import Array
from .errors import ArgumentError, DTypeError, Error, InternalError, ModelError, OutOfMemoryError, UnsupportedError
from . import op, optim
from .tracing import Model, trace
from .var import Var, array, checkpoint, evaluate, fetch, grad, jvp, no_grad, sync, vjp
from . import nn, train

__version__ = _metac.version()
__all__ = ["Session", "Stream", "Port", "Array", "Error", "ArgumentError", "DTypeError", "ModelError", "OutOfMemoryError",
           "UnsupportedError", "InternalError", "Model", "Var", "array", "checkpoint", "define", "define_file", "evaluate",
           "fetch", "grad", "jvp", "nn", "no_grad", "op", "optim", "sync", "trace", "train",
           "vjp"]


def define(name: str, formula: str, *, gradient: Optional[Mapping[str, str]] = None, fusible: bool = True) -> Callable:
    """Defines an element-wise operator for the models that this process opens from now on (docs/defining_operators.md), and
    returns it as a function of Vars:

        mish = metac.define("mish", "x * tanh(log1p(exp(x)))")
        metac.define("com.example::huber(x, delta = 1)", "abs(x) < delta ? x * x / 2 : delta * (abs(x) - delta / 2)")

    gradient: {operand: formula}, of the parameters, the result y and its adjoint dy, where the one by the rules is bad.
    fusible: False makes its result a kernel of its own. Raises ModelError, which points into the formula."""
    _metac.define(name, formula, list((gradient or {}).items()), fusible)
    domain, _, own = name.partition("(")[0].strip().rpartition("::")
    return op.defined(own, domain or "user")


def define_file(path: Any) -> None:
    """Defines the functions of a C++ file in the same way; metac.op.defined(name) has them as functions of Vars. The file is
    read and not compiled."""
    _metac.define_file(os.fspath(path))


class Port(NamedTuple):
    """An input or output: its name, the dtype of its elements ("float32", "bfloat16", ...; None: the model does not say),
    and its shape, which is None where any rank will do. A dim is a number, the name that the model gives an open dim, or
    None for an open dim without a name."""

    name: str
    dtype: Optional[str]
    shape: Optional[Tuple[Union[int, str, None], ...]]


class Session:
    """A model that is ready to run.

    model: the path of an ONNX file or a JSON IR document (str or os.PathLike), or its contents (bytes or another buffer;
    external data cannot be named there).
    specialise: when a program for a shape is compiled: "background" (behind runs of the open program, for shapes that come
    again), "eager" (before the shape's first run, which waits for it), "never".
    threads: of a run; 0: one per CPU that this process may use.
    max_contexts: runs side by side, further calls wait; 0: as many as there are usable CPUs.
    max_specialisations: the least recently used go first; 0: 64.
    max_memory: bytes of specialisations; 0: no limit.
    dims: {name: 8} fixes an open dim, {name: (1, 64)} says its range and (1, 64, 8) also what divides it; None for the
    upper end is no limit.
    cpu: "native", "x86-64-v3", ...; target: "cpu" or "cuda".
    states: inputs and outputs that are one value, which goes from each run of a stream to the next: {input: output}, or "auto"
    for those that are known by their names. They are no inputs and outputs of runs then.
    ops: C++ files whose functions are operators of this model (docs/defining_operators.md).
    precision: "bfloat16" and "auto" let products of matrices and convolutions read bfloat16 where the CPU multiplies that,
    "int8" those with weights of 2, 4 or 8 bits read int8.

    Any number of threads may call one session; runs do not hold the interpreter's lock. A session belongs to the process
    that opened it: in a child that fork made, its calls raise UnsupportedError.

    Raises FileNotFoundError, ArgumentError (an option), ModelError (the model), UnsupportedError (this machine).
    """

    def __init__(self, model: Any, *, specialise: str = "background", threads: int = 0, max_contexts: int = 0,
                 max_specialisations: int = 0, max_memory: int = 0, dims: Optional[Mapping[str, Any]] = None,
                 cpu: str = "native", target: str = "cpu", states: Union[None, str, Mapping[str, str]] = None,
                 ops: Iterable[Any] = (), precision: str = "float32"):
        if isinstance(model, (str, os.PathLike)):
            os.stat(model)  # what is not there is FileNotFoundError, as of open()
            model = os.fspath(model)
            path, contents = os.fsencode(model), None
        else:
            path, contents = None, _bytes_of(model)
        self._session = _metac.Session(path, contents, specialise, threads, max_contexts, max_specialisations, max_memory,
                                       [_dim(name, limits) for name, limits in (dims or {}).items()], cpu, target,
                                       _states(states), [os.fspath(file) for file in ops], precision)
        self._inputs = tuple(Port(*port) for port in self._session.inputs())
        self._outputs = tuple(Port(*port) for port in self._session.outputs())
        self._states = tuple(Port(*port) for port in self._session.states())
        self._streams: "weakref.WeakSet[Stream]" = weakref.WeakSet()
        _open_sessions.add(self)

    @property
    def inputs(self) -> Tuple[Port, ...]:
        """What a run is given, in the model's order."""
        return self._inputs

    @property
    def outputs(self) -> Tuple[Port, ...]:
        """What a run answers, in the model's order."""
        return self._outputs

    @property
    def states(self) -> Tuple[Port, ...]:
        """What a stream hands from run to run, by the names of the inputs."""
        return self._states

    def stream(self) -> "Stream":
        """A caller with states of its own: a conversation, a song. Any number of them run side by side."""
        return Stream(self, self._session.stream())

    def run(self, inputs: Mapping[str, Any], *, as_numpy: bool = True) -> Dict[str, Any]:
        """One run: {name: array} of all outputs, in the model's order. States are those of a new stream, and gone afterwards.

        inputs: {name: array} in any order. An array is anything with the buffer protocol (NumPy, array.array, memoryview)
        or with __dlpack__ on the CPU (PyTorch, JAX). It is read in place if it is row-major, contiguous and aligned, and
        copied first if not; it must not be written meanwhile. Its dtype must be the model's. bfloat16 comes by DLPack, as
        ml_dtypes' arrays, or as its bits in uint16. Lists and numbers are taken where NumPy is installed and every value
        is exact in the model's dtype.

        The outputs' memory is theirs: it outlives the session, and no later run writes it. They are NumPy arrays over that
        memory where NumPy is installed (of bfloat16: its bits in uint16), else, or with as_numpy=False, metac.Array.

        Raises DTypeError (a TypeError), ArgumentError (a ValueError: names, rank, shape), ModelError, OutOfMemoryError.
        """
        return _answer(self._session.run(inputs), as_numpy)

    def set_weights(self, weights: Mapping[str, Any]) -> None:
        """Takes {name: array} for the model's initialisers of these names, from the next run on: all of them or, if one is
        refused, none. Nothing is compiled again; the arrays are copied. Raises ArgumentError (names, dtypes, shapes)."""
        self._session.set_weights(weights)

    def wait(self) -> None:
        """Blocks until no specialisation is waiting or being made: for tests and benchmarks."""
        self._session.wait()

    def report(self) -> Dict[str, int]:
        """What the session has done and holds: runs, open_runs, compiled, dropped, waiting, specialisations, contexts,
        threads, weight_bytes, working_bytes, specialised_bytes, streams, state_bytes (metac_session_report in metac.h says what
        each is)."""
        return self._session.report()

    def close(self) -> None:
        """Ends the session and its streams; later calls raise ArgumentError. What other threads are running ends first, then
        its memory is given back; close() does not wait for them. Closing twice is allowed."""
        for stream in list(self._streams):
            stream.close()
        self._session.close()
        _open_sessions.discard(self)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        def names(ports):
            return ", ".join(port.name for port in ports)
        closed = ", closed" if self._session.closed() else ""
        return f"<metac.Session: {names(self._inputs)} -> {names(self._outputs)}{closed}>"


class Stream:
    """A caller of a session with states of its own (Session.stream). Calls of one stream follow one another, those of several go
    side by side; programs, weights and threads are the session's. It holds the session, and goes with it."""

    def __init__(self, session: Session, stream: Any):
        self._of, self._stream = session, stream
        session._streams.add(self)

    def run(self, inputs: Mapping[str, Any], *, as_numpy: bool = True) -> Dict[str, Any]:
        """One run from these states, as Session.run; one that raises leaves them as they were."""
        return _answer(self._stream.run(inputs), as_numpy)

    def reset(self) -> None:
        """Zeros, and empty along the axis that grows; the next run's inputs say how long other open dims are."""
        self._stream.reset()

    def get(self, state: str, *, as_numpy: bool = True) -> Any:
        """A copy of a state, by its input's name; its dims are 0 where it had no value since the last reset."""
        array, asarray = self._stream.get(state), _asarray() if as_numpy else None
        return asarray(array) if asarray else array

    def set(self, states: Mapping[str, Any]) -> None:
        """Other values for states, {name: array}, all or none; they are copied. A run that they do not fit says so."""
        self._stream.set(states)

    def truncate(self, length: int) -> None:
        """States that grow keep their first steps."""
        self._stream.truncate(operator.index(length))

    def fork(self) -> "Stream":
        """Another stream of the same session, whose states have the same values."""
        return Stream(self._of, self._stream.fork())

    def close(self) -> None:
        """Gives the states' memory back; later calls raise ArgumentError. Closing twice is allowed."""
        self._stream.close()
        self._of._streams.discard(self)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        names = ", ".join(port.name for port in self._of.states)
        return f"<metac.Stream: {names}{', closed' if self._stream.closed() else ''}>"


# The library's threads must have ended before its static objects are destroyed, which is after Python's exit functions.
_open_sessions: "weakref.WeakSet[Session]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for session in list(_open_sessions):
        session.close()


_numpy_asarray: Any = None


def _asarray():
    """numpy.asarray, or False. NumPy is imported at the first run and not with metac: it takes longer than all of metac."""
    global _numpy_asarray
    if _numpy_asarray is None:
        try:
            from numpy import asarray
        except ImportError:
            asarray = False
        _numpy_asarray = asarray
    return _numpy_asarray


def _answer(outputs, as_numpy):
    asarray = _asarray() if as_numpy else None
    return {name: asarray(array) for name, array in outputs} if asarray else dict(outputs)


def _states(states):
    """"auto", or a list of (input, output)."""
    if isinstance(states, str):
        if states != "auto":
            raise ArgumentError(f"states: {states!r}; it must be \"auto\" or {{input: output}}")
        return states
    if states is not None and not isinstance(states, Mapping):
        raise DTypeError(f"states: {states!r}; it must be \"auto\" or {{input: output}}")
    return list((states or {}).items())


def _bytes_of(model):
    try:
        view = memoryview(model)
    except TypeError:
        raise DTypeError(f"model is of type {type(model).__name__}; it must be a path, or bytes of a model") from None
    return view if view.c_contiguous else view.tobytes()


def _dim(name, limits):
    """(name, min, max, divisor) of metac_dim, 0 for what is not said."""
    if not isinstance(limits, (tuple, list)):
        limits = (limits, limits)
    if not isinstance(name, str) or not 2 <= len(limits) <= 3:
        raise ArgumentError(f"dims: {name!r}: {limits!r}; it must be a number, (min, max) or (min, max, divisor)")
    try:
        numbers = [None if limit is None else operator.index(limit) for limit in (*limits, None)[:3]]
    except TypeError:
        raise DTypeError(f"dims: {name!r}: {limits!r}; limits are integers") from None
    if any(number is not None and number < 1 for number in numbers):
        raise ArgumentError(f"dims: {name!r}: {limits!r}; limits are 1 or more")
    return (name, *(number or 0 for number in numbers))
