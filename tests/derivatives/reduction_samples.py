"""Reductions, softmax, normalisations, losses, cumulative sums."""
import numpy as np

from samples import F, Fixed, node, operator, torch

SHAPES = [(5,), (2, 3), (2, 1, 3), (3, 2, 2), (1, 1), (0, 3), (2, 0)]


def axes_of(x, axes, a):
    listed = [int(v) for v in axes.reshape(-1).tolist()] if axes is not None else a.get("axes", [])
    if not listed and not a.get("noop_with_empty_axes", 0):
        listed = list(range(x.dim()))
    return [k % x.dim() for k in listed] if x.dim() else []


def reduction(f):
    """f(x, axes, keepdims) on all axes at once."""
    def reference(a, x, axes=None):
        listed = axes_of(x, axes, a)
        if not listed and x.dim():
            return f(x.unsqueeze(-1), [x.dim()], False)
        return f(x, listed, bool(a.get("keepdims", 1))) if x.dim() else f(x.reshape(1), [0], False)
    return reference


def product(x, axes, keep):
    for k in sorted(axes, reverse=True):
        x = x.prod(k, keepdim=keep)
    return x


REDUCTIONS = {
    "ReduceSum": lambda x, k, keep: x.sum(k, keep), "ReduceMean": lambda x, k, keep: x.mean(k, keep), "ReduceProd": product,
    "ReduceMax": lambda x, k, keep: torch.amax(x, k, keep), "ReduceMin": lambda x, k, keep: torch.amin(x, k, keep),
    "ReduceL1": lambda x, k, keep: x.abs().sum(k, keep), "ReduceL2": lambda x, k, keep: (x * x).sum(k, keep).sqrt(),
    "ReduceLogSum": lambda x, k, keep: x.sum(k, keep).log(), "ReduceLogSumExp": lambda x, k, keep: torch.logsumexp(x, k, keep),
    "ReduceSumSquare": lambda x, k, keep: (x * x).sum(k, keep),
}


def reduce(source, name, spelled=lambda axes, keepdims: ((Fixed(list(axes)),), {"keepdims": keepdims}), domain=""):
    empty = name in ("ReduceSum", "ReduceSumSquare", "ReduceProd", "ReduceL1", "sum", "product")
    for shape in SHAPES + [(3, 4), (2, 3, 2)]:
        for axes in {(0,), (-1,), tuple(range(len(shape)))}:
            count = np.prod([shape[k] for k in axes])
            if count == 0 and not empty:  # the mean of nothing and the like are NaN or infinite
                if np.prod([n for k, n in enumerate(shape) if k - len(shape) not in axes and k not in axes]) != 0:
                    continue
            x = source.apart(*shape) if name.lower().endswith(("max", "min", "l1")) else source.real(*shape, low=0.3, high=2) if name in ("ReduceLogSum", "ReduceL2") else source.away(*shape, margin=0.2)
            operands, attributes = spelled(axes, int(source.rng.integers(0, 2)))
            yield node(name, x, *operands, domain=domain, **attributes)
    if name.endswith(("Prod", "product")):  # zeros among the factors: a rule of its own, and smooth
        operands, attributes = spelled((1,), 0)
        yield node(name, np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 5.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]]), *operands, domain=domain, **attributes)
    if name.lower().endswith(("max", "min")):  # equal ones share
        operands, attributes = spelled((1,), 0)
        x = np.array([[2.0, 2.0, 2.0, 2.0], [1.0, 1.0, 4.0, 4.0]]) * (1 if name.lower().endswith("max") else -1)
        share = np.array([[0.25] * 4, [0, 0, 0.5, 0.5]])
        yield node(name, x, *operands, domain=domain, kink=lambda c: [c["y0"][:, None] * share], **attributes)
    if name == "ReduceL1":
        yield node(name, np.array([0.0, 1.0, -1.0]), kink=lambda c: [c["y0"].reshape(1) * np.array([0.0, 1, -1])])
    if name == "ReduceL2":
        yield node(name, np.array([0.0, 0.0]), kink=lambda c: [np.zeros(2)], reference=False)


