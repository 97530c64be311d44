// A depthwise convolution between two dense ones and what flows back through them: no image is copied, all lie with their
// channels together.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <sstream>

#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/lower_model.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "frontends/json/json.h"

namespace metac::depthwise_gradient_test {
namespace {

class DepthwiseGradient : public testing::TestWithParam<int> {};

TEST_P(DepthwiseGradient, ImagesKeepTheirChannelsTogether) {
  const std::string stride = std::to_string(GetParam());
  const Model model = read_json_model(
      R"json({"metac_ir": 1, "opset": {"": 17, "ai.onnx.preview.training": 1}, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 24, 12, 16]},
      {"name": "expand", "dtype": "float32", "shape": [32, 24, 1, 1]}, {"name": "filter", "dtype": "float32", "shape": [32, 1, 3, 3]}, {"name": "project", "dtype": "float32", "shape": [24, 32, 1, 1]}],
    "nodes": [{"op": "Conv", "inputs": ["x", "expand"], "outputs": ["a"]}, {"op": "mean", "inputs": ["a"], "outputs": ["m"], "dims": [0, 2, 3], "keepdims": 1},
      {"op": "elementwise", "inputs": ["a", "m"], "outputs": ["h"], "body": "max(a - m, 0)"},
      {"op": "Conv", "inputs": ["h", "filter"], "outputs": ["d"], "attributes": {"group": 32, "pads": [1, 1, 1, 1], "strides": [)json" +
          stride + ", " + stride + R"json(]}},
      {"op": "mean", "inputs": ["d"], "outputs": ["n"], "dims": [0, 2, 3], "keepdims": 1}, {"op": "elementwise", "inputs": ["d", "n"], "outputs": ["e"], "body": "max(d - n, 0)"},
      {"op": "Conv", "inputs": ["e", "project"], "outputs": ["y"]}, {"op": "elementwise", "inputs": ["y"], "outputs": ["z"], "body": "y*y"}, {"op": "sum", "inputs": ["z"], "outputs": ["loss"]},
      {"op": "Gradient", "domain": "ai.onnx.preview.training", "inputs": ["x", "expand", "filter", "project"], "outputs": ["dx", "de", "df", "dp"],
       "attributes": {"xs": ["x", "expand", "filter", "project"], "y": "loss"}}], "outputs": ["loss", "dx", "de", "df", "dp"]})json",
      "depthwise.json");
  std::unique_ptr<Graph> graph = lower_model(model, {});
  std::mt19937 random(3);
  std::vector<Tensor> inputs;
  for (const Var* in : graph->inputs) {
    std::vector<int64_t> shape;
    int64_t count = 1;
    for (Expr e : in->shape()) shape.push_back(e.as_int()), count *= e.as_int();
    std::vector<float> values;
    for (int64_t k = 0; k < count; ++k) values.push_back(static_cast<float>(random() % 1000) / 500 - 1);
    inputs.push_back(make_tensor<float>(DType::f32, shape, values));
  }
  const std::vector<Tensor> expected = evaluate(*graph, inputs);
  CompileOptions options;
  options.cpu = cpu_target("native");
  CompiledModel compiled = compile_graph(*graph, options);
  for (const KernelSource& kernel : compiled.run.kernels) {
    std::istringstream lines(kernel.text);
    for (std::string line; std::getline(lines, line);)
      if (line.find("float32[2, 32, ") != std::string::npos) {
        EXPECT_NE(line.find("axes stored as 0 2 3"), std::string::npos) << kernel.text;
      }
  }
  WeightsBlock weights = run_prepare(compiled, options.cpu);
  const std::vector<Tensor> found =
      JitProgram(std::make_shared<CompiledProgram>(std::move(compiled.run)), weights, options.cpu, 2).run(inputs);
  for (size_t r = 0; r < expected.size(); ++r) {
    double largest = 0;
    for (int64_t k = 0; k < expected[r].element_count(); ++k)
      largest = std::max(largest, std::fabs(number_at(expected[r], k)));
    for (int64_t k = 0; k < expected[r].element_count(); ++k)
      ASSERT_NEAR(number_at(found[r], k), number_at(expected[r], k), 2e-5 * largest) << "result " << r << ", element " << k;
  }
}

INSTANTIATE_TEST_SUITE_P(Strides, DepthwiseGradient, testing::Values(1, 2));

// What flows back through a window at stride 2: nine taps in four parts, of which one by one window leaves one.
TEST(ResidueParts, EachResidueHasItsOwnTaps) {
  for (const auto& [window, kernels] : {std::pair(3, 4), std::pair(1, 4), std::pair(2, 1)}) {
    const std::string w = std::to_string(window), pad = window == 3 ? "1" : "0";
    const Model model = read_json_model(
        R"json({"metac_ir": 1, "opset": {"": 17, "ai.onnx.preview.training": 1}, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 32, 12, 12]},
        {"name": "w", "dtype": "float32", "shape": [48, 32, )json" +
            w + ", " + w + R"json(]}],
      "nodes": [{"op": "Conv", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {"strides": [2, 2], "pads": [)json" +
            pad + "," + pad + "," + pad + "," + pad + R"json(]}},
        {"op": "elementwise", "inputs": ["y"], "outputs": ["z"], "body": "y*y"}, {"op": "sum", "inputs": ["z"], "outputs": ["loss"]},
        {"op": "Gradient", "domain": "ai.onnx.preview.training", "inputs": ["x", "w"], "outputs": ["dx", "dw"], "attributes": {"xs": ["x", "w"], "y": "loss"}}], "outputs": ["dx"]})json",
        "strided.json");
    std::unique_ptr<Graph> graph = lower_model(model, {});
    CompileOptions options;
    options.cpu = cpu_target("native");
    const std::string result = "float32[2, 32, 12, 12], axes stored as 0 2 3 1";
    int writers = 0;
    for (const KernelSource& kernel : compile_graph(*graph, options).run.kernels) {
      if (kernel.text.find("// v0 ") != std::string::npos || kernel.text.find("zero the halo") != std::string::npos)
        continue;  // a copy of x
      std::istringstream lines(kernel.text);
      for (std::string line; std::getline(lines, line);)
        writers += line.find(" out") != std::string::npos && line.find(result) != std::string::npos;
    }
    EXPECT_EQ(writers, kernels) << "window " << window;
  }
}

}  // namespace
}  // namespace metac::depthwise_gradient_test
