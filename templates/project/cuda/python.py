

# ---- arrays on the GPU, by DLPack ----
class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("dims", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _DLManagedTensor(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("manager", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_capsule_new = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(("PyCapsule_New", ctypes.pythonapi))
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_address_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_address_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))
_handed_out = {}  # what others still use, by the address of its description


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)
def _delete(address):
    _handed_out.pop(address, None)


@ctypes.PYFUNCTYPE(None, ctypes.c_void_p)
def _delete_capsule(capsule):  # one that nobody took, if it still has its first name
    if _address_valid(capsule, b"dltensor"):
        _handed_out.pop(_address_pointer(capsule, b"dltensor"), None)


def _on_gpu(value):
    return hasattr(value, "__dlpack_device__") and int(value.__dlpack_device__()[0]) in (2, 13)


class DeviceArray:
    """Contiguous memory on the GPU with a shape and a dtype; torch.from_dlpack and its like take it without copying. As an
    output without memory of the caller's it is the model's own memory, valid until its next run."""

    def __init__(self, tensor, port, owner):
        self._tensor, self._port, self._owner = tensor, port, owner

    @property
    def shape(self):
        return tuple(self._tensor.dims[: self._tensor.rank])

    dtype = property(lambda self: self._port.dtype)
    ptr = property(lambda self: self._tensor.data or 0)

    def __repr__(self):
        return "DeviceArray(%r, %s)" % (self.shape, "bfloat16" if self._port.bfloat16 else self.dtype)

    def _describe(self, to):
        model = self._owner[0]
        model._check(model._library.@name@_to_dlpack(model._context, self._port.address, ctypes.addressof(self._tensor), ctypes.addressof(to)))

    def __dlpack_device__(self):
        described = _DLTensor()
        self._describe(described)
        return described.device_type, described.device_id

    def __dlpack__(self, stream=None, **unused):
        """Work on the array must be ordered behind the run that makes it: give run_async the stream that reads it."""
        managed = _DLManagedTensor()
        self._describe(managed.tensor)
        managed.deleter = ctypes.cast(_delete, ctypes.c_void_p)
        address = ctypes.addressof(managed)
        _handed_out[address] = managed, self
        return _capsule_new(address, b"dltensor", ctypes.cast(_delete_capsule, ctypes.c_void_p))


_HostModel = Model


class Model(_HostModel):
    """As on the CPU; see the head of this module. Inputs may also be arrays on the GPU (anything with __dlpack__ there), which are
    read where they are. run() answers with arrays on the host, run_async() with arrays on the GPU."""

    def _check(self, status):
        if status != 0:
            raise Error(status, self._message())

    def _device_tensor(self, value, port, stream=None):
        """The tensor, and what keeps its memory."""
        capsule = value.__dlpack__() if stream is None else value.__dlpack__(stream=stream)
        tensor = _Tensor()
        self._check(self._library.@name@_from_dlpack(self._context, port.address, _capsule_pointer(capsule, b"dltensor"), ctypes.addressof(tensor)))
        return tensor, (value, capsule)

    def _array_of(self, value, port, what, stream=None):
        if not _on_gpu(value):
            return self._array(value, port, what)
        tensor, kept = self._device_tensor(value, port, stream)
        return DeviceArray(tensor, port, (self, kept))

    def _inputs(self, inputs, stream=None):
        values = self._in_order(inputs)
        if not any(map(_on_gpu, values)):
            return super()._inputs(values)
        return [self._array_of(value, port, "input", stream) for value, port in zip(values, self.inputs)]

    @staticmethod
    def _tensors(arrays):
        tensors = (_Tensor * max(1, len(arrays)))()
        for k, array in enumerate(arrays):
            tensors[k] = array._tensor if isinstance(array, DeviceArray) else _HostModel._tensors([array])[0]
        return tensors

    def run_async(self, inputs, outputs=None, stream=None):
        """Puts a run onto `stream` (the number of a cudaStream_t; None: the model's own, 1: the legacy default stream) and returns
        {name: array on the GPU} without waiting. outputs={name: array on the GPU}: memory for them. Inputs must stay as they are
        until the stream has done the run."""
        arrays = self._inputs(inputs, stream)
        results = (_Tensor * max(1, len(self.outputs)))()
        kept = [arrays]
        for k, port in enumerate(self.outputs):
            memory = (outputs or {}).get(port.name)
            if memory is not None:
                if not _on_gpu(memory):
                    raise TypeError("output %r: run_async wants memory on the GPU" % port.name)
                results[k], held = self._device_tensor(memory, port, stream)
                kept.append(held)
        self._check(self._library.@name@_run_async(self._context, self._tensors(arrays), len(arrays), results, len(self.outputs), stream, None, None))
        return {port.name: (outputs or {}).get(port.name, DeviceArray(results[k], port, (self, kept))) for k, port in enumerate(self.outputs)}
