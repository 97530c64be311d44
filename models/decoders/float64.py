"""Decoders of build.py in float64 NumPy, for tests: the nodes as ONNX and ONNX Runtime define them, nothing shared with metac.

    decoder = Decoder(path)
    logits = decoder.step([1, 2, 3])     # [3, vocabulary]; the caches grow
"""
import numpy as np
import onnx
from onnx import numpy_helper


def unpacked(packed, bits):
    """uint8 [..., bytes] -> numbers of so many bits [..., bytes * 8 / bits], the lowest first."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((packed[..., None] >> shifts) & (2**bits - 1)).reshape(*packed.shape[:-1], -1)


class Decoder:
    def __init__(self, path):
        model = onnx.load(path)
        self.nodes = model.graph.node
        self.constants = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
        self.wide = {}  # weights in float64, made once
        self.past, self.length = {}, 0

    def step(self, tokens):
        tokens = np.asarray(tokens, np.int64)[None]
        self.length += tokens.shape[1]
        values = {"input_ids": tokens, "attention_mask": np.ones((1, self.length), np.int64)}
        for node in self.nodes:
            attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            made = getattr(self, node.op_type)(node, lambda k, n=node: self.value(n.input[k], values), attributes)
            for name, value in zip(node.output, made if isinstance(made, list) else [made]):
                values[name] = value
        return values["logits"][0]

    def value(self, name, values):
        return values[name] if name in values else self.constants[name]

    def weight(self, name, make):
        if name not in self.wide:
            self.wide[name] = make()
        return self.wide[name]

    def ReduceSum(self, node, x, a):
        return np.sum(x(0), axis=tuple(x(1)), keepdims=bool(a["keepdims"]))

    def Sub(self, node, x, a):
        return x(0) - x(1)

    def Mul(self, node, x, a):
        return x(0) * x(1)

    def Shape(self, node, x, a):
        return np.array(x(0).shape, np.int64)

    def Gather(self, node, x, a):
        return x(0)[x(1)].astype(np.float64) if x(0).dtype == np.float32 else x(0)[x(1)]

    def Cast(self, node, x, a):
        return x(0).astype(np.float64) if a["to"] == onnx.TensorProto.FLOAT else x(0).astype(np.int64)

    def Sigmoid(self, node, x, a):
        return 1 / (1 + np.exp(-x(0)))

    def MatMul(self, node, x, a):
        return x(0) @ self.weight(node.input[1], lambda: x(1).astype(np.float64))

    def MatMulNBits(self, node, x, a):
        def dequantised():
            bits, block = a["bits"], a["block_size"]
            numbers = unpacked(x(1), bits).astype(np.float64)  # [columns, blocks, block]
            middle = 2.0 ** (bits - 1)
            if len(node.input) > 3:
                middle = unpacked(x(3).reshape(a["N"], -1), bits)[:, :numbers.shape[1], None].astype(np.float64)
            scales = x(2).astype(np.float64).reshape(a["N"], -1, 1)
            return ((numbers - middle) * scales).reshape(a["N"], -1)[:, :a["K"]].T.copy()
        return x(0) @ self.weight(node.input[1], dequantised)

    @staticmethod
    def normalised(x, gain, epsilon):
        return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * gain.astype(np.float64)

    def SimplifiedLayerNormalization(self, node, x, a):
        return self.normalised(x(0), x(1), a["epsilon"])

    def SkipSimplifiedLayerNormalization(self, node, x, a):
        total = x(0) + x(1)
        return [self.normalised(total, x(2), a["epsilon"]), None, None, total]

    def GroupQueryAttention(self, node, x, a):
        heads, groups = a["num_heads"], a["kv_num_heads"]
        split = lambda v, n: v[0].reshape(v.shape[1], n, -1).transpose(1, 0, 2)  # noqa: E731  [n, tokens, size]
        query, key, value = split(x(0), heads), split(x(1), groups), split(x(2), groups)
        count, size = query.shape[1], query.shape[2]
        at = np.arange(self.length - count, self.length)
        cosine, sine = x(7)[at].astype(np.float64), x(8)[at].astype(np.float64)

        def rotated(v):
            low, high = v[..., :size // 2], v[..., size // 2:]
            return np.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)

        query, key = rotated(query), rotated(key)
        if node.name in self.past:
            key, value = (np.concatenate([before, now], axis=1) for before, now in zip(self.past[node.name], (key, value)))
        self.past[node.name] = key, value
        out = np.empty((heads, count, size))
        hidden = np.arange(self.length)[None, :] > at[:, None]
        for head in range(heads):
            scores = query[head] @ key[head * groups // heads].T / np.sqrt(size)
            scores[hidden] = -np.inf
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            out[head] = weights / weights.sum(axis=1, keepdims=True) @ value[head * groups // heads]
        return [out.transpose(1, 0, 2).reshape(1, count, -1), None, None]
