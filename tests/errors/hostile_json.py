"""JSON documents that are broken, lie, or ask for arithmetic that has no answer."""
import json

from case_list import Run, refused, works


def compiled(folder, content):
    data = content if isinstance(content, bytes) else content if isinstance(content, str) else json.dumps(content)
    (folder / "model.json").write_bytes(data if isinstance(data, bytes) else data.encode())
    return Run(["compile", "{folder}/model.json", "-o", "{out}", "--no-build"])


def json_case(id, title, content, pattern):
    def make(folder):
        return compiled(folder, content)

    make.__name__ = f"json_{title}"
    refused(id, rf"model\.json.*(?:{pattern})")(make)


# ---- the text ----
json_case("J1", "unterminated", '{"metac_ir": 1, "nodes": [', "1:27: the document ends too early")
json_case("J1", "empty", "", "1:1: the document ends too early")
json_case("J1", "not_an_object", "[1, 2, 3]", "must be an object")
json_case("J1", "trailing_garbage", "{} {}", "1:4: ")
json_case("J2", "nested_100000_deep", "[" * 100_000, "nesting deeper than 100")
json_case("J2", "objects_nested_100000_deep", '{"a":' * 100_000, "nesting deeper than 100")
json_case("J3", "duplicate_key", '{"metac_ir": 1, "metac_ir": 1}', "1:17: the key")
json_case("J3", "duplicate_key_by_escape", '{"metac_ir": 1, "metac\\u005fir": 1}', "is given twice")
json_case("J4", "number_1e400", '{"metac_ir": 1e400}', "does not fit in a float64")
json_case("J4", "number_nan", '{"metac_ir": NaN}', "1:14: ")
json_case("J4", "number_minus_infinity", '{"metac_ir": -Infinity}', "1:15: ")
json_case("J4", "number_2_to_63", '{"metac_ir": 9223372036854775808}', "does not fit in an int64")
json_case("J4", "number_1_5_for_an_integer", '{"metac_ir": 1.5}', "must be an integer")
json_case("J5", "lone_surrogate", '{"name": "\\ud800"}', "surrogate")
json_case("J5", "invalid_utf8", b'{"name": "\xff\xfe"}', "UTF-8")
json_case("J5", "nul_in_text", b'{"name": "a\x00b"}', "NUL|U\\+0000")
json_case("J8", "array_of_20_million", "[" + "0," * 20_000_000 + "0]", "more than 4000000 values")


# ---- the document ----
def document(*nodes, **more):
    return {"metac_ir": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 4]}], "outputs": ["y"], "nodes": list(nodes), **more}


def reindexed(**more):
    return document({"op": "reindex", "inputs": ["x"], "outputs": ["y"], "shape": [4], "indices": ["i0", "i0"], **more})


def body(inputs, output, text="x0"):
    return {"op": "elementwise", "inputs": inputs, "outputs": [output], "body": text}


@works("J5")
def json_byte_order_mark(folder):
    return compiled(folder, b"\xef\xbb\xbf" + json.dumps(reindexed()).encode())


@works("J4")
def json_minus_zero_and_a_fraction(folder):
    return compiled(folder, json.dumps(reindexed(fill=-0.5)).replace("-0.5", "-0.0"))


json_case("J6", "unknown_field", reindexed() | {"frobnicate": True}, "has no field .frobnicate")
json_case("J6", "unknown_field_of_a_node", reindexed(frobnicate=1), "1:[0-9]+: reindex has no field .frobnicate")
json_case("J6", "unknown_version", reindexed() | {"metac_ir": 999}, "999 is not known")
json_case("J6", "no_version", {"nodes": []}, "needs a .metac_ir")
json_case("J6", "unknown_meta_operator", document({"op": "frobnicate", "domain": "metac", "inputs": ["x"], "outputs": ["y"]}), "1:[0-9]+: there is no meta-operator .frobnicate")
json_case("J7", "cycle", document(body(["a"], "y"), body(["y"], "a")), "node #0.*cycle: .y. -> .a.")
json_case("J7", "forward_reference", document(body(["a"], "y"), body(["x"], "a")), "node #0.*later, by node #1")
json_case("J7", "uses_itself", document(body(["x", "y"], "y", "x0+x1")), "node #0.*cycle: .y.")

# ---- expressions ----
json_case("J9", "shell_in_a_shape", reindexed(shape=["$(touch evil)"]), "1:[0-9]+: expression .*expected a value")
json_case("J9", "shape_divided_by_0", reindexed(shape=["4/0"]), "division by zero")
json_case("J9", "index_divided_by_0", reindexed(indices=["i0/0", "i0"]), "division by zero")
json_case("J9", "index_divided_by_what_is_always_0", reindexed(indices=["i0%(i0-i0)", "i0"]), "division by zero")
json_case("J9", "expression_nested_4000_deep", reindexed(indices=["(" * 4000 + "i0" + ")" * 4000, "i0"]), "nest")
json_case("J9", "expression_of_a_million_letters", reindexed(indices=["i0+" * 333_333 + "i0", "i0"]), "longer than 10000")
json_case("J9", "shape_of_1_5", reindexed(shape=[1.5]), "1.5")
json_case("J9", "shape_2_to_63", reindexed(shape=[1 << 63]), "1:[0-9]+: .*does not fit in an int64")
json_case("J10", "body_reads_outside", document({**body(["x"], "y", "@0(i0+1, i1)"), "shape": [4, 4]}), "node #0.*not known to stay inside 0..3")
json_case("J11", "indices_overflow", reindexed(indices=["i0*1099511627776*1099511627776", "i0"]), "overflow")
json_case("J11", "index_factor_of_2_to_63", reindexed(indices=["i0*9223372036854775807", "i0"]), "exceeds 2\\^40")
json_case("J11", "shape_of_2_to_80", reindexed(shape=[1 << 40, 1 << 40], indices=["i0", "i1"]), "more than 8 EiB")
json_case("J11", "dim_overflows", reindexed(shape=["1099511627776*1099511627776"]), "overflow")
json_case("J12", "reduce_by_subtraction", document({"op": "reindex_reduce", "inputs": ["x"], "outputs": ["y"], "shape": [4], "indices": ["i0"], "reduce": "sub"}),
          "node #0.*.sub. is not known")


@works("J9")
def json_index_divided_by_what_may_be_0(folder):
    """4/i0 at i0 = 0 has no value; whatever it gives, nothing traps and nothing is read outside of x."""
    run = compiled(folder, reindexed(indices=["4/i0", "i0"]))
    return Run(["run", run.arguments[1], "--input", "x=random", "--output-dir", "{out}"])


@works("J10")
def json_reindex_outside_is_filled(folder):
    compiled(folder, reindexed(indices=["i0+100", "i0-100"], fill="7"))
    return Run(["run", "{folder}/model.json", "--input", "x=random", "--output-dir", "{out}"])
