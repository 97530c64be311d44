"""Operators that move elements: shapes, slices, gathers, scatters, padding, sorting."""
import numpy as np
from onnx import helper

from samples import F, Fixed, node, operator, program, torch

RANKS = [(5,), (2, 3), (0, 3), (2, 0, 2), (2, 1, 3), (1, 2, 2, 2)]


def ints(tensor):
    return [int(v) for v in tensor.reshape(-1).tolist()]


@operator("Reshape", reference=lambda a, x, shape: x.reshape([x.shape[k] if n == 0 and not a.get("allowzero", 0) else n for k, n in enumerate(ints(shape))]))
def reshape(source, name):
    for before, after in [((2, 3), [3, 2]), ((6,), [2, -1]), ((2, 3, 4), [0, -1]), ((), [1]), ((1, 1), []), ((4, 3), [2, 2, 3]), ((2, 2, 2), [-1])]:
        yield node(name, source.real(*before), Fixed(np.array(after, np.int64)))
    yield node(name, source.real(0, 3), Fixed([3, 0]), allowzero=1)
    yield node(name, source.real(2, 0), Fixed([0, 0]))


@operator("Flatten", reference=lambda a, x: x.reshape(int(np.prod(x.shape[:a.get("axis", 1) % (x.dim() + 1) if a.get("axis", 1) < 0 else a.get("axis", 1)])), -1) if x.numel() else x.reshape(0, int(np.prod(x.shape[1:]))))
def flatten(source, name):
    for shape in [(2, 3), (2, 3, 2), (1, 2, 2, 2), (5,)]:
        for axis in range(len(shape) + 1):
            yield node(name, source.real(*shape), axis=axis)
    yield node(name, source.real(0, 3))


@operator("Squeeze", reference=lambda a, x, axes=None: x.squeeze() if axes is None else x.squeeze(tuple(ints(axes))))
def squeeze(source, name):
    for shape, axes in [((1, 3), [0]), ((2, 1, 1), [1, -1]), ((1,), [0]), ((1, 0, 1), [0]), ((2, 1, 3), [1]), ((1, 1, 4), [0, 1])]:
        yield node(name, source.real(*shape), Fixed(axes))
        yield node(name, source.real(*shape))


def unsqueezed(a, x, axes):
    rank = x.dim() + axes.numel()
    for k in sorted(v % rank for v in ints(axes)):
        x = x.unsqueeze(k)
    return x.clone()


@operator("Unsqueeze", reference=unsqueezed)
def unsqueeze(source, name):
    for shape, axes in [((3,), [0]), ((3,), [-1]), ((2, 3), [0, 3]), ((), [0]), ((0,), [1]), ((2, 2), [1])]:
        yield node(name, source.real(*shape), Fixed(axes))


@operator("Transpose", reference=lambda a, x: x.permute(a.get("perm", list(range(x.dim()))[::-1])))
def transpose(source, name):
    for shape in RANKS:
        yield node(name, source.real(*shape))
        yield node(name, source.real(*shape), perm=source.rng.permutation(len(shape)).tolist())


@operator("Expand", reference=lambda a, x, shape: x.expand(torch.broadcast_shapes(x.shape, ints(shape))).clone())
def expand(source, name):
    for before, to in [((1, 3), [2, 3]), ((3,), [2, 1]), ((), [2, 2]), ((2, 1), [1, 4]), ((1,), [0]), ((0, 1), [0, 2]), ((2, 3), [1]), ((2, 1, 1), [1, 3, 2])]:
        yield node(name, source.real(*before), Fixed(to))


@operator("Tile", reference=lambda a, x, times: x.repeat(*ints(times)))
def tile(source, name):
    for shape, times in [((3,), [2]), ((2, 3), [1, 2]), ((2, 2), [3, 1]), ((0, 2), [2, 2]), ((2,), [0]), ((1, 2, 2), [2, 1, 3])]:
        yield node(name, source.real(*shape), Fixed(times))


@operator("Concat", reference=lambda a, *x: torch.cat(x, a.axis))
def concat(source, name):
    for shapes, axis in [([(2, 3), (2, 1)], 1), ([(1, 2), (3, 2), (0, 2)], 0), ([(3,)], 0), ([(2, 0), (2, 2)], -1), ([(1, 2, 2), (1, 1, 2)], 1)]:
        yield node(name, *[source.real(*s) for s in shapes], axis=axis)
    program_of_one_twice = [helper.make_node("Concat", ["x0", "x0"], ["y0"], axis=0)]
    yield program("Concat of a value with itself", program_of_one_twice, [source.real(2, 2)], ["y0"], reference=lambda a, x: torch.cat([x, x], 0))


