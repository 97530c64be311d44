"""Products, convolutions, pooling, resampling, transforms."""
import numpy as np

from samples import F, Fixed, node, operator, torch

PRODUCTS = [((2, 3), (3, 4)), ((3,), (3,)), ((3,), (3, 2)), ((2, 3), (3,)), ((2, 2, 3), (3, 2)), ((1, 2, 3), (4, 3, 2)), ((2, 1, 2, 3), (3, 3, 1)), ((0, 3), (3, 2)), ((2, 0), (0, 2)), ((2, 3), (3, 0))]


@operator("MatMul", reference=lambda a, x, y: torch.matmul(x, y))
def matmul(source, name):
    for a, b in PRODUCTS:
        yield node(name, source.real(*a), source.real(*b))


@operator("matmul", domain="metac", reference=lambda a, x, y: torch.matmul(x, y))
def meta_matmul(source, name):
    for a, b in PRODUCTS:
        yield node(name, source.real(*a), source.real(*b), domain="metac")


@operator("Gemm", reference=lambda a, x, y, c=None: a.get("alpha", 1.0) * ((x.T if a.get("transA", 0) else x) @ (y.T if a.get("transB", 0) else y)) + (0 if c is None else a.get("beta", 1.0) * c))
def gemm(source, name):
    for left, right in [(0, 0), (1, 0), (0, 1), (1, 1)]:
        for n, k, m in [(2, 3, 4), (1, 2, 1), (0, 2, 3), (2, 0, 2)]:
            x, y = source.real(*((k, n) if left else (n, k))), source.real(*((m, k) if right else (k, m)))
            yield node(name, x, y, transA=left, transB=right, alpha=0.5)
            for bias in [(m,), (n, 1), ()]:
                yield node(name, x, y, source.real(*bias), transA=left, transB=right, alpha=1.5, beta=0.25)


def fused_matmul(a, x, y):
    if a.get("transBatchA", 0):
        x = x.movedim(0, -2) if x.dim() > 2 else x
    if a.get("transBatchB", 0):
        y = y.movedim(0, -2) if y.dim() > 2 else y
    return a.get("alpha", 1.0) * torch.matmul(x.mT if a.get("transA", 0) else x, y.mT if a.get("transB", 0) else y)


@operator("FusedMatMul", domain="com.microsoft", reference=fused_matmul)
def fused(source, name):
    for left, right in [(0, 0), (1, 0), (0, 1), (1, 1)]:
        for batch in [(), (2,), (1, 2), (0,)]:
            x, y = source.real(*batch, *((3, 2) if left else (2, 3))), source.real(*batch, *((4, 3) if right else (3, 4)))
            yield node(name, x, y, domain="com.microsoft", transA=left, transB=right, alpha=0.75)


@operator("Einsum", reference=lambda a, *x: torch.einsum(a.equation, *x))
def einsum(source, name):
    for equation, shapes in [("ij,jk->ik", [(2, 3), (3, 4)]), ("ij->ji", [(2, 3)]), ("ij->", [(2, 3)]), ("ii->i", [(3, 3)]), ("bij,bjk->bik", [(2, 2, 3), (2, 3, 2)]), ("i,i", [(4,), (4,)]),
                             ("i,j,k->ijk", [(2,), (3,), (2,)]), ("...ij,...jk->...ik", [(2, 2, 3), (3, 2)]), ("ij,ij,j->i", [(2, 3), (2, 3), (3,)]), ("ij,jk->ik", [(0, 3), (3, 2)]), ("bhqd,bhkd->bhqk", [(1, 2, 2, 3), (1, 2, 3, 3)])]:
        yield node(name, *[source.real(*s) for s in shapes], equation=equation)


@operator("Det", reference=lambda a, x: torch.linalg.det(x))
def determinant(source, name):
    for shape in [(1, 1), (2, 2), (3, 3), (2, 3, 3), (1, 2, 2, 2), (0, 2, 2), (4, 4), (2, 1, 1)]:
        yield node(name, source.real(*shape) + 1.5 * np.eye(shape[-1]))


# ---- convolutions ----
def spatial(a, x, w, transposed=False):
    rank = x.dim() - 2
    pads = a.get("pads", [0] * (2 * rank))
    return rank, pads, a.get("strides", [1] * rank), a.get("dilations", [1] * rank), a.get("group", 1)


def convolution(a, x, w, b=None):
    rank, pads, strides, dilations, group = spatial(a, x, w)
    x = F.pad(x, [p for k in reversed(range(rank)) for p in (pads[k], pads[rank + k])])
    return [F.conv1d, F.conv2d, F.conv3d][rank - 1](x, w, b, strides, 0, dilations, group)


