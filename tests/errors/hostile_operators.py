"""Operators with attributes, shapes and constants that make no sense, or that ask for too much."""
import numpy as np
from onnx import TensorProto, helper

from case_list import FLOAT, INT64, array, info, model_of, node_model, refused, refused_node, run_with, works

INT32, BOOL = TensorProto.INT32, TensorProto.BOOL
MIN64, BIG = -(1 << 63), 1 << 62


def i64(*values):
    return np.array(values, np.int64)


def f32(*values):
    return np.array(values, np.float32)


image = [1, 4, 8, 8]
weight = np.ones((4, 4, 3, 3), np.float32)

# ---- types and shapes that do not fit ----
refused_node("H69", "add_float_and_int", "Add", [[2], (INT32, [2])], "float32|float")
refused_node("H69", "loss_weights_of_another_type", "SoftmaxCrossEntropyLoss", [[3, 5], (INT64, [3]), (INT64, [5])], "float32 and int64", reduction="mean")
refused_node("H70", "bad_broadcast", "Add", [[2, 3], [4, 5]], "3.*5|2.*4")
refused_node("H71", "matmul_k_mismatch", "MatMul", [[2, 3], [4, 5]], "3.*4")
refused_node("H72", "gemm_bias_mismatch", "Gemm", [[2, 3], [3, 4], [7]], "7")
refused_node("H73", "reshape_two_minus_one", "Reshape", [[2, 3], i64(-1, -1)], "-1")
refused_node("H74", "reshape_not_divisible", "Reshape", [[2, 3], i64(4, -1)], "6|4")
refused_node("H74", "reshape_other_count", "Reshape", [[2, 3], i64(7)], "7")
refused_node("H75", "reshape_minus_five", "Reshape", [[2, 3], i64(-5)], "-5")
refused_node("H76", "reshape_overflow", "Reshape", [[2, 3], i64(BIG, 4)], "6 elements against more than 2\\^63")
refused_node("H77", "reshape_allowzero_and_minus_one", "Reshape", [[2, 0], i64(0, -1)], "the_node", allowzero=1)

# ---- windows ----
refused_node("H78", "conv_stride_0", "Conv", [image, weight], "stride", strides=[0, 1])
refused_node("H79", "conv_dilation_0", "Conv", [image, weight], "dilation", dilations=[0, 1])
refused_node("H80", "conv_group_0", "Conv", [image, weight], "group", group=0)
refused_node("H81", "conv_group_3_of_4", "Conv", [image, weight], "group", group=3)
refused_node("H82", "conv_group_negative", "Conv", [image, weight], "group", group=-1)
refused_node("H83", "conv_kernel_larger_than_input", "Conv", [[1, 4, 2, 2], weight], "3")
refused_node("H84", "conv_pads_2_to_62", "Conv", [image, weight], "the_node", pads=[BIG, BIG, BIG, BIG])
refused_node("H85", "conv_pads_minus_2_to_62", "Conv", [image, weight], "the_node", pads=[-BIG] * 4)
refused_node("H86", "conv_kernel_shape_mismatch", "Conv", [image, weight], "kernel_shape|5", kernel_shape=[5, 5])
refused_node("H87", "conv_strides_rank", "Conv", [image, weight], "strides", strides=[1, 1, 1])
refused_node("H88", "max_pool_kernel_0", "MaxPool", [image], "kernel", kernel_shape=[0, 2])
refused_node("H89", "max_pool_stride_0", "MaxPool", [image], "stride", kernel_shape=[2, 2], strides=[0, 0])
refused_node("H90", "max_pool_pad_of_kernel_size", "MaxPool", [image], "pad", kernel_shape=[2, 2], pads=[2, 2, 2, 2])
refused_node("H91", "max_pool_dilation_2_to_62", "MaxPool", [image], "the_node", kernel_shape=[2, 2], dilations=[BIG, BIG])