@operator("Split", reference=lambda a, x, sizes: torch.split(x, ints(sizes), a.get("axis", 0)))
def split(source, name):
    for shape, sizes, axis in [((5,), [2, 3], 0), ((2, 6), [1, 2, 3], 1), ((4, 2), [4], 0), ((3,), [0, 3], 0), ((2, 0), [1, 1], 0), ((2, 3, 4), [2, 2], -1)]:
        yield node(name, source.real(*shape), Fixed(sizes), outputs=len(sizes), axis=axis)
    yield node(name, source.real(7), outputs=3, num_outputs=3, reference=lambda a, x: torch.split(x, 3))


def sliced(a, x, starts, ends, axes=None, steps=None):
    rank = x.dim()
    axes = ints(axes) if axes is not None else list(range(starts.numel()))
    steps = ints(steps) if steps is not None else [1] * len(axes)
    for start, end, axis, stride in zip(ints(starts), ints(ends), axes, steps):
        at = torch.arange(x.shape[axis])[slice(start, None if end < -10 ** 6 else end, stride)] if stride > 0 else torch.as_tensor(
            np.arange(x.shape[axis])[slice(start, None if end < -10 ** 6 else end, stride)].copy())
        x = x.index_select(axis % rank, at)
    return x.clone()


@operator("Slice", reference=sliced)
def slice_(source, name):
    for shape, parts in [((5,), ([1], [4])), ((4, 6), ([1, 0], [3, 6], [0, 1], [1, 2])), ((4, 3), ([-1], [-(10 ** 9)], [0], [-1])), ((2, 3), ([0], [0], [1])), ((0, 3), ([0], [2], [1])),
                         ((2, 3, 4), ([-3], [10 ** 6], [-1], [2])), ((7,), ([5], [0], [0], [-2]))]:
        yield node(name, source.real(*shape), *[Fixed(p) for p in parts])


def padded(a, x, pads, value=None, axes=None):
    """NumPy's own description of the modes, on positions."""
    rank, mode = x.dim(), a.get("mode", "constant")
    axes = [v % rank for v in ints(axes)] if axes is not None else list(range(rank))
    pads = ints(pads)
    for k, axis in enumerate(axes):
        before, after = pads[k], pads[k + len(axes)]
        if before < 0 or after < 0:
            x = x.narrow(axis, max(-before, 0), x.shape[axis] + min(before, 0) + min(after, 0))
            before, after = max(before, 0), max(after, 0)
        places = np.arange(x.shape[axis])
        if mode == "constant":
            sizes = list(x.shape)
            parts = []
            for n in (before, after):
                sizes[axis] = n
                parts.append((torch.zeros(()) if value is None else value).to(x.dtype).reshape(()).expand(sizes))
            x = torch.cat([parts[0], x, parts[1]], axis)
        else:
            places = np.pad(places, (before, after), mode=mode)
            x = x.index_select(axis, torch.as_tensor(places))
    return x.clone()


@operator("Pad", reference=padded)
def pad(source, name):
    for mode in ("constant", "reflect", "edge", "wrap"):
        for shape, pads in [((4,), [1, 2]), ((3, 4), [0, 2, 2, 1]), ((3, 3), [1, -1, 0, 0])]:
            yield node(name, source.real(*shape), Fixed(pads), mode=mode)
        yield node(name, source.real(2, 4), Fixed([1, 2]), None, Fixed([1]), mode=mode)
    yield node(name, source.real(2, 2), Fixed([1, 0, 0, 1]), np.array(0.7))
    yield node(name, source.real(0, 2), Fixed([1, 1, 0, 1]), np.array(0.7))
    yield node(name, source.real(2, 0), Fixed([1, 0, 0, 0]))


@operator("Gather", reference=lambda a, x, at: x.index_select(a.get("axis", 0), (at.reshape(-1) % max(x.shape[a.get("axis", 0)], 1)).long()).reshape(
    x.shape[:a.get("axis", 0) % x.dim()] + at.shape + x.shape[a.get("axis", 0) % x.dim() + 1:]))
