
    def generate(self, prompt, most_tokens=0, *, temperature=0.0, top_k=0, top_p=0.0, min_p=0.0, seed=0, repetition_penalty=0.0,
                 presence_penalty=0.0, frequency_penalty=0.0, bias=None, mask=None, stop_tokens=(), stop_texts=(), on_token=None,
                 chunk=0, adapter=0, drafts=0, draft=None):
        """Reads the prompt, tokens (or text, where there is a tokenizer) behind the text so far, and makes tokens: a Generated. bias: {token: number}. on_token(token, text) is
        told each token as it is made and ends the generation where it returns False; mask(tokens, allowed) sets allowed[t] = 0 where
        token t may not come next. draft: another Model with the same tokens, smaller, or draft(tokens, most) -> tokens: guesses up to
        `drafts` tokens, which one run checks. adapter: the name or number of the low-rank adapters to use (generate_adapters). All else is as in the C header (generation)."""
        ids = self._prompt(prompt, len(self.generate_text()) > 0)
        asked = _Asked(most_tokens, temperature, top_k, top_p, min_p, seed, repetition_penalty, presence_penalty, frequency_penalty, bias, mask,
                       stop_tokens, stop_texts, on_token, chunk, self._adapter(adapter), drafts, draft)
        made = _Generated(ctypes.sizeof(_Generated))
        status = self._library.@name@_generate(self._context, ids.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)), len(ids), ctypes.byref(asked.settings), ctypes.byref(made))
        asked.check()
        self._check(status)
        return Generated(asked.tokens, "".join(asked.pieces), made)

    def generate_join(self, prompt, most_tokens=0, *, temperature=0.0, top_k=0, top_p=0.0, min_p=0.0, seed=0, repetition_penalty=0.0,
                      presence_penalty=0.0, frequency_penalty=0.0, bias=None, mask=None, stop_tokens=(), stop_texts=(), on_token=None,
                      chunk=0, adapter=0):
        """Another text beside those that have joined: reads its prompt and makes its first token. The number that the text has."""
        ids, number = self._prompt(prompt, False), ctypes.c_int64()
        asked = _Asked(most_tokens, temperature, top_k, top_p, min_p, seed, repetition_penalty, presence_penalty, frequency_penalty, bias, mask,
                       stop_tokens, stop_texts, on_token, chunk, self._adapter(adapter))
        status = self._library.@name@_generate_join(self._context, ids.ctypes.data_as(ctypes.POINTER(ctypes.c_int64)), len(ids), ctypes.byref(asked.settings), ctypes.byref(number))
        asked.check()
        self._check(status)
        self._joined[number.value] = asked
        return number.value

    def generate_step(self):
        """A token for each text that has joined and not ended, in one run. The numbers of those that have ended by now and were not told."""
        status = self._library.@name@_generate_step(self._context, None)
        for asked in self._joined.values():
            asked.check()
        self._check(status)
        return list(iter(lambda: self._library.@name@_generate_ended(self._context), 0))

    def generate_leave(self, number):
        """Takes a text out, whether it has ended or not: what it has made, a Generated."""
        made = _Generated(ctypes.sizeof(_Generated))
        self._check(self._library.@name@_generate_leave(self._context, number, ctypes.byref(made)))
        asked = self._joined.pop(number)
        return Generated(asked.tokens, "".join(asked.pieces), made)

    def generate_all(self, prompts, most_tokens=0, *, together=8, **options):
        """A Generated for each of the prompts, up to `together` of which are read in one run; options: those of generate_join."""
        waiting, running, made = list(enumerate(prompts))[::-1], {}, [None] * len(prompts)
        while waiting or running:
            while waiting and len(running) < together:
                index, prompt = waiting.pop()
                running[self.generate_join(prompt, most_tokens, **options)] = index
            for number in self.generate_step():
                made[running.pop(number)] = self.generate_leave(number)
        return made

    def generate_adapters(self):
        """The names of the sets of adapters, which generate's `adapter` takes; 0 is "", the model alone."""
        names = iter(lambda: self._library.@name@_generate_adapter(len(found)), None)
        found = []
        for name in names:
            found.append(name.decode())
        return found

    def _adapter(self, adapter):
        if not isinstance(adapter, str):
            return adapter
        names = self.generate_adapters()
        if adapter not in names:
            raise ValueError(f"adapter {adapter!r}: the library has {', '.join(names[1:]) or 'none'}")
        return names.index(adapter)

    def _prompt(self, prompt, plain):
        return np.ascontiguousarray(self.encode(prompt, plain=plain) if isinstance(prompt, str) else prompt, np.int64).reshape(-1)

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
