    signatures["run_async"] = (ctypes.c_int, [context, ctypes.POINTER(_Tensor), ctypes.c_int32, ctypes.POINTER(_Tensor), ctypes.c_int32,
                                              ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p])
    signatures["wait"] = signatures["poll"] = (ctypes.c_int, [context])