# ---- axes, parts, indices ----
refused_node("H92", "transpose_axis_twice", "Transpose", [[2, 3]], "perm", perm=[0, 0])
refused_node("H93", "concat_axis_99", "Concat", [[2], [2]], "99", axis=99)
refused_node("H94", "split_sum_mismatch", "Split", [[6], i64(2, 2)], "the_node", outputs=["out0", "out1"])
refused_node("H95", "split_negative", "Split", [[6], i64(-2, 8)], "-2", outputs=["out0", "out1"])
refused_node("H96", "slice_step_0", "Slice", [[6], i64(0), i64(6), i64(0), i64(0)], "step")
table = np.arange(12, dtype=np.float32).reshape(3, 4)
refused_node("H98", "gather_index_out_of_range", "Gather", [table, i64(0, 3)], "3")
refused_node("H99", "gather_elements_index_out_of_range", "GatherElements", [table, np.array([[-9, 0]])], "-9")
refused_node("H100", "gather_nd_index_out_of_range", "GatherND", [table, np.array([[0, 99]])], "99")
refused_node("H101", "scatter_elements_index_out_of_range", "ScatterElements", [table, np.array([[7, 0]]), f32([1, 2])], "7", opset=18)
refused_node("H102", "scatter_nd_index_out_of_range", "ScatterND", [table, np.array([[5, 0]]), f32(1)], "5")

# ---- results that are too large or negative ----


def model_of_input(*shape):
    return model_of([helper.make_node("Relu", ["x"], ["y"])], [info("x", FLOAT, shape)], [info("y")])


@refused("H103", r'input "x" would be more than 8 EiB .*limit is .*--max-tensor-bytes')
def input_of_2_to_63_elements(folder):
    return model_of_input(2, (1 << 63) - 1, 32)


@refused("H103", r'input "x" would be [0-9]+ TiB .*limit is .*--max-tensor-bytes')
def input_of_2_to_40_elements(folder):
    return model_of_input(1 << 40)


refused_node("H103", "expand_2_to_40", "Expand", [[1], i64(1 << 40)], r"would be [0-9]+ TiB .*limit is .*--max-tensor-bytes")
refused_node("H104", "constant_of_shape_2_to_40", "ConstantOfShape", [i64(1 << 40)], r"would be [0-9]+ TiB .*limit is .*--max-tensor-bytes")
refused_node("H105", "constant_of_shape_2_to_66", "ConstantOfShape", [i64(1 << 33, 1 << 33)], "the_node")
refused_node("H105", "constant_of_shape_that_wraps_to_a_negative_count", "ConstantOfShape", [i64(2, 4, (1 << 63) - 2)], "limit|expected")
refused_node("H106", "constant_of_shape_negative", "ConstantOfShape", [i64(-1)], "-1")
refused_node("H107", "tile_billion_cubed", "Tile", [[2, 2, 2], i64(10**9, 10**9, 10**9)], "the_node")
refused_node("H108", "tile_negative", "Tile", [[2], i64(-2)], "-2")
refused_node("H109", "range_step_0", "Range", [np.array(0), np.array(5), np.array(0)], "the_node", output=(INT64, None))
refused_node("H110", "range_to_1e18", "Range", [np.array(0), np.array(10**18), np.array(1)], "the_node", output=(INT64, None))
refused_node("H111", "pad_2_to_62", "Pad", [[2], i64(BIG, BIG)], "the_node")
refused_node("H113", "expand_to_negative_size", "Expand", [[1], i64(-3)], "-3")
refused_node("H112", "pad_to_negative_size", "Pad", [[2], i64(-2, -2)], "the_node")
refused_node("H114", "resize_scale_0", "Resize", [[1, 1, 4, 4], None, f32(1, 1, 0, 0)], "the_node", mode="nearest")
refused_node("H115", "resize_scale_nan", "Resize", [[1, 1, 4, 4], None, f32(1, 1, np.nan, 2)], "the_node", mode="nearest")
refused_node("H116", "resize_scale_1e30", "Resize", [[1, 1, 4, 4], None, f32(1, 1, 1e30, 1e30)], "the_node", mode="nearest")
refused_node("H117", "top_k_of_more_than_there_are", "TopK", [[3], i64(9)], "9", outputs=["out0", "out1"])
refused_node("H118", "one_hot_depth_negative", "OneHot", [(INT64, [3]), np.array(-5), f32(0, 1)], "-5")
refused_node("H119", "one_hot_depth_2_to_40", "OneHot", [(INT64, [3]), np.array(1 << 40), f32(0, 1)], r"would be [0-9]+ TiB .*limit is .*--max-tensor-bytes")

