"""@name@: a neural network compiled by metac @version@.

    import numpy as np
    from @name@ import Model
    model = Model(threads=2)
    outputs = model.run({name: array, ...})      # {name: array}

Inputs are NumPy arrays, anything with __dlpack__ on the CPU, or anything numpy.asarray takes. Arrays that are contiguous
and of the right dtype are not copied. Others are converted where that changes no value: to a wider dtype, or to a narrower one of the
same kind in which every element fits (a ValueError names the first that does not). Floats may be rounded to fewer digits, but not
overflow. Another kind (floats for integers, signed for unsigned, integers for floats that do not hold them all) is a TypeError; lists
and numbers of Python, which have no dtype, may be integers for any. Outputs are fresh arrays unless `outputs={name: array}` gives
memory for them, or copy=False asks for views of the model's own memory, which hold until its next run.
"""
import ctypes
import difflib
import os
import threading

import numpy as np

__version__ = "@package_version@"
__all__ = ["Model", "Error"]

_MAX_RANK = 32  # METAC_MODEL_MAX_RANK
# bfloat16 has no NumPy dtype: its bits are uint16.
_DTYPES = [@numpy_dtypes@]
_BFLOAT16 = @bfloat_dtype@


class Error(RuntimeError):
    """A failed call; `status` is the library's number for it."""

    def __init__(self, status, message):
        super().__init__(message)
        self.status = status


class _Port(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int32),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("dim_names", ctypes.POINTER(ctypes.c_char_p))]


_UNWANTED = ctypes.c_void_p(-1).value  # the data of an output that a run leaves out


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("bytes", ctypes.c_int64), ("rank", ctypes.c_int32),
                ("dims", ctypes.c_int64 * _MAX_RANK), ("type", ctypes.c_int32)]


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("weights", ctypes.c_char_p), ("cpu", ctypes.c_char_p), ("metac", ctypes.c_char_p),
                ("parallel", ctypes.c_void_p), ("pool", ctypes.c_void_p), ("threads", ctypes.c_int32), ("pin", ctypes.c_int32),
                ("fixed_split", ctypes.c_int32), ("weights_flags", ctypes.c_int32), ("most_specialisations", ctypes.c_int32),
                ("private_threads", ctypes.c_int32), ("log", ctypes.c_void_p), ("log_user", ctypes.c_void_p),
                ("allocate", ctypes.c_void_p), ("release", ctypes.c_void_p), ("memory_user", ctypes.c_void_p), ("progress", ctypes.c_void_p),
                ("progress_user", ctypes.c_void_p), ("arena", ctypes.c_void_p), ("priority", ctypes.c_int32)]


_LOG_LEVELS = {1: "error", 2: "warning", 3: "info"}  # METAC_MODEL_LOG_...


def _log_function(log):
    """What a library calls for a Python function log(level, message)."""

    @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p)
    def function(user, level, message):
        log(_LOG_LEVELS.get(level, str(level)), message.decode("utf-8", "replace"))

    return function


def _progress_function(progress):
    """What a library calls for a Python function progress(done, total)."""
    return ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(lambda user, done, total: progress(done, total))


class Port:
    """Name, dtype and dims of an input, output or parameter; open dims are -1, dim_names tells what they are called."""

    def __init__(self, port):
        self.address = ctypes.pointer(port)
        self.name = port.name.decode("utf-8", "surrogateescape")
        self.bfloat16 = port.dtype == _BFLOAT16
        self.dtype = np.dtype(_DTYPES[port.dtype])
        self.shape = tuple(port.dims[d] for d in range(port.rank))
        self.dim_names = tuple(port.dim_names[d].decode("utf-8", "surrogateescape") for d in range(port.rank))

    def __repr__(self):
        dtype = "bfloat16" if self.bfloat16 else self.dtype.name
        return "Port(%r, %s, %s)" % (self.name, dtype, "x".join(self.dim_names) or "scalar")


def _find_library():
    here = os.path.dirname(os.path.abspath(__file__))
    places = [here, os.path.join(here, "..", "..", "lib"), os.path.join(here, "..", "..", "..", "..", "lib")]
    for place in places:
        path = os.path.join(place, "lib@name@.so")
        if os.path.exists(path):
            return os.path.normpath(path)
    raise OSError("lib@name@.so is not in %s; build the project, or give library=" % ", ".join(map(os.path.normpath, places)))


