"""Llama-like decoders as ONNX Runtime GenAI exports them, with random weights.

    python models/decoders/build.py OUT.onnx [--size tiny|20m|170m|1b] [--weights f32|f16|int8|int4|int2] [--block 32]
                                             [--zero-points] [--accuracy-level 0] [--seed 0] [--context N]

Inputs: input_ids int64 [batch_size, sequence_length], attention_mask int64 [batch_size, total_sequence_length] and a cache
past_key_values.N.key and .value [batch_size, key/value heads, past_sequence_length, head size] for each layer. Outputs:
logits and present.N.key, present.N.value. Operators of the com.microsoft domain: GroupQueryAttention with rotary positions,
SkipSimplifiedLayerNormalization, MatMulNBits. Weights lie in OUT.onnx.data.
"""
import argparse
import dataclasses
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclasses.dataclass
class Size:
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int
    context: int = 4608

    @property
    def head(self):
        return self.hidden // self.heads


SIZES = {
    "tiny": Size(64, 128, 2, 4, 2, 160, 64),
    "20m": Size(384, 1024, 6, 6, 6, 16384),
    "170m": Size(1024, 2816, 12, 16, 4, 24576),
    "1b": Size(2048, 5632, 22, 32, 4, 32000),
}


class Builder:
    def __init__(self, size, weights, block, zero_points, accuracy_level, seed):
        self.size, self.weights, self.block = size, weights, block
        self.zero_points, self.accuracy_level = zero_points, accuracy_level
        self.rng = np.random.default_rng(seed)
        self.nodes, self.initializers = [], []

    def constant(self, name, array):
        self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def node(self, kind, inputs, outputs, domain="", **attributes):
        outputs = [outputs] if isinstance(outputs, str) else outputs
        self.nodes.append(helper.make_node(kind, inputs, outputs, domain=domain, name=outputs[0] + "/" + kind, **attributes))
        return outputs[0]

    def microsoft(self, kind, inputs, outputs, **attributes):
        return self.node(kind, inputs, outputs, "com.microsoft", **attributes)

    def linear(self, x, depth, columns, out):
        """x @ W, W [depth, columns] with elements of about 1 / sqrt(depth)."""
        if self.weights in ("f32", "f16"):
            dtype = np.float32 if self.weights == "f32" else np.float16
            w = (self.rng.standard_normal((depth, columns), dtype=np.float32) / np.sqrt(depth)).astype(dtype)
            w = self.constant(out + ".weight", w)
            if dtype == np.float16:
                w = self.node("Cast", [w], out + ".wide", to=TensorProto.FLOAT)
            return self.node("MatMul", [x, w], out)
        bits = int(self.weights[3:])
        blocks = -(-depth // self.block)
        packed = self.rng.integers(0, 256, (columns, blocks, self.block * bits // 8), dtype=np.uint8)
        spread = (2**bits - 1) / np.sqrt(12)  # of equally likely numbers
        scale = (0.75 + 0.5 * self.rng.random((columns, blocks))) / spread / np.sqrt(depth)
        inputs = [x, self.constant(out + ".qweight", packed), self.constant(out + ".scales", scale.astype(np.float32))]
        if self.zero_points:
            middle = self.rng.integers(0, 256, (columns, (blocks * bits + 7) // 8), dtype=np.uint8)
            inputs.append(self.constant(out + ".qzeros", middle))
        return self.microsoft("MatMulNBits", inputs, out, K=depth, N=columns, bits=bits, block_size=self.block,
                              accuracy_level=self.accuracy_level)

    def gain(self, name):
        return self.constant(name, (1 + 0.1 * self.rng.standard_normal(self.size.hidden)).astype(np.float32))

    def build(self):
        s = self.size
        angles = np.outer(np.arange(s.context), 10000.0 ** (-np.arange(0, s.head, 2) / s.head))
        cosine = self.constant("cos_cache", np.cos(angles).astype(np.float32))
        sine = self.constant("sin_cache", np.sin(angles).astype(np.float32))
        embedding = self.constant("embed_tokens.weight",
                                  self.rng.standard_normal((s.vocabulary, s.hidden), dtype=np.float32))
        one, axis = self.constant("one", np.array(1, np.int64)), self.constant("axis", np.array([1], np.int64))
        sums = self.node("ReduceSum", ["attention_mask", axis], "tokens", keepdims=1)
        last = self.node("Cast", [self.node("Sub", [sums, one], "last")], "seqlens_k", to=TensorProto.INT32)
        length = self.node("Gather", [self.node("Shape", ["attention_mask"], "mask_shape"), one], "mask_length")
        total = self.node("Cast", [length], "total_length", to=TensorProto.INT32)
        residual = self.node("Gather", [embedding, "input_ids"], "embedded")
        x = self.node("SimplifiedLayerNormalization", [residual, self.gain("layers.0.input_norm.weight")],
                      "layers.0.input_norm", axis=-1, epsilon=1e-5)
        integers = {"input_ids": "sequence_length", "attention_mask": "total_sequence_length"}
        inputs = [helper.make_tensor_value_info(k, TensorProto.INT64, ["batch_size", v]) for k, v in integers.items()]
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT,
                                                 ["batch_size", "sequence_length", s.vocabulary])]
        for layer in range(s.layers):
            at = f"layers.{layer}."
            q = self.linear(x, s.hidden, s.heads * s.head, at + "q_proj")
            k = self.linear(x, s.hidden, s.kv_heads * s.head, at + "k_proj")
            v = self.linear(x, s.hidden, s.kv_heads * s.head, at + "v_proj")
            for kind in ("key", "value"):
                inputs.append(helper.make_tensor_value_info(f"past_key_values.{layer}.{kind}", TensorProto.FLOAT,
                                                            ["batch_size", s.kv_heads, "past_sequence_length", s.head]))
                shape = ["batch_size", s.kv_heads, "total_sequence_length", s.head]
                outputs.append(helper.make_tensor_value_info(f"present.{layer}.{kind}", TensorProto.FLOAT, shape))
            past = [f"past_key_values.{layer}.key", f"past_key_values.{layer}.value"]
            self.microsoft("GroupQueryAttention", [q, k, v, *past, last, total, cosine, sine],
                           [at + "attention", f"present.{layer}.key", f"present.{layer}.value"], num_heads=s.heads,
                           kv_num_heads=s.kv_heads, do_rotary=1)
            attended = self.linear(at + "attention", s.heads * s.head, s.hidden, at + "o_proj")
            self.microsoft("SkipSimplifiedLayerNormalization", [residual, attended, self.gain(at + "post_norm.weight")],
                           [at + "post_norm", "", "", at + "attended_sum"], epsilon=1e-5)
            gate = self.linear(at + "post_norm", s.hidden, s.intermediate, at + "gate_proj")
            up = self.linear(at + "post_norm", s.hidden, s.intermediate, at + "up_proj")
            silu = self.node("Mul", [gate, self.node("Sigmoid", [gate], at + "gate_sigmoid")], at + "silu")
            down = self.linear(self.node("Mul", [silu, up], at + "product"), s.intermediate, s.hidden, at + "down_proj")
            self.microsoft("SkipSimplifiedLayerNormalization",
                           [at + "attended_sum", down, self.gain(at + "next_norm.weight")], [at + "next_norm", "", "", at + "sum"], epsilon=1e-5)
            x, residual = at + "next_norm", at + "sum"
        self.linear(x, s.hidden, s.vocabulary, "logits")
        graph = helper.make_graph(self.nodes, "decoder", inputs, outputs, self.initializers)
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--size", choices=SIZES, default="170m")
    parser.add_argument("--weights", choices=["f32", "f16", "int8", "int4", "int2"], default="int4")
    parser.add_argument("--block", type=int, default=32)
    parser.add_argument("--zero-points", action="store_true")
    parser.add_argument("--accuracy-level", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--context", type=int, help="rows of the rotary tables")
    a = parser.parse_args()
    size = SIZES[a.size]
    size = dataclasses.replace(size, context=a.context or size.context)
    model = Builder(size, a.weights, a.block, a.zero_points, a.accuracy_level, a.seed).build()
    data = os.path.basename(a.out) + ".data"
    if os.path.exists(a.out + ".data"):
        os.remove(a.out + ".data")
    onnx.save(model, a.out, save_as_external_data=True, location=data, size_threshold=4096)


if __name__ == "__main__":
    main()
