"""Element-wise operators."""
import numpy as np

from samples import F, Fixed, at_kink, node, operator, torch

SHAPES = [(), (1,), (5,), (2, 3), (0,), (2, 0, 3), (3, 1, 2), (2, 2, 2, 2), (7,)]
PAIRS = [((2, 3), (2, 3)), ((2, 3), (3,)), ((), (2, 2)), ((2, 1), (1, 3)), ((4,), (1,)), ((2, 3, 2), (3, 1)), ((0,), (1,)), ((2, 0), (2, 1)), ((), ()), ((1, 1), (5,))]


class Function:
    """One operand: where it is smooth, its extremes, and its convention at kinks: [(attributes, points, slopes)]."""

    def __init__(self, reference, low=-2.0, high=2.0, kinks=(), extremes=(), conventions=(), variants=({},)):
        self.reference, self.low, self.high, self.kinks, self.extremes = reference, low, high, kinks, extremes
        self.conventions, self.variants = conventions, variants


def softplus(x):
    """Without infinities in its derivatives."""
    return torch.clamp(x, min=0) + torch.log1p(torch.exp(-torch.abs(x)))


FAR = (-800.0, -40.0, 40.0, 800.0)
FUNCTIONS = {
    "Sin": Function(lambda a, x: torch.sin(x), extremes=(1e3, -1e3)),
    "Cos": Function(lambda a, x: torch.cos(x), extremes=(1e3, -1e3)),
    "Tan": Function(lambda a, x: torch.tan(x), -1.2, 1.2),
    "Asin": Function(lambda a, x: torch.asin(x), -0.9, 0.9),
    "Acos": Function(lambda a, x: torch.acos(x), -0.9, 0.9),
    "Atan": Function(lambda a, x: torch.atan(x), extremes=(1e6, -1e6)),
    "Sinh": Function(lambda a, x: torch.sinh(x), extremes=(20.0, -20.0)),
    "Cosh": Function(lambda a, x: torch.cosh(x), extremes=(20.0, -20.0)),
    "Asinh": Function(lambda a, x: torch.asinh(x), extremes=(1e6, -1e6)),
    "Acosh": Function(lambda a, x: torch.acosh(x), 1.3, 4.0, extremes=(1e6,)),
    "Atanh": Function(lambda a, x: torch.atanh(x), -0.9, 0.9),
    "Tanh": Function(lambda a, x: torch.tanh(x), extremes=FAR),
    "Sigmoid": Function(lambda a, x: torch.sigmoid(x), extremes=FAR),
    "Exp": Function(lambda a, x: torch.exp(x), extremes=(-800.0, 10.0)),
    "Log": Function(lambda a, x: torch.log(x), 0.3, 4.0, extremes=(1e6,)),
    "Sqrt": Function(lambda a, x: torch.sqrt(x), 0.3, 4.0, extremes=(1e6,)),
    "Reciprocal": Function(lambda a, x: 1 / x, kinks=(0.0,), low=-3, high=3, extremes=(1e6,)),
    "Erf": Function(lambda a, x: torch.erf(x), extremes=FAR),
    "Neg": Function(lambda a, x: -x),
    "Softplus": Function(lambda a, x: softplus(x), extremes=FAR),
    "Softsign": Function(lambda a, x: F.softsign(x), kinks=(0.0,), extremes=(1e4, -1e4), conventions=[({}, [0.0], [1])]),
    "Mish": Function(lambda a, x: x * torch.tanh(softplus(x)), extremes=FAR),
    "Gelu": Function(lambda a, x: F.gelu(x, approximate=a.get("approximate", "none")), extremes=FAR, variants=({}, {"approximate": "tanh"})),
    "Swish": Function(lambda a, x: x * torch.sigmoid(a.get("alpha", 1.0) * x), extremes=FAR, variants=({}, {"alpha": 1.7}, {"alpha": -0.5})),
    "Identity": Function(lambda a, x: x.clone()),
    # Kinks.
    "Abs": Function(lambda a, x: torch.abs(x), kinks=(0.0,), conventions=[({}, [0.0, -0.0], [0, 0])]),
    "Sign": Function(lambda a, x: torch.sign(x), kinks=(0.0,), conventions=[({}, [0.0, 2.0], [0, 0])]),
    "Floor": Function(lambda a, x: torch.floor(x), kinks=(-2, -1, 0, 1, 2), conventions=[({}, [0.0, 1.0, 2.5], [0, 0, 0])]),
    "Ceil": Function(lambda a, x: torch.ceil(x), kinks=(-2, -1, 0, 1, 2), conventions=[({}, [0.0, 1.0, 2.5], [0, 0, 0])]),
    "Round": Function(lambda a, x: torch.round(x), kinks=(-1.5, -0.5, 0.5, 1.5), conventions=[({}, [0.5, 1.5, 2.0], [0, 0, 0])]),
    "Relu": Function(lambda a, x: torch.relu(x), kinks=(0.0,), extremes=FAR, conventions=[({}, [0.0, -0.0], [0, 0])]),
    "LeakyRelu": Function(lambda a, x: F.leaky_relu(x, a.get("alpha", 0.01)), kinks=(0.0,), variants=({}, {"alpha": 0.3}),
                          conventions=[({"alpha": 0.25}, [0.0], [1])]),
    "Elu": Function(lambda a, x: torch.where(x < 0, a.get("alpha", 1.0) * torch.expm1(torch.minimum(x, torch.zeros_like(x))), x), kinks=(0.0,), extremes=FAR,
                    variants=({}, {"alpha": 0.3}), conventions=[({"alpha": 0.25}, [0.0], [1])]),
    "Selu": Function(lambda a, x: a.get("gamma", 1.05070102214813232421875) * torch.where(x < 0, a.get("alpha", 1.67326319217681884765625) * torch.expm1(torch.minimum(x, torch.zeros_like(x))), x),
                     kinks=(0.0,), extremes=FAR, variants=({}, {"alpha": 1.5, "gamma": 0.5}), conventions=[({"alpha": 0.5, "gamma": 2.0}, [0.0], [2])]),
    "Celu": Function(lambda a, x: F.celu(x, a.get("alpha", 1.0)), kinks=(0.0,), extremes=FAR, variants=({}, {"alpha": 2.0})),
    "ThresholdedRelu": Function(lambda a, x: torch.where(x > a.get("alpha", 1.0), x, 0), kinks=(1.0, 0.5), variants=({}, {"alpha": 0.5}), conventions=[({}, [1.0], [0])]),
    "HardSigmoid": Function(lambda a, x: torch.clamp(a.get("alpha", 0.2) * x + a.get("beta", 0.5), 0, 1), low=-6, high=6, kinks=(-2.5, 2.5, -2, 2 / 3), extremes=FAR,
                            variants=({}, {"alpha": 0.375, "beta": 0.75}), conventions=[({"alpha": 0.25, "beta": 0.5}, [-2.0, 2.0], [0, 0])]),
    "HardSwish": Function(lambda a, x: x * torch.clamp(x / 6 + 0.5, 0, 1), low=-6, high=6, kinks=(-3, 3), extremes=FAR, conventions=[({}, [-3.0, 3.0], [0, 1])]),
    "Shrink": Function(lambda a, x: torch.where(x < -a.get("lambd", 0.5), x + a.get("bias", 0.0), torch.where(x > a.get("lambd", 0.5), x - a.get("bias", 0.0), 0 * x)), low=-3, high=3,
                       kinks=(-1.5, 1.5, -0.5, 0.5), variants=({}, {"lambd": 1.5, "bias": 1.5}), conventions=[({}, [-0.5, 0.5], [0, 0])]),
}


