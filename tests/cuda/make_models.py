"""Small models for the schedules of the CUDA target, as case folders without expected outputs (the reference evaluator
knows them): large enough that contractions are tiled, rows shared by a block and scatters owned by threads."""
import pathlib

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
random = np.random.default_rng(7)


def values(*shape):
    return random.standard_normal(shape).astype(np.float32)


def write(folder, name, nodes, inputs, outputs=("y",), constants=None, opset=17, dtype=FLOAT):
    """`inputs`: {name: array}; `constants`: {name: array}, parameters of the model."""
    typed = lambda key, a: helper.make_tensor_value_info(key, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
    graph = helper.make_graph(
        nodes, name, [typed(k, a) for k, a in inputs.items()], [helper.make_empty_tensor_value_info(o) for o in outputs],
        [numpy_helper.from_array(np.asarray(a), k) for k, a in (constants or {}).items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    for output in model.graph.output:
        output.type.tensor_type.elem_type = dtype
    case = folder / name
    (case / "test_data_set_0").mkdir(parents=True, exist_ok=True)
    onnx.save(model, case / "model.onnx")
    for k, (key, array) in enumerate(inputs.items()):
        (case / f"test_data_set_0/input_{k}.pb").write_bytes(numpy_helper.from_array(array, key).SerializeToString())


def convolutions(folder):
    for stride in (1, 2):
        for groups in (1, 4):
            nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=[1] * 4, strides=[stride] * 2, group=groups), helper.make_node("Relu", ["c"], ["y"])]
            write(folder, f"conv_3x3_stride_{stride}_groups_{groups}", nodes, {"x": values(2, 20, 13, 14)}, constants={"w": values(24, 20 // groups, 3, 3), "b": values(24)})
    write(folder, "conv_transposed", [helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], pads=[1] * 4)],
          {"x": values(2, 18, 7, 9)}, constants={"w": values(18, 20, 4, 4)})


def rows(folder):
    for width in (7, 100, 3001, 20000):  # one thread, one block, a large block, scratch in global memory
        write(folder, f"softmax_{width}", [helper.make_node("Softmax", ["x"], ["y"])], {"x": values(3, 5, width)})
    write(folder, "layer_norm", [helper.make_node("LayerNormalization", ["x", "s", "b"], ["y"])], {"x": values(9, 700)}, constants={"s": values(700), "b": values(700)})
    write(folder, "sums", [helper.make_node("ReduceSum", ["x", "a"], ["p"]), helper.make_node("ReduceMax", ["x"], ["q"], axes=[0]), helper.make_node("Add", ["p", "q"], ["y"])],
          {"x": values(300, 40)}, constants={"a": np.array([1], np.int64)})
    for word, operator in (("all", "ReduceMin"), ("any", "ReduceMax")):
        write(folder, f"{word}_true", [helper.make_node(operator, ["x", "a"], ["b"], keepdims=0), helper.make_node("Where", ["b", "p", "q"], ["y"])],
              {"x": random.random((4, 90)) < (0.98 if word == "all" else 0.02), "p": values(4), "q": values(4)}, constants={"a": np.array([1], np.int64)}, opset=20)
    write(folder, "product_of_all", [helper.make_node("ReduceProd", ["x"], ["y"])], {"x": 1 + values(50, 60) * np.float32(0.01)})


def narrow_weights(folder):
    """Products with weights that stay narrow where rows are few, and find them widened where they are not: numbers of 8 bits with scales by column or in blocks
    of steps, columns last or first, of a half type, one weight for two products and for a product and a Gather."""
    whole = lambda *shape: random.integers(-128, 128, shape).astype(np.int8)
    scales = lambda *shape: (random.random(shape) + 0.5).astype(np.float32) * np.float32(0.01)
    for rows in (1, 3, 12):
        x, by_column = {"x": values(rows, 320)}, {"q": whole(320, 50), "s": scales(50), "b": values(50)}
        widened = helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=1)
        product = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add", ["p", "b"], ["r"]), helper.make_node("Sigmoid", ["r"], ["y"])]
        write(folder, f"narrow_columns_{rows}", [widened, *product], x, constants=by_column)
        turned = [helper.make_node("DequantizeLinear", ["q", "s"], ["v"], axis=0), helper.make_node("Transpose", ["v"], ["w"], perm=[1, 0])]
        write(folder, f"narrow_rows_{rows}", [*turned, *product], x, constants={"q": whole(50, 320), "s": scales(50), "b": values(50)})
        blocks = {"q": whole(320, 50).view(np.uint8), "s": scales(10, 50), "z": whole(10, 50).view(np.uint8), "b": values(50)}
        write(folder, f"narrow_blocks_{rows}", [helper.make_node("DequantizeLinear", ["q", "s", "z"], ["w"], axis=0, block_size=32), *product], x, constants=blocks, opset=21)
        half = {"q": values(320, 50).astype(np.float16), "b": values(50)}
        write(folder, f"narrow_half_{rows}", [helper.make_node("Cast", ["q"], ["w"], to=FLOAT), *product], x, constants=half)
        twice = [widened, helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Tanh", ["x"], ["t"]), helper.make_node("MatMul", ["t", "w"], ["r"]), helper.make_node("Sub", ["p", "r"], ["y"])]
        write(folder, f"narrow_twice_{rows}", twice, x, constants=by_column)
        read = [widened, helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Gather", ["w", "k"], ["g"], axis=0), helper.make_node("Add", ["p", "g"], ["y"])]
        write(folder, f"narrow_and_read_{rows}", read, {**x, "k": np.array(7)}, constants=by_column)


def two_passes(folder):
    """Reductions to few results: parts side by side, then the parts. Equal parts and a shorter last one, results that lie together, every way to reduce, rows that come apart, products."""
    def reduced(name, operator, x, axes, after=("Tanh",), opset=18, **more):
        nodes = [helper.make_node(operator, ["x", "a"], ["r"], keepdims=0)] + [helper.make_node(after[0], ["r"], ["y"])] * bool(after)
        nodes[-1].output[0] = "y"
        write(folder, name, nodes, {"x": x}, constants={"a": np.array(axes, np.int64)}, opset=opset, **more)

    reduced("parts_of_all", "ReduceSum", values(40000) * np.float32(0.01), [0])
    reduced("parts_of_a_prime", "ReduceMax", values(50021), [0])
    reduced("parts_of_columns", "ReduceMean", values(2400, 50), [0])
    reduced("parts_of_channels", "ReduceMean", values(8, 3, 60, 50), [0, 2, 3])
    reduced("parts_of_a_product", "ReduceProd", 1 + values(40000) * np.float32(0.001), [0])
    reduced("parts_of_bool", "ReduceMin", random.random((2, 40000)) < 0.99997, [1], after=("Not",), opset=20, dtype=TensorProto.BOOL)
    reduced("parts_of_float16", "ReduceSum", (values(20, 3600) * np.float32(0.01)).astype(np.float16), [0, 1], dtype=TensorProto.FLOAT16)
    nodes = [helper.make_node("ReduceMean", ["x", "a"], ["m"]), helper.make_node("Sub", ["x", "m"], ["d"]), helper.make_node("Mul", ["d", "d"], ["q"]), helper.make_node("ReduceMean", ["q", "a"], ["v"]),
             helper.make_node("Add", ["v", "e"], ["w"]), helper.make_node("Sqrt", ["w"], ["s"]), helper.make_node("Div", ["d", "s"], ["y"])]
    write(folder, "parts_of_rows", nodes, {"x": values(3, 2, 190, 200)}, constants={"a": np.array([0, 2, 3], np.int64), "e": np.array(1e-5, np.float32)}, opset=18)
    nodes = [helper.make_node("ReduceMean", ["x", "a"], ["m"]), helper.make_node("Sub", ["x", "m"], ["d"]), helper.make_node("Mul", ["d", "d"], ["q"]), helper.make_node("ReduceMean", ["q", "a"], ["v"]), helper.make_node("Div", ["d", "v"], ["y"])]
    write(folder, "parts_of_rows_across", nodes, {"x": values(2, 300, 1800)}, constants={"a": np.array([1], np.int64)}, opset=18)
    write(folder, "parts_of_a_softmax", [helper.make_node("Softmax", ["x"], ["y"])], {"x": values(2, 70000)})
    write(folder, "parts_of_a_vector_product", [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": values(1, 2000)}, constants={"w": values(2000, 64)})
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    write(folder, "parts_of_a_matmul", nodes, {"x": values(40, 4099)}, constants={"w": values(4099, 36), "b": values(36)})


def packs(folder):
    """Element-wise kernels that read and write 16 bytes at once: broadcast operands, every width of element, sizes that do not divide."""
    nodes = [helper.make_node("Add", ["x", "row"], ["a"]), helper.make_node("Mul", ["a", "column"], ["m"]), helper.make_node("Relu", ["m"], ["y"])]
    for name, height, width in (("packs", 64, 256), ("packs_odd", 65, 333)):
        write(folder, name, nodes, {"x": values(height, width)}, constants={"row": values(width), "column": values(height, 1)})
    write(folder, "packs_float16", nodes, {"x": values(64, 256).astype(np.float16)}, constants={"row": values(256).astype(np.float16), "column": values(64, 1).astype(np.float16)},
          dtype=TensorProto.FLOAT16)
    write(folder, "packs_of_two_types", [helper.make_node("Cast", ["x"], ["c"], to=FLOAT), helper.make_node("Add", ["c", "row"], ["a"]), helper.make_node("Tanh", ["a"], ["y"])],
          {"x": values(64, 256).astype(np.float16)}, constants={"row": values(256)})
    write(folder, "packs_double", [helper.make_node("Sigmoid", ["x"], ["y"])], {"x": values(100, 260).astype(np.float64)}, dtype=TensorProto.DOUBLE)
    write(folder, "packs_not_aligned", [helper.make_node("Slice", ["x", "begin", "end", "axes"], ["y"])], {"x": values(64, 257)},
          constants={"begin": np.array([1], np.int64), "end": np.array([257], np.int64), "axes": np.array([1], np.int64)})


def alike(folder):
    """The same work on values of several sizes: one kernel. One of its results is read again, which comes behind it."""
    for name, dtype in (("alike", np.float32), ("alike_float16", np.float16)):
        sizes = {"a": (5, 3), "b": (700,), "c": (2, 3, 50), "d": (1,), "e": (64, 4), "f": (9001,)}
        nodes = [n for k in sizes for n in (helper.make_node("Mul", [k, "s"], ["m" + k]), helper.make_node("Tanh", ["m" + k], ["y" + k]))]
        nodes.append(helper.make_node("ReduceSum", ["ye"], ["z"]))
        write(folder, name, nodes, {k: values(*size).astype(dtype) for k, size in sizes.items()}, constants={"s": np.array(0.5, dtype)}, dtype=TensorProto.FLOAT if dtype == np.float32 else TensorProto.FLOAT16,
              outputs=["y" + k for k in sizes] + ["z"])


    # Derivatives of the sum of these, each weighted by its place, are its place alone.
    write(folder, "alike_places", [helper.make_node("Neg", [k], ["y" + k]) for k in "ab"], {"a": values(5, 11), "b": values(70)}, outputs=("ya", "yb"))


def transposes(folder):
    """Tiles through shared memory: sides that fill no tile, work on the way, two operands that lie across, three axes."""
    write(folder, "transposed", [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]), helper.make_node("Add", ["t", "row"], ["a"]), helper.make_node("Tanh", ["a"], ["y"])],
          {"x": values(70, 45)}, constants={"row": values(70)})
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 3, 1]), helper.make_node("Transpose", ["z"], ["u"], perm=[0, 2, 3, 1]), helper.make_node("Mul", ["t", "u"], ["y"])]
    write(folder, "transposed_channels", nodes, {"x": values(2, 40, 6, 11), "z": values(2, 40, 6, 11)})
    write(folder, "transposed_heads", [helper.make_node("Transpose", ["x"], ["y"], perm=[0, 2, 3, 1])], {"x": values(2, 64, 3, 32).astype(np.float16)}, dtype=TensorProto.FLOAT16)


