"""Resize, grids, deformable convolutions: positions between elements, some of which are differentiated by."""
import numpy as np

from samples import Attributes, F, Fixed, node, operator, torch

NOTHING = Fixed(np.zeros(0, np.float32))


ONE, HALF = np.float32(1), np.float32(0.5)


def weight_of(mode, distance, cubic):
    t, a = abs(distance), [np.float32(cubic * n) for n in range(9)]
    if mode == "linear":
        return max(ONE - t, np.float32(0))
    if t <= 1:
        return ((np.float32(cubic + 2) * t - np.float32(cubic + 3)) * t) * t + ONE
    return ((a[1] * t - a[5]) * t + a[8]) * t - a[4] if t < 2 else np.float32(0)


def axis_matrix(a, before, after, scale):
    """What one axis of a Resize is: a matrix. The coordinates are ONNX's formulas, in float32 whatever is resized."""
    how, mode, scale = a.get("coordinate_transformation_mode", "half_pixel"), a.get("mode", "nearest"), np.float32(scale)
    exact = scale * np.float32(before)
    m = np.zeros((after, before))
    for i in np.arange(after, dtype=np.float32):
        x = i * np.float32(before - 1) / (exact - ONE) if how == "align_corners" else i / scale if how == "asymmetric" else (i + HALF) / scale - HALF
        if mode == "nearest":
            at = {"round_prefer_floor": np.ceil(x - HALF), "floor": np.floor(x), "ceil": np.ceil(x), "round_prefer_ceil": np.floor(x + HALF)}[a.get("nearest_mode", "round_prefer_floor")]
            m[int(i), int(np.clip(at, 0, before - 1))] += 1
            continue
        low = np.floor(x)
        offsets = [0, 1] if mode == "linear" else [-1, 0, 1, 2]
        factors = [weight_of(mode, np.float32(o) - (x - low), a.get("cubic_coeff_a", -0.75)) for o in offsets]
        if a.get("exclude_outside", 0):
            factors = [f if 0 <= low + o < before else np.float32(0) for f, o in zip(factors, offsets)]
            factors = [f / np.float32(sum(map(float, factors))) for f in factors]
        for f, o in zip(factors, offsets):
            m[int(i), int(np.clip(low + o, 0, before - 1))] += f
    return m


def resized(a, x, roi=None, scales=None, sizes=None):
    for k in range(x.dim()):
        if scales is not None and scales.numel():
            scale = float(scales[k])
            after = int(np.floor(x.shape[k] * scale))
        else:
            after = int(sizes[k])
            scale = after / x.shape[k] if x.shape[k] else 1
        if (after == x.shape[k] and scale == 1) or not x.shape[k]:
            continue
        x = torch.tensordot(x, torch.as_tensor(axis_matrix(a, x.shape[k], after, scale)), ([k], [1])).movedim(-1, k)
    return x.clone()


@operator("Resize", reference=resized)
def resize(source, name):
    for mode in ("nearest", "linear", "cubic"):
        for how in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"):
            for shape, scales in [((1, 1, 3, 4), [1, 1, 2.0, 1.5]), ((1, 2, 5), [1, 1, 0.6]), ((2, 1, 2, 2), [1, 1, 3.0, 1.0])]:
                yield node(name, source.real(*shape), None, Fixed(np.array(scales, np.float32)), mode=mode, coordinate_transformation_mode=how, **({"exclude_outside": 1} if mode == "cubic" and how == "asymmetric" else {}))
            yield node(name, source.real(1, 1, 3, 5), None, None, Fixed([1, 1, 5, 3]), mode=mode, coordinate_transformation_mode=how)
    yield node(name, source.real(0, 1, 3), None, Fixed(np.array([1, 1, 2], np.float32)), mode="linear", reference=lambda a, x, *more: torch.zeros(0, 1, 6, dtype=x.dtype))
    yield node(name, source.real(1, 1, 6), None, Fixed(np.array([1, 1, 0.5], np.float32)), mode="linear", antialias=1, reference=False)
    yield node(name, source.real(1, 1, 4, 4), Fixed(np.array([0, 0, 0.2, 0.2, 1, 1, 0.8, 1.2], np.float32)), None, Fixed([1, 1, 3, 3]), mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=0.5, reference=False)