def unary(source, name, functions=FUNCTIONS, domain=""):
    f = functions[name]
    for attributes in f.variants:
        for shape in SHAPES:
            yield node(name, source.away(*shape, kinks=f.kinks, low=f.low, high=f.high), domain=domain, **attributes)
        if f.extremes:
            yield node(name, np.array(f.extremes), domain=domain, **attributes)
    for attributes, points, slopes in f.conventions:
        # PyTorch's LeakyRelu has the other side's slope there.
        yield node(name, np.array(points), domain=domain, kink=at_kink([slopes]), reference=False if name == "LeakyRelu" else None, **attributes)


for _name, _function in FUNCTIONS.items():
    operator(_name, reference=_function.reference)(unary)

MICROSOFT = {
    "Gelu": Function(lambda a, x: F.gelu(x), extremes=FAR),
    "QuickGelu": Function(lambda a, x: x * torch.sigmoid(a.get("alpha", 1.702) * x), extremes=FAR, variants=({}, {"alpha": 0.5})),
}
for _name, _function in MICROSOFT.items():
    operator(_name, domain="com.microsoft", reference=_function.reference)(lambda source, name: unary(source, name, MICROSOFT, "com.microsoft"))


@operator("BiasGelu", domain="com.microsoft", reference=lambda a, x, b: F.gelu(x + b))
def bias_gelu(source, name):
    for shape in [(3,), (2, 3), (0, 3), (2, 2, 4), (1, 5), (4, 1)]:
        yield node(name, source.real(*shape), source.real(shape[-1]), domain="com.microsoft")


