

class Queue:
    """Requests of many threads, collected into batches: Model.queue(). Rows must not depend on each other; another number of rows may
    round differently. `with` and close() end it; answers that are there can be taken afterwards."""

    def __init__(self, model, options):
        self._model, self._library, self._queue = model, model._library, ctypes.c_void_p()
        self._check(self._library.@name@_queue_create(ctypes.byref(options), ctypes.byref(self._queue)))

    def _check(self, status):
        if status != 0:
            raise Error(status, self._library.@name@_queue_last_error(self._queue).decode("utf-8", "replace"))

    def __del__(self):
        if getattr(self, "_queue", None):
            self._library.@name@_queue_destroy(self._queue)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def close(self, drain=True):
        """Takes no more requests (they raise an Error of status 9) and returns when those that wait have been run, or without drain have been
        cancelled, as later results of theirs tell."""
        self._check(self._library.@name@_queue_stop(self._queue, int(drain)))

    def submit(self, inputs, outputs=None):
        """A Request for what Model.run() would answer: inputs of 1 to max_batch rows, the first dim of all of them, which with `outputs` must
        stay as they are until it is done. An Error of status 10: max_pending requests wait already."""
        model = self._model
        arrays = model._inputs(inputs)
        results, ticket = model._results(model.outputs, outputs), ctypes.c_int64()
        tensors = model._tensors(arrays)
        self._check(self._library.@name@_queue_submit(self._queue, tensors, len(arrays), results, len(model.outputs), ctypes.byref(ticket)))
        return Request(self, ticket.value, (arrays, tensors, results), outputs)

    def run(self, inputs, outputs=None):
        """From any thread, what Model.run() would answer, computed in a batch with others: {name: array}."""
        return self.submit(inputs, outputs).result()

    @property
    def counters(self):
        """What the queue has done: requests taken, rejected, cancelled, pending (that wait now) and run; rows and batches that those were, and
        mean_batch, their quotient; waited, the seconds from submission to the beginning of the batch, of all together."""
        counted = _QueueCounters()
        counted.size = ctypes.sizeof(counted)
        self._check(self._library.@name@_queue_count(self._queue, ctypes.byref(counted)))
        told = {name: getattr(counted, name) for name in ("requests", "rejected", "cancelled", "pending", "run", "rows", "batches")}
        return {**told, "mean_batch": told["rows"] / max(1, told["batches"]), "waited": counted.waited_us / 1e6}


class Request:
    """What Queue.submit has begun."""

    def __init__(self, queue, ticket, kept, outputs):
        self._queue, self._ticket, self._kept, self._outputs = queue, ticket, kept, outputs
        self._answer, self._lock = None, threading.Lock()

    def _release(self):
        ticket, self._ticket = self._ticket, 0
        self._queue._library.@name@_queue_release(self._queue._queue, ticket)

    def __del__(self):
        if getattr(self, "_ticket", 0):
            self._release()

    def done(self):
        """Whether result() would return at once."""
        return self._ticket == 0 or self._queue._library.@name@_queue_poll(self._queue._queue, self._ticket) != 6

    def cancel(self):
        """If it still waits for its batch, it is never run: result() raises an Error of status 9."""
        if self._ticket != 0:
            self._queue._library.@name@_queue_cancel(self._queue._queue, self._ticket)

    def result(self):
        """Waits, and returns {name: array} as Model.run() does."""
        with self._lock:
            if self._answer is None:
                queue = self._queue
                queue._check(queue._library.@name@_queue_wait(queue._queue, self._ticket))
                self._answer = dict(queue._model._answers(self._kept[2], queue._model.outputs, self._outputs, True))
                self._release()
            return self._answer