def gather(source, name):
    for shape, at, axis in [((4, 3), [2, 0, 2, 2], 0), ((4, 3), [[0, -1], [1, 1]], 1), ((5,), 3, 0), ((3, 0), [1, 1], 0), ((3, 2), np.zeros((0,), np.int64), 0), ((2, 3, 2), [1, 1, 1, 1], -1), ((1, 4), [0, 0], 0)]:
        yield node(name, source.real(*shape), np.array(at, np.int64), axis=axis)


@operator("GatherElements", reference=lambda a, x, at: torch.gather(x, a.get("axis", 0), at % max(x.shape[a.get("axis", 0)], 1)))
def gather_elements(source, name):
    for shape, wanted, axis in [((4, 3), (2, 3), 0), ((4, 3), (4, 5), 1), ((5,), (7,), 0), ((2, 3, 2), (2, 3, 4), -1), ((3, 2), (0, 2), 0), ((2, 2), (2, 2), 0)]:
        yield node(name, source.real(*shape), source.ints(*wanted, low=-shape[axis], high=shape[axis]), axis=axis)


def gathered_nd(a, x, at):
    batch = a.get("batch_dims", 0)
    if batch:
        return torch.stack([gathered_nd({"batch_dims": batch - 1}, x[k], at[k]) for k in range(x.shape[0])])
    at = at.long()
    return x[tuple(at[..., k] % max(x.shape[k], 1) for k in range(at.shape[-1]))]


@operator("GatherND", reference=gathered_nd)
def gather_nd(source, name):
    for shape, wanted, batch in [((3, 4), (5, 2), 0), ((3, 4), (4, 1), 0), ((2, 3, 2), (2, 4, 1), 1), ((2, 3), (2, 2, 1), 1), ((3, 2), (0, 1), 0), ((4,), (6, 1), 0)]:
        k = wanted[-1]
        at = np.stack([source.ints(*wanted[:-1], low=-shape[batch + j], high=shape[batch + j]) for j in range(k)], -1) if np.prod(wanted) else np.zeros(wanted, np.int64)
        yield node(name, source.real(*shape), at, batch_dims=batch)