@operator("FastGelu", domain="com.microsoft", reference=lambda a, x, b=None: F.gelu(x if b is None else x + b, approximate="tanh"))
def fast_gelu(source, name):
    for shape in [(3,), (2, 3), (0, 3), (2, 2, 4)]:
        yield node(name, source.real(*shape), source.real(shape[-1]), domain="com.microsoft")
        yield node(name, source.real(*shape), domain="com.microsoft")


@operator("SwiGLU", reference=lambda a, x, b: x * torch.sigmoid(a.get("alpha", 1.0) * x) * b)
def swiglu(source, name):
    for attributes in ({}, {"alpha": 1.5}):
        for a, b in [((2, 3), (2, 3)), ((0,), (0,)), ((5,), (5,)), ((2, 1, 3), (2, 1, 3)), ((), ())]:
            yield node(name, source.real(*a), source.real(*b), **attributes)


# ---- two operands and more ----
def pairs(source, left, right, name, **more):
    for a, b in PAIRS:
        yield node(name, left(*a), right(*b), **more)


@operator("Add", "Sub", "Mul")
def arithmetic(source, name):
    reference = {"Add": lambda a, x, y: x + y, "Sub": lambda a, x, y: x - y, "Mul": lambda a, x, y: x * y}[name]
    yield from pairs(source, source.real, source.real, name, reference=reference)


@operator("Div", reference=lambda a, x, y: x / y)
def division(source, name):
    yield from pairs(source, source.real, lambda *s: source.away(*s, margin=0.4), name)


@operator("Pow", reference=lambda a, x, y: x ** y)
def power(source, name):
    yield from pairs(source, lambda *s: source.real(*s, low=0.3, high=2), source.real, name)
    for exponent in (0.0, 1.0, 2.0, 3.0, -1.0, 0.5, -2.0):  # constants, by which nothing is differentiated, are rules of their own
        low = -2 if exponent == int(exponent) else 0.3
        yield node(name, source.away(2, 3, low=low, high=2, margin=0.3), Fixed(np.array(exponent)))
    yield node(name, source.away(4, margin=0.3), Fixed(np.array([2.0, 3.0, 0.0, 1.0])))
    yield node(name, np.array([0.0, 0.0, 0.0]), Fixed(np.array([2.0, 1.0, 3.0])), kink=at_kink([[0, 1, 0]]), reference=False)
    yield node(name, np.array([0.0, -2.0]), Fixed(np.array([0.0, 0.0])), kink=at_kink([[0, 0]]), reference=False)


def remainder(a, x, y):
    return torch.fmod(x, y) if a.get("fmod", 0) else x - y * torch.floor(x / y)


@operator("Mod", reference=remainder)
def modulo(source, name):
    for fmod in (1,):
        for a, b in PAIRS:
            divisor = source.away(*b, low=0.7, high=1.3) * source.rng.choice([-1.0, 1.0], b)
            x = np.broadcast_to(np.broadcast_to(divisor, np.broadcast_shapes(a, b)) * 0, np.broadcast_shapes(a, b))
            x = (source.ints(*np.broadcast_shapes(a, b), low=-2, high=2) + source.real(*np.broadcast_shapes(a, b), low=0.2, high=0.8)) * divisor + x
            yield node(name, x, divisor, fmod=fmod)


@operator("PRelu", reference=lambda a, x, s: torch.where(x < 0, s * x, x))
def prelu(source, name):
    for a, b in [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 2), ()), ((2, 3, 2), (3, 1)), ((0, 3), (3,)), ((4,), (1,)), ((1, 2, 2, 2), (2, 1, 1))]:
        yield node(name, source.away(*a), source.real(*b))
    yield node(name, np.array([0.0, 1.0]), np.array([0.5, 0.5]), kink=at_kink([[1, 1], [0, 0]]))