for _name, _f in REDUCTIONS.items():
    operator(_name, reference=reduction(_f))(reduce)

META = {"sum": REDUCTIONS["ReduceSum"], "product": product, "max": REDUCTIONS["ReduceMax"], "min": REDUCTIONS["ReduceMin"], "mean": REDUCTIONS["ReduceMean"]}
for _name, _f in META.items():
    operator(_name, domain="metac", reference=(lambda f: lambda a, x: f(x, [k % x.dim() for k in a.get("dims", range(x.dim()))], bool(a.get("keepdims", 0))))(_f))(
        lambda source, name: reduce(source, name, lambda axes, keepdims: ((), {"dims": list(axes), "keepdims": keepdims}), "metac"))


@operator("Softmax", "LogSoftmax")
def softmax(source, name):
    f = (lambda a, x: torch.softmax(x, a.get("axis", -1))) if name == "Softmax" else (lambda a, x: torch.log_softmax(x, a.get("axis", -1)))
    for shape in SHAPES + [(2, 3, 2, 2)]:
        for axis in {0, -1, len(shape) // 2}:
            yield node(name, source.real(*shape), axis=axis, reference=f)
    yield node(name, np.array([[800.0, -800.0, 0.0], [700.0, 700.0, 700.0]]), axis=-1, reference=f)


@operator("log_softmax", domain="metac", reference=lambda a, x: x - torch.logsumexp(x, a.get("dims", [-1]), True))
def log_softmax(source, name):
    for shape in SHAPES + [(2, 3, 2, 2)]:
        for dims in {(0,), (-1,), tuple(range(len(shape)))}:
            if np.prod(shape) or not np.prod([n for k, n in enumerate(shape) if k not in dims and k - len(shape) not in dims] or [1]):
                yield node(name, source.real(*shape), domain="metac", dims=list(dims))
    yield node(name, source.real(2, 0), domain="metac", reference=lambda a, x: x.clone())


@operator("Hardmax", reference=lambda a, x: F.one_hot(x.argmax(a.get("axis", -1)), x.shape[a.get("axis", -1)]).movedim(-1, a.get("axis", -1)).to(x.dtype) + 0 * x)
def hardmax(source, name):
    for shape in SHAPES[:5] + [(2, 3, 2, 2), (0, 3)]:
        for axis in {0, -1, len(shape) // 2}:
            if shape[axis]:
                yield node(name, source.apart(*shape), axis=axis)


# ---- normalisations ----
def layer_norm(a, x, scale, bias=None):
    axes = list(range(a.get("axis", -1) % x.dim(), x.dim()))
    mean = x.mean(axes, True)
    inverse = 1 / ((x - mean).pow(2).mean(axes, True) + a.get("epsilon", 1e-5)).sqrt()
    y = (x - mean) * inverse * scale
    y = y if bias is None else y + bias
    return (y, mean, inverse)


@operator("LayerNormalization", reference=layer_norm)
def layer_normalization(source, name):
    for shape, axis in [((2, 5), -1), ((2, 3, 4), 1), ((3, 4), 0), ((0, 3), -1), ((2, 2, 3), 2)]:
        inner = shape[axis % len(shape):]
        yield node(name, source.real(*shape), source.real(*inner), source.real(*inner), axis=axis)
        yield node(name, source.real(*shape), source.real(*inner), axis=axis, epsilon=0.25)
        yield node(name, source.real(*shape), source.real(*inner), source.real(*inner), axis=axis, outputs=3, stash_type=11)


def rms_norm(a, x, scale):
    axes = list(range(a.get("axis", -1) % x.dim(), x.dim()))
    return x / (x.pow(2).mean(axes, True) + a.get("epsilon", 1e-5)).sqrt() * scale


@operator("RMSNormalization", "SimplifiedLayerNormalization", reference=rms_norm)
def rms_normalization(source, name):
    for shape, axis in [((2, 5), -1), ((2, 3, 4), 1), ((3, 4), 0), ((0, 3), -1), ((2, 2, 3), 2)]:
        inner = shape[axis % len(shape):]
        yield node(name, source.real(*shape), source.real(*inner), axis=axis)
        yield node(name, source.real(*shape), source.real(*inner), axis=axis, epsilon=0.25)


def skip_norm(simplified):
    def reference(a, x, skip, gamma, *more):
        beta, bias = (None, more[0] if more else None) if simplified else ((list(more) + [None, None])[:2])
        total = x + skip + (0 if bias is None else bias)
        epsilon = a.get("epsilon", 1e-12)
        if simplified:
            return (total / (total.pow(2).mean(-1, True) + epsilon).sqrt() * gamma, None, None, total)
        centred = total - total.mean(-1, True)
        y = centred / (centred.pow(2).mean(-1, True) + epsilon).sqrt() * gamma
        return (y if beta is None else y + beta, None, None, total)
    return reference


@operator("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain="com.microsoft")
def skip_normalization(source, name):
    simplified = "Simplified" in name
    for shape in [(2, 5), (2, 3, 4), (1, 2, 3), (0, 2, 3)]:
        inner = shape[-1:]
        for count in range(0, 2 if simplified else 3):
            for outputs in (["y0"], ["y0", "", "", "y3"]):
                yield node(name, source.real(*shape), source.real(*shape), *[source.real(*inner) for _ in range(1 + count)], domain="com.microsoft", outputs=outputs, epsilon=0.0625, reference=skip_norm(simplified))


@operator("InstanceNormalization", reference=lambda a, x, s, b: ((x - x.mean(list(range(2, x.dim())), True)) / (x.var(list(range(2, x.dim())), False, True) + a.get("epsilon", 1e-5)).sqrt())
          * s.reshape([1, -1] + [1] * (x.dim() - 2)) + b.reshape([1, -1] + [1] * (x.dim() - 2)))
def instance_normalization(source, name):
    for shape in [(2, 3, 4), (1, 2, 3, 3), (2, 1, 2, 2, 2), (0, 2, 3), (3, 2, 5)]:
        for more in ({}, {"epsilon": 0.25}):
            yield node(name, source.real(*shape), source.real(shape[1]), source.real(shape[1]), **more)


def group_norm(a, x, s, b):
    y = x.reshape(x.shape[0], a.num_groups, x.shape[1] // a.num_groups * int(np.prod(x.shape[2:])))
    y = (y - y.mean(2, True)) / (y.var(2, False, True) + a.get("epsilon", 1e-5)).sqrt()
    wide = [1, -1] + [1] * (x.dim() - 2)
    return y.reshape(x.shape) * s.reshape(wide) + b.reshape(wide)


@operator("GroupNormalization", reference=group_norm)
def group_normalization(source, name):
    for shape, groups in [((2, 4, 3), 2), ((1, 3, 2, 2), 3), ((2, 2, 5), 1), ((0, 2, 3), 1), ((1, 6, 2, 2), 2)]:
        for more in ({}, {"epsilon": 0.25}):
            yield node(name, source.real(*shape), source.real(shape[1]), source.real(shape[1]), num_groups=groups, **more)


def batch_norm(a, x, s, b, mean, var):
    wide, epsilon = [1, -1] + [1] * (x.dim() - 2), a.get("epsilon", 1e-5)
    if a.get("training_mode", 0):
        axes = [k for k in range(x.dim()) if k != 1]
        m, momentum, running = x.mean(axes), a.get("momentum", 0.9), (mean, var)
        var = (x - m.reshape(wide)).pow(2).mean(axes)
        mean = m
        y = (x - mean.reshape(wide)) / (var + epsilon).sqrt().reshape(wide) * s.reshape(wide) + b.reshape(wide)
        return (y, running[0] * momentum + mean * (1 - momentum), running[1] * momentum + var * (1 - momentum))
    return (x - mean.reshape(wide)) / (var + epsilon).sqrt().reshape(wide) * s.reshape(wide) + b.reshape(wide)


@operator("BatchNormalization", reference=batch_norm)
def batch_normalization(source, name):
    for shape in [(2, 3, 4), (3, 2, 2, 2), (4, 3), (0, 2, 3), (2, 1, 5)]:
        c = shape[1]
        for more in ({}, {"epsilon": 0.25}):
            yield node(name, source.real(*shape), source.real(c), source.real(c), source.real(c), source.real(c, low=0.4, high=2), **more)
        if np.prod(shape):
            yield node(name, source.real(*shape), source.real(c), source.real(c), source.real(c), source.real(c, low=0.4, high=2), outputs=3, training_mode=1, momentum=0.75)


def mean_variance(a, x):
    axes = a.get("axes", [0, 2, 3])
    return (x - x.mean(axes, True)) / (x.var(axes, False, True).sqrt() + 1e-9)


@operator("MeanVarianceNormalization", reference=mean_variance)
def mean_variance_normalization(source, name):
    for shape, axes in [((2, 3, 2, 2), None), ((2, 3), [1]), ((3, 2, 2), [0, 2]), ((0, 3), [1]), ((2, 2, 3, 1), None), ((5,), [0]), ((2, 4), [-1])]:
        yield node(name, source.apart(*shape, gap=0.3), **({} if axes is None else {"axes": axes}))


def lp_norm(a, x):
    p, axis = a.get("p", 2), a.get("axis", -1)
    return x / (x.abs().sum(axis, True) if p == 1 else x.pow(2).sum(axis, True).sqrt())


@operator("LpNormalization", reference=lp_norm)
def lp_normalization(source, name):
    for shape in [(5,), (2, 3), (3, 2, 2), (0, 3), (2, 4)]:
        for p in (1, 2):
            for axis in {0, -1}:
                yield node(name, source.apart(*shape, gap=0.2), p=p, axis=axis)
    for p in (1, 2):  # the norm of zeros is 0, and so is what is normalised by it
        yield node(name, np.zeros((2, 3)), p=p, kink=lambda c: [np.zeros((2, 3))], reference=False)


def lrn(a, x):
    size = a.size
    square = F.pad((x * x).movedim(1, -1), ((size - 1) // 2, size - 1 - (size - 1) // 2)).unfold(-1, size, 1).sum(-1).movedim(-1, 1)
    return x / (a.get("bias", 1.0) + a.get("alpha", 1e-4) / size * square) ** a.get("beta", 0.75)


@operator("LRN", reference=lrn)
def local_response(source, name):
    for shape, size in [((1, 5, 2, 2), 3), ((2, 3, 2), 2), ((1, 4, 3), 5), ((0, 3, 2), 3), ((2, 2, 2, 2), 1)]:
        for more in ({}, {"alpha": 0.5, "beta": 0.5, "bias": 2.0}):
            yield node(name, source.away(*shape), size=size, **more)


# ---- cumulative ----
def cumulative(f):
    def reference(a, x, axis):
        k, one = int(axis), torch.zeros if f is torch_sum else torch.ones
        x = x.flip(k) if a.get("reverse", 0) else x
        if a.get("exclusive", 0) and x.shape[k]:
            shape = list(x.shape)
            shape[k] = 1
            x = torch.cat([one(shape, dtype=x.dtype), x.narrow(k, 0, x.shape[k] - 1)], k)
        y = f(x, k)
        return y.flip(k) if a.get("reverse", 0) else y
    return reference


def torch_sum(x, k):
    return torch.cumsum(x, k)


def torch_product(x, k):
    return torch.cumprod(x, k)


@operator("CumSum", "CumProd")
def running(source, name):
    reference = cumulative(torch_sum if name == "CumSum" else torch_product)
    for shape, axis in [((5,), 0), ((2, 3), 1), ((3, 2), -2), ((0, 3), 1), ((2, 0), 1), ((2, 2, 3), 1)]:
        for exclusive, reverse in [(0, 0), (1, 0), (0, 1), (1, 1)]:
            yield node(name, source.away(*shape, margin=0.2), Fixed(np.array(axis)), exclusive=exclusive, reverse=reverse, reference=reference)
    for x in ([2.0, 0.0, 3.0, 4.0], [2.0, 0.0, 3.0, 0.0, 5.0]):
        for reverse in (0, 1):
            yield node(name, np.array(x), Fixed(np.array(0)), reverse=reverse, reference=reference)


# ---- losses ----
def likelihood(a, x, target, weight=None, logits=False):
    logs = torch.log_softmax(x, 1) if logits else x
    count, ignored = x.shape[1], a.get("ignore_index", None)
    kept = torch.ones_like(target, dtype=torch.bool) if ignored is None else target != ignored
    at = torch.where(kept, target, 0)
    w = (torch.ones(count, dtype=x.dtype) if weight is None else weight)[at] * kept
    each = -logs.gather(1, at.unsqueeze(1)).squeeze(1) * w
    how = a.get("reduction", "mean")
    return each if how == "none" else each.sum() if how == "sum" else each.sum() / w.sum()


@operator("NegativeLogLikelihoodLoss", reference=likelihood)
def nll(source, name):
    for shape in [(3, 4), (2, 3, 2), (2, 2, 2, 2)]:
        for how in ("none", "sum", "mean"):
            for weighted in (False, True):
                target = source.ints(shape[0], *shape[2:], low=0, high=shape[1])
                more = {"ignore_index": 1} if weighted and (target != 1).any() else {}
                yield node(name, source.real(*shape), target, source.real(shape[1], low=0.3, high=1.5) if weighted else None, reduction=how, **more)
    yield node(name, source.real(0, 3), np.zeros((0,), np.int64), None, reduction="none")
    yield node(name, source.real(0, 3), np.zeros((0,), np.int64), None, reduction="sum")


@operator("SoftmaxCrossEntropyLoss", reference=lambda a, x, target, weight=None: (likelihood(a, x, target, weight, True), torch.log_softmax(x, 1)))
def cross_entropy(source, name):
    for shape in [(3, 4), (2, 3, 2), (2, 2, 2, 2)]:
        for how in ("none", "sum", "mean"):
            for weighted in (False, True):
                target = source.ints(shape[0], *shape[2:], low=0, high=shape[1])
                more = {"ignore_index": 1} if weighted and (target != 1).any() else {}
                yield node(name, source.real(*shape), target, source.real(shape[1], low=0.3, high=1.5) if weighted else None, outputs=2 if weighted else 1, reduction=how, **more)
    yield node(name, source.real(0, 3), np.zeros((0,), np.int64), None, reduction="none")


def ctc(a, logs, labels, label_lengths=None, step_lengths=None):
    """The sum over all alignments, step by step, in probabilities: PyTorch's own ctc_loss has no second derivative."""
    losses, blank = [], a.get("blank", 0)
    for b in range(logs.shape[0]):
        count = labels.shape[1] if label_lengths is None else int(label_lengths[b])
        steps = logs.shape[1] if step_lengths is None else int(step_lengths[b])
        p, places = logs[b].exp(), [blank]
        for label in labels[b, :count].tolist():
            places += [label, blank]
        none = torch.zeros((), dtype=logs.dtype)
        ways = [p[0, place] if k < 2 else none for k, place in enumerate(places)]
        for t in range(1, steps):
            ways = [(ways[k] + (ways[k - 1] if k else none) + (ways[k - 2] if k > 1 and place != blank and place != places[k - 2] else none)) * p[t, place] for k, place in enumerate(places)]
        losses.append(-torch.log(ways[-1] + (ways[-2] if count else none)))
    return torch.stack(losses) if losses else torch.zeros(0, dtype=logs.dtype)


@operator("ctc_loss", domain="metac", reference=ctc)
def ctc_loss(source, name):
    for batch, steps, classes, most in [(2, 4, 3, 2), (1, 5, 4, 2), (3, 3, 2, 1), (1, 1, 3, 1), (0, 3, 3, 2)]:
        for blank in (0, 1):
            logs, others = source.real(batch, steps, classes), [c for c in range(classes) if c != blank]
            labels = source.rng.choice(others, (batch, most)).astype(np.int64)
            labels[0:1] = others[0]  # repeated ones want a blank between them
            yield node(name, logs, labels, domain="metac", blank=blank)
            yield node(name, logs, labels, source.ints(batch, low=0, high=most + 1), domain="metac", blank=blank)
            if steps > 3:
                yield node(name, logs, labels, source.ints(batch, low=1, high=most + 1), source.ints(batch, low=3, high=steps + 1), domain="metac", blank=blank, zero_infinity=1)
