"""A network whose weights are stored in many ways, in ONNX and in float64 NumPy, with low-rank adapters beside its weights."""
import json
import struct

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZES = [32, 48, 32, 48, 32, 40, 24, 8]
LAYERS = ["gemm", "nbits4", "nbits2", "nbits8", "int8", "float16", "plain"]


def write_safetensors(path, tensors, metadata=None):
    header, data = ({"__metadata__": metadata} if metadata else {}), b""
    names = {"float32": "F32", "float16": "F16", "float64": "F64", "int32": "I32"}
    for name, value in tensors.items():
        header[name] = {"dtype": names[str(value.dtype)], "shape": list(value.shape), "data_offsets": [len(data), len(data) + value.nbytes]}
        data += value.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    types, tensors = {"F32": np.float32, "F64": np.float64}, {}
    for name, about in header.items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in about["data_offsets"])
            tensors[name] = np.frombuffer(content[begin:end], types[about["dtype"]]).reshape(about["shape"])
    return tensors, header.get("__metadata__", {})


def random_adapters(layers, rank, seed, dtype=np.float32):
    """A [inputs, rank] and B [rank, outputs] of each layer."""
    rng = np.random.default_rng(seed)
    shapes = {name: (SIZES[k], SIZES[k + 1]) for k, name in enumerate(LAYERS)}
    return {name: tuple((rng.standard_normal(s) / np.sqrt(s[0])).astype(dtype) for s in ((shapes[name][0], rank), (rank, shapes[name][1]))) for name in layers}


def write_adapters(path, adapters, metadata):
    tensors = {}
    for name, (a, b) in adapters.items():
        tensors[f"base_model.model.{name}.lora_A.weight"] = np.ascontiguousarray(a.T)
        tensors[f"base_model.model.{name}.lora_B.weight"] = np.ascontiguousarray(b.T)
    write_safetensors(path, tensors, metadata)


class Network:
    """x [N, 32] -> y [N, 8]: Gemm of a transposed weight, MatMulNBits of 4, 2 and 8 bits, MatMul of int8 behind DequantizeLinear, MatMul
    of float16 behind Cast and Transpose, and a plain MatMul, tanh between them. `narrow` false: all are plain but the first."""

    def __init__(self, seed=0, narrow=True):
        rng = np.random.default_rng(seed)
        self.weights, nodes, constants, x = {}, [], {}, "x"
        for k, name in enumerate(LAYERS):
            depth, columns = SIZES[k], SIZES[k + 1]
            w = (rng.standard_normal((depth, columns)) / np.sqrt(depth)).astype(np.float32)
            kind, y = name if narrow or name == "gemm" else "plain", f"{name}_y"
            if kind == "gemm":
                constants[f"{name}.weight"], constants[f"{name}.bias"] = np.ascontiguousarray(w.T), np.float32(rng.standard_normal(columns) / 5)
                nodes.append(helper.make_node("Gemm", [x, f"{name}.weight", f"{name}.bias"], [y], name=name, transB=1, alpha=0.5))
                self.bias = constants[f"{name}.bias"].astype(np.float64)
            elif kind.startswith("nbits"):
                bits = int(kind[-1])
                packed = rng.integers(0, 256, (columns, depth // 16, 2 * bits), dtype=np.uint8)
                scales = np.float32((0.5 + rng.random((columns, depth // 16))) * 4 / 2**bits / np.sqrt(depth))
                constants[f"{name}.qweight"], constants[f"{name}.scales"] = packed, scales
                nodes.append(helper.make_node("MatMulNBits", [x, f"{name}.qweight", f"{name}.scales"], [y], name=name, domain="com.microsoft", K=depth, N=columns, bits=bits, block_size=16))
                numbers = (packed[..., None] >> np.arange(0, 8, bits)) & (2**bits - 1)
                numbers = numbers.reshape(columns, depth // 16, 16).astype(np.float64) - 2 ** (bits - 1)
                w = (numbers * scales[..., None]).reshape(columns, depth).T
            elif kind == "int8":
                scale = np.float32(np.abs(w).max(0) / 127)
                constants[f"{name}.weight"], constants[f"{name}.weight_scale"] = np.int8(np.rint(w / scale)), scale
                nodes += [helper.make_node("DequantizeLinear", [f"{name}.weight", f"{name}.weight_scale"], [f"{name}_w"], name=f"{name}_w", axis=1), helper.make_node("MatMul", [x, f"{name}_w"], [y], name=name)]
                w = constants[f"{name}.weight"].astype(np.float64) * scale.astype(np.float64)
            elif kind == "float16":
                constants[f"{name}.weight"] = np.ascontiguousarray(w.T.astype(np.float16))
                nodes += [helper.make_node("Cast", [f"{name}.weight"], [f"{name}_wide"], name=f"{name}_wide", to=TensorProto.FLOAT), helper.make_node("Transpose", [f"{name}_wide"], [f"{name}_w"], name=f"{name}_w", perm=[1, 0]), helper.make_node("MatMul", [x, f"{name}_w"], [y], name=name)]
                w = constants[f"{name}.weight"].T
            else:
                constants[f"{name}.weight"] = w
                nodes.append(helper.make_node("MatMul", [x, f"{name}.weight"], [y], name=name))
            self.weights[name] = w.astype(np.float64)
            x = y
            if k + 1 < len(LAYERS):
                nodes.append(helper.make_node("Tanh", [y], [f"{name}_t"], name=f"{name}_t"))
                x = f"{name}_t"
        types = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", size]) for n, size in (("x", SIZES[0]), (x, SIZES[-1]))]
        graph = helper.make_graph(nodes, "layers", types[:1], types[1:], [numpy_helper.from_array(v, n) for n, v in constants.items()])
        self.output = x
        self.model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)], ir_version=9)

    def save(self, path):
        onnx.save(self.model, path)

    def forward(self, x, adapters, scale):
        """y, and for each layer its input and x A."""
        x, kept = x.astype(np.float64), []
        for k, name in enumerate(LAYERS):
            y, low, factor = x @ self.weights[name], None, 0.5 if name == "gemm" else 1
            if name in adapters:
                a, b = (m.astype(np.float64) for m in adapters[name])
                low = x @ a
                y = y + scale * (low @ b)
            y = factor * y + (self.bias if name == "gemm" else 0)
            kept.append((x, low))
            x = np.tanh(y) if k + 1 < len(LAYERS) else y
        return x, kept

    def gradients(self, x, t, adapters, scale):
        """The mean of squares of y - t, and its derivatives by every A and B."""
        y, kept = self.forward(x, adapters, scale)
        loss, dy, found = np.square(y - t).mean(), 2 * (y - t) / y.size, {}
        for k in reversed(range(len(LAYERS))):
            name, (x, low) = LAYERS[k], kept[k]
            dy = dy * (0.5 if name == "gemm" else 1)
            dx = dy @ self.weights[name].T
            if low is not None:
                a, b = (m.astype(np.float64) for m in adapters[name])
                found[name] = (scale * x.T @ (dy @ b.T), scale * low.T @ dy)
                dx += scale * (dy @ b.T) @ a.T
            dy = dx * (1 - np.square(x)) if k else dx
        return loss, found