CONVOLUTIONS = [((1, 2, 5), (3, 2, 3), {}), ((2, 2, 4, 5), (2, 2, 3, 2), {"pads": [1, 0, 1, 2]}), ((1, 4, 5, 5), (4, 2, 3, 3), {"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}),
                ((1, 3, 6), (3, 1, 2), {"group": 3, "dilations": [2]}), ((1, 1, 3, 3, 3), (2, 1, 2, 2, 2), {"strides": [1, 2, 1]}), ((0, 2, 4), (1, 2, 2), {}),
                ((1, 2, 7, 7), (2, 2, 3, 3), {"strides": [3, 2], "dilations": [1, 2], "pads": [2, 2, 2, 2]}), ((2, 1, 3, 3), (2, 1, 1, 1), {})]


@operator("Conv", reference=convolution)
def conv(source, name):
    for xs, ws, more in CONVOLUTIONS:
        yield node(name, source.real(*xs), source.real(*ws), **more)
        yield node(name, source.real(*xs), source.real(*ws), source.real(ws[0]), **more)


@operator("FusedConv", domain="com.microsoft")
def fused_conv(source, name):
    activations = [("Relu", {}, lambda y: torch.relu(y)), ("Sigmoid", {}, lambda y: torch.sigmoid(y)), ("Tanh", {}, lambda y: torch.tanh(y)),
                   ("LeakyRelu", {"activation_params": [0.25]}, lambda y: F.leaky_relu(y, 0.25)), ("Clip", {"activation_params": [-1.0, 1.5]}, lambda y: torch.clamp(y, -1.0, 1.5))]
    for turn, (xs, ws, more) in enumerate(CONVOLUTIONS):
        activation, parameters, f = activations[turn % len(activations)]
        reference = (lambda f: lambda a, x, w, b=None, z=None: f(convolution(a, x, w, b) + (0 if z is None else z)))(f)
        yield node(name, source.real(*xs), source.real(*ws), domain="com.microsoft", reference=reference, activation=activation, **parameters, **more)
        yield node(name, source.real(*xs), source.real(*ws), source.real(ws[0]), domain="com.microsoft", reference=reference, activation=activation, **parameters, **more)
    yield node(name, source.real(1, 1, 4), source.real(2, 1, 2), source.real(2), source.real(1, 2, 3), domain="com.microsoft", activation="Relu", reference=lambda a, x, w, b, z: torch.relu(convolution(a, x, w, b) + z))


def transposed_convolution(a, x, w, b=None):
    rank, pads, strides, dilations, group = spatial(a, x, w)
    added = a.get("output_padding", [0] * rank)
    y = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][rank - 1](x, w, b, strides, 0, [0] * rank, group, dilations)
    y = F.pad(y - (0 if b is None else b.reshape([1, -1] + [1] * rank)), [p for k in reversed(range(rank)) for p in (-pads[k], added[k] - pads[rank + k])])
    return y + (0 if b is None else b.reshape([1, -1] + [1] * rank))


@operator("ConvTranspose", reference=transposed_convolution)
def conv_transpose(source, name):
    for xs, ws, more in [((1, 2, 4), (2, 3, 3), {}), ((2, 2, 3, 3), (2, 1, 2, 2), {"strides": [2, 2]}), ((1, 4, 3, 2), (4, 1, 3, 3), {"group": 2, "strides": [2, 1], "pads": [1, 1, 0, 1]}),
                         ((1, 1, 4), (1, 2, 2), {"dilations": [3]}), ((1, 2, 3), (2, 1, 3), {"strides": [3], "output_padding": [1]}), ((0, 2, 3), (2, 1, 2), {}), ((1, 1, 2, 2, 2), (1, 1, 2, 2, 2), {"strides": [2, 1, 2]})]:
        yield node(name, source.real(*xs), source.real(*ws), **more)
        yield node(name, source.real(*xs), source.real(*ws), source.real(ws[1] * more.get("group", 1)), **more)


@operator("CausalConvWithState")
def causal(source, name):
    def reference(a, x, w, b=None, past=None):
        past = torch.zeros(x.shape[0], x.shape[1], w.shape[2] - 1, dtype=x.dtype) if past is None else past
        whole = torch.cat([past, x], 2)
        y = F.conv1d(whole, w, b, groups=x.shape[1])
        y = y * torch.sigmoid(y) if a.get("activation", "none") != "none" else y
        return (y, whole.narrow(2, x.shape[2], w.shape[2] - 1))
    for batch, channels, length, kernel in [(1, 2, 4, 3), (2, 3, 2, 4), (1, 1, 1, 2), (0, 2, 3, 2), (2, 2, 5, 1)]:
        for activation in ("none", "silu"):
            x, w = source.real(batch, channels, length), source.real(channels, 1, kernel)
            yield node(name, x, w, outputs=2, activation=activation, reference=reference)
            yield node(name, x, w, source.real(channels), source.real(batch, channels, kernel - 1), outputs=2, activation=activation, reference=reference)


# ---- pooling ----
def patches(a, x, fill):
    """[..., windows..., kernel...] and where they lie inside."""
    rank, kernel = x.dim() - 2, a.kernel_shape
    pads, strides, dilations = a.get("pads", [0] * 2 * rank), a.get("strides", [1] * rank), a.get("dilations", [1] * rank)
    y, inside = x, torch.ones(x.shape[2:], dtype=x.dtype)
    for k in range(rank):
        sizes = list(y.shape)
        count = (x.shape[2 + k] + pads[k] + pads[rank + k] - dilations[k] * (kernel[k] - 1) - 1) // strides[k] + 1
        at = torch.arange(count)[:, None] * strides[k] + torch.arange(kernel[k])[None] * dilations[k] - pads[k]
        good = (at >= 0) & (at < x.shape[2 + k])
        flat = at.clamp(0, max(x.shape[2 + k] - 1, 0)).reshape(-1)
        shape = [1] * (2 + 2 * k) + [count, kernel[k]] + [1] * (rank - k - 1)
        y = y.index_select(2 + 2 * k, flat).reshape(sizes[:2 + 2 * k] + [count, kernel[k]] + sizes[3 + 2 * k:])
        y = torch.where(good.reshape(shape), y, fill)
        inside = inside.index_select(2 * k, flat).reshape(list(inside.shape[:2 * k]) + [count, kernel[k]] + list(inside.shape[2 * k + 1:])) * good.to(x.dtype).reshape(shape[2:])
    order = [0, 1] + [2 + 2 * k for k in range(rank)] + [3 + 2 * k for k in range(rank)]
    y = y.permute(order).reshape(list(x.shape[:2]) + [y.shape[2 + 2 * k] for k in range(rank)] + [-1] if x.numel() else list(x.shape[:2]) + [y.shape[2 + 2 * k] for k in range(rank)] + [int(np.prod(kernel))])
    inside = inside.permute([o - 2 for o in order[2:]]).reshape(list(y.shape[2:]))
    return y, inside


POOLS = [((1, 2, 6), {"kernel_shape": [3]}), ((2, 1, 4, 5), {"kernel_shape": [2, 3], "strides": [1, 2]}), ((1, 2, 5, 5), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}),
         ((1, 1, 7), {"kernel_shape": [2], "dilations": [3]}), ((0, 1, 4), {"kernel_shape": [2]}), ((1, 1, 3, 3, 3), {"kernel_shape": [2, 2, 2]}), ((1, 1, 4, 4), {"kernel_shape": [1, 2], "pads": [0, 1, 0, 0]})]


