    def jvp(self, inputs, tangents, copy=True):
        """Jacobian-vector product: ({name: output}, {name: tangent of the output}).

        tangents: {name of one of `differentiable`: array}, zeros where missing.
        """
        arrays = self._inputs(inputs)
        results = self._call("jvp", arrays + self._tangents("jvp", arrays, tangents), copy=copy)
        return self._split(results, "tangent of ")