def products(folder):
    write(folder, "matmul", [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Tanh", ["m"], ["y"])], {"x": values(50, 70)}, constants={"w": values(70, 33)})
    write(folder, "matmul_transposed", [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transA=1, transB=1)], {"x": values(70, 130)}, constants={"w": values(65, 70), "b": values(65)})
    write(folder, "vector_product", [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": values(1, 500)}, constants={"w": values(500, 90)})
    nodes = [helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "kt"], ["s"]), helper.make_node("Softmax", ["s"], ["p"]),
             helper.make_node("MatMul", ["p", "v"], ["y"])]
    write(folder, "attention", nodes, {"q": values(2, 2, 37, 24), "k": values(2, 2, 41, 24), "v": values(2, 2, 41, 24)})


def attentions(folder):
    """Streamed softmax: rows and columns that fill no tile, a causal mask of -infinity, scales, wide heads, rows that see nothing in their first tile; narrow types, whose heads fill no instruction, and enough blocks for several warps each."""
    def attention(name, heads, rows, columns, depth, width, mask=None, kind=np.float32):
        nodes = [helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", ["q", "kt"], ["s0"]), helper.make_node("Mul", ["s0", "scale"], ["s1"])]
        nodes += [helper.make_node("Add", ["s1", "mask"], ["s2"])] if mask is not None else []
        nodes += [helper.make_node("Softmax", ["s2" if mask is not None else "s1"], ["p"]), helper.make_node("MatMul", ["p", "v"], ["y"])]
        constants = {"scale": np.array(depth ** -0.5, kind), **({"mask": mask.astype(kind)} if mask is not None else {})}
        inputs = {"q": values(1, heads, rows, depth), "k": values(1, heads, columns, depth) * 3, "v": values(1, heads, columns, width)}
        write(folder, name, nodes, {key: a.astype(kind) for key, a in inputs.items()}, constants=constants, dtype=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))

    attention("attention_long", 2, 70, 150, 40, 24)
    attention("attention_wide", 1, 33, 65, 128, 128)
    attention("attention_causal", 2, 80, 80, 32, 32, np.where(np.tri(80) > 0, 0, -np.inf))
    attention("attention_late", 1, 40, 70, 16, 20, np.where(np.arange(70) >= 40, 0, -np.inf)[None, :] + np.zeros((40, 1)))
    attention("tensor_attention_float16", 2, 70, 150, 40, 24, kind=np.float16)
    attention("tensor_attention_bfloat16", 64, 40, 42, 8, 8, np.where(np.tri(40, 42) > 0, 0, -np.inf), kind=ml_dtypes.bfloat16)


def library_products(folder):
    """What cuBLASLt knows: transpositions, batches, bias, residual, relu, half types."""
    write(folder, "gemm_bias", [helper.make_node("Gemm", ["x", "w", "b"], ["y"], alpha=0.5)], {"x": values(48, 40)}, constants={"w": values(40, 64), "b": values(64)})
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["a"]), helper.make_node("Add", ["a", "r"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    write(folder, "gemm_residual_relu", nodes, {"x": values(3, 16, 40), "r": values(3, 16, 64)}, constants={"w": values(40, 64), "b": values(64)})
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["m"], transA=1, transB=1), helper.make_node("Relu", ["m"], ["y"])]
    write(folder, "gemm_transposed_relu", nodes, {"x": values(24, 33)}, constants={"w": values(50, 24), "b": values(50)})
    for name, approximate in (("gemm_gelu", "none"), ("gemm_gelu_tanh", "tanh")):
        nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["m"]), helper.make_node("Gelu", ["m"], ["y"], approximate=approximate)]
        write(folder, name, nodes, {"x": values(48, 40)}, constants={"w": values(40, 64), "b": values(64)}, opset=20)
    constants = [helper.make_node("Constant", [], [name], value_float=value) for name, value in (("three", 3.0), ("cubic", 0.044715), ("slope", float(np.sqrt(2 / np.pi))), ("one", 1.0), ("half", 0.5))]
    nodes = constants + [helper.make_node(op, inputs, [out]) for op, inputs, out in (("MatMul", ["x", "w"], "m"), ("Pow", ["m", "three"], "p"), ("Mul", ["p", "cubic"], "c"), ("Add", ["m", "c"], "s"), ("Mul", ["s", "slope"], "u"),
             ("Tanh", ["u"], "t"), ("Add", ["t", "one"], "a"), ("Mul", ["m", "half"], "h"), ("Mul", ["h", "a"], "y"))]   # as exporters write it
    write(folder, "matmul_gelu_of_parts", nodes, {"x": values(48, 40)}, constants={"w": values(40, 64)})
    # Of such a network's derivatives products have a second result or are followed by gelu's gradient; the second weight lies across.
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["z"]), helper.make_node("Gelu", ["z"], ["h"], approximate="tanh"), helper.make_node("Gemm", ["h", "v", "c"], ["y"], transB=1)]
    for word, kind in (("", np.float32), ("_float16", np.float16), ("_bfloat16", ml_dtypes.bfloat16)):
        inputs = {"x": values(48, 40), "w": values(40, 64) * np.float32(0.2), "b": values(64), "v": values(24, 64) * np.float32(0.2), "c": values(24)}
        write(folder, f"layers_gelu{word}", nodes, {key: a.astype(kind) for key, a in inputs.items()}, opset=20, dtype=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
    write(folder, "conv_1x1", [helper.make_node("Conv", ["x", "w"], ["y"])], {"x": values(2, 24, 6, 7)}, constants={"w": values(32, 24, 1, 1)})
    write(folder, "matmul_batches", [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": values(3, 4, 20, 24), "w": values(3, 4, 24, 18)})
    for word, kind, dtype in (("float16", np.float16, TensorProto.FLOAT16), ("bfloat16", ml_dtypes.bfloat16, TensorProto.BFLOAT16)):
        nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["a"]), helper.make_node("Relu", ["a"], ["y"])]
        write(folder, f"matmul_{word}", nodes, {"x": values(32, 48).astype(kind)}, constants={"w": values(48, 40).astype(kind), "b": values(40).astype(kind)}, dtype=dtype)


def library_convolutions(folder):
    """What cuDNN knows: one to three spatial axes, strides, dilations, padding on one side, groups, epilogues, half types."""
    def conv(name, x, w, *, terms=(), after=(), dtype=FLOAT, **attributes):
        nodes, last = [helper.make_node("Conv", ["x", "w", "b"], ["c"], **attributes)], "c"
        for k, term in enumerate(terms):
            nodes.append(helper.make_node("Add", [last, term], [f"s{k}"]))
            last = f"s{k}"
        for k, (operator, *more) in enumerate(after):
            nodes.append(helper.make_node(operator, [last, *more], [f"a{k}"]))
            last = f"a{k}"
        nodes[-1].output[0] = "y"
        nodes[:0] = [helper.make_node("Constant", [], [bound], value_float=number) for bound, number in (("low", 0.0), ("high", 1.5)) if any(bound in n.input for n in nodes)]
        kind = helper.tensor_dtype_to_np_dtype(dtype)
        spatial = [1] * (x.ndim - 2)
        constants = {"w": w.astype(kind), "b": values(w.shape[0]).astype(kind), "t": values(w.shape[0], *spatial).astype(kind)}
        used = {i for n in nodes for i in n.input}
        inputs = {"x": x.astype(kind)}
        if "r" in terms:
            window = np.array(w.shape[2:])
            pads = np.array(attributes.get("pads", [0] * (2 * len(window)))).reshape(2, -1).sum(0)
            inputs["r"] = values(x.shape[0], w.shape[0], *((np.array(x.shape[2:]) + pads - window) // np.array(attributes.get("strides", spatial)) + 1)).astype(kind)
        write(folder, name, nodes, inputs, constants={k: v for k, v in constants.items() if k in used}, dtype=dtype)

    conv("library_conv_residual", values(2, 6, 9, 8), values(10, 6, 3, 3), terms=("r",), after=[("Relu",)], pads=[1] * 4)
    conv("library_conv_two_biases", values(2, 6, 9, 8), values(20, 6, 1, 1), terms=("r", "t"), after=[("Relu",)], strides=[2, 2])
    conv("library_conv_clip", values(2, 6, 9, 8), values(10, 6, 5, 3), after=[("Clip", "low", "high")], pads=[2, 0, 1, 2])
    conv("library_conv_depthwise", values(2, 12, 9, 8), values(12, 1, 3, 3), after=[("Relu",)], group=12, pads=[1] * 4)
    conv("library_conv_depthwise_strided", values(2, 12, 9, 8), values(24, 1, 3, 3), after=[("Relu",)], group=12, pads=[1] * 4, strides=[2, 2])
    conv("library_conv_1x1_strided_residual", values(2, 12, 9, 8), values(24, 12, 1, 1), terms=("r",), after=[("Relu",)], strides=[2, 2])
    conv("library_conv_dilated_groups", values(1, 8, 15, 14), values(12, 4, 3, 3), after=[("Relu",)], group=2, dilations=[2, 3], strides=[2, 1], pads=[2, 3, 2, 3])
    conv("library_conv_1d", values(2, 5, 40), values(7, 5, 4), strides=[3], pads=[2, 1])
    conv("library_conv_3d", values(1, 4, 6, 7, 5), values(6, 4, 3, 2, 3), pads=[1, 0, 1, 1, 1, 1])
    conv("library_conv_float16", values(2, 6, 9, 8), values(10, 6, 3, 3), after=[("Relu",)], dtype=TensorProto.FLOAT16)
    conv("library_conv_bfloat16", values(2, 6, 9, 8), values(10, 6, 3, 3), after=[("Relu",)], dtype=TensorProto.BFLOAT16)
    nodes = [helper.make_node("Conv", ["x", w, b], [c], pads=[1] * 4) for w, b, c in ("wbc", "vde")] + [helper.make_node("Add", ["c", "e"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    write(folder, "library_conv_of_two_sums", nodes, {"x": values(2, 6, 9, 8)}, constants={"w": values(10, 6, 3, 3), "b": values(10), "v": values(10, 6, 3, 3), "d": values(10)})
    conv("library_conv_not", values(2, 6, 9, 8), values(10, 6, 3, 3), after=[("Tanh",)])


def branches(folder):
    """Two halves that do not read each other's values."""
    nodes = [helper.make_node(op, [*inputs(k)], [out + k], **more) for op, inputs, out, more in (
        ("MatMul", lambda k: ("x", "w" + k), "m", {}), ("Softmax", lambda k: ("m" + k,), "s", {"axis": 0}), ("Tanh", lambda k: ("s" + k,), "t", {})) for k in "ab"]
    write(folder, "two_branches", nodes + [helper.make_node("MatMul", ["ta", "tb"], ["y"])], {"x": values(40, 30)}, constants={"wa": values(30, 40), "wb": values(30, 40)})


def tensor_cores(folder):
    """Products of narrow numbers, large enough for whole warps, of sizes that no tile divides."""
    def conv(name, x, w, groups=1, **more):
        write(folder, name, [helper.make_node("Conv", ["x", "w"], ["c"], pads=[1] * 4, group=groups), helper.make_node("Relu", ["c"], ["y"])], {"x": x}, constants={"w": w}, opset=22, **more)

    half, brain = np.float16, ml_dtypes.bfloat16
    conv("tensor_conv_float16", values(2, 20, 9, 10).astype(half), values(40, 20, 3, 3).astype(half), dtype=TensorProto.FLOAT16)
    conv("tensor_conv_bfloat16", values(2, 20, 9, 10).astype(brain), values(40, 20, 3, 3).astype(brain), dtype=TensorProto.BFLOAT16)
    write(folder, "tensor_matmul_float16", [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": values(3, 70, 100).astype(half)}, constants={"w": values(100, 90).astype(half)}, dtype=TensorProto.FLOAT16)
    conv("tensor_conv_float64", values(2, 20, 9, 10).astype(np.float64), values(40, 20, 3, 3).astype(np.float64), dtype=TensorProto.DOUBLE)
    write(folder, "tensor_matmul_float64", [helper.make_node("MatMul", ["x", "w"], ["y"])], {"x": values(3, 70, 100).astype(np.float64)}, constants={"w": values(100, 90).astype(np.float64)}, dtype=TensorProto.DOUBLE)
    write(folder, "tensor_gemm_float64", [helper.make_node("Gemm", ["x", "w", "b"], ["y"], transA=1, transB=1)], {"x": values(70, 130).astype(np.float64)}, constants={"w": values(65, 70).astype(np.float64), "b": values(65).astype(np.float64)}, dtype=TensorProto.DOUBLE)
    for left, right in ((np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)):
        bounds = lambda t: (np.iinfo(t).min, np.iinfo(t).max + 1)
        write(folder, f"tensor_{np.dtype(left).name}_{np.dtype(right).name}", [helper.make_node("MatMulInteger", ["x", "w"], ["y"])], {"x": random.integers(*bounds(left), (70, 100)).astype(left)},
              constants={"w": random.integers(*bounds(right), (100, 90)).astype(right)}, dtype=TensorProto.INT32)
    # Results that a thread stores several of at once, with a residual and a bias that are read likewise; so many matrices that tiles are wide.
    nodes = [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Add", ["m", "b"], ["a"]), helper.make_node("Add", ["a", "r"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    for kind in (half, np.float32):
        of = lambda *shape: values(*shape).astype(kind)
        write(folder, f"tensor_residual_{np.dtype(kind).name}", nodes, {"x": of(128, 32, 24), "w": of(128, 24, 68), "r": of(128, 32, 68)}, constants={"b": of(68)}, dtype=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
    conv("tensor_conv_even_float16", values(2, 20, 12, 12).astype(half), values(40, 20, 3, 3).astype(half), dtype=TensorProto.FLOAT16)
    write(folder, "tensor_products_of_floats", [helper.make_node("MatMul", ["x", "w"], ["m"]), helper.make_node("Tanh", ["m"], ["y"])], {"x": values(70, 100) * np.float32(0.1)}, constants={"w": values(100, 90)})


def layers(folder):
    """More weights than one would like to have on the card at once."""
    nodes, constants, last = [], {}, "x"
    for k, width in enumerate((64, 96, 64, 48, 80, 64)):
        before = constants[f"w{k - 1}"].shape[1] if k else 40
        constants.update({f"w{k}": values(before, width) * np.float32(before ** -0.5), f"b{k}": values(width)})
        nodes += [helper.make_node("Gemm", [last, f"w{k}", f"b{k}"], [f"m{k}"]), helper.make_node("Softmax" if k % 2 else "Tanh", [f"m{k}"], [f"y{k}"])]
        last = f"y{k}"
    nodes[-1].output[0] = "y"
    write(folder, "layers", nodes, {"x": values(24, 40)}, constants=constants)


def data_dependent(folder):
    nodes = [helper.make_node("Flatten", ["x"], ["f"], axis=0), helper.make_node("Squeeze", ["f"], ["v"]), helper.make_node("Relu", ["v"], ["r"]), helper.make_node("NonZero", ["r"], ["n"]),
             helper.make_node("Squeeze", ["n", "zero"], ["i"]), helper.make_node("Gather", ["v", "i"], ["g"]), helper.make_node("Exp", ["g"], ["y"])]
    write(folder, "nonzero_gather", nodes, {"x": values(9, 11)}, constants={"zero": np.array([0], np.int64)})
    # Values whose size only the data know, one after the other: each is needed for a short while.
    nodes, last = [], "x"
    for k in range(5):
        nodes += [helper.make_node("Greater", [last, "less"], [f"c{k}"]), helper.make_node("Compress", [last, f"c{k}"], [f"g{k}"], axis=0), helper.make_node("Tanh", [f"g{k}"], [f"t{k}"]),
                  helper.make_node("ReduceMax", [f"t{k}"], [f"s{k}"]), helper.make_node("Div", [f"t{k}", f"s{k}"], [f"n{k}"])]
        last = f"n{k}"
    nodes[-1].output[0] = "y"
    write(folder, "passing_values", nodes, {"x": np.abs(values(3000))}, constants={"less": np.float32(0.3)})
    write(folder, "dft_along_an_input", [helper.make_node("DFT", ["x", "", "axis"], ["y"])], {"x": values(1, 10, 10, 1), "axis": np.array(1, np.int64)}, opset=20)   # a tile has all of the sum
    write(folder, "rows_gathered", [helper.make_node("Gather", ["w", "i"], ["y"])], {"i": random.integers(0, 30, (6, 20))}, constants={"w": values(30, 48)})
    write(folder, "one_row", [helper.make_node("Gather", ["x", "first"], ["y"])], {"x": values(6, 20)}, constants={"first": np.array(0, np.int64)})
    write(folder, "scatter_added", [helper.make_node("ScatterElements", ["x", "i", "u"], ["y"], reduction="add")],
          {"x": values(400), "i": random.integers(0, 40, 900), "u": values(900)}, opset=18)
    body = helper.make_graph(
        [helper.make_node("MatMul", ["s", "w"], ["m"]), helper.make_node("Tanh", ["m"], ["next"]), helper.make_node("ReduceSum", ["next"], ["each"], keepdims=0), helper.make_node("Identity", ["c"], ["on"])],
        "body",
        [helper.make_tensor_value_info("k", TensorProto.INT64, []), helper.make_tensor_value_info("c", TensorProto.BOOL, []), helper.make_tensor_value_info("s", FLOAT, [17, 19])],
        [helper.make_tensor_value_info("on", TensorProto.BOOL, []), helper.make_tensor_value_info("next", FLOAT, [17, 19]), helper.make_tensor_value_info("each", FLOAT, [])])
    write(folder, "loop", [helper.make_node("Loop", ["trips", "", "x"], ["y", "sums"], body=body)], {"x": values(17, 19)}, outputs=("y", "sums"),
          constants={"trips": np.array(5, np.int64), "w": values(19, 19) * np.float32(0.3)})


def make_models(folder):
    folder = pathlib.Path(folder)
    for maker in (convolutions, rows, narrow_weights, two_passes, packs, alike, products, attentions, transposes, library_products, library_convolutions, branches, tensor_cores, layers, data_dependent):
        maker(folder)
    return folder
