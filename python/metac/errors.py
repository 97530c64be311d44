"""What fails, by kind. Every error of metac is an Error; most are also the built-in exception that one would look for."""


class Error(RuntimeError):
    """A call that failed. `status` is the number that metac.h has for the kind (metac_status)."""

    status = 7


class ArgumentError(Error, ValueError):
    """An argument of the call: out of range, an unknown or missing name, another rank or shape than the model's."""

    status = 1


class DTypeError(ArgumentError, TypeError):
    """An array's elements are not what the model wants, or what was given is no array."""


class ModelError(Error):
    """The model cannot be read or compiled, or states a condition that the data do not meet."""

    status = 2


class OutOfMemoryError(Error, MemoryError):
    """Memory that the model or the run needs is not there, or is beyond a limit."""

    status = 3


class UnsupportedError(Error, NotImplementedError):
    """This machine, or this process, cannot do it."""

    status = 4


class InternalError(Error):
    """A defect of metac: please report it."""


def of_status(status, message):
    """The exception for a metac_status."""
    for kind in (ArgumentError, ModelError, OutOfMemoryError, UnsupportedError, InternalError):
        if kind.status == status:
            return kind(message)
    error = Error(message)
    error.status = status
    return error
