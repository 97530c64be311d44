"""Arrays reach metac_session_run, and leave it, at the addresses that Python has: run with observe_run.c preloaded.

    LD_PRELOAD="observe_run.so libmetac.so" python3 observe_run.py observe_run.so [torch]
"""
import array
import ctypes
import sys

import metac
import numpy as np
from models import identity

library = ctypes.CDLL(sys.argv[1])
for function in (library.observed_input, library.observed_output):
    function.restype = ctypes.c_void_p


class OnlyDlpack:
    """An array that has DLPack and no buffer."""

    def __init__(self, of):
        self.of = of

    def __dlpack__(self, **more):
        return self.of.__dlpack__(**more)

    def __dlpack_device__(self):
        return self.of.__dlpack_device__()


def address(value):
    return np.asarray(value).ctypes.data


session = metac.Session(identity())
numbers, whole = np.arange(8, dtype=np.float32), np.arange(64, dtype=np.float32).reshape(8, 8)
plain = array.array("f", range(8))
readonly = numbers.copy()
readonly.flags.writeable = False
in_place = {"numpy": (numbers, numbers), "array.array": (plain, plain), "memoryview": (memoryview(plain), plain),
            "DLPack": (OnlyDlpack(numbers), numbers), "a row": (whole[3], whole[3]), "read-only": (readonly, readonly),
            "read-only by DLPack": (OnlyDlpack(readonly), readonly), "part of a row": (whole[2, 4:], whole[2, 4:])}
copied = {"a column": whole[:, 3], "backwards": numbers[::-1], "one element repeated": np.broadcast_to(numbers[1], 8),
          "not aligned": np.frombuffer(bytes(33), np.float32, 8, offset=1)}
if len(sys.argv) > 2:
    import torch
    tensor = torch.arange(8, dtype=torch.float32)
    in_place["PyTorch"] = tensor, tensor.numpy()
    copied["PyTorch, a column"] = torch.arange(64, dtype=torch.float32).reshape(8, 8)[:, 3]
for name, (given, memory) in in_place.items():
    outputs = session.run({"x": given})
    assert library.observed_input(0) == address(memory), f"{name} was copied"
    assert library.observed_output() == outputs["y"].ctypes.data, f"{name}: the output was copied"
    assert np.array_equal(outputs["y"], np.asarray(memory)), name
for name, given in copied.items():
    outputs = session.run({"x": given})
    assert library.observed_input(0) != address(given) and np.array_equal(outputs["y"], np.asarray(given)), name
output = session.run({"x": numbers}, as_numpy=False)["y"]
at = library.observed_output()
ways = {"numpy.asarray": np.asarray(output), "numpy.from_dlpack": np.from_dlpack(output),
        "memoryview": np.frombuffer(memoryview(output), np.float32)}
for name, seen in ways.items():
    assert seen.ctypes.data == at, f"{name} copied the output"
print(f"in place: {', '.join(in_place)}; copied: {', '.join(copied)}; out: {', '.join(ways)}")
