
    def queue(self, max_batch=0, max_delay=0.0, max_pending=0, contexts=0, threads=0):
        """A Queue, whose requests any thread may make: rows of several become one batch. max_batch: its rows at most (0: 32); max_delay: how
        many seconds a request waits for others; max_pending: how many may wait (0: 1024); contexts: batches that run side by side (0: 1);
        threads: of each (0: as this model). It has contexts of its own, with this model's file of weights. An Error of status 4 where the
        first dim of all inputs and outputs is not one and the same open dim."""
        if self._weights_set:
            raise ValueError("a queue has the weights of a file: write_weights() those that were set, and ask a Model(weights=...) for it")
        options = _QueueOptions()
        options.size, options.context = ctypes.sizeof(options), ctypes.pointer(self._options)
        options.max_batch, options.max_pending, options.contexts, options.threads = max_batch, max_pending, contexts, threads
        options.max_delay_us = round(max_delay * 1e6)
        return Queue(self, options)
