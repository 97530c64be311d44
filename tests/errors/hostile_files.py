"""Files that are no model, broken structure, lying tensors, external data."""
import gzip
import io
import os
import pathlib
import pickle
import zipfile

import numpy as np
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from case_list import FLOAT, INT64, Run, array, info, model_of, node_model, refused, relu_model, run_with, weighted_model, works

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "models/digits/digits.onnx"


# ---- files ----
@refused("H01", r"not an ONNX model: the file is empty")
def empty_file(folder):
    return b""


@refused("H02", r"not an ONNX model: .* at byte [0-9]+")
def random_bytes(folder):
    return np.random.default_rng(5).bytes(4096)


@refused("H03", r"not an ONNX model: .* at byte [0-9]+")
def cut_in_half(folder):
    data = DIGITS.read_bytes()
    return data[:len(data) // 2]


@refused("H03", r"not an ONNX model: .* at byte [0-9]+")
def last_byte_missing(folder):
    return DIGITS.read_bytes()[:-1]


@refused("H04", "not an ONNX model: it is an executable or a library")
def an_executable(folder):
    return pathlib.Path("/bin/true").read_bytes()


@refused("H04", "not an ONNX model: it is JSON; .*ends in .json")
def json_named_onnx(folder):
    return b'{"graph": {"node": []}}\n'


def kind(title, pattern, content, name="model.onnx"):
    """A file of another kind, as people take it for a model."""
    def make(folder):
        (folder / name).write_bytes(content)
        return Run(["compile", f"{{folder}}/{name}", "-o", "{out}", "--no-build"])
    make.__name__ = title
    refused("H04", pattern)(make)


def archive(*names):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        for entry in names:
            file.writestr(entry, "{}")
    return made.getvalue()


kind("pytorch_archive", "it is a PyTorch file; export the network with torch.onnx.export", archive("net/data.pkl", "net/version"), "net.pt")
kind("pytorch_archive_named_onnx", "it is a PyTorch file", archive("archive/data.pkl"))
kind("pytorch_file_of_old", "it is a PyTorch file", pickle.dumps(0x1950a86a20f9469cfc6c, 2) + pickle.dumps(1001, 2), "net.pth")
kind("keras_archive", "it is a Keras file", archive("metadata.json", "config.json", "model.weights.h5"))
kind("other_archive", "it is a zip archive; unpack it first", archive("net.onnx"), "net.zip")
kind("html_page", "it is an HTML page, not the file that a link led to", b"\n<!DOCTYPE html>\n<html><body>Sign in</body></html>\n")
kind("html_page_named_json", "not a JSON IR document: it is an HTML page", b"<html></html>", "model.json")
kind("git_lfs_pointer", "it is a pointer of Git LFS", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4\n")
kind("hdf5_file", "it is an HDF5 file", b"\x89HDF\r\n\x1a\n" + bytes(64), "net.h5")
kind("tensorflow_lite_model", "it is a TensorFlow Lite model", b"\x1c\0\0\0TFL3" + bytes(64), "net.tflite")
kind("safetensors_file", "it is a safetensors file, which holds weights and no network", (2).to_bytes(8, "little") + b'{"}', "net.safetensors")
kind("compressed_model", "it is compressed by gzip; unpack it first", gzip.compress(b"x"), "net.onnx.gz")
kind("openvino_xml", "it is an XML document", b'<?xml version="1.0"?>\n<net/>', "net.xml")


@refused("H05", r"not an ONNX model: .* at byte [0-9]+")
def another_message(folder):
    return numpy_helper.from_array(np.arange(100, dtype=np.float32), "w").SerializeToString()


@refused("H06", "no-such-file")
def no_such_file(folder):
    return Run(["compile", "{folder}/no-such-file.onnx", "-o", "{out}", "--no-build"])


@refused("H06", "folder, not a file")
def model_is_a_directory(folder):
    return Run(["compile", "{folder}", "-o", "{out}", "--no-build"])


@refused("H06", "not a regular file")
def model_is_a_pipe(folder):
    os.mkfifo(folder / "pipe.onnx")
    return Run(["compile", "{folder}/pipe.onnx", "-o", "{out}", "--no-build"])


# ---- the model message ----
@refused("H07", "has no graph")
def no_graph(folder):
    model = relu_model()
    model.ClearField("graph")
    return model


@refused("H08", "no outputs")
def empty_graph(folder):
    return model_of([], [], [])


@refused("H09", "no opset_import")
def no_opset(folder):
    model = relu_model()
    del model.opset_import[:]
    return model


@refused("H10", "opset 9999 is newer than [0-9]+, the newest this build knows")
def opset_of_the_future(folder):
    return relu_model(opset=9999)


@refused("H11", "-1")
def negative_opset(folder):
    return relu_model(opset=-1)


@refused("H12", "IR version 9999 is newer than [0-9]+")
def ir_of_the_future(folder):
    return relu_model(ir=9999)


@refused("H13", "Frobnicate")
def unknown_operator(folder):
    return node_model("Frobnicate", [[2]])


@refused("H14", "(?s)Frobnicate.*Quux|Quux.*Frobnicate", lines=4)
def several_unknown_operators(folder):
    nodes = [helper.make_node("Frobnicate", ["x"], ["a"], "first"), helper.make_node("Quux", ["a"], ["y"], "second", domain="com.example")]
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    return model_of(nodes, [info("x", FLOAT, [2])], [info("y")], opsets=opsets)


@refused("H15", "the_node")
def too_few_inputs(folder):
    return node_model("Add", [[2]])


@refused("H16", "the_node")
def too_many_inputs(folder):
    return node_model("Relu", [[2], [2]])


@refused("H17", 'input "nope" of node #0 is not produced by anything')
def undefined_name(folder):
    return model_of([helper.make_node("Relu", ["nope"], ["y"], "the_node")], [info("x", FLOAT, [2])], [info("y")])


@refused("H18", 'cycle: "aaa" -> "bbb"')
def cycle(folder):
    nodes = [helper.make_node("Add", ["x", "bbb"], ["aaa"], "n1"), helper.make_node("Relu", ["aaa"], ["bbb"], "n2")]
    return model_of(nodes, [info("x", FLOAT, [2])], [info("bbb")])


@refused("H19", 'cycle: "yyy"')
def self_loop(folder):
    return model_of([helper.make_node("Add", ["x", "yyy"], ["yyy"], "n1")], [info("x", FLOAT, [2])], [info("yyy")])


@refused("H20", '"yyy" is already produced by node #0')
def two_producers(folder):
    nodes = [helper.make_node("Relu", ["x"], ["yyy"], "n1"), helper.make_node("Neg", ["x"], ["yyy"], "n2")]
    return model_of(nodes, [info("x", FLOAT, [2])], [info("yyy")])


@refused("H21", '"aaa" is produced later, by node #1')
def unsorted_nodes(folder):
    nodes = [helper.make_node("Relu", ["aaa"], ["y"], "n1"), helper.make_node("Neg", ["x"], ["aaa"], "n2")]
    return model_of(nodes, [info("x", FLOAT, [2])], [info("y")])


@refused("H22", 'output "never" is not produced')
def output_never_produced(folder):
    return model_of([helper.make_node("Relu", ["x"], ["y"], "n1")], [info("x", FLOAT, [2])], [info("never")])


@works("H23")
def output_is_input(folder):
    x = np.array([1, -2], np.float32)
    return run_with(folder, model_of([], [info("x", FLOAT, [2])], [info("x", FLOAT, [2])]), {"x": x}, {"x": x})


# ---- tensors ----
def lying(dims, dtype=FLOAT, raw=b"", **fields):
    tensor = TensorProto(data_type=dtype, raw_data=raw, **fields)
    tensor.dims.extend(dims)
    return weighted_model(tensor)


def lie(id, title, pattern, *args, **kwargs):
    def make(folder):
        return lying(*args, **kwargs)
    make.__name__ = title
    refused(id, pattern)(make)


lie("H24", "dims_wrap_to_4", '"w".*4611686018427387905', [(1 << 62) + 1, 4], raw=bytes(16))
lie("H25", "dims_wrap_to_0", '"w".*4611686018427387904', [1 << 62, 4])
lie("H26", "negative_dim", '"w".*negative dim -4', [-4], raw=bytes(16))
lie("H27", "raw_data_short", '"w".*need 16 bytes, found 15', [4], raw=bytes(15))
lie("H28", "raw_data_long", '"w".*need 16 bytes, found 17', [4], raw=bytes(17))
lie("H29", "raw_and_float_data", '"w".*both raw_data and typed data', [4], raw=bytes(16), float_data=[1, 2, 3, 4])
lie("H30", "dtype_999", '"w".*999', [4], dtype=999, raw=bytes(16))
lie("H31", "dtype_0", '"w".*undefined', [4], dtype=0, raw=bytes(16))
lie("H33", "rank_70", '"w".*rank 70; the limit', [1] * 70, raw=bytes(4))


@refused("H32", '"w".*4611686018427387904')
def zero_times_2_to_62(folder):
    return lying([0, 1 << 62, 1 << 62])


@refused("H155", '"w".*index 99')
def sparse_index_out_of_range(folder):
    model = weighted_model(array("w", [1, 2, 3, 4]))
    values, indices = array("w", [1.0]), array("", [99], np.int64)
    del model.graph.initializer[:]
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
    return model


# ---- external data ----
def external(folder, location, **entries):
    """The model's folder is `folder`/inside; what lies in `folder` is outside of it."""
    inside = folder / "inside"
    inside.mkdir(exist_ok=True)
    (folder / "secret.bin").write_bytes(bytes(16))
    tensor = TensorProto(data_type=FLOAT, data_location=TensorProto.EXTERNAL)
    tensor.dims.append(4)
    if location is not None:
        tensor.external_data.add(key="location", value=location)
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=str(value))
    (inside / "model.onnx").write_bytes(weighted_model(tensor).SerializeToString())
    return Run(["compile", "{folder}/inside/model.onnx", "-o", "{out}", "--no-build"])


@refused("H34", "leaves the model's folder")
def external_above(folder):
    return external(folder, "../secret.bin")


@refused("H35", "leaves the model's folder")
def external_down_and_above(folder):
    (folder / "inside/sub").mkdir(parents=True)
    return external(folder, "sub/../../secret.bin")


@refused("H36", "leaves the model's folder")
def external_absolute(folder):
    return external(folder, str(folder / "secret.bin"))


@refused("H37", "link.bin: .*symbolic link")
def external_symbolic_link(folder):
    run = external(folder, "link.bin")
    (folder / "inside/link.bin").symlink_to(folder / "secret.bin")
    return run


@refused("H38", "sub.*symbolic link")
def external_through_linked_folder(folder):
    run = external(folder, "sub/secret.bin")
    (folder / "inside/sub").symlink_to(folder)
    return run


@refused("H39", "hard.bin: has 2 hard links")
def external_hard_link(folder):
    run = external(folder, "hard.bin")
    os.link(folder / "secret.bin", folder / "inside/hard.bin")
    return run


@refused("H40", "pipe.bin: is not a regular file")
def external_pipe(folder):
    run = external(folder, "pipe.bin")
    os.mkfifo(folder / "inside/pipe.bin")
    return run


@refused("H41", "sub: is a folder")
def external_directory(folder):
    run = external(folder, "sub")
    (folder / "inside/sub").mkdir()
    return run


@refused("H42", "/dev/zero")
def external_dev_zero(folder):
    return external(folder, "/dev/zero")


@refused("H43", "missing.bin")
def external_missing(folder):
    return external(folder, "missing.bin")


def with_data(folder, **entries):
    run = external(folder, "data.bin", **entries)
    (folder / "inside/data.bin").write_bytes(np.arange(8, dtype=np.float32).tobytes())
    return run


@refused("H44", "location")
def external_without_location(folder):
    return external(folder, None)


@refused("H45", "1000")
def external_offset_past_end(folder):
    return with_data(folder, offset=1000, length=16)


@refused("H46", "-16")
def external_negative_offset(folder):
    return with_data(folder, offset=-16, length=16)


@refused("H47", str(1 << 60))
def external_length_2_to_60(folder):
    return with_data(folder, offset=0, length=1 << 60)


@refused("H48", "12")
def external_length_mismatch(folder):
    return with_data(folder, offset=0, length=12)


@refused("H49", "12abc")
def external_offset_not_a_number(folder):
    return with_data(folder, offset="12abc", length=16)


@works("H50")
def external_unknown_key(folder):
    return with_data(folder, offset=16, length=16, flavour="vanilla")


# ---- attributes and text ----
@refused("H62", "UTF-8.* at byte [0-9]+")
def invalid_utf8_name(folder):
    model = model_of([helper.make_node("Relu", ["x"], ["MARKER"], "n1")], [info("x", FLOAT, [2])], [info("MARKER")])
    return model.SerializeToString().replace(b"MARKER", b"\xff\xfe\x80\xc0\xaf\xf5")


@refused("H63", "axis")
def attribute_of_wrong_type(folder):
    return node_model("Concat", [[2], [2]], axis="zero")


@refused("H64", "axis")
def attribute_twice(folder):
    model = node_model("Concat", [[2], [2]], axis=0)
    model.graph.node[0].attribute.append(helper.make_attribute("axis", 0))
    return model


@refused("H65", "bogus")
def unknown_attribute(folder):
    return node_model("Relu", [[2]], bogus=1)


@refused("H66", "axis 99 is out of range for rank 2")
def axis_99(folder):
    return node_model("Softmax", [[2, 3]], axis=99)


@refused("H67", "axis -9223372036854775808")
def axis_int64_min(folder):
    return node_model("Softmax", [[2, 3]], axis=-(1 << 63))


@refused("H68", "axis")
def attribute_missing(folder):
    return node_model("Concat", [[2], [2]])


@refused("H145", "nesting deeper than 100")
def message_nested_3000_deep(folder):
    model = node_model("If", [(TensorProto.BOOL, [])])
    graph = model.graph
    data = graph.SerializeToString()
    for _ in range(3000):
        attribute = AttributeProto(name="then_branch", type=AttributeProto.GRAPH).SerializeToString() + b"\x32" + varint(len(data)) + data
        node = b"\x22\x02If" + b"\x2a" + varint(len(attribute)) + attribute
        data = b"\x0a" + varint(len(node)) + node
    return b"\x08\x08" + b"\x3a" + varint(len(data)) + data + b"\x42\x02\x10\x11"


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes([*out, n])


@refused("H158", 'dim "N" is 2 .* and 3')
def symbolic_dims_conflict(folder):
    model = model_of([helper.make_node("Add", ["a", "b"], ["y"], "n1")], [info("a", FLOAT, ["N"]), info("b", FLOAT, ["N"])], [info("y", FLOAT, ["N"])])
    return run_with(folder, model, {"a": np.zeros(2, np.float32), "b": np.zeros(3, np.float32)})


@refused("H159", r'"y" is declared with the shape \[3\] and has \[2\]')
def declared_output_shape_wrong(folder):
    return model_of([helper.make_node("Relu", ["x"], ["y"], "n1")], [info("x", FLOAT, [2])], [info("y", FLOAT, [3])])


@refused("H160", '"y" is declared int64 and is float32')
def declared_output_type_wrong(folder):
    return model_of([helper.make_node("Relu", ["x"], ["y"], "n1")], [info("x", FLOAT, [2])], [info("y", INT64, [2])])
