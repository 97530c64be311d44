    def hvp(self, inputs, cotangents, tangents, copy=True):
        """{name: (H @ tangents) for it}, H the Hessian of sum(cotangent * output) by all of `differentiable`."""
        arrays = self._inputs(inputs)
        given = arrays + self._cotangents("hvp", arrays, cotangents) + self._tangents("hvp", arrays, tangents)
        return {name[len("product of "):]: array for name, array in self._call("hvp", given, copy=copy)}

