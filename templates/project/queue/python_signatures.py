    queue = ctypes.c_void_p
    signatures["queue_create"] = (ctypes.c_int, [ctypes.POINTER(_QueueOptions), ctypes.POINTER(queue)])
    signatures["queue_destroy"] = (None, [queue])
    signatures["queue_stop"] = (ctypes.c_int, [queue, ctypes.c_int32])
    signatures["queue_submit"] = (ctypes.c_int, [queue, ctypes.POINTER(_Tensor), ctypes.c_int32, ctypes.POINTER(_Tensor), ctypes.c_int32,
                                                 ctypes.POINTER(ctypes.c_int64)])
    signatures["queue_count"] = (ctypes.c_int, [queue, ctypes.POINTER(_QueueCounters)])
    signatures["queue_last_error"] = (ctypes.c_char_p, [queue])
    for function in ("wait", "poll", "cancel", "release"):
        signatures["queue_" + function] = (ctypes.c_int, [queue, ctypes.c_int64])