@operator("MaxPool", reference=lambda a, x: patches(a, x, -torch.inf)[0].amax(-1))
def max_pool(source, name):
    for shape, more in POOLS:
        for _ in range(4):
            yield node(name, source.apart(*shape), **more)
    # Equal ones share, in every window.
    yield node(name, np.array([[[1.0, 1.0, 0.0]]]), kernel_shape=[2], kink=lambda c: [np.array([[[0.5, 0.5, 0]]]) * c["y0"][0, 0, 0] + np.array([[[0, 1, 0]]]) * c["y0"][0, 0, 1]])
    yield node(name, source.apart(1, 1, 4, 4), kernel_shape=[2, 2], strides=[2, 2], outputs=2)


def average(a, x):
    y, inside = patches(a, x, 0.0)
    return y.sum(-1) / (inside.shape[-1] if a.get("count_include_pad", 0) else inside.sum(-1))


@operator("AveragePool", reference=average)
def average_pool(source, name):
    for shape, more in POOLS:
        for count in (0, 1):
            yield node(name, source.real(*shape), count_include_pad=count, **more)


@operator("LpPool", reference=lambda a, x: (lambda y: y.abs().sum(-1) if a.get("p", 2) == 1 else y.abs().pow(a.get("p", 2)).sum(-1).pow(1 / a.get("p", 2)))(patches(a, x, 0.0)[0]))
def lp_pool(source, name):
    for shape, more in POOLS[:-1]:
        for p in (1, 2, 3):
            yield node(name, source.apart(*shape), p=p, **more)


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(source, name):
    f = {"GlobalAveragePool": lambda a, x: x.mean(list(range(2, x.dim())), True), "GlobalMaxPool": lambda a, x: x.amax(list(range(2, x.dim())), True),
         "GlobalLpPool": lambda a, x: x.abs().pow(a.get("p", 2)).sum(list(range(2, x.dim())), True).pow(1 / a.get("p", 2))}[name]
    for shape in [(1, 2, 5), (2, 1, 3, 2), (1, 1, 2, 2, 2), (0, 2, 3), (3, 2, 1)]:
        for p in (1, 2, 3):
            yield node(name, source.apart(*shape), reference=f, **({"p": p} if "Lp" in name else {}))


