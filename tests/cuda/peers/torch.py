"""Stands in for PyTorch on a GPU, for tests of gpu_figures.py: as much of its interface as that calls, on numpy.

A tensor says that it is on the GPU and lies in the host's memory, which the stand-in for the CUDA runtime copies. Networks compute
nothing: no figure means anything. torch.compile times a candidate as Inductor does, and takes METAC_STAND_IN_COMPILES seconds. METAC_STAND_IN_FAILS=compile: it raises;
=process: its process ends. METAC_STAND_IN_NOTES: a file for what was measured, and when.
"""
import contextlib
import ctypes
import math
import os
import time
import types

import numpy as np

_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_CUDA, _BRAIN = 2, 4


class dtype:
    def __init__(self, name, numpy):
        self.name, self.numpy = name, np.dtype(numpy)

    def __repr__(self):
        return f"torch.{self.name}"

    def __deepcopy__(self, memo):
        return self


float32, bfloat16, int64 = dtype("float32", np.float32), dtype("bfloat16", np.uint16), dtype("int64", np.int64)


class Tensor:
    def __init__(self, array, kind):
        self.array, self.dtype = array, kind

    shape = property(lambda self: self.array.shape)
    nbytes = property(lambda self: self.array.nbytes)

    def to(self, kind=None, memory_format=None):
        if kind is None or kind is self.dtype:
            return self
        assert (self.dtype, kind) == (float32, bfloat16), f"{self.dtype} to {kind}"
        return Tensor((self.array.view(np.uint32) >> 16).astype(np.uint16), kind)

    def copy_(self, other):
        self.array[...] = other.array

    def data_ptr(self):
        return self.array.ctypes.data

    def backward(self):
        pass

    def __dlpack_device__(self):
        return _CUDA, 0

    def __dlpack__(self, stream=None):
        capsule = self.array.__dlpack__()
        head = _pointer(capsule, b"dltensor")   # data, device type, device, rank, then the dtype's code
        ctypes.c_int32.from_address(head + 8).value = _CUDA
        if self.dtype is bfloat16:
            ctypes.c_uint8.from_address(head + 20).value = _BRAIN
        return capsule


def _tensor(array, device, kind=float32):
    assert device == "cuda", device
    return Tensor(np.ascontiguousarray(array, kind.numpy), kind)


def _shape(dims):
    return dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims


def randn(*dims, device):
    return _tensor(np.random.default_rng(0).standard_normal(_shape(dims)), device)


def empty(*dims, device, dtype=float32):
    return _tensor(np.zeros(_shape(dims)), device, dtype)


def empty_like(other):
    return Tensor(np.empty_like(other.array), other.dtype)


def randint(low, high, dims, device):
    return _tensor(np.random.default_rng(0).integers(low, high, dims), device, int64)


class Module:
    """Answers with a row of classes for each image."""

    def __init__(self, num_classes=1000):
        self.classes, self.kind = num_classes, float32

    def train(self):
        return self

    eval = train

    def to(self, kind=None, memory_format=None):
        self.kind = kind or self.kind
        return self

    def parameters(self):
        return []

    def __call__(self, x):
        assert x.dtype is self.kind, f"{x.dtype} into a network of {self.kind}"
        return empty(x.shape[0], self.classes, device="cuda", dtype=x.dtype)


def compile(model, mode):  # noqa: A001
    assert mode == "max-autotune", mode

    def run(x):
        if "compile" in os.environ.get("METAC_STAND_IN_FAILS", ""):
            raise RuntimeError("no compiler")
        if "process" in os.environ.get("METAC_STAND_IN_FAILS", ""):
            os._exit(7)
        if not run.compiled:
            time.sleep(float(os.environ.get("METAC_STAND_IN_COMPILES", 0)))
            _inductor.runtime.benchmarking.Benchmarker().benchmark_gpu()
            run.compiled = True
        return model(x)

    run.compiled = False

    return run


@contextlib.contextmanager
def device(name):
    assert name == "cuda", name
    yield


class _Benchmarker:
    def benchmark_gpu(self):
        _note("a candidate", 0.2)


def _note(what, seconds):
    begin = time.monotonic()
    time.sleep(seconds)
    if path := os.environ.get("METAC_STAND_IN_NOTES"):
        with open(path, "a") as notes:
            notes.write(f"{os.getpid()} {what} {begin} {time.monotonic()}\n")


inference_mode = contextlib.nullcontext


class _Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        self.time = time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        _note("a race", 0)
        return (end.time - self.time) * 1e3


class _Stream:
    cuda_stream = 0

    def wait_stream(self, other):
        pass


class _Graph:
    def replay(self):
        pass


class _SGD:
    def __init__(self, parameters, rate, momentum, weight_decay):
        assert not math.isnan(rate + momentum + weight_decay)

    def zero_grad(self, set_to_none):
        pass

    def step(self):
        pass


def _nothing():
    pass


cuda = types.SimpleNamespace(
    is_available=lambda: True, synchronize=_nothing, empty_cache=_nothing, Event=_Event, mem_get_info=lambda: (1 << 36, 1 << 37), memory_reserved=lambda: 1 << 20,
    reset_peak_memory_stats=_nothing, max_memory_allocated=lambda: 1 << 30, current_stream=_Stream, Stream=_Stream,
    stream=contextlib.nullcontext, graph=contextlib.nullcontext, CUDAGraph=_Graph, _sleep=lambda cycles: None)
channels_last = object()
backends = types.SimpleNamespace(cuda=types.SimpleNamespace(matmul=types.SimpleNamespace()), cudnn=types.SimpleNamespace())
nn = types.SimpleNamespace(functional=types.SimpleNamespace(cross_entropy=lambda x, label: x))
optim = types.SimpleNamespace(SGD=_SGD)
_dynamo = types.SimpleNamespace(reset=_nothing)
_inductor = types.SimpleNamespace(runtime=types.SimpleNamespace(benchmarking=types.SimpleNamespace(Benchmarker=_Benchmarker)))