# ---- integer arithmetic ----
refused_node("H120", "divide_constant_by_0", "Div", [i64(1, 2), i64(0, 1)], "the_node", output=(INT64, None))
refused_node("H122", "modulo_of_constant_by_0", "Mod", [i64(1, 2), i64(0, 1)], "the_node", output=(INT64, None))

# ---- the rest of the operators ----
refused_node("H126", "depth_to_space_0", "DepthToSpace", [[1, 4, 2, 2]], "blocksize", blocksize=0)
refused_node("H127", "group_normalization_0_groups", "GroupNormalization", [[1, 4, 2], f32(1), f32(0)], "the_node", opset=18, num_groups=0)
refused_node("H128", "lrn_size_0", "LRN", [[1, 4, 2, 2]], "the_node", size=0)
refused_node("H129", "einsum_malformed", "Einsum", [[2, 3], [3, 4]], "the_node", equation="ij,jk->->i(k")
refused_node("H130", "einsum_10000_letters", "Einsum", [[2]], "the_node", equation="i" * 10000 + "->i")
refused_node("H131", "reduce_same_axis_twice", "ReduceSum", [[2, 3], i64(0, 0)], "the_node")
refused_node("H133", "arg_max_over_nothing", "ArgMax", [[0, 3]], "the_node", output=(INT64, None), axis=0)
refused_node("H134", "lstm_mismatch", "LSTM", [[5, 1, 3], np.ones((1, 16, 7), np.float32), np.ones((1, 16, 4), np.float32)], "the_node", hidden_size=4)
refused_node("H135", "attention_without_heads", "Attention", [[1, 4, 8], [1, 4, 8], [1, 4, 8]], "the_node", opset=23, q_num_heads=0, kv_num_heads=0)
refused_node("H136", "max_unpool_index_out_of_range", "MaxUnpool", [np.ones((1, 1, 1, 1), np.float32), np.full((1, 1, 1, 1), 99)], "the_node", kernel_shape=[2, 2])
refused_node("H137", "roi_align_output_0", "RoiAlign", [[1, 1, 4, 4], [1, 4], (INT64, [1])], "the_node", output_height=0)
refused_node("H138", "roi_align_batch_out_of_range", "RoiAlign", [[1, 1, 4, 4], [1, 4], np.array([9])], "the_node")
refused_node("H139", "col2im_block_0", "Col2Im", [[1, 4, 4], i64(4, 4), i64(0, 0)], "the_node", opset=18)
refused_node("H140", "tf_idf_bad_pool", "TfIdfVectorizer", [(INT64, [4])], "the_node", mode="TF", min_gram_length=1, max_gram_length=2,
             max_skip_count=0, ngram_counts=[0, 9], ngram_indexes=[0, 1], pool_int64s=[1, 2])


# ---- growth ----
@refused("H148", "Concat|n[0-9]+|bytes|TiB|GiB")
def doubling_to_2_to_48(folder):
    nodes = [helper.make_node("Concat", [f"v{i}", f"v{i}"], [f"v{i + 1}"], f"n{i}", axis=0) for i in range(48)]
    return model_of(nodes, [info("v0", FLOAT, [1])], [info("v48")])


@refused("H149", "512 GiB .*--max-tensor-bytes")
def constant_fold_bomb(folder):
    nodes = [helper.make_node("ConstantOfShape", ["dims"], ["big"], "bomb"), helper.make_node("ReduceSum", ["big"], ["sum"], "total"),
             helper.make_node("Add", ["x", "sum"], ["y"], "use")]
    return model_of(nodes, [info("x", FLOAT, [1])], [info("y")], [array("dims", [1 << 14, 1 << 14, 1 << 9], np.int64)])


def function(name, calls, domain="local"):
    nodes = [helper.make_node(op, [f"v{i}"], [f"v{i + 1}"], domain=where) for i, (op, where) in enumerate(calls)]
    return helper.make_function(domain, name, ["v0"], [f"v{len(calls)}"], nodes, [helper.make_opsetid("", 17), helper.make_opsetid(domain, 1)])


def with_functions(functions):
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    node = helper.make_node(functions[0].name, ["x"], ["y"], "the_node", domain="local")
    return model_of([node], [info("x", FLOAT, [2])], [info("y", FLOAT, [2])], functions=functions, opsets=opsets)


