"""Layers. Weights lie and are drawn as PyTorch's are, so that files of one fit the other."""
import math

from .. import op
from ..errors import ArgumentError
from ..var import array, no_grad
from .module import Module, filled, random, uniform


class Linear(Module):
    """x W^T + b along the last axis."""

    def __init__(self, inputs, outputs, bias=True):
        bound = 1 / math.sqrt(inputs)
        self.weight = uniform((outputs, inputs), bound)
        self.bias = uniform((outputs,), bound) if bias else None

    def forward(self, x):
        y = x @ self.weight.T
        return y if self.bias is None else y + self.bias


def _each(value, rank):
    return list(value) if isinstance(value, (list, tuple)) else [value] * rank


class Conv(Module):
    """A convolution over 1, 2 or 3 axes, as many as `kernel` has; [n, channels, ...]."""

    def __init__(self, inputs, outputs, kernel, stride=1, padding=0, dilation=1, groups=1, bias=True):
        self.kernel = list(kernel) if isinstance(kernel, (list, tuple)) else [kernel] * 2
        rank = len(self.kernel)
        bound = 1 / math.sqrt(inputs // groups * math.prod(self.kernel))
        self.weight = uniform((outputs, inputs // groups, *self.kernel), bound)
        self.bias = uniform((outputs,), bound) if bias else None
        self.options = {"strides": _each(stride, rank), "pads": _each(padding, rank) * 2, "dilations": _each(dilation, rank),
                        "group": groups}

    def forward(self, x):
        return op.Conv(x, self.weight, self.bias, **self.options)


class ConvTranspose(Module):
    """A transposed convolution over as many axes as `kernel` has."""

    def __init__(self, inputs, outputs, kernel, stride=1, padding=0, output_padding=0, dilation=1, groups=1, bias=True):
        self.kernel = list(kernel) if isinstance(kernel, (list, tuple)) else [kernel] * 2
        rank = len(self.kernel)
        bound = 1 / math.sqrt(outputs // groups * math.prod(self.kernel))
        self.weight = uniform((inputs, outputs // groups, *self.kernel), bound)
        self.bias = uniform((outputs,), bound) if bias else None
        self.options = {"strides": _each(stride, rank), "pads": _each(padding, rank) * 2, "dilations": _each(dilation, rank),
                        "output_padding": _each(output_padding, rank), "group": groups}

    def forward(self, x):
        return op.ConvTranspose(x, self.weight, self.bias, **self.options)


class Embedding(Module):
    """Rows of a table, by integers."""

    def __init__(self, count, width):
        self.weight = array(random().standard_normal((count, width)).astype("float32"))

    def forward(self, indices):
        return op.Gather(self.weight, indices)


class LayerNorm(Module):
    """Over the last axes, of these lengths."""

    def __init__(self, shape, epsilon=1e-5):
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.weight, self.bias = filled(shape, 1), filled(shape, 0)
        self.epsilon = epsilon

    def forward(self, x):
        return op.LayerNormalization(x, self.weight, self.bias, axis=-self.weight.ndim, epsilon=self.epsilon)


class GroupNorm(Module):
    """Over groups of channels of [n, channels, ...]."""

    def __init__(self, groups, channels, epsilon=1e-5):
        self.weight, self.bias = filled((channels,), 1), filled((channels,), 0)
        self.groups, self.epsilon = groups, epsilon

    def forward(self, x):
        return op.GroupNormalization(x, self.weight, self.bias, num_groups=self.groups, epsilon=self.epsilon)


class InstanceNorm(Module):
    """Over the places of each channel of [n, channels, ...]."""

    def __init__(self, channels, epsilon=1e-5):
        self.weight, self.bias = filled((channels,), 1), filled((channels,), 0)
        self.epsilon = epsilon

    def forward(self, x):
        return op.InstanceNormalization(x, self.weight, self.bias, epsilon=self.epsilon)


class BatchNorm(Module):
    """Over the batch and the places of each channel of [n, channels, ...]; in training by the batch's own statistics, of
    which running ones are kept for later."""

    def __init__(self, channels, epsilon=1e-5, momentum=0.1):
        self.weight, self.bias = filled((channels,), 1), filled((channels,), 0)
        self.state("running_mean", filled((channels,), 0))
        self.state("running_var", filled((channels,), 1))
        self.epsilon, self.momentum = epsilon, momentum

    def forward(self, x):
        if not self.training:
            return op.BatchNormalization(x, self.weight, self.bias, self.running_mean, self.running_var,
                                         epsilon=self.epsilon)
        axes = [0, *range(2, x.ndim)]
        mean = x.mean(axes, keepdims=True)
        deviation = x - mean
        variance = (deviation * deviation).mean(axes, keepdims=True)
        with no_grad():
            count = x.size // x.shape[1]
            corrected = variance * (count / max(count - 1, 1))
            for kept, now in ((self.running_mean, mean), (self.running_var, corrected)):
                kept.assign(kept * (1 - self.momentum) + now.reshape(-1) * self.momentum)
        shape = [1, -1] + [1] * (x.ndim - 2)
        scale = self.weight.reshape(shape) / (variance + self.epsilon).sqrt()
        return deviation * scale + self.bias.reshape(shape)


class Dropout(Module):
    """In training, zeros with this probability and the rest scaled up: other ones in each call, by the module's seed."""

    def __init__(self, probability=0.5):
        if not 0 <= probability < 1:
            raise ArgumentError(f"a probability of {probability}; it is at least 0 and below 1")
        self.probability = probability
        self.seed, self.calls = int(random().integers(1 << 31)), 0

    def forward(self, x):
        if not self.training or self.probability == 0:
            return x
        self.calls += 1
        shape = [str(dim) for dim in x.shape]
        drawn = op.metac.random(array(self.seed, "int64"), array(self.calls, "int64"), shape=shape)
        kept = (drawn >= self.probability).astype(x.dtype)
        return x * kept * (1 / (1 - self.probability))
