// What operators lower to: the forms that later stages look for, and what they say about bad attributes and shapes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ops/lower_model.h"
#include "compiler/ops/registry.h"

namespace metac::operators_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A model of one node with inputs a, b, c, ... of these shapes (-1: open) and float32 elements.
struct OneNode {
  OneNode(std::string op_type, std::vector<std::vector<int64_t>> shapes, int opset = 17) {
    model.opset_imports[""] = opset;
    Node node;
    node.op_type = std::move(op_type);
    node.name = "n";
    for (size_t i = 0; i < shapes.size(); ++i) {
      Value value;
      value.name = std::string(1, static_cast<char>('a' + i));
      value.type.dtype = DType::f32;
      value.type.onnx_dtype = 1;
      value.type.shape.emplace();
      for (int64_t d : shapes[i]) value.type.shape->push_back(ModelDim{d, d < 0 ? value.name : ""});
      node.inputs.push_back(value.name);
      model.graph.inputs.push_back(value);
    }
    node.outputs = {"y"};
    model.graph.nodes.push_back(node);
    Value out;
    out.name = "y";
    model.graph.outputs.push_back(out);
  }
  OneNode& with_list(const char* name, std::vector<int64_t> values) {
    Attribute& a = model.graph.nodes[0].attributes[name];
    a.kind = Attribute::Kind::integers;
    a.integers = std::move(values);
    return *this;
  }
  OneNode& with(const char* name, int value) {
    Attribute& a = model.graph.nodes[0].attributes[name];
    a.kind = Attribute::Kind::integer;
    a.integer = value;
    return *this;
  }
  OneNode& with(const char* name, const char* value) {
    Attribute& a = model.graph.nodes[0].attributes[name];
    a.kind = Attribute::Kind::string;
    a.string = value;
    return *this;
  }
  std::unique_ptr<Graph> lower() const { return lower_model(model, {}); }
  std::string refusal() const {
    try {
      lower();
    } catch (const CompileError& error) {
      return error.diagnostic.message;
    }
    return "";
  }
  Model model;
};

std::vector<const Op*> ops_of(const std::vector<Op*>& ops, OpKind kind) {
  std::vector<const Op*> found;
  for (const Op* op : ops)
    if (op->kind == kind) found.push_back(op);
  return found;
}

// reindex_reduce(add) <- mul <- two reindexes
void expect_contraction(const Op* sum) {
  EXPECT_EQ(sum->reduce, Reduce::add);
  const Op* product = sum->inputs[0]->producer;
  ASSERT_NE(product, nullptr);
  ASSERT_EQ(product->kind, OpKind::elementwise);
  EXPECT_EQ(product->bodies[0]->fn, Fn::mul);
  ASSERT_EQ(product->inputs.size(), 2u);
  for (const Var* operand : product->inputs) {
    ASSERT_NE(operand->producer, nullptr);
    EXPECT_EQ(operand->producer->kind, OpKind::reindex);
  }
}

TEST(Operators, ConvolutionIsTwoReindexesAProductAndASum) {
  auto graph = OneNode("Conv", {{1, 3, 8, 8}, {4, 3, 3, 3}}).with_list("pads", {1, 1, 1, 1}).lower();
  auto sums = ops_of(graph->ops, OpKind::reindex_reduce);
  ASSERT_EQ(sums.size(), 1u);
  expect_contraction(sums[0]);
  const Op* product = sums[0]->inputs[0]->producer;
  EXPECT_EQ(to_string(product->outputs[0]->shape()), "[1, 4, 8, 8, 3, 3, 3]");
  EXPECT_EQ(product->inputs[0]->producer->conditions.size(), 4u);
  EXPECT_TRUE(product->inputs[1]->producer->conditions.empty());
}

TEST(Operators, ConvolutionWithoutPaddingHasNoConditions) {
  auto graph = OneNode("Conv", {{-1, 3, 8, 8}, {4, 3, 3, 3}}).with_list("strides", {2, 2}).lower();
  const Op* product = ops_of(graph->ops, OpKind::reindex_reduce)[0]->inputs[0]->producer;
  EXPECT_TRUE(product->inputs[0]->producer->conditions.empty());
}

TEST(Operators, GroupsAreAnAxisOfTheirOwn) {
  auto graph = OneNode("Conv", {{1, 6, 8, 8}, {4, 3, 3, 3}}).with("group", 2).lower();
  auto sums = ops_of(graph->ops, OpKind::reindex_reduce);
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(to_string(sums[0]->inputs[0]->shape()), "[1, 2, 2, 6, 6, 3, 3, 3]");
  EXPECT_EQ(to_string(graph->outputs[0]->shape()), "[1, 4, 6, 6]");
}

TEST(Operators, StridedTransposedConvolutionTestsNoDivisibility) {
  auto graph = OneNode("ConvTranspose", {{1, 3, 5, 5}, {3, 2, 2, 2}}).with_list("strides", {2, 2}).lower();
  EXPECT_EQ(to_string(graph->outputs[0]->shape()), "[1, 2, 10, 10]");
  auto sums = ops_of(graph->ops, OpKind::reindex_reduce);
  ASSERT_EQ(sums.size(), 1u);
  expect_contraction(sums[0]);
  for (const Var* operand : sums[0]->inputs[0]->producer->inputs) EXPECT_TRUE(operand->producer->conditions.empty());
}

