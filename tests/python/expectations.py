"""What the checks of the Python module share."""
import os
import subprocess
import sys


class Skip(Exception):
    """A check that cannot be made here, and why."""


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def raises(kind, call, *arguments, **more):
    """The message of the exception that the call must raise."""
    try:
        answer = call(*arguments, **more)
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__}; the answer was {answer!r}")


def python(script, *arguments, timeout=300, **environment):
    """Runs a script in another process and returns what it prints; with anything but success, an exception."""
    done = subprocess.run([sys.executable, *(["-c", script] if "\n" in script else [script]), *map(str, arguments)],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout,
                          env={**os.environ, **environment})
    if done.returncode:
        raise AssertionError(f"status {done.returncode}: {done.stdout[-1500:]}")
    return done.stdout
