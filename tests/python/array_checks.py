"""Arrays in and out: element types, memory, strides, lists, DLPack."""
import copy
import gc
import itertools
import re

import metac
import numpy as np
from models import element_types, identity, samples
from expectations import Skip, expect, raises

TYPES = element_types()


def wanted_by(name):
    return next(identity(number) for known, number, _ in TYPES if known == name)


class OnlyDlpack:
    """Another's array without a buffer; before_1: its __dlpack__ is that of DLPack 0."""

    def __init__(self, of, device=None, before_1=False):
        self.of, self.device, self.before_1 = of, device, before_1

    def __dlpack__(self, **more):
        if self.before_1 and more:
            raise TypeError("__dlpack__() takes no keyword arguments")
        return self.of.__dlpack__(**more)

    def __dlpack_device__(self):
        return self.device or self.of.__dlpack_device__()


class ArrayChecks:
    def every_dtype_comes_back(self):
        expect(len(TYPES) == 13, f"{len(TYPES)} rows were found in runtime/dtypes.h")
        for name, number, dtype in TYPES:
            with metac.Session(identity(number, ("n", "m"))) as session:
                expect(session.inputs[0].dtype == session.outputs[0].dtype == name, f"{session.inputs} for {name}")
                for shape in ((3, 5), (1, 1), (0, 4)):
                    given = samples(dtype, shape)
                    array = session.run({"x": given}, as_numpy=False)["y"]
                    expect(array.dtype == name and array.shape == shape and array.ndim == 2, f"{array!r}")
                    expect(array.size == given.size and array.nbytes == given.nbytes, f"{name}: {array!r}")
                    back = session.run({"x": given})["y"]
                    expect(back.dtype == dtype and back.tobytes() == given.tobytes(), f"{name}: {back} for {given}")

    def other_dtypes_are_refused(self):
        for (wanted, number, _), (given, _, dtype) in itertools.product(TYPES, TYPES):
            if dtype != np.dtype("u2") or wanted not in ("bfloat16", "uint16"):
                if given == wanted or given == "bfloat16":
                    continue
                with metac.Session(identity(number)) as session:
                    said = raises(metac.DTypeError, session.run, {"x": np.ones(3, dtype)})
                    expect(f'input "x": the model wants {wanted}' in said and said.endswith(f"given is {given}"), said)

    def strange_elements_are_refused(self):
        session = metac.Session(identity())
        cases = [(np.ones(3, ">f4"), ">f4"), (np.ones(3, "c8"), "complex64"), (np.ones(3, "M8[s]"), "datetime64"),
                 (np.array([None]), "object"), (np.array(["a"]), "<U1"), (np.ones(3, "f4,f4"), "f4"),
                 (np.ones(3, np.longdouble), "longdouble|float128"), ({1}, "set"), (None, "None"), ("a", "str")]
        for strange, named in cases:
            said = raises(metac.DTypeError, session.run, {"x": strange})
            expect('input "x"' in said and re.search(named, said), f"{said} should name {named}")

    def strides_of_all_kinds(self):
        whole = samples(np.dtype("f4"), (6, 7, 8))
        odd = np.frombuffer(b"-" + whole.tobytes(), np.float32, whole.size, offset=1).reshape(whole.shape)
        ways = [whole.T, whole[::2], whole[:, ::-1, 1::3], whole[:, 3:4, :], np.asfortranarray(whole), odd, whole[:0, ::2],
                np.broadcast_to(whole[0, 0], (2, 3, 8)), whole.swapaxes(1, 2), whole[:, :, :1]]
        session = metac.Session(identity(shape=("a", "b", "c")))
        for given, take in itertools.product(ways, (lambda a: a, OnlyDlpack)):
            answer = session.run({"x": take(given)})["y"]
            expect(answer.tobytes() == given.tobytes(), f"shape {given.shape}, strides {given.strides}")
        for _, number, dtype in TYPES:  # elements of 1, 2, 4 and 8 bytes
            given = samples(dtype, (6, 9)).T[::2]
            expect(metac.Session(identity(number, (5, 6))).run({"x": given})["y"].tobytes() == given.tobytes(), dtype)

    def scalars_and_high_ranks(self):
        one = metac.Session(identity(shape=())).run({"x": np.float32(2.5)})["y"]
        expect(one.shape == () and one == 2.5, repr(one))
        shape = (1, 2, 1, 2, 1, 2, 1, 2)
        given = samples(np.dtype("f4"), shape)
        expect(np.array_equal(metac.Session(identity(shape=shape)).run({"x": given})["y"], given), "rank 8")

    def lists_where_exact(self):
        exact = {"float32": [[1, 2], 1.5, [float("nan")], [float("inf")], 2 ** 24], "int8": [[-128, 127]],
                 "uint64": [[2 ** 64 - 1]], "bool": [[True, False]], "bfloat16": [[1.5, -256]], "float64": [[0.1]],
                 "float16": [[2048, 0.5]]}
        inexact = {"float32": [[0.1], 2 ** 24 + 1, [True]], "int8": [[128], [-129], [1.0]], "uint64": [[-1], [2 ** 64]],
                   "bool": [[1]], "bfloat16": [[1.001], [257]], "float16": [[65536], 1e300], "int64": ["1", [[1], [1, 2]]]}
        for name, values in exact.items():
            dtype = np.float32 if name == "bfloat16" else name
            for value in values:
                session = metac.Session(next(identity(n, np.shape(value)) for known, n, _ in TYPES if known == name))
                back = session.run({"x": value})["y"]
                back = (back.astype(np.uint32) << 16).view(np.float32) if name == "bfloat16" else back
                same = np.array_equal(back, np.array(value, dtype), equal_nan=back.dtype.kind == "f")
                expect(same, f"{value} as {name}: {back}")
        for name, values in inexact.items():
            session = metac.Session(wanted_by(name))
            for value in values:
                said = raises(metac.DTypeError, session.run, {"x": value})
                expect('input "x"' in said, said)

    def dlpack_both_ways(self):
        for name, number, dtype in TYPES:
            session, given = metac.Session(identity(number, ("n", "m"))), samples(dtype, (4, 6))
            for before_1 in (False, True):
                array = session.run({"x": OnlyDlpack(given, before_1=before_1)}, as_numpy=False)["y"]
                expect(array.__dlpack_device__() == (1, 0) and memoryview(array).tobytes() == given.tobytes(), name)
                if name == "bfloat16":  # NumPy has no such type
                    continue
                back = np.from_dlpack(OnlyDlpack(array, before_1=before_1))
                expect(back.dtype == dtype and back.tobytes() == given.tobytes(), name)
                expect(back.ctypes.data == np.asarray(array).ctypes.data, f"{name}: from_dlpack copied")
        array = session.run({"x": given}, as_numpy=False)["y"]
        expect(np.from_dlpack(array, device="cpu").flags.writeable, "an output is read-only")
        for more in ({"stream": 1}, {"dl_device": (2, 0)}, {"copy": True}):
            raises(BufferError, array.__dlpack__, **more)

    def other_devices_are_refused(self):
        said = raises(metac.ArgumentError, metac.Session(identity()).run, {"x": OnlyDlpack(np.ones(3, "f4"), device=(2, 0))})
        expect('input "x" is on a device' in said and "copy it to the CPU" in said, said)

    def bfloat16_of_ml_dtypes(self):
        try:
            from ml_dtypes import bfloat16
        except ImportError:
            raise Skip("ml_dtypes is not installed") from None
        session, given = metac.Session(wanted_by("bfloat16")), np.arange(12).astype(bfloat16)
        for array in (given, given[::-2]):
            expect(session.run({"x": array})["y"].view(bfloat16).tolist() == array.tolist(), "values changed")
        said = raises(metac.DTypeError, metac.Session(wanted_by("uint16")).run, {"x": given})
        expect("wants uint16, given is bfloat16" in said, said)

    def buffers_of_arrays(self):
        array = metac.Session(identity(shape=(2, 3))).run({"x": np.arange(6, dtype="f4").reshape(2, 3)}, as_numpy=False)["y"]
        view = memoryview(array)
        expect((view.format, view.shape, view.strides, view.readonly) == ("f", (2, 3), (12, 4), False), "the description")
        expect(view.tolist() == [[0, 1, 2], [3, 4, 5]] and bytes(array) == np.arange(6, dtype="f4").tobytes(), "the values")
        expect(repr(array) == "<metac.Array float32 (2, 3)>", repr(array))
        raises(TypeError, metac.Array)
        raises(TypeError, metac.Array.__new__, metac.Array)
        raises(TypeError, copy.copy, array)

    def arrays_outlive_all(self):
        given = samples(np.dtype("f4"), (1000,))
        session = metac.Session(identity())
        kept = [session.run({"x": given})["y"], memoryview(session.run({"x": given}, as_numpy=False)["y"]),
                np.from_dlpack(session.run({"x": given}, as_numpy=False)["y"]), session.run({"x": given})["y"][10:20].base]
        for _ in range(50):
            session.run({"x": np.zeros(1000, "f4")})
        session.close()
        del session
        gc.collect()
        others = [np.full(1000, 7, "f4") for _ in range(200)]
        for array in kept:
            expect(bytes(array) == given.tobytes(), "an output changed after its session was closed")
        del others

    def outputs_have_memory_of_their_own(self):
        from models import model
        from onnx import TensorProto, helper
        nodes = [helper.make_node("Identity", ["x"], ["same"]), helper.make_node("Identity", ["same"], ["again"]),
                 helper.make_node("Identity", ["w"], ["weight"])]
        outputs = [(name, TensorProto.FLOAT, None) for name in ("same", "again", "weight")]
        session = metac.Session(model(nodes, [("x", TensorProto.FLOAT, ["n"])], outputs, {"w": np.ones(1, np.float32)}))
        given = np.arange(5, dtype=np.float32)
        for _ in range(2):
            answer = session.run({"x": given})
            expect(answer["same"].tolist() == answer["again"].tolist() == list(range(5)) and answer["weight"] == [1], answer)
            for array in answer.values():
                before = {name: other.copy() for name, other in answer.items() if other is not array}
                array[...] = 77
                expect(all(np.array_equal(answer[name], other) for name, other in before.items()), "outputs share memory")
        expect(given.tolist() == list(range(5)), "an output is an input's memory")
