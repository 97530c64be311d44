"""Attention with several heads."""
from .. import op
from ..errors import ArgumentError
from .layers import Linear
from .module import Module


class MultiHeadAttention(Module):
    """Of [n, steps, width]; keys and values from `memory` where it is given. With `causal` a step sees none behind it."""

    def __init__(self, width, heads, causal=False):
        if width % heads:
            raise ArgumentError(f"a width of {width} in {heads} heads")
        self.query, self.key, self.value, self.output = (Linear(width, width) for _ in range(4))
        self.heads, self.causal = heads, causal

    def forward(self, x, memory=None):
        memory = x if memory is None else memory
        y = op.Attention(self.query(x), self.key(memory), self.value(memory), q_num_heads=self.heads,
                         kv_num_heads=self.heads, is_causal=int(self.causal))
        return self.output(y)