@operator("MaxUnpool")
def max_unpool(source, name):
    for shape, kernel, strides in [((1, 1, 2, 2), [2, 2], [2, 2]), ((1, 2, 3), [2], [2]), ((2, 1, 2, 3), [2, 2], [2, 2]), ((0, 1, 2), [2], [2])]:
        out = list(shape[:2]) + [(n - 1) * s + k for n, s, k in zip(shape[2:], strides, kernel)]
        whole = int(np.prod(out))
        at = np.sort(source.rng.permutation(whole)[:int(np.prod(shape))]).reshape(shape).astype(np.int64)
        if whole:
            per = int(np.prod(out[2:]))
            at = np.concatenate([np.sort(source.rng.permutation(per)[:int(np.prod(shape[2:]))]) + i * per for i in range(shape[0] * shape[1])]).reshape(shape).astype(np.int64)
        reference = (lambda out: lambda a, x, at: torch.zeros(int(np.prod(out)), dtype=x.dtype).scatter(0, at.reshape(-1), x.reshape(-1)).reshape(out))(out)
        yield node(name, source.real(*shape), at, kernel_shape=kernel, strides=strides, reference=reference)


# ---- transforms ----
def framed(a, x, length=None, axis=None):
    """Real or complex pairs along the last axis."""
    k = int(axis) % x.dim() if axis is not None else x.dim() - 2
    value = torch.complex(x[..., 0], x[..., 1] if x.shape[-1] == 2 else torch.zeros_like(x[..., 0]))
    n = int(length) if length is not None else value.shape[k]
    if a.get("inverse", 0) and a.get("onesided", 0):
        return torch.fft.irfft(value, n if length is not None else None, k).unsqueeze(-1)
    y = (torch.fft.ifft if a.get("inverse", 0) else torch.fft.fft)(value, n, k)
    if a.get("onesided", 0):
        y = y.narrow(k, 0, n // 2 + 1)
    return torch.view_as_real(y.resolve_conj().contiguous())


@operator("DFT", reference=framed)
def dft(source, name):
    for shape in [(1, 4, 1), (2, 5, 2), (1, 3, 2), (2, 6, 1)]:
        for more in ({}, {"inverse": 1}, {"onesided": 1}):
            if more.get("onesided") and shape[-1] == 2:
                continue
            yield node(name, source.real(*shape), None, Fixed(np.array(1)), **more)
            yield node(name, source.real(*shape), Fixed(np.array(4)), Fixed(np.array(1)), **more)
    yield node(name, source.real(2, 3, 4, 2), None, Fixed(np.array(-3)))
    yield node(name, source.real(0, 4, 2), None, Fixed(np.array(1)), reference=lambda a, x, *more: x.clone())


def short_time(a, x, step, window=None, length=None):
    n = int(length) if length is not None else window.shape[0]
    value = x if x.dim() == 2 else torch.complex(x[..., 0], x[..., 1]) if x.shape[-1] == 2 else x[..., 0]
    frames = value.unfold(1, n, int(step))
    y = torch.fft.fft(frames * (1 if window is None else window), dim=2)
    return torch.view_as_real((y.narrow(2, 0, n // 2 + 1) if a.get("onesided", 1) else y).contiguous())


@operator("STFT", reference=short_time)
def stft(source, name):
    for length, n, step in [(8, 4, 2), (6, 3, 1), (9, 4, 3), (5, 5, 2)]:
        for onesided in (0, 1):
            yield node(name, source.real(2, length, 1), Fixed(np.array(step)), source.real(n), Fixed(np.array(n)), onesided=onesided)
            yield node(name, source.real(1, length, 1), Fixed(np.array(step)), None, Fixed(np.array(n)), onesided=onesided)
        yield node(name, source.real(1, length, 2), Fixed(np.array(step)), source.real(n), onesided=0)
    yield node(name, source.real(0, 6, 1), Fixed(np.array(2)), source.real(4), reference=lambda a, x, step, w: torch.zeros(0, 2, 3, 2, dtype=x.dtype) + 0 * w.sum())
