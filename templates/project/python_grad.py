
    # ---- derivatives ----
    @property
    def differentiable(self):
        """What is differentiated by: ports of inputs and parameters, in the order of gradients and tangents."""
        return [_renamed(port, "gradient of ") for port in self._ports("vjp", "output")[len(self.outputs):]]

    def vjp(self, inputs, cotangents, copy=True):
        """Vector-Jacobian product: ({name: output}, {name: gradient}), the gradients those of sum(cotangent * output).

        cotangents: {output's name: array}, zeros where missing. Gradients: of every one of `differentiable`.
        """
        arrays = self._inputs(inputs)
        results = self._call("vjp", arrays + self._cotangents(arrays, cotangents), copy=copy)
        return self._split(results, "gradient of ")

    def jvp(self, inputs, tangents, copy=True):
        """Jacobian-vector product: ({name: output}, {name: tangent of the output}).

        tangents: {name of one of `differentiable`: array}, zeros where missing.
        """
        arrays = self._inputs(inputs)
        results = self._call("jvp", arrays + self._tangents("jvp", arrays, tangents), copy=copy)
        return self._split(results, "tangent of ")

    def hvp(self, inputs, cotangents, tangents, copy=True):
        """{name: (H @ tangents) for it}, H the Hessian of sum(cotangent * output) by all of `differentiable`."""
        arrays = self._inputs(inputs)
        given = arrays + self._cotangents(arrays, cotangents) + self._tangents("hvp", arrays, tangents)
        return {name[len("product of "):]: array for name, array in self._call("hvp", given, copy=copy)}

    def _split(self, results, prefix):
        count = len(self.outputs)
        return dict(results[:count]), {name[len(prefix):]: array for name, array in results[count:]}

    def _cotangents(self, arrays, given):
        ports = [_renamed(port, "cotangent of ") for port in self._ports("vjp", "input")[len(self.inputs):]]
        shapes = {}
        if any(port.name not in given for port in ports):
            tensors = (_Tensor * max(1, len(self.outputs)))()
            status = self._library.@name@_output_shapes(self._context, self._tensors(arrays), len(arrays), tensors, len(self.outputs))
            if status != 0:
                raise Error(status, self._message())
            shapes = {port.name: tuple(tensor.dims[: tensor.rank]) for tensor, port in zip(tensors, self.outputs)}
        return self._vectors(given, ports, shapes, "cotangent")

    def _tangents(self, function, arrays, given):
        ports = [_renamed(port, "tangent of ") for port in self._ports(function, "input") if port.name.startswith("tangent of ")]
        ports = ports[len(ports) - len(self.differentiable):]
        shapes = {port.name: port.shape for port in ports}
        shapes.update({port.name: array.shape for port, array in zip(self.inputs, arrays)})
        return self._vectors(given, ports, shapes, "tangent")

    def _vectors(self, given, ports, shapes, what):
        unknown = [name for name in given if name not in {port.name for port in ports}]
        if unknown:
            raise ValueError("%ss: unknown %r; there are %r" % (what, unknown, [port.name for port in ports]))
        return [self._array(given[port.name], port, what) if port.name in given else np.zeros(shapes[port.name], port.dtype) for port in ports]


def _renamed(port, prefix):
    """The port under its name without the prefix."""
    other = Port.__new__(Port)
    other.__dict__.update(port.__dict__, name=port.name[len(prefix):])
    return other
