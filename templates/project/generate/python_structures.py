class _Bias(ctypes.Structure):
    _fields_ = [("token", ctypes.c_int64), ("bias", ctypes.c_float)]


_MASK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64, ctypes.POINTER(ctypes.c_ubyte), ctypes.c_int64)
_TOKEN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_char), ctypes.c_int64)


class _Generation(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("most_tokens", ctypes.c_int64), ("repetition_penalty", ctypes.c_double), ("presence_penalty", ctypes.c_double),
                ("frequency_penalty", ctypes.c_double), ("biases", ctypes.POINTER(_Bias)), ("bias_count", ctypes.c_int64), ("mask", _MASK),
                ("temperature", ctypes.c_double), ("top_k", ctypes.c_int64), ("top_p", ctypes.c_double), ("min_p", ctypes.c_double),
                ("seed", ctypes.c_uint64), ("stop_tokens", ctypes.POINTER(ctypes.c_int64)), ("stop_token_count", ctypes.c_int64),
                ("stop_texts", ctypes.POINTER(ctypes.c_char_p)), ("stop_text_count", ctypes.c_int64), ("token", _TOKEN),
                ("user", ctypes.c_void_p), ("chunk", ctypes.c_int64), ("drafts", ctypes.c_int64)]


class _Generated(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("prompt_tokens", ctypes.c_int64), ("tokens", ctypes.c_int64), ("stopped_by", ctypes.c_int), ("stop", ctypes.c_int64),
                ("prompt_seconds", ctypes.c_double), ("token_seconds", ctypes.c_double), ("runs", ctypes.c_int64),
                ("drafted", ctypes.c_int64), ("accepted", ctypes.c_int64)]


class Generated:
    """What Model.generate made: tokens and text, why it ended ("limit", "stop token", "stop text", "caller"), and figures."""

    def __init__(self, tokens, text, made):
        self.tokens, self.text = tokens, text
        self.stopped_by = ("limit", "stop token", "stop text", "caller")[made.stopped_by]
        for name in ("prompt_tokens", "stop", "prompt_seconds", "token_seconds", "runs", "drafted", "accepted"):
            setattr(self, name, getattr(made, name))


