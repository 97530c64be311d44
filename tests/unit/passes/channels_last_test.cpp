// Channels last on a GPU: which values lie so, and what is copied for it. What is computed is tested on the stand-in
// (tests/cuda).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/autodiff/gradient.h"
#include "compiler/ir/builders.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/lower_model.h"
#include "compiler/program/compile.h"
#include "compiler/target/target.h"
#include "frontends/json/json.h"

namespace metac::channels_last_test {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string parameter(const char* name, const char* shape, int elements) {
  std::string data = "0.1";
  for (int k = 1; k < elements; ++k) data += ",0.1";
  return concat("{\"name\": \"", name, "\", \"dtype\": \"float32\", \"shape\": [", shape, "], \"data\": [", data, "]}");
}

// conv(x) + b, relu and pooling in one kernel, and a second convolution.
std::unique_ptr<Graph> network() {
  const std::string parameters = parameter("w", "32, 16, 3, 3", 32 * 16 * 9) + ", " + parameter("b", "32", 32) + ", " +
                                 parameter("v", "24, 32, 3, 3", 24 * 32 * 9);
  return lower_model(
      read_json_model(
          R"json({"metac_ir": 1, "opset": 20, "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 16, 32, 32]}],
    "parameters": [)json" +
              parameters + R"json(],
    "nodes": [{"op": "Conv", "inputs": ["x", "w", "b"], "outputs": ["c"], "attributes": {"pads": [1, 1, 1, 1]}}, {"op": "Relu", "inputs": ["c"], "outputs": ["r"]},
              {"op": "MaxPool", "inputs": ["r"], "outputs": ["p"], "attributes": {"kernel_shape": [2, 2], "strides": [2, 2]}}, {"op": "Conv", "inputs": ["p", "v"], "outputs": ["y"]}], "outputs": ["y"]})json",
          "net.json"),
      {});
}

std::string kernels(Graph& g, bool tf32, bool cudnn = true) {
  CompileOptions options;
  options.cpu = cpu_target("native");
  options.target = &target_named("cuda");
  options.external = {cudnn, cudnn, tf32};
  std::string text;
  const CompiledModel model = compile_graph(g, options);
  for (const KernelSource& kernel : model.run.kernels) text += kernel.text;
  return concat(model.run.kernels.size(), " kernels\n", text);
}

const char* const first = "4, 16, 32, 1, {{32, 3, 32, 1, 1, 1}, {32, 3, 32, 1, 1, 1}}, no_activation, ";

TEST(ChannelsLast, WhereConvolutionsAreOnTensorCores) {
  // The input and the output are copied; pooling goes through channels side by side.
  const std::string text = kernels(*network(), true);
  EXPECT_THAT(text, HasSubstr("5 kernels"));
  EXPECT_THAT(text, HasSubstr(concat(first, "1, 1};")));
}

TEST(ChannelsLast, NotInStrictFloat32NorWithoutTheLibrary) {
  const std::string strict = kernels(*network(), false), alone = kernels(*network(), true, false);
  EXPECT_THAT(strict, HasSubstr("3 kernels"));
  EXPECT_THAT(strict, HasSubstr(concat(first, "0, 0};")));
  EXPECT_THAT(alone, HasSubstr("3 kernels"));
  EXPECT_THAT(alone, Not(HasSubstr("const Convolution ")));
}

// Both gradients, of the convolution and of the data, lie as the values do.
TEST(ChannelsLast, Gradients) {
  std::unique_ptr<Graph> g = network();
  std::vector<Var*> wrt = {g->inputs[0]};
  for (const auto& var : g->vars()) {
    if (!var->is_parameter) continue;
    var->constant.reset();
    var->forget_elements();
    var->is_input = true;
    g->inputs.push_back(var.get());
    wrt.push_back(var.get());
  }
  g->outputs =
      gradient(*g, reduce(*g, map(*g, Fn::mul, g->outputs[0], g->outputs[0]), {0, 1, 2, 3}, Reduce::add, false), wrt);
  g->output_names.clear();
  for (size_t k = 0; k < g->outputs.size(); ++k) g->output_names.push_back(concat("d", k));
  const std::string text = kernels(*g, true);
  for (const char* kind : {"convolution_forward", "convolution_data_gradient", "convolution_weights_gradient"})
    EXPECT_THAT(text, HasSubstr(concat("const Convolution convolution = {", kind))) << kind;
  EXPECT_THAT(text, Not(HasSubstr("activation, 1, 0};")));  // each with channels last
}

}  // namespace
}  // namespace metac::channels_last_test
