"""LSTM and GRU over ONNX's operators; weights by ONNX's names and gates."""
import math

from .. import op
from .module import Module, filled, uniform


class _Recurrent(Module):
    gates = 0

    def __init__(self, inputs, hidden, bidirectional=False):
        directions = 2 if bidirectional else 1
        bound = 1 / math.sqrt(hidden)
        self.W = uniform((directions, self.gates * hidden, inputs), bound)
        self.R = uniform((directions, self.gates * hidden, hidden), bound)
        self.B = filled((directions, 2 * self.gates * hidden), 0)
        self.hidden = hidden
        self.direction = "bidirectional" if bidirectional else "forward"

    def _merged(self, y):
        """[steps, directions, n, hidden] as [steps, n, directions * hidden]."""
        return y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)


class LSTM(_Recurrent):
    """Over [steps, n, inputs]: gives ([steps, n, hidden], (h, c)), each of [directions, n, hidden]; gates are i, o, f, c."""

    gates = 4

    def forward(self, x, state=(None, None)):
        y, h, c = op.LSTM(x, self.W, self.R, self.B, None, *state, hidden_size=self.hidden, direction=self.direction,
                          outputs=3)
        return self._merged(y), (h, c)


class GRU(_Recurrent):
    """Over [steps, n, inputs]: gives ([steps, n, hidden], h); gates are z, r, h."""

    gates = 3

    def forward(self, x, state=None):
        y, h = op.GRU(x, self.W, self.R, self.B, None, state, hidden_size=self.hidden, direction=self.direction,
                      linear_before_reset=1, outputs=2)
        return self._merged(y), h
