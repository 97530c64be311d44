"""The meta-operators, Gradient, optimisers, and operators that compute floats from integers."""
import numpy as np
from onnx import helper

from samples import F, Fixed, at_kink, node, operator, program, torch

SHAPES = [(3,), (2, 3), (0, 2), (2, 1, 2), (1, 4)]

# Functions of element-wise bodies: PyTorch's name, where the operands lie, where kinks are.
BODIES = {
    "neg(a)": lambda a: -a, "sqrt(a)": lambda a: torch.sqrt(a), "exp(a)": lambda a: torch.exp(a), "log(a)": lambda a: torch.log(a), "sin(a)": lambda a: torch.sin(a), "cos(a)": lambda a: torch.cos(a),
    "tan(a)": lambda a: torch.tan(a), "asin(a/2)": lambda a: torch.asin(a / 2), "acos(a/2)": lambda a: torch.acos(a / 2), "atan(a)": lambda a: torch.atan(a), "sinh(a)": lambda a: torch.sinh(a),
    "cosh(a)": lambda a: torch.cosh(a), "tanh(a)": lambda a: torch.tanh(a), "asinh(a)": lambda a: torch.asinh(a), "acosh(a+2)": lambda a: torch.acosh(a + 2), "atanh(a/2)": lambda a: torch.atanh(a / 2),
    "erf(a)": lambda a: torch.erf(a), "sigmoid(a)": lambda a: torch.sigmoid(a), "expm1(a)": lambda a: torch.expm1(a), "log1p(a)": lambda a: torch.log1p(a), "floor(a)": lambda a: torch.floor(a),
    "ceil(a)": lambda a: torch.ceil(a), "trunc(a)": lambda a: torch.trunc(a), "rint(a)": lambda a: torch.round(a), "abs(a)": lambda a: torch.abs(a), "sign(a)": lambda a: torch.sign(a), "a+b": lambda a, b: a + b,
    "a-b*2": lambda a, b: a - 2 * b, "a*b*a": lambda a, b: a * b * a, "a/b": lambda a, b: a / b, "pow(a, b)": lambda a, b: a ** b, "atan2(a, b)": lambda a, b: torch.atan2(a, b),
    "floor_mod(a, b)": lambda a, b: torch.remainder(a, b), "trunc_mod(a, b)": lambda a, b: torch.fmod(a, b), "max(a, b)": lambda a, b: torch.maximum(a, b), "min(a, b)": lambda a, b: torch.minimum(a, b),
    "select(a < b, a*a, b)": lambda a, b: torch.where(a < b, a * a, b), "a < b ? log(a) : exp(b)": lambda a, b: torch.where(a < b, torch.log(a), torch.exp(b)),
    "floor_div(a, b)": lambda a, b: torch.floor(a / b),
}


@operator("elementwise", domain="metac")
def elementwise(source, name):
    for body, f in BODIES.items():
        for shape in SHAPES[:3]:
            every = source.rng.permutation(int(np.prod(shape)) * 2) * 0.11 + 0.31 + source.rng.uniform(0, 0.03)  # apart, and no ratio whole
            a, b = np.split(every, 2)
            pair = [a.reshape(shape)] + ([b.reshape(shape)] if "b" in body.replace("abs", "") else [])
            if body.startswith(("floor_", "trunc_")):
                pair[1] = np.full(shape[-1:], 0.37) + 0.001 * np.arange(shape[-1])
            if body.startswith("asin(") or body.startswith("acos(") or body.startswith("atanh"):
                pair[0] = source.real(*shape)
            yield node(name, *pair, domain="metac", body=[body], reference=(lambda f: lambda at, *x: f(*x))(f))
    # Elements elsewhere: x(i) * x(n - 1 - i) + y.
    yield node(name, source.real(5), source.real(), domain="metac", body=["@0(i0) * @0(4-i0) + @1() * sin(@0(i0))"], shape=["5"], reference=lambda at, x, y: x * x.flip(0) + y * torch.sin(x))
    yield node(name, source.real(3), source.real(2, 3), domain="metac", body=["a*b", "a-b"], outputs=2, reference=lambda at, x, y: (x * y, x - y))


