// What --shape and --dim say of the dims of inputs: names of those without one, sizes that the model does not have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ops/lower_model.h"
#include "compiler/support/diagnostic.h"

namespace metac::input_dims_test {
namespace {

using ::testing::HasSubstr;

// y = Relu(image): [batch, 3, 320, ?].
Model relu() {
  Model model;
  model.opset_imports[""] = 17;
  Value image;
  image.name = "image";
  image.type.dtype = DType::f32;
  image.type.shape = {{-1, "batch"}, {3}, {320}, {-1}};
  model.graph.inputs = {image};
  Node node;
  node.op_type = "Relu";
  node.inputs = {"image"};
  node.outputs = {"y"};
  model.graph.nodes = {node};
  Value y;
  y.name = "y";
  model.graph.outputs = {y};
  return model;
}

Symbol range(const std::string& name, int64_t min, int64_t max) { return {.name = name, .min = min, .max = max}; }

TEST(InputDims, OfWhichNoneHasANameAreCalledByInputAndAxis) {
  LowerOptions options;
  options.input_shapes["image"] = {-1, 3, -1, -1};
  options.dims["image_2"] = range("image_2", 32, 640);
  const std::unique_ptr<Graph> graph = lower_model(relu(), options);
  ASSERT_EQ(graph->symbols.size(), 3u);
  EXPECT_EQ(graph->symbols[0].name, "batch");
  EXPECT_EQ(graph->symbols[1].name, "image_2");
  EXPECT_EQ(graph->symbols[1].min, 32);
  EXPECT_EQ(graph->symbols[1].max, 640);
  EXPECT_EQ(graph->symbols[2].name, "image_3");
}

TEST(InputDims, WhatTheModelFixesMayBeAnotherSize) {
  LowerOptions options;
  options.input_shapes["image"] = {1, 3, -1, 64};
  options.dims["image_2"] = range("image_2", 96, 96);
  const std::unique_ptr<Graph> graph = lower_model(relu(), options);
  EXPECT_TRUE(graph->symbols.empty());
  EXPECT_EQ(to_string(graph->outputs[0]->shape()), "[1, 3, 96, 64]");
}

TEST(InputDims, WhatTheModelFixesIsTypical) {
  LowerOptions options;
  options.input_shapes["image"] = {1, 3, -1, -1};
  const std::unique_ptr<Graph> graph = lower_model(relu(), options);
  ASSERT_EQ(graph->symbols.size(), 2u);
  EXPECT_EQ(graph->symbols[0].hint, 320);
  EXPECT_EQ(graph->symbols[1].hint, 224);
}

TEST(InputDims, RefusalsNameThem) {
  auto refusal = [](const LowerOptions& options) {
    try {
      lower_model(relu(), options);
    } catch (const CompileError& error) {
      return error.diagnostic.message;
    }
    return std::string();
  };
  LowerOptions other_size, unknown, closed, twice;
  other_size.input_shapes["image"] = {1, 3, 96, 64};
  EXPECT_THAT(refusal(other_size), HasSubstr("axis 2 is 320 in the model, 96 was asked for"));
  EXPECT_THAT(refusal(other_size), HasSubstr("--dim \"image_2=96\""));
  unknown.dims["width"] = range("width", 1, 8);
  EXPECT_THAT(refusal(unknown), HasSubstr("its open dims are: \"batch\", \"image_3\""));
  closed.dims["image_2"] = range("image_2", 1, 8);  // without "?" it is not open
  EXPECT_THAT(refusal(closed), HasSubstr("the model has no dim named \"image_2\""));
  twice.dims["image_3"] = range("image_3", 64, 64);
  twice.input_shapes["image"] = {1, 3, 320, 65};
  EXPECT_THAT(refusal(twice), HasSubstr("dim \"image_3\" is 64 by --dim and 65 by the shape of input \"image\""));
}

}  // namespace
}  // namespace metac::input_dims_test