@operator("Upsample", reference=lambda a, x, scales: resized(dict(a, coordinate_transformation_mode="asymmetric", nearest_mode="floor"), x, None, scales))
def upsample(source, name):
    for mode in ("nearest", "linear"):
        for shape, scales in [((1, 1, 3, 4), [1, 1, 2.0, 3.0]), ((1, 2, 2, 2), [1, 1, 1.5, 2.0]), ((2, 1, 2, 2), [1, 1, 1.0, 1.0]), ((0, 1, 2, 2), [1, 1, 2.0, 2.0])]:
            reference = (lambda a, x, s: torch.zeros(0, 1, 4, 4, dtype=x.dtype)) if 0 in shape else None
            yield node(name, source.real(*shape), Fixed(np.array(scales, np.float32)), mode=mode, opset=9, reference=reference)


@operator("AffineGrid", reference=lambda a, theta, size: F.affine_grid(theta, [int(v) for v in size], align_corners=bool(a.get("align_corners", 0))))
def affine_grid(source, name):
    for size in ([1, 1, 3, 4], [2, 3, 2, 2], [1, 1, 1, 3], [1, 2, 2, 3, 2]):
        for align in (0, 1):
            if align and 1 in size[2:]:
                continue
            yield node(name, source.real(size[0], len(size) - 2, len(size) - 1), Fixed(size), align_corners=align)
    yield node(name, source.real(0, 2, 3), Fixed([0, 1, 2, 2]), reference=lambda a, theta, size: torch.zeros(0, 2, 2, 2, dtype=theta.dtype))


def off_lattice(source, grid_shape, size, align, low=-0.95, high=0.95):
    """Positions at least 0.05 elements from where the neighbours, or a reflection, change."""
    out = np.empty(grid_shape)
    for k, n in enumerate(reversed(size)):
        g = source.real(*grid_shape[:-1], low=low, high=high)
        for _ in range(50):
            at = (g + 1) / 2 * (n - 1) if align else ((g + 1) * n - 1) / 2
            near = np.abs(at * 2 - np.round(at * 2)) < 0.1
            if not near.any():
                break
            g = np.where(near, source.real(*grid_shape[:-1], low=low, high=high), g)
        out[..., k] = g
    return out


@operator("GridSample", reference=lambda a, x, grid: F.grid_sample(x, grid, {"linear": "bilinear", "cubic": "bicubic"}.get(a.get("mode", "linear"), "nearest"), a.get("padding_mode", "zeros"), bool(a.get("align_corners", 0))))
def grid_sample(source, name):
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for align in (0, 1):
                far = 1.6 if padding != "reflection" else 1.3
                # At the border ONNX clamps the position, PyTorch's cubic one each neighbour.
                yield node(name, source.real(1, 2, 4, 3), off_lattice(source, (1, 2, 3, 2), (4, 3), align, -far, far), mode=mode, padding_mode=padding, align_corners=align,
                           reference=False if mode == "cubic" and padding == "border" else None)
    for align in (0, 1):
        yield node(name, source.real(1, 1, 3, 2, 3), off_lattice(source, (1, 2, 1, 2, 3), (3, 2, 3), align), align_corners=align, mode="linear")
    yield node(name, source.real(0, 1, 3, 3), source.real(0, 2, 2, 2), reference=lambda a, x, grid: torch.zeros(0, 1, 2, 2, dtype=x.dtype))