@operator("expression", domain="metac")
def expression(source, name):
    """What definitions of operators become: formulas with steps and numbers, broadcast operands, gradients that are given."""
    of = lambda formula, parameters, *arrays, reference, **more: node(name, *arrays, domain="metac", body=[formula], parameters=parameters.split(), reference=reference, **more)  # noqa: E731
    for shape in SHAPES:
        yield of("x / (1 + exp(-slope * x))", "x", source.real(*shape), slope=1.7, reference=lambda at, x: x * torch.sigmoid(1.7 * x))
        yield of("d = x - centre; exp(-d*d) * gain", "x gain", source.real(*shape), source.real(*shape[-1:]), centre=0.25,
                 reference=lambda at, x, gain: torch.exp(-(x - 0.25) ** 2) * gain)
        yield of("x < 0 ? slope * x : x*x", "x slope", source.away(*shape, margin=0.2), source.real(), reference=lambda at, x, slope: torch.where(x < 0, slope * x, x * x))
        yield of("log1p(exp(x)) * gain", "x gain", source.real(*shape), source.real(*shape), gradient=["dy * gain * sigmoid(x)", ""], reference=lambda at, x, gain: F.softplus(x) * gain)
        yield of("sin(x) * y", "x y", source.real(*shape), source.real(*shape), fusible=0, reference=lambda at, x, y: torch.sin(x) * y)


