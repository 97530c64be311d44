// JSON documents: what is refused and where the message points; what is written is read back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/support/diagnostic.h"
#include "frontends/json/json.h"
#include "frontends/onnx/onnx.h"

namespace metac::frontends_json_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string error_of(std::string_view text) {
  try {
    read_json_model(text, "m.json");
  } catch (const CompileError& error) {
    return error.what();
  }
  return "";
}

// A document of one node with the given fields; the node stands on line 3 from column 4 on.
std::string node_document(const std::string& node) {
  return "{\"metac_ir\": 1, \"opset\": 17, \"inputs\": [\"x\"], \"outputs\": [\"y\"],\n \"nodes\": [\n   " + node + "\n]}";
}

TEST(Json, BrokenText) {
  EXPECT_THAT(error_of(""), StartsWith("m.json:1:1: "));
  EXPECT_THAT(error_of("{\"metac_ir\": 1,\n"), StartsWith("m.json:2:1: the document ends too early"));
  EXPECT_THAT(error_of("{\"metac_ir\": 1}\n x"), StartsWith("m.json:2:2: "));
  EXPECT_THAT(error_of("{\"metac_ir\": 1, \"a\": nul}"), StartsWith("m.json:1:"));
  EXPECT_THAT(error_of("{\"a\": 'x'}"), StartsWith("m.json:1:7: "));
  EXPECT_THAT(error_of("[1, 2"), StartsWith("m.json:1:"));
  EXPECT_THAT(error_of("[1]"), StartsWith("m.json:1:1: the document must be an object, this is an array"));
}