@operator("Max", "Min")
def extremum(source, name):
    reference = (lambda a, *x: __import__("functools").reduce(torch.maximum, x)) if name == "Max" else (lambda a, *x: __import__("functools").reduce(torch.minimum, x))
    for a, b in PAIRS:
        every = source.apart(int(np.prod(a)) + int(np.prod(b)))
        yield node(name, every[:int(np.prod(a))].reshape(a), every[int(np.prod(a)):].reshape(b), reference=reference)
    for shapes in [[(3,)], [(2, 2), (2,), ()], [(1, 3), (2, 1), (3,), (2, 3)]]:
        every = source.apart(sum(int(np.prod(s)) for s in shapes))
        cut = np.split(every, np.cumsum([int(np.prod(s)) for s in shapes])[:-1])
        yield node(name, *[part.reshape(s) for part, s in zip(cut, shapes)], reference=reference)
    yield node(name, np.array([1.0, 2.0]), np.array([1.0, 2.0]), kink=at_kink([[0.5, 0.5], [0.5, 0.5]]), reference=reference)
    yield node(name, np.array([1.0, 2.0]), np.array([1.0, 5.0]), kink=at_kink([[0.5, name == "Min"], [0.5, name == "Max"]]), reference=reference)


@operator("Sum", "Mean")
def sums(source, name):
    reference = (lambda a, *x: sum(x)) if name == "Sum" else (lambda a, *x: sum(x) / len(x))
    for shapes in [[(3,)], [(2, 2), (2,), ()], [(1, 3), (2, 1), (3,), (2, 3)], [(0,), (1,)], [(2, 3), (2, 3)], [(), (), ()]]:
        yield node(name, *[source.real(*s) for s in shapes], reference=reference)


@operator("Where", reference=lambda a, c, x, y: torch.where(c, x, y))
def where(source, name):
    for a, b in PAIRS:
        yield node(name, source.ints(*np.broadcast_shapes(a, b)).astype(bool), source.real(*a), source.real(*b))
    yield node(name, source.ints(3, 1).astype(bool), source.real(2), source.real())
    # Both branches are the same value: what is selected is not a kink.
    yield node(name, np.array([True, False]), np.array([1.0, 1.0]), np.array([1.0, 1.0]))


def clipped(a, x, low=None, high=None):
    x = x if low is None else torch.maximum(x, low)
    return x.clone() if high is None else torch.minimum(x, high)


@operator("Clip", reference=clipped)
def clip(source, name):
    for shape in SHAPES:
        x = source.away(*shape, kinks=(-0.5, 0.8))
        yield node(name, x, Fixed(np.array(-0.5)), Fixed(np.array(0.8)))
        yield node(name, x, None, Fixed(np.array(0.8)))
        yield node(name, x, np.array(-0.5), np.array(0.8))
        yield node(name, x)
    # As of a maximum and a minimum: what meets its bound shares.
    yield node(name, np.array([-0.5, 0.8, 0.0]), Fixed(np.array(-0.5)), Fixed(np.array(0.8)), kink=at_kink([[0.5, 0.5, 1]]))


@operator("Dropout", reference=lambda a, x, *more: x.clone())
def dropout(source, name):
    for shape in SHAPES:
        yield node(name, source.real(*shape))
        yield node(name, source.real(*shape), Fixed(np.array(0.5)), Fixed(np.array(False)))
        yield node(name, source.real(*shape), Fixed(np.array(0.0)), Fixed(np.array(True)), seed=5)


@operator("Cast", "CastLike", reference=lambda a, x, *like: x.clone())
def cast(source, name):
    for shape in SHAPES:
        x = source.real(*shape)
        yield node("Cast", x, to=11) if name == "Cast" else node("CastLike", x, Fixed(np.zeros(1)))
    for seed in range(8):
        # Through float32 and back; differences see its rounding, the derivative is that of the identity.
        from onnx import helper
        from samples import program
        x, like = source.real(2, 3), Fixed(np.zeros(1, np.float32))
        through = [helper.make_node("Cast", ["x0"], ["h"], to=1), helper.make_node("Cast", ["h"], ["y0"], to=11)]
        if name == "CastLike":
            through[0] = helper.make_node("CastLike", ["x0", "x1"], ["h"])
        yield program(f"{name} to float32 and back", through, [x] + ([like] if name == "CastLike" else []), ["y0"], kink=lambda c: [c["y0"].astype(np.float32).astype(np.float64)],
                      reference=lambda a, x, *like: x.float().double())
