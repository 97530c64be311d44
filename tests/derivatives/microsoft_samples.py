"""ONNX Runtime's own operators: attention, embeddings, products with packed weights."""
import numpy as np

from contraction_samples import convolution
from samples import Fixed, node, operator, torch

DOMAIN = "com.microsoft"
SIZES = [(1, 2, 3, 2), (2, 1, 2, 4), (0, 2, 2, 2), (1, 1, 1, 2), (2, 2, 3, 2)]  # batch, heads, steps, size of a head


def in_heads(x, heads):
    """[batch, steps, heads * size] as heads; what has four axes is."""
    return x if x.dim() == 4 else x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(1, 2)


def attended(a, q, k, v, bias=None, past=0, mask=None, causal=False):
    """Heads [batch, heads, steps, size] to [batch, steps, heads * size]; mask is bool, false adds -10000."""
    scores = q @ k.mT * (a.get("scale", 0.0) or q.shape[-1] ** -0.5)
    if mask is not None:
        scores = torch.where(mask, scores, scores + a.get("mask_filter_value", -10000.0))
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = scores.masked_fill(torch.arange(k.shape[2])[None] > torch.arange(q.shape[2])[:, None] + past, -torch.inf)
    y = (torch.softmax(scores, -1) @ v).transpose(1, 2)
    return y.reshape(y.shape[0], y.shape[1], y.shape[2] * y.shape[3])