def _load(path):
    library = ctypes.CDLL(path)
    context = ctypes.c_void_p
    signatures = {
        "create": (ctypes.c_int, [ctypes.POINTER(_Options), ctypes.POINTER(context)]),
        "destroy": (None, [context]),
        "run": (ctypes.c_int, [context, ctypes.POINTER(_Tensor), ctypes.c_int32, ctypes.POINTER(_Tensor), ctypes.c_int32]),
        "cancel": (ctypes.c_int, [context]),
        "last_error": (ctypes.c_char_p, [context]),
        "input": (ctypes.POINTER(_Port), [ctypes.c_int32]),
        "output": (ctypes.POINTER(_Port), [ctypes.c_int32]),
        "parameter": (ctypes.POINTER(_Port), [ctypes.c_int32]),
        "set_weights": (ctypes.c_int, [context, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int32]),
        "write_weights": (ctypes.c_int, [context, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int32, ctypes.c_char_p]),
        "arena_bytes": (ctypes.c_int64, [context]),
        "model_hash": (ctypes.c_char_p, []),
        "output_shapes": (ctypes.c_int, [context, ctypes.POINTER(_Tensor), ctypes.c_int32, ctypes.POINTER(_Tensor), ctypes.c_int32]),
        "cpu": (ctypes.c_char_p, [ctypes.c_int32]),
        "cpu_of": (ctypes.c_char_p, [context]),
    }
@state_signatures@@generate_signatures@@device_signatures@@queue_signatures@    for function in @derivative_names@:
        signatures[function] = signatures["run"]
        signatures[function + "_input"] = signatures[function + "_output"] = signatures["input"]
    for name, (result, arguments) in signatures.items():
        function = getattr(library, "@name@_" + name)
        function.restype, function.argtypes = result, arguments
    return library


def _ports(function):
    ports = []
    while True:
        port = function(len(ports))
        if not port:
            return ports
        ports.append(Port(port.contents))


def _may_become(given, wanted, typed):
    """Whether elements of one dtype may be given for another, if their values fit."""
    if given.kind == "f":
        return wanted.kind == "f"
    if np.can_cast(given, wanted, "safe") or not typed and wanted.kind != "b":
        return True
    return given.kind == wanted.kind


def _differ(converted, given):
    """Where integers became others: compared as integers, whatever floats they are now."""
    if converted.dtype.kind != "f":
        return (converted != given) | ((converted < 0) != (given < 0))
    back = converted.astype(np.float64)
    inside = (back >= -(2.0 ** 63)) & (back < 2.0 ** (64 if given.dtype.kind == "u" else 63)) & (back >= 0 if given.dtype.kind == "u" else True)
    return ~inside | (np.where(inside, back, 0).astype(np.uint64 if given.dtype.kind == "u" else np.int64) != given)


@generate_structures@@queue_structures@class Model:
    """One context: not for two threads at once (make one per thread; they share the weights). copy_weights: into memory of its own;
    map_weights: from a file that nobody writes into or cuts meanwhile, whose pages all processes share; check_weights=False does not look for
    damage in it. All models of the process share threads; threads: how many a run takes; private_threads, pin: some of its own;
    priority: runs of 1 have the CPUs before those of 0, and these before those of -1.
    log(level, message) is told what happens, in the thread of the call: level is "error" (why a call failed), "warning" or "info".
    progress(done, total) hears about every millisecond how many steps of a run are done; it may cancel() the run."""

    def __init__(self, threads=0, weights=None, library=None, pin=False, cpu=None, copy_weights=False, check_weights=True, map_weights=False, private_threads=False, log=None, progress=None, priority=0@python_jit_argument@):
        self._context = ctypes.c_void_p()
        self._library = _load(library or _find_library())
        self._known_ports = {}
