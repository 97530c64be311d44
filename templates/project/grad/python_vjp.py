    def vjp(self, inputs, cotangents, copy=True):
        """Vector-Jacobian product: ({name: output}, {name: gradient}), the gradients those of sum(cotangent * output).

        cotangents: {output's name: array}, zeros where missing. Gradients: of every one of `differentiable`.
        """
        arrays = self._inputs(inputs)
        results = self._call("vjp", arrays + self._cotangents("vjp", arrays, cotangents), copy=copy)
        return self._split(results, "gradient of ")