@refused("H150", "recurs")
def function_calls_itself(folder):
    return with_functions([function("Again", [("Again", "local")])])


@refused("H150", "recurs")
def functions_call_each_other(folder):
    return with_functions([function("Ping", [("Pong", "local")]), function("Pong", [("Ping", "local")])])


@refused("H151", "nodes|limit")
def inlining_to_2_to_29_nodes(folder):
    chain = [function(f"F{i}", [(f"F{i + 1}", "local")] * 2) for i in range(29)]
    return with_functions([*chain, function("F29", [("Relu", "")])])


# ---- numbers of less than 8 bits ----
def of_four_bits(name, dims, data):
    return TensorProto(name=name, data_type=22, dims=dims, raw_data=bytes(data))  # INT4


@refused("S15", "quantises to numbers of less than 8 bits.*\"zz\"")
def quantising_to_4_bits(folder):
    nodes = [helper.make_node("Identity", ["z"], ["zz"]), helper.make_node("QuantizeLinear", ["x", "s", "zz"], ["q"], "the_node"), helper.make_node("DequantizeLinear", ["q", "s"], ["y"])]
    return model_of(nodes, [info("x", FLOAT, [4])], [info("y", FLOAT, [4])], [of_four_bits("z", [], [3]), array("s", 0.1)], opset=21, ir=10)


@refused("S15", "\"y\" is of int4")
def output_of_4_bits(folder):
    return model_of([helper.make_node("Identity", ["z"], ["y"])], [info("x", FLOAT, [4])], [info("y", 22, [2])], [of_four_bits("z", [2], [3])], opset=21, ir=10)


@refused("S15", "\"z\".*(4|bytes).*2")
def numbers_of_4_bits_with_half_their_bytes(folder):
    node = helper.make_node("DequantizeLinear", ["z", "s"], ["y"], "the_node")
    return model_of([node], [], [info("y", FLOAT, [8])], [of_four_bits("z", [8], [1, 2]), array("s", 0.1)], opset=21, ir=10)


@works("S15")
def numbers_of_4_bits_that_fill_half_a_byte(folder):
    node = helper.make_node("DequantizeLinear", ["z", "s"], ["y"], "the_node")
    return model_of([node], [], [info("y", FLOAT, [3])], [of_four_bits("z", [3], [0x21, 0xff]), array("s", 0.1)], opset=21, ir=10)


# ---- subgraphs ----
def body_graph(trips_name="i"):
    nodes = [helper.make_node("Identity", ["keep"], ["keep_out"]), helper.make_node("Identity", ["v"], ["v_out"]), helper.make_node("Identity", ["v"], ["scan"])]
    return helper.make_graph(nodes, "body", [info(trips_name, INT64, []), info("keep", BOOL, []), info("v", FLOAT, [4])],
                             [info("keep_out", BOOL, []), info("v_out", FLOAT, [4]), info("scan", FLOAT, [4])])


@refused("H153", "16 TiB .*--max-tensor-bytes")
def loop_collects_2_to_40(folder):
    node = helper.make_node("Loop", ["trips", "yes", "x"], ["last", "all"], "the_node", body=body_graph())
    weights = [array("trips", 1 << 40, np.int64), array("yes", True, bool)]
    return model_of([node], [info("x", FLOAT, [4])], [info("last", FLOAT, [4]), info("all")], weights)


@refused("H154", "shadow|twice|already|again|defined|has the name")
def subgraph_shadows_outer_name(folder):
    branch = helper.make_graph([helper.make_node("Neg", ["x"], ["r"])], "branch", [], [info("r", FLOAT, [2])])
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["t"])], "other", [], [info("t", FLOAT, [2])])
    nodes = [helper.make_node("Relu", ["x"], ["r"], "n0"), helper.make_node("If", ["c"], ["z"], "the_node", then_branch=branch, else_branch=other),
             helper.make_node("Add", ["r", "z"], ["y"], "n2")]
    return model_of(nodes, [info("x", FLOAT, [2]), info("c", BOOL, [])], [info("y", FLOAT, [2])])


