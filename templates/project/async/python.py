
    def run_async(self, inputs, outputs=None):
        """As run(), in a thread of the model's own, without waiting: returns a Run. The model takes no other call until that is done, and
        arrays that are given must stay as they are."""
        arrays = self._inputs(inputs)
        results = self._results(self.outputs, outputs)
        tensors = self._tensors(arrays)
        status = self._library.@name@_run_async(self._context, tensors, len(arrays), results, len(self.outputs), None, None, None)
        if status != 0:
            raise Error(status, self._message())
        return Run(self, (arrays, tensors, results), outputs)


class Run:
    """What Model.run_async has begun."""

    def __init__(self, model, kept, outputs):
        self._model, self._kept, self._outputs, self._answer = model, kept, outputs, None

    def done(self):
        """Whether result() would return at once."""
        return self._answer is not None or self._model._library.@name@_poll(self._model._context) != 6

    def cancel(self):
        """Ends the run before its next kernel: result() raises an Error with status 9."""
        if self._answer is None:
            self._model.cancel()

    def result(self):
        """Waits, and returns what run() would."""
        if self._answer is None:
            status = self._model._library.@name@_wait(self._model._context)
            if status != 0:
                raise Error(status, self._model._message())
            self._answer = dict(self._model._answers(self._kept[2], self._model.outputs, self._outputs, True))
        return self._answer