def scattered_elements(a, x, at, update):
    axis, how = a.get("axis", 0), a.get("reduction", "none")
    at = (at % max(x.shape[axis], 1)).long()
    if how == "none":
        return x.scatter(axis, at, update)
    return x.scatter_reduce(axis, at, update, {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[how])


def different(source, count, extent):
    return source.rng.permutation(extent)[:count]


@operator("ScatterElements", reference=scattered_elements)
def scatter_elements(source, name):
    for how in ("none", "add", "mul", "max", "min"):
        for shape, axis, k in [((4, 3), 0, 2), ((3, 4), 1, 3), ((5,), 0, 4), ((3, 2), -2, 0)]:
            wanted = list(shape)
            wanted[axis] = k
            if how == "none":  # which of two that meet wins is not said: all different
                at = np.stack([different(source, k, shape[axis]) for _ in range(int(np.prod(wanted)) // max(k, 1))], -1).reshape(k, -1) if k else np.zeros((0, 2), np.int64)
                at = np.moveaxis(at.reshape([k] + [n for j, n in enumerate(wanted) if j != axis % len(shape)]), 0, axis)
            else:
                at = source.ints(*wanted, low=-shape[axis], high=shape[axis])
            every = source.apart(int(np.prod(shape)) + int(np.prod(wanted)))
            x, update = every[:int(np.prod(shape))].reshape(shape), every[int(np.prod(shape)):].reshape(wanted)
            if how == "mul":
                x, update = source.away(*shape, margin=0.3), source.away(*wanted, margin=0.3)
            yield node(name, x, at.astype(np.int64), update, axis=axis, reduction=how)


@operator("Scatter", reference=scattered_elements)
def scatter(source, name):
    for shape, axis, k in [((4, 3), 0, 2), ((3, 4), 1, 3), ((5,), 0, 4), ((3, 2), 0, 0)]:
        at = np.stack([different(source, k, shape[axis]) for _ in range(int(np.prod(shape)) // shape[axis])], -1)
        at = np.moveaxis(at.reshape([k] + [n for j, n in enumerate(shape) if j != axis]), 0, axis)
        yield node(name, source.real(*shape), at.astype(np.int64), source.real(*at.shape), axis=axis, opset=9)


def scattered_nd(a, x, at, update):
    how, k = a.get("reduction", "none"), at.shape[-1]
    flat, cells = x.reshape((-1,) + x.shape[k:]), [int(n) for n in x.shape[:k]]
    place = sum((at[..., j] % max(cells[j], 1)) * int(np.prod(cells[j + 1:])) for j in range(k)).reshape(-1).long()
    rows = update.reshape((-1,) + x.shape[k:])
    place = place.reshape([-1] + [1] * (rows.dim() - 1)).expand(rows.shape)
    if how == "none":
        return flat.scatter(0, place, rows).reshape(x.shape)
    return flat.scatter_reduce(0, place, rows, {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}[how]).reshape(x.shape)


@operator("ScatterND", reference=scattered_nd)
def scatter_nd(source, name):
    for how in ("none", "add", "mul", "max", "min"):
        for shape, k, count in [((4, 3), 1, 3), ((3, 4), 2, 5), ((6,), 1, 4), ((3, 2), 1, 0)]:
            cells = int(np.prod(shape[:k]))
            flat = different(source, count, cells) if how == "none" else source.ints(count, low=0, high=cells)
            at = np.stack(np.unravel_index(flat.astype(np.int64), shape[:k]), -1).astype(np.int64).reshape(count, k)
            wanted = (count,) + shape[k:]
            every = source.apart(int(np.prod(shape)) + int(np.prod(wanted)))
            x, update = every[:int(np.prod(shape))].reshape(shape), every[int(np.prod(shape)):].reshape(wanted)
            if how == "mul":
                x, update = source.away(*shape, margin=0.3), source.away(*wanted, margin=0.3)
            yield node(name, x, at, update, reduction=how)


def put_in_cache(a, cache, update, at=None):
    axis = a.get("axis", -2) % cache.dim()
    out = []
    for b in range(cache.shape[0]):
        start = int(at[b]) if at is not None else 0
        places = torch.arange(start, start + update.shape[axis])
        if a.get("mode", "linear") == "circular":
            places = places % cache.shape[axis]
        out.append(cache[b].index_copy(axis - 1, places, update[b]))
    return torch.stack(out) if out else cache.clone()


@operator("TensorScatter", reference=put_in_cache)
def tensor_scatter(source, name):
    for shape, count, at, mode in [((2, 4, 3), 2, [0, 2], "linear"), ((2, 5, 2), 3, [4, 3], "circular"), ((1, 2, 4, 2), 1, [3], "linear"), ((2, 3, 2), 0, [0, 0], "linear"), ((2, 4, 2), 4, [3, 1], "circular")]:
        wanted = shape[:-2] + (count,) + shape[-1:]
        yield node(name, source.real(*shape), source.real(*wanted), np.array(at, np.int64), mode=mode)
    yield node(name, source.real(2, 4, 3), source.real(2, 2, 3))


@operator("ReverseSequence")
def reverse_sequence(source, name):
    def reference(a, x, lengths):
        time, batch = a.get("time_axis", 0), a.get("batch_axis", 1)
        x = x.movedim((batch, time), (0, 1))
        rows = [torch.cat([x[b, :n].flip(0), x[b, n:]]) for b, n in enumerate(ints(lengths))]
        return torch.stack(rows).movedim((0, 1), (batch, time)) if rows else x.movedim((0, 1), (batch, time)).clone()
    for shape, time, batch in [((4, 3), 0, 1), ((3, 4), 1, 0), ((2, 3, 2), 1, 0), ((3, 0), 0, 1), ((5, 2, 2), 0, 1)]:
        yield node(name, source.real(*shape), source.ints(shape[batch], low=1, high=shape[time] + 1), time_axis=time, batch_axis=batch, reference=reference)


@operator("Compress", reference=lambda a, x, c: ((x.reshape(-1) if "axis" not in a else x).index_select(a.get("axis", 0), torch.nonzero(c).reshape(-1)) ** 2).sum())
def compress(source, name):
    """How many there are only the data says: they are squared and summed."""
    for shape, axis in [((4, 3), 0), ((3, 5), 1), ((6,), 0), ((2, 2, 3), -1), ((0, 3), 1)]:
        for attributes, count in [({"axis": axis}, shape[axis]), ({}, int(np.prod(shape)))]:
            nodes = [helper.make_node(name, ["x0", "x1"], ["c"], **attributes), helper.make_node("ReduceSumSquare", ["c"], ["y0"], keepdims=0)]
            for value in (Fixed(source.ints(count).astype(bool)), source.ints(count).astype(bool)):
                yield program(f"Compress of {shape}", nodes, [source.real(*shape), value], ["y0"], attributes=attributes)


@operator("Trilu", reference=lambda a, x, k=None: (torch.triu if a.get("upper", 1) else torch.tril)(x, int(k) if k is not None else 0))
def trilu(source, name):
    for upper in (0, 1):
        for shape in [(3, 3), (2, 4), (2, 3, 2), (0, 3)]:
            yield node(name, source.real(*shape), upper=upper)
            yield node(name, source.real(*shape), Fixed(np.array(source.rng.integers(-2, 3))), upper=upper)


@operator("DepthToSpace", reference=lambda a, x: F.pixel_shuffle(x, a.blocksize) if a.get("mode") == "CRD" else x.reshape(
    x.shape[0], a.blocksize, a.blocksize, x.shape[1] // a.blocksize ** 2, *x.shape[2:]).permute(0, 3, 4, 1, 5, 2).reshape(
    x.shape[0], x.shape[1] // a.blocksize ** 2, x.shape[2] * a.blocksize, x.shape[3] * a.blocksize))
def depth_to_space(source, name):
    for mode in ("DCR", "CRD"):
        for shape, size in [((1, 8, 2, 3), 2), ((2, 4, 1, 2), 2), ((0, 4, 2, 2), 2), ((1, 9, 1, 1), 3), ((1, 2, 2, 2), 1)]:
            # PyTorch fails to go back through its own of no images.
            yield node(name, source.real(*shape), blocksize=size, mode=mode, reference=False if mode == "CRD" and 0 in shape else None)


@operator("SpaceToDepth", reference=lambda a, x: x.reshape(x.shape[0], x.shape[1], x.shape[2] // a.blocksize, a.blocksize, x.shape[3] // a.blocksize, a.blocksize).permute(
    0, 3, 5, 1, 2, 4).reshape(x.shape[0], -1, x.shape[2] // a.blocksize, x.shape[3] // a.blocksize) if x.numel() else x.reshape(0, x.shape[1] * a.blocksize ** 2, x.shape[2] // a.blocksize, x.shape[3] // a.blocksize))
def space_to_depth(source, name):
    for shape, size in [((1, 2, 4, 6), 2), ((2, 1, 2, 2), 2), ((0, 1, 2, 4), 2), ((1, 1, 3, 3), 3), ((1, 2, 2, 2), 1), ((1, 1, 6, 3), 3)]:
        yield node(name, source.real(*shape), blocksize=size)


@operator("CenterCropPad")
def center_crop_pad(source, name):
    def reference(a, x, shape):
        rank = x.dim()
        axes = [k % rank for k in a.get("axes", list(range(rank)))]
        for axis, to in zip(axes, ints(shape)):
            have = x.shape[axis]
            if to < have:
                x = x.narrow(axis, (have - to) // 2, to)
            elif to > have:
                sizes = list(x.shape)
                before = (to - have) // 2
                sizes[axis] = before
                first = torch.zeros(sizes, dtype=x.dtype)
                sizes[axis] = to - have - before
                x = torch.cat([first, x, torch.zeros(sizes, dtype=x.dtype)], axis)
        return x.clone()
    for shape, to, more in [((4, 5), [2, 7], {}), ((5,), [2], {}), ((3, 4), [4], {"axes": [1]}), ((2, 3, 3), [5, 2], {"axes": [-1, 0]}), ((0, 3), [2, 1], {}), ((3, 3), [3, 3], {})]:
        yield node(name, source.real(*shape), Fixed(to), reference=reference, **more)


@operator("Col2Im", reference=lambda a, x, image, block: F.fold(x, ints(image), ints(block), dilation=a.get("dilations", [1, 1]), padding=a.get("pads", [0, 0, 0, 0])[:2], stride=a.get("strides", [1, 1])))
def col2im(source, name):
    for image, block, more in [((4, 4), (2, 2), {}), ((4, 5), (1, 3), {}), ((5, 5), (3, 3), {"pads": [1, 1, 1, 1]}), ((6, 6), (2, 2), {"strides": [2, 2]}), ((5, 5), (2, 2), {"dilations": [2, 2]})]:
        dilation, stride, pads = more.get("dilations", [1, 1]), more.get("strides", [1, 1]), more.get("pads", [0, 0, 0, 0])
        blocks = np.prod([(image[k] + pads[k] + pads[k + 2] - dilation[k] * (block[k] - 1) - 1) // stride[k] + 1 for k in range(2)])
        for batch in (1, 2):
            yield node(name, source.real(batch, 2 * block[0] * block[1], int(blocks)), Fixed(list(image)), Fixed(list(block)), **more)
    yield node(name, source.real(0, 4, 9), Fixed([4, 4]), Fixed([2, 2]), reference=lambda a, x, *more: x.reshape(0, 1, 4, 4))


@operator("OneHot", reference=lambda a, at, depth, values: values[0] + (values[1] - values[0]) * F.one_hot(at % int(depth), int(depth)).to(values.dtype).movedim(-1, a.get("axis", -1)))
def one_hot(source, name):
    for shape, axis in [((3,), -1), ((2, 3), 0), ((2, 2), 1), ((0,), -1), ((), -1)]:
        yield node(name, source.ints(*shape, low=-4, high=4), Fixed(np.array(4)), source.real(2), axis=axis)


@operator("TopK", reference=lambda a, x, k: torch.topk(x, int(k), a.get("axis", -1), bool(a.get("largest", 1)), True)[0])
def top_k(source, name):
    for largest in (0, 1):
        for shape, axis, k in [((5,), 0, 3), ((3, 4), -1, 2), ((4, 2), 0, 4), ((2, 3), 1, 0), ((0, 3), 1, 2), ((2, 3, 2), 1, 1)]:
            yield node(name, source.apart(*shape), Fixed([k]), axis=axis, largest=largest, outputs=2)
    # Of equal ones the first is taken, and gets the gradient.
    yield node(name, np.array([1.0, 3.0, 3.0, 3.0]), Fixed([2]), outputs=2, reference=False,
               kink=lambda c: [np.array([0, c["y0"][0], c["y0"][1], 0])])


def unique_squared(a, x):
    if "axis" not in a:
        x = x.reshape(-1)[torch.as_tensor(np.unique(x.detach().reshape(-1).numpy(), return_index=True)[1])]
    return (x ** 2).sum()


@operator("Unique", reference=unique_squared)
def unique(source, name):
    """How many there are only the data says: they are squared and summed."""
    for shape in [(5,), (2, 3), (1,), (7,), (0,)]:
        for is_sorted in (0, 1):
            x = source.apart(*shape)
            if x.size > 2:
                flat = x.reshape(-1)
                flat[-1] = flat[0]  # a repeated one: the first gets the gradient; differences would move both
            nodes = [helper.make_node("Unique", ["x0"], ["u"], sorted=is_sorted), helper.make_node("ReduceSumSquare", ["u"], ["y0"], keepdims=0)]
            if x.size > 2:
                first = (lambda values: lambda c: [2 * c["y0"] * np.where(np.arange(values.size) == values.size - 1, 0, values.reshape(-1)).reshape(values.shape)])(x)
                yield program(f"Unique of {shape}, two of them equal", nodes, [x], ["y0"], kink=first)
            yield program(f"Unique of {shape}", nodes, [source.apart(*shape)], ["y0"])
    nodes = [helper.make_node("Unique", ["x0"], ["u"], axis=0), helper.make_node("ReduceSumSquare", ["u"], ["y0"], keepdims=0)]
    for shape in [(3, 2), (4, 1), (2, 2, 2)]:
        yield program(f"Unique rows of {shape}", nodes, [source.apart(*shape)], ["y0"], attributes={"axis": 0})


def arithmetic_sequence(a, start, limit, step):
    count = max(0, int(np.ceil(((limit - start) / step).item())))
    return ((start + step * torch.arange(count, dtype=torch.float64)) ** 2).sum()


@operator("Range", reference=arithmetic_sequence)
def range_(source, name):
    """How many there are the operands say: they are squared and summed. `limit` only counts."""
    for start, step, count in [(0.3, 0.7, 4), (-1.1, 0.25, 3), (2.0, -0.5, 5), (0.5, 1.0, 0), (1.5, -0.3, 1)]:
        for shift in (0.0, 0.01, 0.02, 0.03, 0.04, 0.05):
            limit = start + shift + step * (count - 0.5)
            nodes = [helper.make_node("Range", ["x0", "x1", "x2"], ["r"]), helper.make_node("ReduceSumSquare", ["r"], ["y0"], keepdims=0)]
            yield program(f"Range from {start + shift} to {limit} by {step}", nodes, [np.array(start + shift), np.array(limit), np.array(step)], ["y0"])


@operator("OptionalGetElement", reference=lambda a, x: x.clone())
def optional_element(source, name):
    """Of a tensor: itself."""
    for shape in RANKS:
        yield node(name, source.real(*shape))