def answered(folder, op, feeds, expect, weights=(), opset=17, kind=None, **attributes):
    """`metac run` of one node on these arrays; `expect` may be None where only the absence of a crash counts."""
    types = {np.dtype(np.float32): FLOAT, np.dtype(np.int64): INT64, np.dtype(np.int32): INT32, np.dtype(np.uint8): TensorProto.UINT8}
    ports = [info(k, types[v.dtype], list(v.shape)) for k, v in feeds.items()]
    node = helper.make_node(op, [*feeds, *(w.name for w in weights)], ["y"], "the_node", **attributes)
    kind = kind or types[expect.dtype if expect is not None else next(iter(feeds.values())).dtype]
    model = model_of([node], ports, [info("y", kind)], weights, opset)
    return run_with(folder, model, feeds, {"y": expect} if expect is not None else {})


# ---- what only the data says: an answer or a refusal, never a crash or a wild read ----
def at_run_time(id, title, op, *feeds, pattern=None, **more):
    """The operator on these arrays, all of them inputs of the model. Without a pattern it must work, whatever the answer."""
    def make(folder):
        return answered(folder, op, {f"in{i}": np.asarray(feed) for i, feed in enumerate(feeds)}, None, **more)

    make.__name__ = f"{title}_at_run_time"
    (works(id) if pattern is None else refused(id, pattern))(make)


at_run_time("H98", "gather_index_out_of_range", "Gather", table, i64(7, -9, BIG, MIN64))
at_run_time("H99", "gather_elements_index_out_of_range", "GatherElements", table, i64([7, -9, BIG, MIN64]))
at_run_time("H100", "gather_nd_index_out_of_range", "GatherND", table, i64([7, BIG], [MIN64, -9]))
at_run_time("H101", "scatter_elements_index_out_of_range", "ScatterElements", table, i64([7, BIG]), np.ones((1, 2), np.float32), opset=18)
at_run_time("H102", "scatter_nd_index_out_of_range", "ScatterND", table, i64([BIG], [MIN64]), np.ones((2, 4), np.float32))
at_run_time("H103", "expand_2_to_40", "Expand", f32(1), i64(1 << 40), pattern="no memory for 4398046511104 bytes|limit")
at_run_time("H105", "constant_of_shape_2_to_66", "ConstantOfShape", i64(1 << 33, 1 << 33), pattern="overflow", kind=FLOAT)
at_run_time("H106", "constant_of_shape_negative", "ConstantOfShape", i64(-1), pattern="-1", kind=FLOAT)
at_run_time("H107", "tile_billion_cubed", "Tile", np.ones((2, 2, 2), np.float32), i64(10**9, 10**9, 10**9), pattern="overflow")
at_run_time("H108", "tile_negative", "Tile", f32(1, 2), i64(-2), pattern="-2")
at_run_time("H109", "range_step_0", "Range", np.array(0), np.array(5), np.array(0), pattern="delta is 0")
at_run_time("H110", "range_to_1e18", "Range", np.array(0), np.array(10**18), np.array(1), pattern="length of the range")
at_run_time("H111", "pad_2_to_62", "Pad", f32(1, 2), i64(BIG, BIG), pattern=str(BIG))
at_run_time("H112", "pad_to_negative_size", "Pad", f32(1, 2), i64(-2, -2), pattern="-[28]")
at_run_time("H118", "one_hot_depth_negative", "OneHot", i64(1), np.array(-5), f32(0, 1), pattern="-5", kind=FLOAT)
at_run_time("H136", "max_unpool_index_out_of_range", "MaxUnpool", np.ones((1, 1, 1, 1), np.float32), np.full((1, 1, 1, 1), 99), kernel_shape=[2, 2])


# ---- odd, but right ----
@works("H97")
def slice_from_int64_min(folder):
    x = np.arange(6, dtype=np.float32)
    weights = [array("start", [-1], np.int64), array("end", [MIN64], np.int64), array("axis", [0], np.int64), array("step", [-1], np.int64)]
    return answered(folder, "Slice", {"x": x}, x[::-1].copy(), weights)


@works("H121")
def int_min_divided_by_minus_1(folder):
    a, b = np.array([-(1 << 31), 6], np.int32), np.array([-1, 2], np.int32)
    return answered(folder, "Div", {"a": a, "b": b}, None)


@works("H123")
def runtime_division_by_0(folder):
    a, b = np.array([7, 6], np.int32), np.array([0, 2], np.int32)
    return answered(folder, "Div", {"a": a, "b": b}, None)