TEST(Operators, LstmMultipliesItsInputOutsideTheLoop) {
  auto graph = OneNode("LSTM", {{5, 2, 3}, {1, 16, 3}, {1, 16, 4}}).with("hidden_size", 4).lower();
  auto outside = ops_of(graph->ops, OpKind::reindex_reduce);
  ASSERT_EQ(outside.size(), 1u);
  expect_contraction(outside[0]);
  EXPECT_EQ(to_string(outside[0]->outputs[0]->shape()), "[5, 2, 16]");
  auto loops = ops_of(graph->ops, OpKind::loop);
  ASSERT_EQ(loops.size(), 1u);
  EXPECT_EQ(ops_of(loops[0]->regions[0].ops, OpKind::reindex_reduce).size(), 1u);
}

TEST(Operators, OneStepOfAnLstmIsNoLoop) {
  auto graph = OneNode("LSTM", {{1, 2, 3}, {1, 16, 3}, {1, 16, 4}}).with("hidden_size", 4).lower();
  EXPECT_TRUE(ops_of(graph->ops, OpKind::loop).empty());
  EXPECT_EQ(ops_of(graph->ops, OpKind::reindex_reduce).size(), 2u);
}

TEST(Operators, EinsumSumsWhatOnlyOneOperandHasBeforeMultiplying) {
  OneNode node("Einsum", {{2, 3}, {3, 4}, {4, 5}});
  auto graph = node.with("equation", "ij,jk,kl->il").lower();
  auto sums = ops_of(graph->ops, OpKind::reindex_reduce);
  ASSERT_EQ(sums.size(), 2u);
  EXPECT_EQ(to_string(sums[0]->outputs[0]->shape()), "[2, 4]");
  EXPECT_EQ(to_string(sums[1]->outputs[0]->shape()), "[2, 5]");
}

TEST(Operators, RefusalsStateTheValues) {
  EXPECT_THAT(OneNode("Conv", {{1, 4, 8, 8}, {4, 4, 3, 3}}).with_list("strides", {0, 1}).refusal(),
              HasSubstr("strides[0] is 0"));
  EXPECT_THAT(OneNode("Conv", {{1, 4, 8, 8}, {4, 4, 3, 3}}).with("group", 3).refusal(),
              HasSubstr("group 3 does not divide the 4"));
  EXPECT_THAT(OneNode("Conv", {{1, 4, 2, 8}, {4, 4, 3, 3}}).refusal(),
              HasSubstr("spans 3 elements of spatial axis 0 which has 2"));
  EXPECT_THAT(OneNode("Conv", {{1, 5, 8, 8}, {4, 4, 3, 3}}).refusal(),
              AllOf(HasSubstr("[1, 5, 8, 8]"), HasSubstr("[4, 4, 3, 3]")));
  EXPECT_THAT(OneNode("MaxPool", {{1, 1, 4, 4}}).with_list("kernel_shape", {2, 2}).with_list("pads", {2, 0, 0, 0}).refusal(),
              HasSubstr("could lie in the padding of 2"));
  EXPECT_THAT(OneNode("Gemm", {{2, 3}, {4, 5}}).refusal(), AllOf(HasSubstr("[2, 3]"), HasSubstr("[4, 5]")));
  EXPECT_THAT(OneNode("MatMul", {{2, 3}, {4, 5}}).refusal(), HasSubstr("3 columns against 4 rows"));
  EXPECT_THAT(OneNode("Einsum", {{2, 3}}).with("equation", "i->i").refusal(), HasSubstr("1 letters"));
  EXPECT_THAT(OneNode("Einsum", {{2, 3}}).with("equation", "ij->k").refusal(), HasSubstr("axis \"k\""));
  EXPECT_THAT(OneNode("Softmax", {{2, 3}}).with("axis", 7).refusal(), HasSubstr("axis 7 is out of range for rank 2"));
  EXPECT_THAT(OneNode("LRN", {{1, 4, 2, 2}}).with("size", 0).refusal(), HasSubstr("size must be at least 1, found 0"));
  EXPECT_THAT(OneNode("LSTM", {{5, 1, 3}, {1, 16, 7}, {1, 16, 4}}).refusal(),
              HasSubstr("W must have shape [1, 16, 3], found [1, 16, 7]"));
  EXPECT_THAT(OneNode("Gelu", {{2}}, 20).with("approximate", "sine").refusal(), HasSubstr("found \"sine\""));
}

TEST(Operators, TheRegistryIsConsistent) {
  for (const OpSchema* schema : all_operators()) {
    EXPECT_FALSE(schema->since.empty()) << schema->name;
    EXPECT_TRUE(std::is_sorted(schema->since.begin(), schema->since.end())) << schema->name;
    EXPECT_TRUE(schema->max_inputs < 0 || schema->min_inputs <= schema->max_inputs) << schema->name;
    EXPECT_TRUE(schema->lower) << schema->name;
    EXPECT_EQ(find_operator(schema->domain, schema->name), schema);
  }
}

}  // namespace
}  // namespace metac::operators_test