def projected(a, x, mask, past, bias):
    """Of [batch, steps, Q and K and V]."""
    q, k, v = (in_heads(part, a.num_heads) for part in torch.split(x, a.get("qkv_hidden_sizes", [x.shape[2] // 3] * 3), 2))
    before = 0
    if past is not None:
        before = past.shape[3]
        k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
    mask = None if mask is None else (mask > 0)[:, None, None, :]
    return (attended(a, q, k, v, bias, before, mask, a.get("unidirectional", 0)), torch.stack([k, v]) if k.shape == v.shape else None)


@operator("Attention", domain=DOMAIN, reference=lambda a, x, w, b=None, mask=None, past=None, bias=None: projected(a, x @ w + (0 if b is None else b), mask, past, bias))
def attention(source, name):
    for batch, heads, steps, size in SIZES:
        width = heads * size
        x, w, b = source.real(batch, steps, 3), source.real(3, 3 * width), source.real(3 * width)
        mask = source.ints(batch, steps).astype(np.int32)
        mask[:, :1] = 1
        yield node(name, x, w, domain=DOMAIN, num_heads=heads)
        yield node(name, x, w, b, domain=DOMAIN, num_heads=heads, unidirectional=1)
        yield node(name, x, w, b, mask, domain=DOMAIN, num_heads=heads)
        yield node(name, x, w, b, None, source.real(2, batch, heads, 2, size), domain=DOMAIN, outputs=2, num_heads=heads)
        yield node(name, x, w, b, None, None, source.real(batch, heads, steps, steps), domain=DOMAIN, num_heads=heads, scale=0.5)
        yield node(name, x, source.real(3, 2 * width + heads), domain=DOMAIN, num_heads=heads, qkv_hidden_sizes=[width, width, heads])


@operator("QAttention", domain=DOMAIN, reference=lambda a, x, w, b, s, t, mask=None, zx=None, zw=None: projected(
    a, ((x.double() - (0 if zx is None else zx.double())) @ (w.double() - (0 if zw is None else zw.double()))) * (s * t) + b, mask, None, None)[0])
def quantised_attention(source, name):
    """By the scales and the bias."""
    for batch, heads, steps, size in SIZES:
        width = heads * size
        x, w = source.ints(batch, steps, 3, low=0, high=9).astype(np.uint8), source.ints(3, 3 * width, low=0, high=9).astype(np.uint8)
        single = lambda *shape: source.real(*shape, low=0.05, high=0.2).astype(np.float32)
        mask = np.ones((batch, steps), np.int32)
        yield node(name, x, w, single(3 * width), single(), single(), domain=DOMAIN, num_heads=heads)
        yield node(name, x, w, single(3 * width), single(), single(3 * width), mask, domain=DOMAIN, num_heads=heads, unidirectional=1)
        yield node(name, x, w, single(3 * width), single(), single(), None, np.array(3, np.uint8), np.array(4, np.uint8), domain=DOMAIN, num_heads=heads)


def multi_head(a, q, k=None, v=None, bias=None, mask=None, added=None, past_k=None, past_v=None):
    if q.dim() == 5:
        q, k, v = (q[:, :, :, part].transpose(1, 2) for part in range(3))
    else:
        q = in_heads(q, a.num_heads)
        if k.dim() == 5:
            k, v = (k[:, :, :, part].transpose(1, 2) for part in range(2))
        else:
            k, v = in_heads(k, a.num_heads), in_heads(v, a.num_heads)
    if bias is not None:
        parts = torch.split(bias, [a.num_heads * part.shape[3] for part in (q, k, v)])
        q, k, v = (part + b.reshape(a.num_heads, 1, part.shape[3]) for part, b in zip((q, k, v), parts))
    past = 0
    if past_k is not None:
        past = past_k.shape[2]
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
    mask = None if mask is None else (mask > 0)[:, None, None, :]
    return (attended(a, q, k, v, added, past, mask, a.get("unidirectional", 0)), k, v)


@operator("MultiHeadAttention", domain=DOMAIN, reference=multi_head)
def multi_head_attention(source, name):
    for batch, heads, steps, size in SIZES:
        width, keys = heads * size, steps + 1
        q, k, v = source.real(batch, steps, width), source.real(batch, keys, width), source.real(batch, keys, 2 * width)
        mask = source.ints(batch, keys).astype(np.int32)
        mask[:, :1] = 1
        yield node(name, q, k, v, domain=DOMAIN, num_heads=heads)
        yield node(name, q, k, v, source.real(4 * width), domain=DOMAIN, num_heads=heads, scale=0.75)
        yield node(name, q, k, v, None, mask, domain=DOMAIN, num_heads=heads)
        yield node(name, q, k, v, None, None, source.real(batch, heads, steps, keys), domain=DOMAIN, num_heads=heads)
        yield node(name, q, k, v, None, None, None, source.real(batch, heads, 2, size), source.real(batch, heads, 2, 2 * size), domain=DOMAIN, outputs=3, num_heads=heads, unidirectional=1)
        yield node(name, source.real(batch, steps, heads, 3, size), domain=DOMAIN, num_heads=heads)
        yield node(name, q, source.real(batch, keys, heads, 2, size), domain=DOMAIN, num_heads=heads)
        yield node(name, q, source.real(batch, heads, keys, size), source.real(batch, heads, keys, size), domain=DOMAIN, num_heads=heads)


def turned(x, cos, sin, interleaved):
    """x [batch, heads, steps, size] by cos and sin [batch, steps, half]; what is beyond stays."""
    half = cos.shape[-1]
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    part, rest = x[..., :2 * half], x[..., 2 * half:]
    one, two = (part[..., 0::2], part[..., 1::2]) if interleaved else (part[..., :half], part[..., half:])
    real, imaginary = one * cos - two * sin, one * sin + two * cos
    part = torch.stack([real, imaginary], -1).flatten(-2) if interleaved else torch.cat([real, imaginary], -1)
    return torch.cat([part, rest], -1)


def rotary(a, x, at, cos, sin):
    heads = None
    if x.dim() == 3:
        heads = a.get("num_heads", 0) or x.shape[2] // (2 * cos.shape[1])
        x = in_heads(x, heads)
    places = (at + torch.arange(x.shape[2])).expand(x.shape[0], x.shape[2]) if at.dim() == 1 else at
    y = turned(x, cos[places], sin[places], a.get("interleaved", 0))
    return y if heads is None else y.transpose(1, 2).reshape(y.shape[0], y.shape[2], y.shape[1] * y.shape[3])


@operator("RotaryEmbedding", domain=DOMAIN, reference=rotary)
def rotary_embedding(source, name):
    for batch, heads, steps, size in SIZES:
        for interleaved in (0, 1):
            for at in (np.array([1], np.int64), source.ints(batch, steps, low=0, high=6)):
                yield node(name, source.real(batch, heads, steps, size), at, source.real(6, size // 2), source.real(6, size // 2), domain=DOMAIN, interleaved=interleaved)
                yield node(name, source.real(batch, steps, heads * size), at, source.real(6, size // 2), source.real(6, size // 2), domain=DOMAIN, interleaved=interleaved, num_heads=heads)


def group_query(a, q, k, v, past_k, past_v, lengths, total, cos=None, sin=None):
    """Every element of the batch has all keys that the cache holds before its own."""
    if k is None:  # all in one
        size = q.shape[2] // (a.num_heads + 2 * a.kv_num_heads)
        q, k, v = torch.split(q, [a.num_heads * size, a.kv_num_heads * size, a.kv_num_heads * size], 2)
    q, k, v = in_heads(q, a.num_heads), in_heads(k, a.kv_num_heads), in_heads(v, a.kv_num_heads)
    before = 0 if past_k is None else past_k.shape[2]
    if a.get("do_rotary", 0):
        places = (before + torch.arange(q.shape[2])).expand(q.shape[0], q.shape[2])
        q, k = (turned(x, cos[places], sin[places], a.get("rotary_interleaved", 0)) for x in (q, k))
    if past_k is not None:
        k, v = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
    present = (k, v)
    times = a.num_heads // a.kv_num_heads
    k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
    scores = q @ k.mT * (a.get("scale", 0.0) or q.shape[-1] ** -0.5)
    if a.get("softcap", 0.0):
        scores = a.softcap * torch.tanh(scores / a.softcap)
    now, other = torch.arange(q.shape[2])[:, None] + before, torch.arange(k.shape[2])[None]
    seen = other <= now
    if a.get("local_window_size", -1) >= 0:
        seen = seen & (now - a.local_window_size < other)
    y = (torch.softmax(scores.masked_fill(~seen, -torch.inf), -1) @ v).transpose(1, 2)
    return (y.reshape(y.shape[0], y.shape[1], y.shape[2] * y.shape[3]), *present)


@operator("GroupQueryAttention", domain=DOMAIN, reference=group_query)
def group_query_attention(source, name):
    for batch, heads, steps, size in SIZES:
        for kv in {1, heads}:
            q, k, v = source.real(batch, steps, heads * size), source.real(batch, steps, kv * size), source.real(batch, steps, kv * size)
            given = {"domain": DOMAIN, "outputs": 3, "num_heads": heads, "kv_num_heads": kv}
            length, total = np.full((batch, 1), steps - 1, np.int32), np.array(steps, np.int32)  # a constant: else the number of keys is known while running only
            yield node(name, q, k, v, None, None, length, Fixed(total), **given)
            yield node(name, q, k, v, None, None, length, Fixed(total), source.real(8, size // 2), source.real(8, size // 2), do_rotary=1, **given)
            yield node(name, np.concatenate([q, k, v], 2), None, None, None, None, length, Fixed(total), **given)
            past = [source.real(batch, kv, 3, size) for _ in range(2)]
            yield node(name, q, k, v, *past, length + 3, Fixed(total + 3), softcap=2.0, **given)
            yield node(name, q, k, v, *past, length + 3, Fixed(total + 3), local_window_size=2, scale=0.5, **given)


def embedded(a, ids, segments, words, places, kinds, gamma, beta, mask=None, positions=None):
    total = words[ids.long()] + (places[:ids.shape[1]] if positions is None else places[positions.long().expand(ids.shape)])
    if kinds is not None:
        total = total + kinds[segments.long()]
    centred = total - total.mean(-1, True)
    return (centred / (centred.pow(2).mean(-1, True) + a.epsilon).sqrt() * gamma + beta, None, total)


@operator("EmbedLayerNormalization", domain=DOMAIN, reference=embedded)
def embedding(source, name):
    for batch, steps, width in [(1, 3, 4), (2, 2, 3), (0, 2, 3), (2, 4, 5)]:
        ids, segments = source.ints(batch, steps, low=0, high=5).astype(np.int32), source.ints(batch, steps, low=0, high=2).astype(np.int32)
        words, places, kinds = source.real(5, width), source.real(6, width), source.real(2, width)
        scaling = [source.real(width), source.real(width)]
        for outputs in (["y0", "y1"], ["y0", "y1", "y2"]):
            yield node(name, ids, segments, words, places, kinds, *scaling, domain=DOMAIN, outputs=outputs, epsilon=0.0625)
            yield node(name, ids, None, words, places, None, *scaling, domain=DOMAIN, outputs=outputs, epsilon=0.0625)
            yield node(name, ids, segments, words, places, kinds, *scaling, None, source.ints(batch, steps, low=0, high=6).astype(np.int32), domain=DOMAIN, outputs=outputs, epsilon=0.0625)


@operator("NhwcConv", domain=DOMAIN, reference=lambda a, x, w, b=None: convolution(a, x.movedim(-1, 1), w, b).movedim(1, -1))
def channels_last(source, name):
    for xs, ws, more in [((1, 4, 5, 2), (3, 2, 2, 3), {}), ((2, 5, 5, 4), (4, 2, 3, 3), {"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}), ((1, 6, 2), (1, 2, 3), {"dilations": [2]}), ((0, 4, 1), (2, 1, 2), {}),
                         ((1, 3, 3, 1), (2, 1, 1, 1), {})]:
        yield node(name, source.real(*xs), source.real(*ws), domain=DOMAIN, **more)
        yield node(name, source.real(*xs), source.real(*ws), source.real(ws[0]), domain=DOMAIN, **more)


def by_bits(a, x, packed, scales, zeros=None, groups=None, bias=None):
    each, rows = 8 // a.bits, a.N
    whole = packed.reshape(rows, -1).long()
    numbers = torch.stack([(whole >> (a.bits * k)) & (2 ** a.bits - 1) for k in range(each)], -1).reshape(rows, -1)[:, :a.K].double()
    block = torch.arange(a.K) // a.block_size
    scale = scales.reshape(rows, -1)[:, block]
    zero = 2 ** (a.bits - 1) if zeros is None else zeros.reshape(rows, -1)[:, block]
    return x @ ((numbers - zero) * scale).T + (0 if bias is None else bias)


def rows_by_bits(a, packed, indices, scales, zeros=None):
    each = 8 // a.bits
    whole = packed.long()
    numbers = torch.stack([(whole >> (a.bits * k)) & (2 ** a.bits - 1) for k in range(each)], -1).flatten(-2).double()
    scale = scales.repeat_interleave(a.block_size, -1)[..., :numbers.shape[-1]]
    return ((numbers - 2 ** (a.bits - 1)) * scale)[indices.long()]


@operator("GatherBlockQuantized", domain=DOMAIN, reference=rows_by_bits)
def gather_block_quantized(source, name):
    """By the scales."""
    for rows, columns, bits, at in [(3, 32, 4, (2,)), (5, 40, 8, (2, 2)), (2, 16, 2, ()), (4, 24, 4, (0,))]:
        packed = source.ints(rows, columns * bits // 8, low=0, high=256).astype(np.uint8)
        scales = source.real(rows, -(-columns // 16), low=0.02, high=0.1)
        yield node(name, packed, source.ints(*at, low=0, high=rows), scales, domain=DOMAIN, bits=bits, block_size=16)


@operator("MatMulNBits", domain=DOMAIN, reference=by_bits)
def matmul_n_bits(source, name):
    """By A, the scales, zero points that are floats, and the bias."""
    for rows, depth, columns, bits in [((2,), 16, 3, 4), ((1, 2), 20, 2, 8), ((0,), 16, 2, 2), ((3,), 40, 2, 4), ((1,), 16, 1, 8)]:
        blocks = -(-depth // 16)
        packed = source.ints(columns, blocks, 16 * bits // 8, low=0, high=256).astype(np.uint8)
        x, scales = source.real(*rows, depth), source.real(columns, blocks, low=0.02, high=0.1)
        given = {"domain": DOMAIN, "K": depth, "N": columns, "bits": bits, "block_size": 16}
        yield node(name, x, packed, scales, **given)
        yield node(name, x, packed, scales, source.real(columns, blocks), **given)
        yield node(name, x, packed, scales, None, None, source.real(columns), **given)