def deformed(a, x, w, offset, b=None, mask=None):
    n, _, rows, columns = offset.shape
    kernel, pads, strides, dilations = w.shape[2:], a.get("pads", [0] * 4), a.get("strides", [1, 1]), a.get("dilations", [1, 1])
    groups, group = a.get("offset_group", 1), a.get("group", 1)
    cells = kernel[0] * kernel[1]
    at = offset.reshape(n, groups, cells, 2, rows, columns)
    i = torch.arange(rows)[None, None, None, :, None] * strides[0] - pads[0] + (torch.arange(cells) // kernel[1] * dilations[0])[None, None, :, None, None] + at[:, :, :, 0]
    j = torch.arange(columns)[None, None, None, None, :] * strides[1] - pads[1] + (torch.arange(cells) % kernel[1] * dilations[1])[None, None, :, None, None] + at[:, :, :, 1]
    per = x.shape[1] // groups
    total = 0
    for di in (0, 1):
        for dj in (0, 1):
            r, c = torch.floor(i.detach()) + di, torch.floor(j.detach()) + dj
            weight = (1 - (i - r).abs()) * (1 - (j - c).abs())
            inside = (r >= 0) & (r < x.shape[2]) & (c >= 0) & (c < x.shape[3])
            flat = (r.clamp(0, x.shape[2] - 1) * x.shape[3] + c.clamp(0, x.shape[3] - 1)).long()
            values = x.reshape(n, groups, per, x.shape[2] * x.shape[3]).gather(3, flat.reshape(n, groups, 1, cells * rows * columns).expand(n, groups, per, cells * rows * columns)).reshape(n, groups, per, cells, rows, columns)
            total = total + values * (weight * inside).unsqueeze(2)
    if mask is not None:
        total = total * mask.reshape(n, groups, 1, cells, rows, columns)
    columns_of = total.reshape(n, group, x.shape[1] // group, cells, rows, columns)
    y = torch.einsum("ngckrs,gock->ngors", columns_of, w.reshape(group, w.shape[0] // group, w.shape[1], cells)).reshape(n, w.shape[0], rows, columns)
    return y if b is None else y + b.reshape(1, -1, 1, 1)


@operator("DeformConv", reference=deformed)
def deformable(source, name):
    for xs, ws, more in [((1, 1, 4, 4), (1, 1, 2, 2), {}), ((1, 2, 4, 5), (2, 2, 3, 2), {"pads": [1, 1, 1, 1]}), ((2, 2, 5, 5), (2, 1, 2, 2), {"group": 2, "strides": [2, 2]}),
                         ((1, 2, 5, 5), (1, 2, 2, 2), {"offset_group": 2, "dilations": [2, 1]}), ((0, 1, 3, 3), (1, 1, 2, 2), {})]:
        pads, strides, dilations = more.get("pads", [0] * 4), more.get("strides", [1, 1]), more.get("dilations", [1, 1])
        rows, columns = ((xs[2 + k] + pads[k] + pads[2 + k] - dilations[k] * (ws[2 + k] - 1) - 1) // strides[k] + 1 for k in range(2))
        groups, cells = more.get("offset_group", 1), ws[2] * ws[3]
        offset = source.ints(xs[0], groups * cells * 2, rows, columns, low=-1, high=2) + source.real(xs[0], groups * cells * 2, rows, columns, low=0.1, high=0.9)
        yield node(name, source.real(*xs), source.real(*ws), offset, **more)
        yield node(name, source.real(*xs), source.real(*ws), offset, source.real(ws[0]), **more)
        yield node(name, source.real(*xs), source.real(*ws), offset, source.real(ws[0]), source.real(xs[0], groups * cells, rows, columns), **more)


# ---- rectangles of a map ----
def looked_at(a, roi, first, last, bins):
    """Where one axis of a rectangle is sampled: [bins, samples]."""
    half = 0.5 if a.get("coordinate_transformation_mode", "half_pixel") == "half_pixel" else 0.0
    scale, ratio = a.get("spatial_scale", 1.0), a.get("sampling_ratio", 0)
    start, end = roi[first] * scale - half, roi[last] * scale - half
    length = end - start
    if not half and float(length) < 1:
        length = length * 0 + 1
    bin_ = length / bins
    count = ratio or max(int(np.ceil(float(bin_))), 0)
    return [[start + b * bin_ + (s + 0.5) * bin_ / count for s in range(count)] for b in range(bins)]


def aligned(a, x, rois, batches):
    out = []
    for r in range(rois.shape[0]):
        rows, columns = looked_at(a, rois[r], 1, 3, a.output_height), looked_at(a, rois[r], 0, 2, a.output_width)
        image = x[int(batches[r])]

        def taps(at, extent):
            value = float(at)
            if value < -1 or value > extent:
                return None
            at = torch.clamp(at, 0, extent - 1)
            low = int(np.floor(float(at)))
            return [(low, 1 - (at - low)), (min(low + 1, extent - 1), at - low)]
        bins = []
        for row in rows:
            for column in columns:
                samples = []
                for i in row:
                    for j in column:
                        ti, tj = taps(i, x.shape[2]), taps(j, x.shape[3])
                        terms = [image[:, p, q] * (u * v) for p, u in ti for q, v in tj] if ti and tj else None
                        samples.append(torch.zeros(x.shape[1], dtype=x.dtype) if terms is None else sum(terms) if a.get("mode", "avg") == "avg" else torch.stack(terms).amax(0))
                bins.append(torch.stack(samples).mean(0) if a.get("mode", "avg") == "avg" else torch.stack(samples).amax(0))
        out.append(torch.stack(bins, 1).reshape(x.shape[1], len(rows), len(columns)))
    return torch.stack(out) if out else torch.zeros(0, x.shape[1], a.output_height, a.output_width, dtype=x.dtype)


@operator("RoiAlign", reference=aligned)
def roi_align(source, name):
    for channels, count, height, width, ratio in [(1, 2, 2, 2, 2), (2, 1, 1, 3, 1), (1, 0, 2, 2, 2), (2, 3, 2, 1, 3)]:
        for how in ("half_pixel", "output_half_pixel"):
            for mode in ("avg", "avg", "max"):
                given = {"output_height": height, "output_width": width, "sampling_ratio": ratio, "spatial_scale": 0.5, "coordinate_transformation_mode": how, "mode": mode}
                rois = np.zeros((count, 4))
                for r in range(count):
                    for _ in range(500):  # no sample on an element
                        low = source.real(2, low=1, high=5)
                        rois[r] = np.concatenate([low, low + source.real(2, low=2.5, high=6)])
                        places = np.concatenate([np.ravel(looked_at(Attributes(given), rois[r], k, k + 2, n)) for k, n in ((0, width), (1, height))])
                        if (np.abs(places - np.round(places)) > 0.05).all():
                            break
                yield node(name, source.apart(2, channels, 6, 6), rois, source.ints(count, low=0, high=2), **given)


def highest(a, x, rois):
    out = []
    for roi in rois.tolist():
        def cuts(first, last, bins, extent):
            start, end = (float(np.trunc(v * a.get("spatial_scale", 1.0) + (0.5 if v >= 0 else -0.5))) for v in (roi[first], roi[last]))
            size = max(end - start + 1, 1) / bins
            return [(int(np.clip(start + np.floor(b * size), 0, extent)), int(np.clip(start + np.ceil((b + 1) * size), 0, extent))) for b in range(bins)]
        rows, columns = cuts(2, 4, a.pooled_shape[0], x.shape[2]), cuts(1, 3, a.pooled_shape[1], x.shape[3])
        image = x[int(roi[0])]
        cells = [image[:, r0:r1, c0:c1].amax((1, 2)) if r1 > r0 and c1 > c0 else torch.zeros(x.shape[1], dtype=x.dtype) for r0, r1 in rows for c0, c1 in columns]
        out.append(torch.stack(cells, 1).reshape(x.shape[1], len(rows), len(columns)))
    return torch.stack(out) if out else torch.zeros(0, x.shape[1], *a.pooled_shape, dtype=x.dtype)


@operator("MaxRoiPool", reference=highest)
def max_roi_pool(source, name):
    """By the map; the rectangles are rounded to whole elements."""
    for channels, count, pooled in [(1, 2, [2, 2]), (2, 1, [1, 3]), (1, 0, [2, 2]), (2, 3, [3, 1])]:
        for scale in (1.0, 0.5):
            low = source.ints(count, 2, low=0, high=4)
            rois = np.concatenate([source.ints(count, 1, low=0, high=2), low, low + source.ints(count, 2, low=0, high=4)], 1).astype(np.float64)
            yield node(name, source.apart(2, channels, 5, 6), Fixed(rois) if count else rois, pooled_shape=pooled, spatial_scale=scale)
