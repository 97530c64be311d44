class _QueueOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("context", ctypes.POINTER(_Options)), ("max_delay_us", ctypes.c_int64),
                ("max_batch", ctypes.c_int32), ("max_pending", ctypes.c_int32), ("contexts", ctypes.c_int32), ("threads", ctypes.c_int32)]


class _QueueCounters(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_int64) for name in (
        "requests", "rejected", "cancelled", "pending", "run", "rows", "batches", "waited_us")]


