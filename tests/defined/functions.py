"""Operators as users define them: formulas, and what they are in NumPy and PyTorch. functions.cpp has the same in C++."""
import math
import types

import numpy as np

# Signature, formula, reference over a namespace of functions; operands are called a, b, c in the models.
FUNCTIONS = [
    ("mish", "x * tanh(log1p(exp(x)))", lambda m, x: x * m.tanh(m.log1p(m.exp(x)))),
    ("swish(x, beta = 1.5)", "x / (1 + exp(-beta * x))", lambda m, x: x / (1 + m.exp(-1.5 * x))),
    ("gelu", "0.5 * x * (1 + erf(x / 1.4142135623730951))", lambda m, x: 0.5 * x * (1 + m.erf(x / math.sqrt(2)))),
    ("elu(x, alpha = 1)", "x > 0 ? x : alpha * expm1(x)", lambda m, x: m.where(x > 0, x, m.expm1(x))),
    ("softplus", "max(x, 0) + log1p(exp(-abs(x)))", lambda m, x: m.log1p(m.exp(x))),
    ("snake(x, frequency = 2)", "s = sin(frequency * x); x + s * s / frequency", lambda m, x: x + m.sin(2 * x) ** 2 / 2),
    ("gaussian(x, s = 0.7)", "exp(-x * x / (2 * s * s))", lambda m, x: m.exp(-x * x / (2 * 0.7 * 0.7))),
    ("huber(p, t, delta = 1)", "d = abs(p - t); d <= delta ? d * d / 2 : delta * (d - delta / 2)",
     lambda m, p, t: m.where(abs(p - t) <= 1, (p - t) ** 2 / 2, abs(p - t) - 0.5)),
    ("log_cosh(p, t)", "d = abs(p - t); d + log1p(exp(-2 * d)) - 0.6931471805599453",
     lambda m, p, t: m.log(m.cosh(p - t))),
    ("bce(p, t)", "max(p, 0) - p * t + log1p(exp(-abs(p)))", lambda m, p, t: m.log1p(m.exp(p)) - p * t),
    ("focal(p, t, gamma = 2)",
     "s = sigmoid(p); -(t * pow(1 - s, gamma) * log(s) + (1 - t) * pow(s, gamma) * log(1 - s))",
     lambda m, p, t: -(t * (1 - sigmoid(m, p)) ** 2 * m.log(sigmoid(m, p))
                       + (1 - t) * sigmoid(m, p) ** 2 * m.log(1 - sigmoid(m, p)))),
    ("weighted_smooth_l1(p, t, w)", "d = abs(p - t); w * (d < 1 ? 0.5 * d * d : d - 0.5)",
     lambda m, p, t, w: w * m.where(abs(p - t) < 1, 0.5 * (p - t) ** 2, abs(p - t) - 0.5)),
    ("tanh_shrink", "x - tanh(x)", lambda m, x: x - m.tanh(x)),
    ("rational", "x / (1 + x * x)", lambda m, x: x / (1 + x * x)),
    ("quake", "1 / sqrt(1 + x * x)", lambda m, x: 1 / m.sqrt(1 + x * x)),
    ("atan_gate(a, b)", "atan2(a, 1 + b * b)", lambda m, a, b: m.atan(a / (1 + b * b))),
    ("poly", "((4 * x + 3) * x + 2) * x + 1", lambda m, x: 1 + 2 * x + 3 * x ** 2 + 4 * x ** 3),
    ("length(a, b)", "sqrt(a * a + b * b)", lambda m, a, b: m.sqrt(a * a + b * b)),
    ("leaky_clip(x, low = -1, high = 1, slope = 0.1)",
     "x < low ? low + slope * (x - low) : x > high ? high + slope * (x - high) : x",
     lambda m, x: m.where(x < -1, -1 + 0.1 * (x + 1), m.where(x > 1, 1 + 0.1 * (x - 1), x))),
    ("soft_max_of_two(a, b)", "max(a, b) + log1p(exp(-abs(a - b)))", lambda m, a, b: m.log(m.exp(a) + m.exp(b))),
]
# Rounding with a gradient that is given: signature, formula, gradients.
STRAIGHT = ("straight_round", "rint(x)", {"x": "dy"})

NUMPY = types.SimpleNamespace(
    exp=np.exp, log=np.log, log1p=np.log1p, expm1=np.expm1, tanh=np.tanh, cosh=np.cosh, sin=np.sin, sqrt=np.sqrt,
    atan=np.arctan, where=np.where, erf=np.vectorize(math.erf))


def sigmoid(m, x):
    return 1 / (1 + m.exp(-x))


def name_of(signature):
    return signature.split("(")[0]
