
    def generate(self, prompt, most_tokens=0, *, temperature=0.0, top_k=0, top_p=0.0, min_p=0.0, seed=0, repetition_penalty=0.0,
                 presence_penalty=0.0, frequency_penalty=0.0, bias=None, mask=None, stop_tokens=(), stop_texts=(), on_token=None,
                 chunk=0, drafts=0):
        """Reads the prompt, tokens (or text, where there is a tokenizer) behind the text so far, and makes tokens: a Generated. bias: {token: number}. on_token(token, text) is
        told each token as it is made and ends the generation where it returns False; mask(tokens, allowed) sets allowed[t] = 0 where
        token t may not come next. All else is as in the C header (generation)."""
        if isinstance(prompt, str):
            prompt = self.encode(prompt, plain=len(self.generate_text()) > 0)
        ids = np.ascontiguousarray(prompt, np.int64).reshape(-1)
        stops = np.ascontiguousarray(stop_tokens, np.int64).reshape(-1)
        biases = (_Bias * max(1, len(bias or {})))(*[_Bias(int(t), float(b)) for t, b in (bias or {}).items()])
        texts = (ctypes.c_char_p * max(1, len(stop_texts)))(*[t.encode() for t in stop_texts])
        tokens, pieces, raised = [], [], []

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

        pointer = ctypes.POINTER(ctypes.c_int64)
        settings = _Generation(ctypes.sizeof(_Generation), most_tokens, repetition_penalty, presence_penalty, frequency_penalty, biases, len(bias or {}),
                               _MASK(masked) if mask is not None else _MASK(), temperature, top_k, top_p, min_p, seed,
                               stops.ctypes.data_as(pointer), len(stops), texts, len(stop_texts), _TOKEN(told), None, chunk, drafts)
        made = _Generated(ctypes.sizeof(_Generated))
        status = self._library.@name@_generate(self._context, ids.ctypes.data_as(pointer), len(ids), ctypes.byref(settings), ctypes.byref(made))
        if raised:
            raise raised[0]
        self._check(status)
        return Generated(tokens, "".join(pieces), made)

    def encode(self, text, plain=False):
        """The tokens of a text; plain: without those that the tokenizer puts in front of texts and behind them."""
        data, count = text.encode(), ctypes.c_int64()
        self._check(self._library.@name@_encode(self._context, data, len(data), int(plain), None, 0, ctypes.byref(count)))
        tokens = (ctypes.c_int64 * max(1, count.value))()
        self._check(self._library.@name@_encode(self._context, data, len(data), int(plain), tokens, count.value, ctypes.byref(count)))
        return tokens[: count.value]

    def decode(self, tokens):
        """The text of tokens."""
        ids, size = np.ascontiguousarray(tokens, np.int64).reshape(-1), ctypes.c_int64()
        call = self._library.@name@_decode
        self._check(call(self._context, ids.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)), len(ids), None, 0, ctypes.byref(size)))
        text = ctypes.create_string_buffer(size.value + 1)
        self._check(call(self._context, ids.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)), len(ids), text, size.value, ctypes.byref(size)))
        return text.raw[: size.value].decode("utf-8", "replace")

    def generate_text(self):
        """The tokens of the text so far."""
        tokens = np.empty(self._library.@name@_generate_text(self._context, None, 0), np.int64)
        self._library.@name@_generate_text(self._context, tokens.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)), len(tokens))
        return tokens

    def generate_memory(self, tokens):
        """Bytes that a text of so many tokens takes: the states, the states with their room, a token's working memory. Resets the states."""
        states, room, working = ctypes.c_int64(), ctypes.c_int64(), ctypes.c_int64()
        self._check(self._library.@name@_generate_memory(self._context, tokens, ctypes.byref(states), ctypes.byref(room), ctypes.byref(working)))
        return {"states": states.value, "states_with_room": room.value, "working": working.value}
