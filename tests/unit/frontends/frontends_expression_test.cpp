// The expression language of the meta-operators: what it accepts, what it means, and where it points when it refuses.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ops/lower_model.h"
#include "compiler/ops/meta/meta_expression.h"
#include "compiler/oracle/evaluate_graph.h"
#include "frontends/json/json.h"

namespace metac::frontends_expression_test {
namespace {

using ::testing::HasSubstr;

std::string error_of(const std::string& source) {
  try {
    parse_meta_expression(source);
  } catch (const MetaExpressionError& error) {
    return concat(error.column, ": ", error.what());
  }
  return "";
}

TEST(MetaExpression, AcceptsTheLanguage) {
  for (const char* source :
       {"i2-i5", "x.shape[0]", "x.shape[-1]/2", "@1(i0,i1)", "@1.shape", "a*b+1.5e-3", "-(-1)", "!(a<b)||c>=2&&d!=0",
        "i0<n?i1:0", "max(i0, 3)//2 % 5", "float32(a)", " 1 ", "select(a==b, a, 0)", "f()"})
    EXPECT_EQ(error_of(source), "") << source;
}

TEST(MetaExpression, PointsAtMistakes) {
  EXPECT_THAT(error_of(""), HasSubstr("0: "));
  EXPECT_THAT(error_of("i2-*i5"), HasSubstr("3: expression \"i2-*i5\", column 4: expected a value, found \"*\""));
  EXPECT_THAT(error_of("(i0"), HasSubstr("expected ')', found the end"));
  EXPECT_THAT(error_of("i0 i1"), HasSubstr("3: "));
  EXPECT_THAT(error_of("a<b<c"), HasSubstr("3: "));
  EXPECT_THAT(error_of("$(rm -rf /)"), HasSubstr("0: "));
  EXPECT_THAT(error_of("x.size"), HasSubstr("the only member of an operand is .shape"));
  EXPECT_THAT(error_of("x.shape[1.5]"), HasSubstr("number of an axis"));
  EXPECT_THAT(error_of("99999999999999999999"), HasSubstr("does not fit in an int64"));
  EXPECT_THAT(error_of("1e400"), HasSubstr("does not fit in a float64"));
  EXPECT_THAT(error_of("3x"), HasSubstr("after a number"));
  EXPECT_THAT(error_of("i2\xe2\x80\x93i5"), HasSubstr("2: "));  // an en dash, as text processors like it
  EXPECT_THAT(error_of("@"), HasSubstr("number of an operand"));
  EXPECT_THAT(error_of(std::string(200, '(')), HasSubstr("nesting deeper than"));
  EXPECT_THAT(error_of(std::string(200, '-') + "1"), HasSubstr("nesting deeper than"));
  EXPECT_THAT(error_of(std::string(20'000, '1')), HasSubstr("longer than"));
  std::string sum = "1";
  for (int i = 0; i < 3000; ++i) sum += "+1";
  EXPECT_THAT(error_of(sum), HasSubstr("more than 1000 operators"));
}

TEST(MetaExpression, Definitions) {
  MetaDefinition d = parse_meta_definition("N, C = x.shape");
  EXPECT_EQ(d.names, (std::vector<std::string>{"N", "C"}));
  EXPECT_EQ(parse_meta_definition("K = 2*N").names.size(), 1u);
  EXPECT_THROW(parse_meta_definition("N C = x.shape"), CompileError);
  EXPECT_THROW(parse_meta_definition("N, C = 3"), CompileError);
  EXPECT_THROW(parse_meta_definition("i3 = 3"), CompileError);
}

// ---- what the meta-operators compute: a document with one node, inputs x (2x3, 0..5) and k (2, int64) ----
struct Outcome {
  std::vector<int64_t> shape;
  std::vector<double> values;
  std::string error;
};

Outcome run(const std::string& node, bool open_dims = false) {
  std::string dims = open_dims ? R"j(["N", "M"])j" : "[2, 3]";
  std::string text = R"j({"metac_ir": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": )j" + dims +
                     R"j(}, {"name": "k", "dtype": "int64", "shape": [2]}], "nodes": [)j" + node +
                     R"j(], "outputs": ["y"]})j";
  Outcome out;
  try {
    std::unique_ptr<Graph> graph = lower_model(read_json_model(text, "test.json"), {});
    Tensor x = make_tensor<float>(DType::f32, {2, 3}, {0, 1, 2, 3, 4, 5}), k = make_tensor<int64_t>(DType::i64, {2}, {1, 7});
    Tensor y = evaluate(*graph, std::map<std::string, Tensor>{{"x", x}, {"k", k}})[0];
    out.shape = y.shape;
    for (int64_t i = 0; i < y.element_count(); ++i) out.values.push_back(number_at(y, i));
  } catch (const CompileError& error) {
    out.error = error.what();
  }
  return out;
}

void expect_values(const std::string& node, const std::vector<int64_t>& shape, const std::vector<double>& values) {
  for (bool open_dims : {false, true}) {
    Outcome out = run(node, open_dims);
    EXPECT_EQ(out.error, "") << node;
    EXPECT_EQ(out.shape, shape) << node;
    EXPECT_EQ(out.values, values) << node;
  }
}

TEST(MetaOperators, Reindex) {
  // Transposed and shifted: what falls outside is filled.
  expect_values(
      R"j({"op": "reindex", "inputs": ["x"], "outputs": ["y"], "shape": ["x.shape[1]", "x.shape[0]"], "indices": ["i1", "i0-1"], "fill": "-1"})j",
      {3, 2}, {-1, -1, 0, 3, 1, 4});
  expect_values(
      R"j({"op": "reindex", "inputs": ["x"], "outputs": ["y"], "shape": [2, 2], "indices": ["i0", "2*i1"], "conditions": ["i0+i1 > 0"]})j",
      {2, 2}, {0, 2, 3, 5});
  // Gather: the index operand says 1 and 7, and 7 is outside.
  expect_values(
      R"j({"op": "reindex", "inputs": ["x", "k"], "outputs": ["y"], "shape": [2, "x.shape[1]"], "indices": ["@1(i0)", "i1"], "fill": 9})j",
      {2, 3}, {3, 4, 5, 9, 9, 9});
  // An index operand read outside itself: clamped, and the condition is false there.
  expect_values(
      R"j({"op": "reindex", "inputs": ["x", "k"], "outputs": ["y"], "shape": [3, 1], "indices": ["k(i0)", "i1"], "fill": 9})j",
      {3, 1}, {3, 9, 9});
  expect_values(
      R"j({"op": "reindex", "inputs": ["x"], "outputs": ["y"], "let": ["A,B = x.shape", "T = A*B"], "shape": ["T"], "indices": ["i0/B", "i0%B"]})j",
      {6}, {0, 1, 2, 3, 4, 5});
}

TEST(MetaOperators, ReindexReduce) {
  expect_values(R"j({"op": "reindex_reduce", "inputs": ["x"], "outputs": ["y"], "shape": [2], "indices": ["i1"]})j", {2},
                {3, 5});
  expect_values(
      R"j({"op": "reindex_reduce", "inputs": ["x"], "outputs": ["y"], "shape": [2], "indices": ["i0"], "reduce": "max", "conditions": ["i1 < 2"]})j",
      {2}, {1, 4});
  // Scatter: rows 0 and 1 go to 1 and 7; 7 is outside.
  expect_values(
      R"j({"op": "reindex_reduce", "inputs": ["x", "k"], "outputs": ["y"], "shape": [2, 3], "indices": ["@1(i0)", "i1"]})j",
      {2, 3}, {0, 0, 0, 0, 1, 2});
}

TEST(MetaOperators, Elementwise) {
  expect_values(R"j({"op": "elementwise", "inputs": ["x"], "outputs": ["y"], "body": "max(x, 2)*x0 - 1"})j", {2, 3},
                {-1, 1, 3, 8, 15, 24});
  expect_values(R"j({"op": "elementwise", "inputs": ["x", "x"], "outputs": ["y"], "body": "a < 2 ? -b : float32(i1)"})j",
                {2, 3}, {0, -1, 2, 0, 1, 2});
  expect_values(
      R"j({"op": "elementwise", "inputs": [], "outputs": ["y"], "shape": [3], "body": "i0*i0", "dtype": "int32"})j", {3},
      {0, 1, 4});
  expect_values(R"j({"op": "elementwise", "inputs": ["k"], "outputs": ["y"], "body": "k // 2 + k % 4"})j", {2}, {1, 6});
}

TEST(MetaOperators, Specialised) {
  expect_values(R"j({"op": "broadcast", "inputs": ["k"], "outputs": ["y"], "shape": [2, 3], "dims": [1]})j", {2, 3},
                {1, 1, 1, 7, 7, 7});
  expect_values(R"j({"op": "sum", "inputs": ["x"], "outputs": ["y"], "dims": [0]})j", {3}, {3, 5, 7});
  expect_values(R"j({"op": "sum", "inputs": ["x"], "outputs": ["y"], "dims": []})j", {2, 3}, {0, 1, 2, 3, 4, 5});
  expect_values(R"j({"op": "product", "inputs": ["x"], "outputs": ["y"], "dims": [1], "keepdims": true})j", {2, 1}, {0, 60});
  expect_values(R"j({"op": "min", "inputs": ["x"], "outputs": ["y"]})j", {}, {0});
  expect_values(R"j({"op": "mean", "inputs": ["x"], "outputs": ["y"], "dims": [-1]})j", {2}, {1, 4});
  expect_values(R"j({"op": "transpose", "inputs": ["x"], "outputs": ["y"]})j", {3, 2}, {0, 3, 1, 4, 2, 5});
  expect_values(R"j({"op": "reshape", "inputs": ["x"], "outputs": ["y"], "shape": ["x.shape[0]*x.shape[1]"]})j", {6},
                {0, 1, 2, 3, 4, 5});
  expect_values(R"j({"op": "pad", "inputs": ["x"], "outputs": ["y"], "before": [0, 1], "after": [0, -2], "fill": "-inf"})j",
                {2, 2}, {-INFINITY, 0, -INFINITY, 3});
  expect_values(
      R"j({"op": "slice", "inputs": ["x"], "outputs": ["y"], "dims": [1], "starts": ["x.shape[1]-1"], "extents": [2], "steps": [-2]})j",
      {2, 2}, {2, 0, 5, 3});
  expect_values(R"j({"op": "concat", "inputs": ["k", "k"], "outputs": ["y"], "dim": 0})j", {4}, {1, 7, 1, 7});
  expect_values(R"j({"op": "index", "inputs": [], "outputs": ["y"], "shape": [2, 2], "dim": 1})j", {2, 2}, {0, 1, 0, 1});
  expect_values(R"j({"op": "fill", "inputs": [], "outputs": ["y"], "shape": [2], "value": 3})j", {2}, {3, 3});
  expect_values(R"j({"op": "cast", "inputs": ["x"], "outputs": ["y"], "dtype": "int8"})j", {2, 3}, {0, 1, 2, 3, 4, 5});
  expect_values(R"j({"op": "gather", "inputs": ["k", "k"], "outputs": ["y"], "dim": 0})j", {2}, {7, 7});
}

TEST(MetaOperators, RefuseWithTheReason) {
  auto refused = [](const std::string& node, const std::string& reason) {
    std::string error = run(node).error;
    EXPECT_THAT(error, HasSubstr(reason)) << node;
    EXPECT_THAT(error, HasSubstr("test.json"));
  };
  auto reindex = [](const std::string& rest) {
    return R"j({"op": "reindex", "inputs": ["x", "k"], "outputs": ["y"], )j" + rest + "}";
  };
  refused(reindex(R"j("shape": [2], "indices": ["i0"])j"), "indices are 1, but the operand has rank 2");
  refused(reindex(R"j("shape": [2], "indices": ["i0", "i1"])j"), "there is no axis i1; the shape has rank 1");
  refused(reindex(R"j("shape": [-2], "indices": ["i0", "i0"])j"), "a dim of -2");
  refused(reindex(R"j("shape": [2], "indices": ["i0/0", "i0"])j"), "division by zero");
  refused(reindex(R"j("shape": [2], "indices": ["i0%(2-2)", "i0"])j"), "division by zero");
  refused(reindex(R"j("shape": [2], "indices": ["i0*1099511627776*1099511627776", "i0"])j"), "constants overflow an int64");
  refused(reindex(R"j("shape": [2], "indices": ["9223372036854775807+i0", "i0"])j"), "exceeds 2^40");
  refused(reindex(R"j("shape": [2], "indices": ["1.5", "i0"])j"), "a real number in index arithmetic");
  refused(reindex(R"j("shape": [2], "indices": ["q", "i0"])j"), "\"q\" is no axis, dim or operand");
  refused(reindex(R"j("shape": [2], "indices": ["x", "i0"])j"), "needs indices here");
  refused(reindex(R"j("shape": [2], "indices": ["@0(i0,i0)", "i0"])j"), "not an integer");
  refused(reindex(R"j("shape": [2], "indices": ["k(i0,i0)", "i0"])j"), "has rank 1");
  refused(reindex(R"j("shape": ["x.shape[5]"], "indices": ["i0", "i0"])j"), "axis 5 of a shape of rank 2");
  refused(reindex(R"j("shape": ["i0"], "indices": ["i0", "i0"])j"), "there is no axis i0");
  refused(reindex(R"j("shape": [2], "indices": ["i0", "i0"], "conditions": ["i0"])j"), "must be bool");
  refused(
      R"j({"op": "reindex_reduce", "inputs": ["x"], "outputs": ["y"], "shape": [2], "indices": ["i0"], "reduce": "median"})j",
      "\"median\" is not known");
  refused(R"j({"op": "all", "inputs": ["x"], "outputs": ["y"]})j", "it takes bool");
  refused(R"j({"op": "elementwise", "inputs": ["x", "k"], "outputs": ["y"], "body": "a+b(i0)"})j", "float32 meets int64");
  refused(R"j({"op": "elementwise", "inputs": ["k"], "outputs": ["y"], "body": "exp(k)"})j", "needs a float");
  refused(R"j({"op": "elementwise", "inputs": ["k"], "outputs": ["y"], "body": "k + 1.5"})j", "a real number meets int64");
  refused(R"j({"op": "elementwise", "inputs": ["x"], "outputs": ["y"], "body": "max(x)"})j",
          "max takes 2 arguments, 1 are given");
  refused(R"j({"op": "elementwise", "inputs": ["x"], "outputs": ["y"], "shape": [2, 3], "body": "@0(i0, i1+1)"})j",
          "not known to stay inside");
  refused(R"j({"op": "elementwise", "inputs": ["x"], "outputs": ["y"], "body": "frobnicate(x)"})j",
          "neither an operand of this node nor a function");
  refused(R"j({"op": "broadcast", "inputs": ["k"], "outputs": ["y"], "shape": [5, 3], "dims": [1]})j", "cannot broadcast");
  refused(R"j({"op": "sum", "inputs": ["x"], "outputs": ["y"], "dims": [2]})j", "");
  refused(R"j({"op": "sum", "inputs": ["x"], "outputs": ["y"], "dims": [1, -1]})j", "given twice");
  refused(R"j({"op": "slice", "inputs": ["x"], "outputs": ["y"], "dims": [1], "starts": [2], "extents": [2]})j",
          "leaves its dim");
}

}  // namespace
}  // namespace metac::frontends_expression_test
