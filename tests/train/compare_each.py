"""Comparisons with PyTorch by name, each in a folder of its own: one line each, and 'N passed, N failed, N skipped' as the last."""
import pathlib
import subprocess
import tempfile


def compare_each(names, compare, torch, why):
    """compare(name, folder) gives whether it is good and a text. `torch` is None where it could not be imported, `why` says why. The exit status."""
    if torch is None:
        print(f"skipped: PyTorch is not installed ({why})")
        print(f"0 passed, 0 failed, {len(names)} skipped")
        return 0
    torch.set_num_threads(2)
    failed = 0
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            try:
                good, text = compare(name, pathlib.Path(folder))
            except subprocess.CalledProcessError as error:
                good, text = False, str(error)
        failed += not good
        print(f"{'passed' if good else 'FAILED'} {name}: {text}", flush=True)
    print(f"{len(names) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0
