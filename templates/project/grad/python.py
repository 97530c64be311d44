
    # ---- derivatives ----
    @property
    def differentiable(self):
        """What is differentiated by: ports of inputs and parameters, in the order of gradients and tangents."""
        function = @derivative_names@[0]
        if function == "vjp":
            return [_renamed(port, "gradient of ") for port in self._ports("vjp", "output")[len(self.outputs):]]
        if function == "jvp":
            return [_renamed(port, "tangent of ") for port in self._ports("jvp", "input")[len(self.inputs):]]
        return [_renamed(port, "product of ") for port in self._ports("hvp", "output")]

@derivatives@    def _split(self, results, prefix):
        count = len(self.outputs)
        return dict(results[:count]), {name[len(prefix):]: array for name, array in results[count:]}

    def _cotangents(self, function, arrays, given):
        ports = self._ports(function, "input")[len(self.inputs):]
        if function == "hvp":
            ports = ports[: len(ports) - len(self.differentiable)]
        ports = [_renamed(port, "cotangent of ") for port in ports]
        shapes = {}
        if any(port.name not in given for port in ports):
            tensors = (_Tensor * max(1, len(self.outputs)))()
            status = self._library.@name@_output_shapes(self._context, self._tensors(arrays), len(arrays), tensors, len(self.outputs))
            if status != 0:
                raise Error(status, self._message())
            shapes = {port.name: tuple(tensor.dims[: tensor.rank]) for tensor, port in zip(tensors, self.outputs)}
        return self._vectors(given, ports, shapes, "cotangent")

    def _tangents(self, function, arrays, given):
        ports = self._ports(function, "input")
        ports = [_renamed(port, "tangent of ") for port in ports[len(ports) - len(self.differentiable):]]
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
