class _Bias(ctypes.Structure):
    _fields_ = [("token", ctypes.c_int64), ("bias", ctypes.c_float)]


_MASK = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64, ctypes.POINTER(ctypes.c_ubyte), ctypes.c_int64)
_GUESS = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.c_int64)
_TOKEN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.POINTER(ctypes.c_char), ctypes.c_int64)


class _Generation(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("most_tokens", ctypes.c_int64), ("repetition_penalty", ctypes.c_double), ("presence_penalty", ctypes.c_double),
                ("frequency_penalty", ctypes.c_double), ("biases", ctypes.POINTER(_Bias)), ("bias_count", ctypes.c_int64), ("mask", _MASK),
                ("temperature", ctypes.c_double), ("top_k", ctypes.c_int64), ("top_p", ctypes.c_double), ("min_p", ctypes.c_double),
                ("seed", ctypes.c_uint64), ("stop_tokens", ctypes.POINTER(ctypes.c_int64)), ("stop_token_count", ctypes.c_int64),
                ("stop_texts", ctypes.POINTER(ctypes.c_char_p)), ("stop_text_count", ctypes.c_int64), ("token", _TOKEN),
                ("user", ctypes.c_void_p), ("chunk", ctypes.c_int64), ("drafts", ctypes.c_int64), ("guess", _GUESS), ("adapter", ctypes.c_int64)]


class _Generated(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("prompt_tokens", ctypes.c_int64), ("tokens", ctypes.c_int64), ("stopped_by", ctypes.c_int), ("stop", ctypes.c_int64),
                ("prompt_seconds", ctypes.c_double), ("token_seconds", ctypes.c_double), ("runs", ctypes.c_int64),
                ("drafted", ctypes.c_int64), ("accepted", ctypes.c_int64)]


def _guesses_of(model):
    """Of a smaller Model with the same tokens, which goes on from where the texts part."""

    def guess(tokens, most):
        known = model.generate_text()
        length = min(len(known), len(tokens) - 1)
        differ = np.flatnonzero(known[:length] != tokens[:length])
        same = int(differ[0]) if len(differ) else length
        if same < len(known):
            model.state_truncate(same) if same else model.state_reset()
        return model.generate(tokens[same:], most).tokens

    return guess


class _Asked:
    """The settings of a generation with all that they point to, and what their functions have been told."""

    def __init__(self, most_tokens, temperature, top_k, top_p, min_p, seed, repetition_penalty, presence_penalty, frequency_penalty, bias, mask,
                 stop_tokens, stop_texts, on_token, chunk, adapter, drafts=0, draft=None):
        stops = np.ascontiguousarray(stop_tokens, np.int64).reshape(-1)
        biases = (_Bias * max(1, len(bias or {})))(*[_Bias(int(t), float(b)) for t, b in (bias or {}).items()])
        texts = (ctypes.c_char_p * max(1, len(stop_texts)))(*[t.encode() for t in stop_texts])
        tokens, pieces, raised = self.tokens, self.pieces, self.raised = [], [], []

        def told(_, token, text, size):
            try:
                piece = bytes(text[:size]).decode("utf-8", "replace")
                pieces.append(piece)
                if token >= 0:
                    tokens.append(token)
                return 1 if on_token is not None and on_token(token, piece) is False else 0
            except BaseException as error:  # it goes on in the caller, not through C
                raised.append(error)
                return 1

        def masked(_, so_far, count, allowed, size):
            try:
                mask(np.ctypeslib.as_array(so_far, (count,)), np.ctypeslib.as_array(allowed, (size,)))
                return 0
            except BaseException as error:
                raised.append(error)
                return 1

        guess = _guesses_of(draft) if hasattr(draft, "generate_text") else draft

        def guessed(_, so_far, count, guesses, most):
            try:
                found = list(guess(np.ctypeslib.as_array(so_far, (count,)), most))[:most]
                for k, token in enumerate(found):
                    guesses[k] = int(token)
                return len(found)
            except BaseException as error:
                raised.append(error)
                return -1

        self.kept = stops, texts  # NumPy's and ctypes' memory, which settings point to
        self.settings = _Generation(ctypes.sizeof(_Generation), most_tokens, repetition_penalty, presence_penalty, frequency_penalty, biases, len(bias or {}),
                                    _MASK(masked) if mask is not None else _MASK(), temperature, top_k, top_p, min_p, seed,
                                    stops.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)), len(stops), texts, len(stop_texts), _TOKEN(told), None, chunk, drafts,
                                    _GUESS(guessed) if guess is not None else _GUESS(), adapter)

    def check(self):
        if self.raised:
            raise self.raised.pop(0)


class Generated:
    """What Model.generate made: tokens and text, why it ended ("limit", "stop token", "stop text", "caller"), and figures."""

    def __init__(self, tokens, text, made):
        self.tokens, self.text = tokens, text
        self.stopped_by = ("limit", "stop token", "stop text", "caller")[made.stopped_by]
        for name in ("prompt_tokens", "stop", "prompt_seconds", "token_seconds", "runs", "drafted", "accepted"):
            setattr(self, name, getattr(made, name))