TEST(Json, NestingIsBounded) {
  EXPECT_THAT(error_of(std::string(100'000, '[')), StartsWith("m.json:1:101: nesting deeper than 100"));
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"a\":";
  EXPECT_THAT(error_of(objects), HasSubstr("nesting deeper than 100"));
}

TEST(Json, DuplicateKeys) {
  EXPECT_THAT(error_of("{\"metac_ir\": 1,\n  \"metac_ir\": 1}"),
              StartsWith("m.json:2:3: the key \"metac_ir\" is given twice"));
  EXPECT_THAT(error_of("{\"a\": 1, \"\\u0061\": 1}"), StartsWith("m.json:1:10: the key \"a\" is given twice"));
}

TEST(Json, Numbers) {
  EXPECT_THAT(error_of("{\"metac_ir\": 1e400}"), StartsWith("m.json:1:14: the number does not fit in a float64"));
  EXPECT_THAT(error_of("{\"metac_ir\": NaN}"), StartsWith("m.json:1:14: "));
  EXPECT_THAT(error_of("{\"metac_ir\": 1.5}"), StartsWith("m.json:1:14: metac_ir must be an integer, this is \"1.5\""));
  EXPECT_THAT(error_of("{\"metac_ir\": 9223372036854775808}"), HasSubstr("does not fit in an int64"));
  EXPECT_THAT(error_of("{\"metac_ir\": \"1\"}"), HasSubstr("must be a number, this is a string"));
}

TEST(Json, Strings) {
  EXPECT_THAT(error_of("{\"metac_ir\": 1, \"name\": \"\\ud800\"}"), StartsWith("m.json:1:"));
  EXPECT_THAT(error_of("{\"metac_ir\": 1, \"name\": \"\xff\"}"), StartsWith("m.json:1:"));
  EXPECT_THAT(error_of(std::string_view("{\"metac_ir\": 1, \"name\": \"a\0b\"}", 30)), StartsWith("m.json:1:"));
  EXPECT_EQ(error_of("\xef\xbb\xbf{\"metac_ir\": 1, \"name\": \"\\u0000\"}"), "");
  EXPECT_THAT(error_of("\xef\xbb\xbf{\"metac_ir\": 2}"), StartsWith("m.json:1:14: "));
  EXPECT_THAT(error_of("{\"name\": \"\xc3\xa4\xc3\xb6\", \"metac_ir\": 2}"),
              StartsWith("m.json:1:28: "));  // columns count characters
}

TEST(Json, UnknownThings) {
  EXPECT_THAT(error_of("{}"), StartsWith("m.json:1:1: the document needs a \"metac_ir\""));
  EXPECT_THAT(error_of("{\"metac_ir\": 2}"), HasSubstr("metac_ir 2 is not known; this build reads version 1"));
  EXPECT_THAT(error_of("{\"metac_ir\": 1,\n \"nodez\": []}"),
              StartsWith("m.json:2:11: the document has no field \"nodez\""));
  EXPECT_THAT(error_of(node_document("{\"op\": \"reindex2\", \"domain\": \"metac\"}")),
              StartsWith("m.json:3:11: there is no meta-operator \"reindex2\""));
  EXPECT_THAT(error_of(node_document("{\"op\": \"sum\", \"dimz\": [0]}")),
              StartsWith("m.json:3:26: sum has no field \"dimz\""));
  EXPECT_THAT(error_of(node_document("{\"op\": \"Relu\", \"alpha\": 1}")), HasSubstr("a node has no field \"alpha\""));
  EXPECT_THAT(error_of(node_document("{\"inputs\": []}")), StartsWith("m.json:3:4: a node needs a \"op\""));
  EXPECT_THAT(error_of("{\"metac_ir\": 1, \"inputs\": [{\"name\": \"x\", \"dtype\": \"float33\"}]}"),
              HasSubstr("dtype \"float33\" is not known"));
  EXPECT_THAT(error_of("{\"metac_ir\": 1, \"inputs\": [{\"name\": \"x\", \"shape\": [-1]}]}"),
              HasSubstr("a negative dim: -1; null is an open one"));
  EXPECT_THAT(error_of("{\"metac_ir\": 1, \"nodes\": [{\"op\": \"Relu\"}]}"), HasSubstr("states no \"opset\""));
}

TEST(Json, ExpressionsPointIntoTheDocument) {
  std::string node = R"j({"op": "reindex", "inputs": ["x"], "outputs": ["y"], "shape": [2], "indices": ["i0-*1"]})j";
  size_t column = 4 + node.find("*1");
  EXPECT_THAT(error_of(node_document(node)),
              StartsWith("m.json:3:" + std::to_string(column) + ": expression \"i0-*1\", column 4"));
  EXPECT_THAT(error_of(R"({"metac_ir": 1, "let": ["N = "]})"), StartsWith("m.json:1:30: "));
  EXPECT_THAT(error_of(R"({"metac_ir": 1, "let": ["N = 1", "N = 2"]})"), HasSubstr("\"N\" is defined twice"));
  EXPECT_THAT(error_of(node_document(
                  R"j({"op": "reindex", "inputs": ["x"], "outputs": ["y"], "shape": ["$(id)"], "indices": []})j")),
              HasSubstr("expected a value, found \"$\""));
}

TEST(Json, Tensors) {
  auto parameter = [](const std::string& fields) {
    return error_of("{\"metac_ir\": 1,\n\"parameters\": [{\"name\": \"w\", " + fields + "}]}");
  };
  EXPECT_EQ(parameter(R"("dtype": "float32", "shape": [2, 1], "data": [[1], ["-inf"]])"), "");
  EXPECT_EQ(parameter(R"("dtype": "float32", "shape": [2, 1], "data": [1, 2e-46])"), "");
  EXPECT_EQ(parameter(R"("dtype": "uint64", "shape": [], "data": 18446744073709551615)"), "");
  EXPECT_THAT(parameter(R"("dtype": "float32", "shape": [2], "data": [1, 1e39])"), StartsWith("m.json:2:"));
  EXPECT_THAT(parameter(R"("dtype": "int8", "shape": [2], "data": [1, 128])"), HasSubstr("128 is no int8"));
  EXPECT_THAT(parameter(R"("dtype": "int64", "shape": [1], "data": [1.5])"), HasSubstr("1.5 is no int64"));
  EXPECT_THAT(parameter(R"("dtype": "bool", "shape": [1], "data": [2])"), HasSubstr("must be a boolean"));
  EXPECT_THAT(parameter(R"("dtype": "float32", "shape": [2], "data": [1])"),
              HasSubstr("1 items at depth 0 of a tensor of shape 2"));
  EXPECT_THAT(parameter(R"("dtype": "float32", "shape": [2, 2], "data": [[1, 2], [3]])"), HasSubstr("1 items at depth 1"));
  EXPECT_THAT(parameter(R"("dtype": "float32", "shape": [2, 2], "data": [[1, 2], 3])"), HasSubstr("must be an array"));
  EXPECT_THAT(parameter(R"("dtype": "float32", "shape": [4611686018427387904, 4], "data": [])"), HasSubstr("exceed 1 TiB"));
  EXPECT_THAT(parameter(R"("dtype": "float32", "shape": [-1], "data": [])"), HasSubstr("a negative dim"));
  EXPECT_THAT(parameter(R"("dtype": "complex64", "shape": [], "data": 1)"), HasSubstr("\"complex64\" is not known"));
  EXPECT_THAT(parameter(R"("dtype": "float32", "shape": [1])"), HasSubstr("exactly one of"));
  EXPECT_THAT(parameter(R"("dtype": "float32", "shape": [1], "base64": "AAA")"), HasSubstr("not base64"));
  EXPECT_THAT(parameter(R"("dtype": "float32", "shape": [1], "base64": "AA==AAAA")"), HasSubstr("not base64"));
  EXPECT_THAT(parameter(R"("dtype": "float32", "shape": [2], "base64": "AAAAAA==")"), HasSubstr("needs 8 bytes, found 4"));
  EXPECT_THAT(parameter(R"("dtype": "float32", "shape": [1], "file": "../w.npy")"), HasSubstr("leaves the model's folder"));
  EXPECT_THAT(parameter(R"("dtype": "float32", "shape": [1], "file": "/etc/passwd")"),
              HasSubstr("leaves the model's folder"));
  EXPECT_THAT(parameter(R"("dtype": "float32", "shape": [1], "file": "no.npy")"), HasSubstr("No such file"));
}

TEST(Json, HugeArraysAreRefusedBeforeTheyFillMemory) {
  std::string text =
      "{\"metac_ir\": 1, \"parameters\": [{\"name\": \"w\", \"dtype\": \"float32\", \"shape\": [5000000], \"data\": [";
  for (int i = 0; i < 5'000'000; ++i) text += "0,";
  text += "0]}]}";
  EXPECT_THAT(error_of(text), HasSubstr("more than 4000000 values; keep large tensors as base64 or in a .npy file"));
}

// One of everything that a Model can hold.
Model rich_model() {
  using Kind = Attribute::Kind;
  Model m;
  m.ir_version = 8;
  m.producer = "someone \"quoted\"\n#include <x>";
  m.producer_version = "1";
  m.domain = "com.example";
  m.doc = "doc";
  m.model_version = -3;
  m.metadata = {{"k", "v"}, {"*/", "\xe2\x80\xae"}};
  m.opset_imports = {{"", 17}, {"com.example", 2}, {"metac", 1}};
  ModelGraph& g = m.graph;
  g.name = "g";
  g.doc = "graph doc";
  ValueType x{{"tensor"}, DType::f32, 1, std::vector<ModelDim>{{-1, "N"}, {3, ""}, {-1, ""}}, 0};
  g.inputs = {{"x", x},
              {"untyped", {}},
              {"s", {{"sequence", "tensor"}, DType::i64, 7, {}, 0}},
              {"m", {{"map", "tensor"}, DType::f32, 1, {}, 8}},
              {"q", {{"optional", "tensor"}, {}, 17, {{}}, 0}}};
  g.outputs = {{"y", {}}};
  g.value_info = {{"v", x}};
  float nan_with_payload;
  uint32_t bits = 0x7fc12345;
  std::memcpy(&nan_with_payload, &bits, 4);
  g.initializers = {
      {"floats", make_tensor<float>(DType::f32, {5}, {0.1f, -0.0f, INFINITY, 1e-45f, 3.4e38f})},
      {"nan", make_tensor<float>(DType::f32, {1}, {nan_with_payload})},
      {"doubles", make_tensor<double>(DType::f64, {1, 3}, {0.1, 5e-324, -INFINITY})},
      {"half", make_tensor<uint16_t>(DType::f16, {3}, {0x3c01, 0x0001, 0x8000})},
      {"bf16", make_tensor<uint16_t>(DType::bf16, {2}, {0x3f81, 0xff80})},
      {"longs", make_tensor<int64_t>(DType::i64, {}, {INT64_MIN})},
      {"ulongs", make_tensor<uint64_t>(DType::u64, {1}, {UINT64_MAX})},
      {"bytes", make_tensor<uint8_t>(DType::u8, {0, 2}, {})},
      {"bools", make_tensor<uint8_t>(DType::boolean, {2}, {1, 0})},
      {"large", make_tensor<int32_t>(DType::i32, {100}, std::vector<int32_t>(100, -7))},
      {"a/b:0 \"*/", Tensor{DType::string, {2}, nullptr, {"text", "\xff\xfe"}}},
  };
  auto body = std::make_shared<ModelGraph>();
  body->name = "body";
  body->outputs = {{"z", {}}};
  body->nodes = {{"", "Identity", "", "", {"x"}, {"z"}, {}, "", {}, 0}};
  auto attribute = [](Kind kind) {
    Attribute a;
    a.kind = kind;
    return a;
  };
  std::map<std::string, Attribute> all;
  all["int"] = attribute(Kind::integer);
  all["int"].integer = INT64_MAX;
  all["float"] = attribute(Kind::real);
  all["float"].real = 0.1f;
  all["whole"] = attribute(Kind::real);
  all["whole"].real = 2;
  all["infinite"] = attribute(Kind::real);
  all["infinite"].real = -INFINITY;
  all["string"] = attribute(Kind::string);
  all["string"].string = "inf";
  all["binary"] = attribute(Kind::string);
  all["binary"].string = std::string("\xff\0", 2);
  all["ints"] = attribute(Kind::integers);
  all["ints"].integers = {1, -2};
  all["no_ints"] = attribute(Kind::integers);
  all["floats"] = attribute(Kind::reals);
  all["floats"].reals = {1, INFINITY};
  all["infinities"] = attribute(Kind::reals);
  all["infinities"].reals = {INFINITY};
  all["strings"] = attribute(Kind::strings);
  all["strings"].strings = {"a", "inf"};
  all["binaries"] = attribute(Kind::strings);
  all["binaries"].strings = {"a", "\xff"};
  all["no_strings"] = attribute(Kind::strings);
  all["tensor"] = attribute(Kind::tensor);
  all["tensor"].tensors = {g.initializers[0].tensor};
  all["tensors"] = attribute(Kind::tensors);
  all["tensors"].tensors = {g.initializers[1].tensor, g.initializers[5].tensor};
  all["graph"] = attribute(Kind::graph);
  all["graph"].graphs = {body};
  all["graphs"] = attribute(Kind::graphs);
  all["graphs"].graphs = {body, body};
  all["type"] = attribute(Kind::type);
  all["type"].types = {g.inputs[2].type};
  g.nodes = {
      {"first", "Frobnicate", "over", "com.example", {"x", "", "floats"}, {"v", ""}, all, "node doc", {{"k", "v"}}, 0},
      {"", "sum", "", "", {"v"}, {"w"}, {}, "", {}, 0},  // no meta-operator: its domain is ONNX's
      {"", "sum", "", "metac", {"w"}, {"y"}, {}, "", {}, 0}};
  // Attributes of another kind than the operator's schema says survive as they are.
  g.nodes[2].attributes["dims"] = all["ints"];
  Attribute reference = attribute(Kind::reference);
  reference.string = "alpha";
  reference.detail = "float";
  ModelFunction f;
  f.domain = "com.example";
  f.name = "Frobnicate";
  f.overload = "over";
  f.inputs = {"a", "b", "c"};
  f.outputs = {"d"};
  f.attributes = {"alpha"};
  f.attribute_defaults["beta"] = all["float"];
  f.opset_imports = {{"", 17}};
  f.nodes = {{"", "LeakyRelu", "", "", {"a"}, {"d"}, {{"alpha", reference}}, "", {}, 0}};
  m.functions = {f};
  return m;
}

TEST(Json, EverythingSurvivesBothWays) {
  Model model = rich_model();
  std::string bytes = to_onnx_bytes(model);
  Model from_onnx = read_onnx(bytes, "rich.onnx");
  EXPECT_EQ(to_onnx_bytes(from_onnx), bytes);
  std::string text = to_json_text(from_onnx);
  Model from_json = read_json_model(text, "rich.json");
  EXPECT_EQ(to_onnx_bytes(from_json), bytes);
  EXPECT_EQ(to_json_text(from_json), text);
}

TEST(Json, AttributesAreReadAsTheSchemaSays) {
  std::string text =
      node_document(R"j({"op": "LeakyRelu", "inputs": ["x"], "outputs": ["y"], "attributes": {"alpha": 1}})j");
  Model model = read_json_model(text, "m.json");
  EXPECT_EQ(model.graph.nodes[0].attributes.at("alpha").kind, Attribute::Kind::real);
  EXPECT_EQ(model.graph.nodes[0].line, 3);
  EXPECT_THAT(error_of(node_document(R"j({"op": "LeakyRelu", "attributes": {"alpha": "no"}})j")),
              HasSubstr("attribute \"alpha\" must be a number, this is a string"));
  EXPECT_THAT(error_of(node_document(R"j({"op": "Custom", "attributes": {"empty": []}})j")),
              HasSubstr("an empty list of what?"));
  EXPECT_THAT(error_of(node_document(R"j({"op": "Custom", "attributes": {"n": null}})j")), HasSubstr("cannot be null"));
  EXPECT_THAT(error_of(node_document(R"j({"op": "Custom", "attributes": {"n": {"type": "complex", "value": 1}}})j")),
              HasSubstr("type \"complex\" is not known"));
}

TEST(Json, NumbersMayStandForExpressions) {
  auto fill = [](const std::string& shape, const std::string& value) {
    return node_document("{\"op\": \"fill\", \"inputs\": [], \"outputs\": [\"y\"], \"shape\": [" + shape +
                         "], \"value\": " + value + "}");
  };
  EXPECT_EQ(read_json_model(fill("4", "-0.5"), "m.json").graph.nodes[0].attributes.at("value").string, "-0.5");
  EXPECT_THAT(error_of(fill("9223372036854775808", "1")), HasSubstr("m.json:3:61: expression \"9223372036854775808\""));
}

TEST(Json, DimNamesReachTheNodesThatUseThem) {
  Model model = read_json_model(
      R"j({"metac_ir": 1, "inputs": [{"name": "x:0", "dtype": "float32", "shape": ["N", 3]}, {"name": "w", "shape": ["K"]}],
    "let": ["M = 2*N", "Q = w.shape[0] + M"],
    "nodes": [{"op": "fill", "inputs": [], "outputs": ["y"], "shape": ["Q", "M"], "value": "1"},
              {"op": "fill", "inputs": [], "outputs": ["z"], "shape": [3], "value": "1"}], "outputs": ["y"]})j",
      "m.json");
  const Node& node = model.graph.nodes[0];
  EXPECT_EQ(node.attributes.at("let").strings,
            (std::vector<std::string>{"N = @0.shape[0]", "M = 2*N", "Q = w.shape[0] + M"}));
  EXPECT_EQ(node.inputs, (std::vector<std::string>{"x:0", "w"}));
  EXPECT_EQ(model.graph.nodes[1].attributes.count("let"), 0u);
  EXPECT_EQ(model.opset_imports.at("metac"), 1);
}

}  // namespace
}  // namespace metac::frontends_json_test
