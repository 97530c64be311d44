"""What the scripts that check finished libraries and programs share: commands that must succeed, and a run over all checks."""
import os
import subprocess


def command(*argv, status=0, **more):
    """Runs a command and returns what it printed; another exit status than the expected one (or one of several) is an exception."""
    more.setdefault("timeout", 900)
    done = subprocess.run([str(a) for a in argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **more)
    if done.returncode not in (status if isinstance(status, tuple) else (status,)):
        raise RuntimeError(f"{' '.join(map(str, argv))}: status {done.returncode}\n" + "\n".join(done.stdout.splitlines()[-15:]))
    return done.stdout


class Skip(Exception):
    """Why a check cannot run here."""


def expect(condition, what):
    if not condition:
        raise RuntimeError(what)


def must_fail(what, call, words):
    """The call ends with an error of the library whose message has the words."""
    try:
        call()
    except (RuntimeError, ValueError) as error:
        if words not in str(error):
            raise RuntimeError(f"{what}: {error}, expected '{words}'") from error
        return
    raise RuntimeError(f"{what} did not fail")


def cmake(source, build, *definitions, targets=()):
    """Builds a generated project; warnings are errors."""
    command("cmake", "-G", "Ninja", "-S", source, "-B", build, *definitions, env={**os.environ, "CXXFLAGS": "-Werror"})
    command("cmake", "--build", build, *(("--target", *targets) if targets else ()))


def run_checks(checks, other=(), only="", always=()):
    """Calls every public method of the checks' class but `other` (what they share), in order, then those of its bases; those
    with `only` in their name and `always`. Prints what failed and, last, 'N passed, N failed, N skipped'; the exit status."""
    passed = failed = skipped = 0
    for name, member in {name: member for kind in type(checks).__mro__[:-1] for name, member in vars(kind).items()}.items():
        if not callable(member) or name.startswith("_") or name in other or (only not in name and name not in always):
            continue
        try:
            getattr(checks, name)()
            passed += 1
        except Skip as reason:
            skipped += 1
            print(f"SKIP  {name.replace('_', ' ')}: {reason}", flush=True)
        except Exception as error:  # a check that cannot run has failed
            failed += 1
            print(f"FAIL  {name.replace('_', ' ')}: {error}", flush=True)
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0
