    signatures["run_async"] = (ctypes.c_int, [context, ctypes.POINTER(_Tensor), ctypes.c_int32, ctypes.POINTER(_Tensor), ctypes.c_int32,
                                              ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p])
    for function in ("from_dlpack", "to_dlpack"):
        signatures[function] = (ctypes.c_int, [context, ctypes.POINTER(_Port), ctypes.c_void_p, ctypes.c_void_p])
