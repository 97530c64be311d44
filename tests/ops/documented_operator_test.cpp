// The operator that docs/adding_an_operator.md adds in one file: known to the registry, lowered, evaluated, refused with
// values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ops/lower_model.h"
#include "compiler/ops/registry.h"
#include "compiler/oracle/evaluate_graph.h"

namespace metac {
namespace {

Value tensor_value(std::string name, DType dtype, std::vector<int64_t> dims) {
  Value value;
  value.name = std::move(name);
  value.type.dtype = dtype;
  value.type.shape.emplace();
  for (int64_t d : dims) value.type.shape->push_back(ModelDim{d, ""});
  return value;
}

Model squared_difference(DType dtype) {
  Model model;
  model.path = "example";
  model.opset_imports = {{"", 17}, {"com.example", 1}};
  Node node;
  node.op_type = "SquaredDifference";
  node.domain = "com.example";
  node.inputs = {"a", "b"};
  node.outputs = {"y"};
  node.attributes["scale"].kind = Attribute::Kind::real;
  node.attributes["scale"].real = 2;
  model.graph.nodes = {node};
  model.graph.inputs = {tensor_value("a", dtype, {2, 2}), tensor_value("b", dtype, {2})};
  model.graph.outputs = {tensor_value("y", dtype, {2, 2})};
  return model;
}

TEST(DocumentedOperator, IsKnown) {
  const OpSchema* schema = find_operator("com.example", "SquaredDifference");
  ASSERT_NE(schema, nullptr);
  EXPECT_EQ(schema->min_inputs, 2);
}

TEST(DocumentedOperator, Computes) {
  auto graph = lower_model(squared_difference(DType::f32), {});
  Tensor a = make_tensor<float>(DType::f32, {2, 2}, {1, 2, 3, 4}), b = make_tensor<float>(DType::f32, {2}, {1, 1});
  std::vector<Tensor> out = GraphEvaluator(*graph).run({a, b});
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].shape, (std::vector<int64_t>{2, 2}));
  const float* y = out[0].data<float>();
  EXPECT_THAT(std::vector<float>(y, y + 4), ::testing::ElementsAre(0, 2, 8, 18));
}

TEST(DocumentedOperator, RefusesIntegersByName) {
  try {
    lower_model(squared_difference(DType::i32), {});
    FAIL() << "int32 was accepted";
  } catch (const CompileError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr(
                              "node #0 (SquaredDifference): A and B must be of one float dtype, found int32 and int32"));
  }
}

}  // namespace
}  // namespace metac
