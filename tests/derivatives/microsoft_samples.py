"""Attention, weight-only products and embeddings as ONNX Runtime has them, and regions of interest. That they compute what ONNX Runtime
does is looked at elsewhere (tests/ops, ONNX's cases)."""
import numpy as np

from samples import Fixed, node, operator

DOMAIN = "com.microsoft"
ELSEWHERE = "its values are compared with ONNX Runtime in tests/ops"


@operator("Attention", domain=DOMAIN, no_reference=ELSEWHERE)
def attention(source, name):
    for batch, time, heads, inputs in [(1, 3, 2, 3), (2, 2, 1, 2), (0, 2, 1, 2)]:
        width = 2 * heads
        x, w, b = source.real(batch, time, inputs), source.real(inputs, 3 * width), source.real(3 * width)
        for more in ({}, {"unidirectional": 1}, {"scale": 0.75}):
            yield node(name, x, w, b, domain=DOMAIN, num_heads=heads, **more)
        yield node(name, x, w, b, source.ints(batch, low=1, high=time + 1).astype(np.int32), domain=DOMAIN, num_heads=heads, mask_filter_value=-50.0)
        yield node(name, x, w, None, None, source.real(2, batch, heads, 2, 2), source.real(batch, heads, time, time + 2), domain=DOMAIN, num_heads=heads, outputs=2)


@operator("MultiHeadAttention", domain=DOMAIN, no_reference=ELSEWHERE)
def multi_head_attention(source, name):
    for batch, time, keys, heads, size in [(1, 2, 3, 2, 2), (2, 3, 3, 1, 3), (0, 1, 2, 1, 2)]:
        q, k, v = source.real(batch, time, heads * size), source.real(batch, keys, heads * size), source.real(batch, keys, heads * size)
        yield node(name, q, k, v, domain=DOMAIN, num_heads=heads)
        yield node(name, q, k, v, source.real(3 * heads * size), None, source.real(1, heads, time, keys), domain=DOMAIN, num_heads=heads, scale=0.5)
        yield node(name, q, source.real(batch, heads, keys, size), source.real(batch, heads, keys, size), domain=DOMAIN, num_heads=heads)
        yield node(name, source.real(batch, time, heads, 3, size), domain=DOMAIN, num_heads=heads)
        yield node(name, q, k, v, None, None, None, source.real(batch, heads, 2, size), source.real(batch, heads, 2, size), domain=DOMAIN, num_heads=heads, outputs=3)


