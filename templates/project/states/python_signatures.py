    signatures["state"] = signatures["input"]
    signatures["state_reset"] = (ctypes.c_int, [context])
    signatures["state_get"] = signatures["state_set"] = (ctypes.c_int, [context, ctypes.c_int32, ctypes.POINTER(_Tensor)])
    signatures["state_truncate"] = (ctypes.c_int, [context, ctypes.c_int64])
    signatures["state_fork"] = (ctypes.c_int, [context, context])