@python_joined@        self.inputs, self.outputs = self._ports("run", "input"), self._ports("run", "output")
        options = _Options()
        options.size = ctypes.sizeof(options)
        options.weights = os.fsencode(weights) if weights else None
        options.threads, options.pin, options.private_threads, options.priority = threads, int(pin), int(private_threads), priority
        options.cpu = cpu.encode() if cpu else None
        self._hooks = [_log_function(log) if log else None, _progress_function(progress) if progress else None]  # as long as the library may call them
        options.log, options.progress = (ctypes.cast(hook, ctypes.c_void_p) if hook else None for hook in self._hooks)
        options.weights_flags = (1 if copy_weights else 0) | (0 if check_weights else 2) | (4 if map_weights else 0)
@python_jit_setting@        self._options, self._weights_set = options, False  # what queues take over
        status = self._library.@name@_create(ctypes.byref(options), ctypes.byref(self._context))
        if status != 0:
            error = Error(status, self._message())
            self.close()
            raise error

    def close(self):
        if getattr(self, "_context", None):
            self._library.@name@_destroy(self._context)
            self._context = ctypes.c_void_p()

    __del__ = close

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def _message(self):
        return self._library.@name@_last_error(self._context).decode("utf-8", "replace")

    @property
    def parameters(self):
        return _ports(self._library.@name@_parameter)

    @property
    def cpu(self):
        """The instruction set whose code runs; `cpu=` chooses among those that the library has, else the best one does."""
        return self._library.@name@_cpu_of(self._context).decode()

    @property
    def arena_bytes(self):
        return self._library.@name@_arena_bytes(self._context)

    @staticmethod
    def _array(value, port, what):
        typed = hasattr(value, "dtype") or hasattr(value, "__dlpack__")
        if not isinstance(value, np.ndarray):
            value = np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value)
        if value.ndim > _MAX_RANK:
            raise ValueError("%s %r has %d dims" % (what, port.name, value.ndim))
        if value.dtype == port.dtype or value.size == 0 and not typed:
            return np.asarray(value, dtype=port.dtype, order="C")
        if value.dtype.kind not in "?biuf" or port.bfloat16 or not _may_become(value.dtype, port.dtype, typed):
            raise TypeError("%s %r is %s, expected %s" % (what, port.name, value.dtype, "bfloat16 bits as uint16" if port.bfloat16 else port.dtype))
        with np.errstate(all="ignore"):
            converted = np.asarray(value, dtype=port.dtype, order="C")
            lost = np.isinf(converted) & np.isfinite(value) if value.dtype.kind == "f" else _differ(converted, value)
        if lost.any():
            first = tuple(int(k) for k in np.argwhere(lost)[0])
            raise ValueError("%s %r is %s, expected %s, which cannot hold its element %s: %s" % (what, port.name, value.dtype, port.dtype, list(first), value[first]))
        return converted

    def _in_order(self, inputs):
        if isinstance(inputs, dict):
            self._names("input", inputs, self.inputs)
            inputs = [inputs[port.name] for port in self.inputs]
        elif not isinstance(inputs, (list, tuple)) and len(self.inputs) == 1:
            inputs = [inputs]
        elif not isinstance(inputs, (list, tuple)):
            raise TypeError("the model has %d inputs: give {name: array} or [array, ...] of %s" % (len(self.inputs), [port.name for port in self.inputs]))
        if len(inputs) != len(self.inputs):
            raise ValueError("%d inputs given, the model has %d: %s" % (len(inputs), len(self.inputs), [port.name for port in self.inputs]))
        return inputs

    def _inputs(self, inputs):
        return [self._array(value, port, "input") for value, port in zip(self._in_order(inputs), self.inputs)]

    @staticmethod
    def _names(what, given, ports, all_of_them=True):
        known = [port.name for port in ports]
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(str(name), known, 1)
                raise ValueError("there is no %s %r%s; the model has %s" % (what, name, " (did you mean %r?)" % near[0] if near else "", known))
        missing = [name for name in known if name not in given]
        if missing and all_of_them:
            raise ValueError("%s %r is missing; the model has %s" % (what, missing[0], known))

    @staticmethod
    def _tensors(arrays):
        tensors = (_Tensor * max(1, len(arrays)))()
        for tensor, array in zip(tensors, arrays):
            tensor.data, tensor.rank, tensor.bytes = array.ctypes.data, array.ndim, array.nbytes
            tensor.dims[: array.ndim] = array.shape
        return tensors

    def _call(self, function, arrays, outputs=None, copy=True, only=None):
        """Pairs of name and array, in the order of the function's outputs."""
        ports = self._ports(function, "output")
        results = self._results(ports, outputs, only)
        call = getattr(self._library, "@name@_" + function)
        status = call(self._context, self._tensors(arrays), len(arrays), results, len(ports))
        if status != 0:
            raise Error(status, self._message())
        return self._answers(results, ports, outputs, copy)

    def _results(self, ports, outputs, only=None):
        results = (_Tensor * max(1, len(ports)))()
        if outputs:
            self._names("output", outputs, ports, all_of_them=False)
        if only is not None:
            self._names("output", list(only) + list(outputs or ()), ports, all_of_them=False)
        for tensor, port in zip(results, ports):
            memory = (outputs or {}).get(port.name)
            if memory is None:
                if only is not None and port.name not in only:
                    tensor.data = _UNWANTED
                continue
            if memory.dtype != port.dtype or not memory.flags.c_contiguous or not memory.flags.writeable:
                raise TypeError("output %r needs a writeable, contiguous array of %s" % (port.name, port.dtype))
            tensor.data, tensor.bytes = memory.ctypes.data, memory.nbytes
        return results

    @staticmethod
    def _answers(results, ports, outputs, copy):
        answer = []
        for tensor, port in zip(results, ports):
            if tensor.data == _UNWANTED:
                continue
            shape = tuple(tensor.dims[: tensor.rank])
            memory = (outputs or {}).get(port.name)
            if memory is not None:
                count = tensor.bytes // port.dtype.itemsize
                answer.append((port.name, memory.reshape(-1)[:count].reshape(shape)))
            elif tensor.bytes == 0:
                answer.append((port.name, np.empty(shape, port.dtype)))
            else:
                view = np.frombuffer((ctypes.c_char * tensor.bytes).from_address(tensor.data), port.dtype).reshape(shape)
                answer.append((port.name, view.copy() if copy else view))
        return answer

    def _ports(self, function, which):
        if (function, which) not in self._known_ports:
            prefix = "@name@_" if function == "run" else "@name@_%s_" % function
            self._known_ports[function, which] = _ports(getattr(self._library, prefix + which))
        return self._known_ports[function, which]

    def run(self, inputs, outputs=None, copy=True, only=None):
        """inputs: {name: array}, a list in the model's order, or the array of a model with one input. Returns {name: array}. only: the
        names of the outputs that are wanted; what the others alone need is not computed."""
        return dict(self._call("run", self._inputs(inputs), outputs, copy, only))

    __call__ = run

    def cancel(self):
        """From any thread: the run that the model is in ends before its next kernel, with an Error of status 9."""
        self._library.@name@_cancel(self._context)

    def _parameters(self, parameters):
        """Arrays of all parameters, which must be kept, and their addresses."""
        ports = self.parameters
        self._names("parameter", parameters, ports)
        arrays = [self._array(parameters[port.name], port, "parameter") for port in ports]
        for port, array in zip(ports, arrays):
            if array.shape != port.shape:
                raise ValueError("parameter %r is %s, expected %s" % (port.name, array.shape, port.shape))
        return arrays, (ctypes.c_void_p * max(1, len(arrays)))(*[array.ctypes.data for array in arrays])

    def set_weights(self, parameters):
        """parameters: {name: array} for every one of `parameters`, as the model's file has them."""
        arrays, pointers = self._parameters(parameters)
        status = self._library.@name@_set_weights(self._context, pointers, len(arrays))
        if status != 0:
            raise Error(status, self._message())
        self._weights_set = True

    def write_weights(self, parameters, path):
        """Prepares parameters as set_weights does and writes them as a weights file, for Model(weights=path)."""
        arrays, pointers = self._parameters(parameters)
        status = self._library.@name@_write_weights(self._context, pointers, len(arrays), os.fsencode(path))
        if status != 0:
            raise Error(status, self._message())
@state_methods@@generate_methods@@jit_methods@@derivative_methods@@queue_method@@device_class@@queue_classes@