@operator("GroupQueryAttention", domain=DOMAIN, no_reference=ELSEWHERE)
def group_query_attention(source, name):
    for batch, time, past, heads, kv, size in [(1, 2, 0, 2, 1, 4), (2, 1, 3, 2, 2, 4), (0, 1, 2, 2, 1, 4)]:
        q, k, v = source.real(batch, time, heads * size), source.real(batch, time, kv * size), source.real(batch, time, kv * size)
        cache = [source.real(batch, kv, past, size), source.real(batch, kv, past, size)] if past else [None, None]
        last, total = np.full(batch, time + past - 1, np.int32), Fixed(np.int32(time + past), np.int32)
        yield node(name, q, k, v, *cache, last, total, domain=DOMAIN, num_heads=heads, kv_num_heads=kv, outputs=3)
        yield node(name, q, k, v, *cache, last, total, domain=DOMAIN, num_heads=heads, kv_num_heads=kv, softcap=3.0, local_window_size=2)
        yield node(name, q, k, v, *cache, last, total, source.real(8, size // 2), source.real(8, size // 2), domain=DOMAIN, num_heads=heads, kv_num_heads=kv, do_rotary=1)
        yield node(name, np.concatenate([q, k, v], 2), None, None, *cache, last, total, domain=DOMAIN, num_heads=heads, kv_num_heads=kv)


@operator("RotaryEmbedding", domain=DOMAIN, no_reference=ELSEWHERE)
def rotary_embedding(source, name):
    for batch, heads, time, size in [(1, 2, 3, 4), (2, 1, 2, 2), (0, 1, 2, 4), (1, 1, 1, 6)]:
        for more in ({}, {"interleaved": 1}):
            cosine, sine = source.real(6, size // 2), source.real(6, size // 2)
            yield node(name, source.real(batch, heads, time, size), source.ints(batch, time, high=6), cosine, sine, domain=DOMAIN, **more)
            yield node(name, source.real(batch, time, heads * size), np.array([1]), cosine, sine, domain=DOMAIN, num_heads=heads, **more)


@operator("EmbedLayerNormalization", domain=DOMAIN, no_reference=ELSEWHERE)
def embed_layer_normalization(source, name):
    for batch, time, size in [(1, 3, 4), (2, 2, 3), (0, 2, 3)]:
        ids, kinds = source.ints(batch, time, high=5).astype(np.int32), source.ints(batch, time, high=2).astype(np.int32)
        words, places, of_kinds = source.real(5, size), source.real(4, size), source.real(2, size)
        yield node(name, ids, None, words, places, None, source.real(size), source.real(size), domain=DOMAIN, outputs=["y0"], epsilon=0.0625)
        yield node(name, ids, kinds, words, places, of_kinds, source.real(size), source.real(size), domain=DOMAIN, outputs=["y0", "", "y2"], epsilon=0.0625)


@operator("MatMulNBits", domain=DOMAIN, no_reference=ELSEWHERE)
def matmul_n_bits(source, name):
    for rows, depth, columns, bits in [(2, 5, 3, 4), (1, 20, 2, 8), (0, 3, 2, 4), (3, 17, 1, 4)]:
        blocks = -(-depth // 16)
        x, packed, scales = source.real(rows, depth), source.ints(columns, blocks, 2 * bits, high=256).astype(np.uint8), source.real(columns * blocks, low=0.05, high=0.1)
        yield node(name, x, packed, scales, domain=DOMAIN, K=depth, N=columns, bits=bits, block_size=16)
        yield node(name, x, packed, scales, source.real(columns * blocks), None, source.real(columns), domain=DOMAIN, K=depth, N=columns, bits=bits, block_size=16)


@operator("NhwcConv", domain=DOMAIN, no_reference=ELSEWHERE)
def nhwc_conv(source, name):
    for xs, ws, more in [((1, 4, 4, 2), (3, 2, 2, 2), {}), ((2, 5, 3, 4), (2, 2, 3, 1), {"group": 2, "pads": [1, 0, 1, 0]}), ((0, 3, 3, 1), (1, 1, 2, 2), {}), ((1, 5, 5, 1), (2, 1, 2, 2), {"strides": [2, 2]})]:
        yield node(name, source.real(*xs), source.real(*ws), domain=DOMAIN, **more)
        yield node(name, source.real(*xs), source.real(*ws), source.real(ws[0]), domain=DOMAIN, **more)


def regions(source, count, size):
    """Rectangles within a map of size x size whose corners are off the grid."""
    first = source.real(count, 2, low=0.1, high=0.4 * size)
    return np.concatenate([first, first + source.real(count, 2, low=1.2, high=0.5 * size)], 1)


@operator("RoiAlign", no_reference="PyTorch has it in another package")
def roi_align(source, name):
    for batch, channels, size, count in [(1, 2, 5, 2), (2, 1, 6, 3), (1, 1, 4, 0)]:
        x, where = source.apart(batch, channels, size, size), source.ints(count, high=batch)
        for more in ({}, {"mode": "max"}, {"coordinate_transformation_mode": "output_half_pixel"}):
            yield node(name, x, Fixed(regions(source, count, size)), where, output_height=2, output_width=2, sampling_ratio=2, spatial_scale=0.9, **more)
            yield node(name, x, Fixed(regions(source, count, size)), where, output_height=1, output_width=3, sampling_ratio=1, **more)


@operator("MaxRoiPool", no_reference="PyTorch has it in another package")
def max_roi_pool(source, name):
    for batch, channels, size, count in [(1, 2, 5, 2), (2, 1, 6, 3), (1, 1, 4, 0), (1, 3, 5, 1), (1, 0, 4, 1)]:
        where = source.ints(count, 1, high=batch).astype(float)
        for pooled in ([1, 1], [2, 2], [2, 3]):
            yield node(name, source.apart(batch, channels, size, size), Fixed(np.concatenate([where, np.floor(regions(source, count, size))], 1)), pooled_shape=pooled)


@operator("OptionalGetElement", no_reference="it is the identity")
def optional_get_element(source, name):
    for shape in [(), (3,), (2, 3), (0, 2)]:
        yield node(name, source.real(*shape))
