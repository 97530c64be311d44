// metac check's findings: all nodes at fault in one go, each with its operator, opset, operands and what can be done.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ops/lower_model.h"

namespace metac::find_problems_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Value port(const std::string& name, const std::vector<int64_t>& shape) {
  Value value;
  value.name = name;
  value.type.dtype = DType::f32;
  value.type.onnx_dtype = 1;
  value.type.shape.emplace();
  for (int64_t d : shape) value.type.shape->push_back(ModelDim{d, ""});
  return value;
}

Node node(const std::string& op_type, std::vector<std::string> inputs, const std::string& output,
          const std::string& domain = "") {
  Node made;
  made.op_type = op_type;
  made.domain = domain;
  made.inputs = std::move(inputs);
  made.outputs = {output};
  return made;
}

Model model_of(std::vector<Node> nodes) {
  Model model;
  model.opset_imports = {{"", 17}};
  model.graph.inputs = {port("x", {2, 3}), port("w", {4, 5})};
  model.graph.outputs = {port("y", {2, 3})};
  model.graph.nodes = std::move(nodes);
  return model;
}

TEST(FindProblems, NamesEveryNodeThatCannotBeLoweredButNoneBehindIt) {
  const std::vector<Finding> found = find_problems(model_of({node("MatMul", {"x", "w"}, "a"), node("Relu", {"a"}, "b"),
                                                             node("Conv", {"x", "x"}, "c"), node("Relu", {"x"}, "y")}),
                                                   {});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].op_type, "MatMul");
  EXPECT_EQ(found[0].opset, 17);
  EXPECT_THAT(found[0].inputs, ElementsAre("float32[2, 3]", "float32[4, 5]"));
  EXPECT_THAT(found[0].node, HasSubstr("node #0"));
  EXPECT_EQ(found[1].op_type, "Conv");
  EXPECT_THAT(found[1].advice, Not(""));
}

TEST(FindProblems, UnknownOperatorsAreNamedWithTheirDomain) {
  Model model = model_of({node("Foo", {"x"}, "a"), node("Bar", {"a"}, "y", "com.acme")});
  model.opset_imports["com.acme"] = 3;
  const std::vector<Finding> found = find_problems(model, {});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[1].op_type, "Bar");
  EXPECT_EQ(found[1].domain, "com.acme");
  EXPECT_EQ(found[1].opset, 3);
  EXPECT_THAT(found[1].advice, HasSubstr("function of the model"));
}

TEST(FindProblems, FindsNothingInAModelThatCanBeLowered) {
  EXPECT_TRUE(find_problems(model_of({node("Relu", {"x"}, "y")}), {}).empty());
}

}  // namespace
}  // namespace metac::find_problems_test