@works("H123")
def runtime_modulo_by_0(folder):
    a, b = np.array([7, 6], np.int64), np.array([0, 4], np.int64)
    return answered(folder, "Mod", {"a": a, "b": b}, None)


@works("H124")
def shift_by_more_than_the_width(folder):
    a, b = np.array([255, 255, 3], np.uint8), np.array([8, 200, 1], np.uint8)
    return answered(folder, "BitShift", {"a": a, "b": b}, np.array([0, 0, 6], np.uint8), direction="LEFT")


@works("H125")
def nan_to_integer(folder):
    x = np.array([np.nan, np.inf, 3.7], np.float32)
    node = helper.make_node("Cast", ["x"], ["y"], "the_node", to=INT32)
    return run_with(folder, model_of([node], [info("x", FLOAT, [3])], [info("y", INT32, [3])]), {"x": x})


@works("H132")
def quantize_with_scale_0(folder):
    weights = [array("scale", 0.0), array("zero", 0, np.uint8)]
    node = helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"], "the_node")
    model = model_of([node], [info("x", FLOAT, [2])], [info("y", TensorProto.UINT8, [2])], weights)
    return run_with(folder, model, {"x": np.array([1, -1], np.float32)})


@works("H141")
def relu_of_nothing(folder):
    return answered(folder, "Relu", {"x": np.zeros((0, 4), np.float32)}, np.zeros((0, 4), np.float32))


@works("H142")
def matmul_over_no_elements(folder):
    return answered(folder, "MatMul", {"a": np.zeros((2, 0), np.float32), "b": np.zeros((0, 3), np.float32)}, np.zeros((2, 3), np.float32))


@works("H143")
def concat_with_nothing(folder):
    a, b = np.zeros((0, 2), np.float32), np.ones((1, 2), np.float32)
    return answered(folder, "Concat", {"a": a, "b": b}, b, axis=0)


@works("H144", seconds=10)
def ifs_nested_28_deep(folder):
    def branch(depth, kind):
        name = f"{kind}{depth}"
        if depth == 0:
            nodes = [helper.make_node("Neg", ["x"], [name])]
        elif kind == "e":
            nodes = [helper.make_node("Relu", ["x"], [name])]
        else:
            nodes = [helper.make_node("If", ["c"], [name], then_branch=branch(depth - 1, "t"), else_branch=branch(depth - 1, "e"))]
        return helper.make_graph(nodes, name, [], [info(name, FLOAT, [2])])

    top = helper.make_node("If", ["c"], ["y"], then_branch=branch(27, "t"), else_branch=branch(27, "e"))
    model = model_of([top], [info("x", FLOAT, [2]), info("c", BOOL, [])], [info("y", FLOAT, [2])])
    return run_with(folder, model, {"x": np.array([1, -2], np.float32), "c": np.array(True)}, {"y": np.array([-1, 2], np.float32)})


@works("H146", seconds=15)   # so long that only worse than linear work takes it
def chain_of_100000_nodes(folder):
    nodes = [helper.make_node("Neg", [f"v{i}"], [f"v{i + 1}"]) for i in range(100_000)]
    return model_of(nodes, [info("v0", FLOAT, [2])], [info("v100000", FLOAT, [2])])


@works("H147", seconds=5)
def diamond_of_2_to_60_paths(folder):
    nodes = [helper.make_node("Add", [f"v{i}", f"v{i}"], [f"v{i + 1}"]) for i in range(60)]
    model = model_of(nodes, [info("v0", FLOAT, [2])], [info("v60", FLOAT, [2])])
    return run_with(folder, model, {"v0": np.ones(2, np.float32)}, {"v60": np.full(2, 2.0**60, np.float32)})


@works("H156", seconds=5)
def metadata_of_300000_entries(folder):
    model = node_model("Relu", [[2]])
    for i in range(300_000):
        model.metadata_props.add(key=f"key{i}", value="value")
    return model


@refused("H15", "frame_step must be given")
def required_input_left_empty(folder):
    return model_of([helper.make_node("STFT", ["signal", "", "window"], ["y"])], [info("signal", FLOAT, [1, 128, 1]), info("window", FLOAT, [16])], [info("y", FLOAT, None)])