@operator("reindex", domain="metac")
def reindex(source, name):
    for n, k in [(5, 2), (4, 3), (6, 1)]:
        yield node(name, source.real(n), domain="metac", shape=[str(n - k + 1), str(k)], indices=["i0+i1"], reference=lambda a, x, k=k: x.unfold(0, k, 1))
        yield node(name, source.real(n), domain="metac", shape=[str(n), "3"], indices=["i0-i1"], reference=lambda a, x, n=n: torch.stack([F.pad(x, (j, 0))[:n] for j in range(3)], 1))
        yield node(name, source.real(n, 2), domain="metac", shape=["2", str(n)], indices=["i1", "i0"], reference=lambda a, x: x.T)
        yield node(name, source.real(n), source.ints(4, low=0, high=n), domain="metac", shape=["4"], indices=["@1(i0)"], reference=lambda a, x, at: x[at])
        yield node(name, source.real(n), domain="metac", shape=[str(2 * n)], indices=["i0/2"], conditions=["i0%3 != 1"], fill="0.5", reference=lambda a, x, n=n: torch.where(torch.arange(2 * n) % 3 != 1, x[torch.arange(2 * n) // 2], 0.5))
    yield node(name, source.real(0, 3), domain="metac", shape=["3", "0"], indices=["i1", "i0"], reference=lambda a, x: x.T)


@operator("reindex_reduce", domain="metac")
def reindex_reduce(source, name):
    for n in (4, 6):
        for how, torch_how in [("add", "sum"), ("mul", "prod"), ("max", "amax"), ("min", "amin")]:
            x = source.away(n, margin=0.2) if how == "mul" else source.apart(n)
            at = source.ints(n, low=0, high=3)
            at[:3] = [0, 1, 2]
            yield node(name, x, at, domain="metac", shape=["3"], indices=["@1(i0)"], reduce=how, reference=lambda a, x, at, how=torch_how: torch.zeros(3, dtype=x.dtype).scatter_reduce(0, at, x, how, include_self=False))
            yield node(name, source.away(n, 2, margin=0.2) if how == "mul" else source.apart(n, 2), domain="metac", shape=[str(n // 2), "2"], indices=["i0/2", "i1"], reduce=how,
                       reference=lambda a, x, how=how: {"add": lambda v: v.sum(1), "mul": lambda v: v.prod(1), "max": lambda v: v.amax(1), "min": lambda v: v.amin(1)}[how](x.reshape(-1, 2, 2)))
        yield node(name, source.real(n), domain="metac", shape=[str(n + 2)], indices=["i0*2-1"], reference=lambda a, x, n=n: torch.zeros(n + 2, dtype=x.dtype).index_put(
            (torch.arange(n)[(torch.arange(n) * 2 - 1 >= 0) & (torch.arange(n) * 2 - 1 < n + 2)] * 2 - 1,), x[(torch.arange(n) * 2 - 1 >= 0) & (torch.arange(n) * 2 - 1 < n + 2)]))
    yield node(name, source.real(0), domain="metac", shape=["2"], indices=["i0%2"], reference=lambda a, x: torch.zeros(2, dtype=x.dtype) + 0 * x.sum())


@operator("broadcast", domain="metac")
def broadcast(source, name):
    for shape, to, dims, f in [((3,), ["2", "3"], [0], lambda x: x.expand(2, 3)), ((2, 1), ["2", "4", "3"], [1], lambda x: x.unsqueeze(1).expand(2, 4, 3)), ((), ["2", "2"], [0, 1], lambda x: x.expand(2, 2)),
                               ((0,), ["0", "2"], [1], lambda x: x.unsqueeze(1).expand(0, 2)), ((2, 3), ["2", "2", "3"], [0], lambda x: x.expand(2, 2, 3)), ((4,), ["4", "1"], [1], lambda x: x.unsqueeze(1))]:
        yield node(name, source.real(*shape), domain="metac", shape=to, dims=dims, reference=(lambda f: lambda a, x: f(x).clone())(f))
    yield node(name, source.real(1, 3), source.real(2, 3), domain="metac", reference=lambda a, x, y: x.expand(2, 3) + 0 * y)


@operator("transpose", "reshape", "pad", "slice", "concat", "gather", domain="metac")
def moves(source, name):
    for shape in [(2, 3), (3, 2), (4, 1), (0, 2), (2, 2), (1, 5)]:
        x = source.real(*shape)
        rows, columns = shape
        if name == "transpose":
            yield node(name, x, domain="metac", reference=lambda a, x: x.T)
            yield node(name, source.real(*shape, 2), domain="metac", dims=[2, 0, 1], reference=lambda a, x: x.permute(2, 0, 1))
        elif name == "reshape":
            yield node(name, x, domain="metac", shape=[str(rows * columns)], reference=lambda a, x: x.reshape(-1))
            yield node(name, x, domain="metac", shape=["1", str(columns), str(rows)], reference=lambda a, x: x.reshape(1, x.shape[1], x.shape[0]))
        elif name == "pad":
            yield node(name, x, domain="metac", before=["1", "0"], after=["0", "2"], fill="0.5", reference=lambda a, x: F.pad(x, (0, 2, 1, 0), value=0.5))
            yield node(name, x, domain="metac", before=["0", "-1"], after=["1", "1"], reference=lambda a, x: F.pad(x, (-1, 1, 0, 1)))
        elif name == "slice":
            yield node(name, x, domain="metac", starts=["0"], extents=[str(min(rows, 2))], dims=[0], reference=lambda a, x: x[:2].clone())
            yield node(name, x, domain="metac", starts=[str(columns - 1)], extents=[str(columns)], steps=["-1"], dims=[1], reference=lambda a, x: x.flip(1))
        elif name == "concat":
            yield node(name, x, source.real(2, columns), domain="metac", dim=0, reference=lambda a, x, y: torch.cat([x, y], 0))
            yield node(name, x, source.real(rows, 1), x.copy(), domain="metac", dim=1, reference=lambda a, *x: torch.cat(x, 1))
        elif rows:
            yield node(name, x, source.ints(4, low=-rows, high=rows), domain="metac", dim=0, reference=lambda a, x, at: x[at % x.shape[0]])
            yield node(name, x, np.zeros((2, 2), np.int64), domain="metac", dim=1, reference=lambda a, x, at: x[:, at])
        else:
            yield node(name, x, np.zeros((2,), np.int64), domain="metac", dim=1, reference=lambda a, x, at: x[:, at])


@operator("cast", domain="metac", reference=lambda a, x: x.clone())
def cast(source, name):
    for shape in SHAPES:
        yield node(name, source.real(*shape), domain="metac", dtype="float64")
    yield program("cast to int64 and back", [helper.make_node("cast", ["x0"], ["h"], domain="metac", dtype="int64"), helper.make_node("cast", ["h"], ["y0"], domain="metac", dtype="float64")],
                  [source.away(3, kinks=(-2, -1, 0, 1, 2))], ["y0"], reference=lambda a, x: torch.trunc(x) + 0 * x)


@operator("exchange", domain="metac", reference=lambda a, x: x.clone())
def exchange(source, name):
    for shape in SHAPES:
        yield node(name, source.real(*shape), domain="metac", index=0)


@operator("stop_fuse", domain="metac")
def stop_fuse(source, name):
    for shape in SHAPES:
        x = source.real(*shape)
        nodes = [helper.make_node("Sin", ["x0"], ["s"]), helper.make_node("stop_fuse", ["s"], ["t"], domain="metac"), helper.make_node("Mul", ["x0", "t"], ["y0"])]
        yield program(f"stop_fuse of {shape}", nodes, [x], ["y0"], reference=lambda a, x: x * torch.sin(x))


@operator("checkpoint", domain="metac")
def checkpoint(source, name):
    """Two results of two operands, the second within a checkpoint of its own; what is read behind them is read from both."""
    for shape in SHAPES:
        x, w = source.real(*shape), source.real(*shape)
        nodes = [helper.make_node("Mul", ["x0", "x1"], ["m"]), helper.make_node("Sin", ["m"], ["s"]), helper.make_node("Exp", ["s"], ["e"]),
                 helper.make_node("checkpoint", ["e", "s"], ["inner"], domain="metac", results=1), helper.make_node("Mul", ["inner", "m"], ["o"]),
                 helper.make_node("checkpoint", ["s", "o", "x0", "x1"], ["c", "d"], domain="metac", results=2), helper.make_node("Mul", ["c", "d"], ["y0"])]
        yield program(f"checkpoint of {shape}", nodes, [x, w], ["y0"], reference=lambda a, x, w: torch.sin(x * w) * torch.exp(torch.sin(x * w)) * x * w)


@operator("stop_gradient", domain="metac")
def stop_gradient(source, name):
    """x * stop(sin(x)): the derivative is that of the first factor alone, which differences do not see."""
    for shape in [(3,), (2, 3), (0, 2), (2, 1, 2), (), (7,)]:
        x = source.real(*shape)
        nodes = [helper.make_node("Sin", ["x0"], ["s"]), helper.make_node("stop_gradient", ["s"], ["t"], domain="metac"), helper.make_node("Mul", ["x0", "t"], ["y0"])]
        yield program(f"stop_gradient of {shape}", nodes, [x], ["y0"], kink=(lambda x: lambda c: [c["y0"] * np.sin(x)])(x), reference=lambda a, x: x * torch.sin(x).detach())


# ---- Gradient: the derivatives of derivatives ----
@operator("Gradient", domain="ai.onnx.preview.training")
def gradient(source, name):
    def slope(x, z):
        y = (torch.tanh(x * z) * x).sum()
        return torch.autograd.grad(y, [x, z], create_graph=True)
    for shape in [(3,), (2, 3), (0, 2), (), (1, 4)]:
        nodes = [helper.make_node("Mul", ["x0", "x1"], ["p"]), helper.make_node("Tanh", ["p"], ["t"]), helper.make_node("Mul", ["t", "x0"], ["v"])]
        first = helper.make_node(name, ["x0", "x1"], ["y0", "y1"], domain="ai.onnx.preview.training", xs=["x0", "x1"], y="v")
        yield program(f"Gradient of {shape}", nodes + [first], [source.real(*shape), source.real(*shape)], ["y0", "y1"], reference=lambda a, x, z: slope(x, z))
        again = [helper.make_node(name, ["x0", "x1"], ["g", ""], domain="ai.onnx.preview.training", xs=["x0", "x1"], y="v"), helper.make_node("Mul", ["g", "g"], ["h"]),
                 helper.make_node(name, ["x1"], ["y0"], domain="ai.onnx.preview.training", xs=["x1"], y="h")]
        del again[0].output[1]
        yield program(f"Gradient of a Gradient of {shape}", nodes + again, [source.real(*shape), source.real(*shape)], ["y0"],
                      reference=lambda a, x, z: torch.autograd.grad((slope(x, z)[0] ** 2).sum(), z, create_graph=True)[0])


# ---- optimisers: a step is a function of everything it is given ----
def adagrad(a, r, t, x, g, h):
    rate = r / (1 + t * a.get("decay_factor", 0.0))
    g = g + x * a.get("norm_coefficient", 0.0)
    h = h + g * g
    return (x - rate * g / (h.sqrt() + a.get("epsilon", 0.0)), h)


def adam(a, r, t, x, g, v, h):
    alpha, beta = a.get("alpha", 0.9), a.get("beta", 0.999)
    rate = r * (1 - beta ** float(t)) ** 0.5 / (1 - alpha ** float(t)) if int(t) else r
    g = g + x * a.get("norm_coefficient", 0.0)
    v, h = alpha * v + (1 - alpha) * g, beta * h + (1 - beta) * g * g
    return ((x - rate * v / (h.sqrt() + a.get("epsilon", 0.0))) * (1 - a.get("norm_coefficient_post", 0.0)), v, h)


def momentum(a, r, t, x, g, v):
    g = g + x * a.norm_coefficient
    v = a.alpha * v + (a.beta if int(t) else 1.0) * g
    return (x - r * (g + a.alpha * v if a["mode"] == "nesterov" else v), v)


@operator("Adagrad", "Adam", "Momentum", domain="ai.onnx.preview.training")
def optimiser(source, name):
    reference, states = {"Adagrad": (adagrad, 1), "Adam": (adam, 2), "Momentum": (momentum, 1)}[name]
    variants = [{"alpha": 0.5, "beta": 0.25, "mode": mode, "norm_coefficient": 0.125} for mode in ("standard", "nesterov")] if name == "Momentum" else [{}, {"epsilon": 0.25, "norm_coefficient": 0.125}] + (
        [{"norm_coefficient_post": 0.125, "alpha": 0.5, "beta": 0.75}] if name == "Adam" else [{"decay_factor": 0.5}])
    for shape in [(3,), (2, 2), (0,), (), (1, 3)]:
        for steps in (0, 1, 4):
            for more in variants:
                state = [source.real(*shape) for _ in range(states - 1)] + [source.real(*shape, low=0.3, high=1.5)]
                yield node(name, np.array(0.3), np.array(steps), source.real(*shape), source.real(*shape), *state, outputs=1 + states, domain="ai.onnx.preview.training", reference=reference, **more)


# ---- floats from integers: the scales are differentiated by ----
def dequantized(a, x, scale, zero=None):
    along = [-1 if k == a.get("axis", 1) else 1 for k in range(x.dim())]
    return (x.double() - (0 if zero is None else zero.double() if zero.dim() == 0 else zero.double().reshape(along))) * (scale if scale.dim() == 0 else scale.reshape(along))


@operator("DequantizeLinear", domain="com.microsoft", reference=dequantized)
def dequantize_microsoft(source, name):
    return dequantize(source, name, "com.microsoft")


@operator("DequantizeLinear", reference=dequantized)
def dequantize(source, name, domain=""):
    for shape in [(3,), (2, 3), (0, 2), (2, 2, 2), (4, 1)]:
        for dtype in (np.int8, np.uint8, np.int32):
            x = source.ints(*shape, low=0, high=100).astype(dtype)
            yield node(name, x, np.array(0.37, np.float32) + np.float32(source.real() * 0.1), domain=domain)
            yield node(name, x, np.array(0.37, np.float32), np.array(0 if dtype == np.int32 else 3, dtype), domain=domain)
            if len(shape) > 1:
                yield node(name, x, source.real(shape[1], low=0.2, high=1).astype(np.float32), np.full(shape[1], 0 if dtype == np.int32 else 2, dtype), axis=1, domain=domain)


@operator("DynamicQuantizeLinear", reference=lambda a, x: (None, (torch.clamp(x.amax(), min=0) - torch.clamp(x.amin(), max=0)) / 255, None))
def dynamic_quantize(source, name):
    """The scale; the numbers themselves are integers."""
    for shape in [(4,), (2, 3), (5, 1), (2, 2, 2), (7,), (3, 3)]:
        yield node(name, source.apart(*shape).astype(np.float32), outputs=3)


@operator("MatMulIntegerToFloat", domain="com.microsoft", reference=lambda a, x, y, s, t, zx=None, zy=None, b=None: ((x.double() - (0 if zx is None else zx.double())) @ (y.double() - (0 if zy is None else zy.double()))) * (s * t) + (0 if b is None else b))
def matmul_integer_to_float(source, name):
    for n, k, m in [(2, 3, 4), (1, 2, 2), (0, 2, 3), (3, 1, 1)]:
        x, y = source.ints(n, k, low=0, high=9).astype(np.uint8), source.ints(k, m, low=0, high=9).astype(np.uint8)
        real = lambda *s: source.real(*s, low=0.1, high=1).astype(np.float32)
        yield node(name, x, y, real(), real(), domain="com.microsoft")
        yield node(name, x, y, real(), real(m), domain="com.microsoft")
        yield node(name, x, y, real(), real(m), np.array(3, np.uint8), np.full(m, 2, np.uint8), real(m), domain="com.microsoft")
