
    @property
    def states(self):
        """Ports of the values that run() hands to its next call."""
        return _ports(self._library.@name@_state)

    def _check(self, status):
        if status != 0:
            raise Error(status, self._message())

    def _state(self, name):
        ports = self.states
        self._names("state", [name], ports, all_of_them=False)
        index = [port.name for port in ports].index(name)
        return index, ports[index]

    def state_reset(self):
        """States are zeros again, and empty along the axis that they grow along."""
        self._check(self._library.@name@_state_reset(self._context))
@python_leave_all@
    def state_get(self, name):
        """A state as an array of its own; all dims are 0 where no run has given it a value yet."""
        index, port = self._state(name)
        tensor = _Tensor()
        self._check(self._library.@name@_state_get(self._context, index, ctypes.byref(tensor)))
        array = np.empty(tuple(tensor.dims[: tensor.rank]), port.dtype)
        if array.size:
            tensor.data = array.ctypes.data
            self._check(self._library.@name@_state_get(self._context, index, ctypes.byref(tensor)))
        return array

    def state_set(self, name, value):
        """The next run reads this value."""
        index, port = self._state(name)
        array = self._array(value, port, "state")
        self._check(self._library.@name@_state_set(self._context, index, self._tensors([array])))

    def state_truncate(self, length):
        """States that grow keep their first `length` steps."""
        self._check(self._library.@name@_state_truncate(self._context, length))

    def state_fork(self, other):
        """All states become those of another Model of this library, as they are now."""
        self._check(self._library.@name@_state_fork(self._context, other._context))
