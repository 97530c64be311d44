// Attention with masks: weights that are next to nothing are zeros where they only weigh sums, and stay where they are seen.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/oracle/evaluate_graph.h"
#include "frontends/json/json.h"
#include "tests/unit/ramp.h"
#include "tests/unit/schedule_that_answers.h"

namespace metac::softmax_weights_test {
namespace {

Model attention(const std::string& nodes, const std::string& outputs) {
  return read_json_model(
      R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [3, 24, 40]},
    {"name": "v", "dtype": "float32", "shape": [3, 40, 16]}], "nodes": [{"op": "Softmax", "inputs": ["x"], "outputs": ["w"]}, )" +
          nodes + R"(], "outputs": [)" + outputs + "]}",
      "attention.json");
}

// Does a kernel leave out weights below e^-60?
bool drops(const Model& model) {
  CompileOptions options;
  options.cpu = cpu_target("x86-64-v4");
  bool any = false;
  for (const KernelSource& kernel : compile_graph(*lower_model(model, {}), options).run.kernels)
    any = any || kernel.text.find("-6e+01f") != std::string::npos;
  return any;
}

const std::string product = R"({"op": "MatMul", "inputs": ["w", "v"], "outputs": ["y"]})";

TEST(SoftmaxWeights, TinyOnesAreZerosInSums) {
  const Model model = attention(product, "\"y\"");
  EXPECT_TRUE(drops(model));
  std::vector<float> scores;
  for (int k = 0; k < 3 * 24 * 40; ++k)
    scores.push_back(k % 40 < 7 ? -INFINITY : static_cast<float>(k * 7 % 11) - (k % 3 == 0 ? 100.0f : 0.0f));
  std::vector<Tensor> inputs = {make_tensor<float>(DType::f32, {3, 24, 40}, scores), ramp({3, 40, 16}, 5)};
  const Tensor expected = evaluate(*lower_model(model, {}), inputs)[0];
  for (const char* cpu : {"native", "x86-64-v3", "x86-64"}) schedule_that_answers(model, cpu, inputs, expected);
  scores[50] = NAN;
  inputs[0] = make_tensor<float>(DType::f32, {3, 24, 40}, scores);
  CompileOptions options;
  options.cpu = cpu_target("native");
  const CompiledModel compiled = compile_graph(*lower_model(model, {}), options);
  const Tensor found =
      JitProgram(std::make_shared<CompiledProgram>(compiled.run), run_prepare(compiled, options.cpu), options.cpu, 2)
          .run(inputs)[0];
  for (int64_t k = 0; k < found.element_count(); ++k) EXPECT_EQ(std::isnan(number_at(found, k)), k / 16 == 1) << k;
}

// A mask of windows is added in a shape of its own, to windows of an open number of images.
TEST(SoftmaxWeights, BehindAReshape) {
  const Model model = read_json_model(
      R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": ["n", 4, 24, 40]},
    {"name": "mask", "dtype": "float32", "shape": [4, 24, 40]}, {"name": "v", "dtype": "float32", "shape": [40, 16]}],
  "nodes": [{"op": "Add", "inputs": ["x", "mask"], "outputs": ["s"]}, {"op": "Constant", "inputs": [], "outputs": ["windows"], "attributes": {"value_ints": [-1, 24, 40]}},
    {"op": "Reshape", "inputs": ["s", "windows"], "outputs": ["r"]},
    {"op": "Softmax", "inputs": ["r"], "outputs": ["w"]}, {"op": "MatMul", "inputs": ["w", "v"], "outputs": ["y"]}], "outputs": ["y"]})",
      "windows.json");
  EXPECT_TRUE(drops(model));
}

TEST(SoftmaxWeights, ThoseThatAreSeenStay) {
  EXPECT_FALSE(drops(attention(product, R"("y", "w")")));
  // Sums over the rows may be of tiny weights alone.
  EXPECT_FALSE(drops(attention(R"({"op": "sum", "inputs": ["w"], "outputs": ["y"], "dims": [1]})", "\"y\"")));
  EXPECT_FALSE(drops(attention(R"({"op": "Log", "inputs": ["w"], "outputs": ["y"]})", "\"y\"")));
  // An entropy: 0 log 0 is no number.
  EXPECT_FALSE(drops(attention(
      R"({"op": "Log", "inputs": ["w"], "outputs": ["l"]}, {"op": "Mul", "inputs": ["w", "l"], "outputs": ["p"]}, {"op": "sum", "inputs": ["p"], "outputs": ["y"], "dims": [2]})",
      "\"y\"")));
  // How many are there, and a sum of roots.
  EXPECT_FALSE(drops(attention(
      R"({"op": "elementwise", "inputs": ["w"], "outputs": ["p"], "body": "(w > 0) ? 1 : 0"}, {"op": "sum", "inputs": ["p"], "outputs": ["y"], "dims": [2]})",
      "\"y\"")));
  EXPECT_FALSE(drops(attention(
      R"({"op": "Sqrt", "inputs": ["w"], "outputs": ["p"]}, {"op": "sum", "inputs": ["p"], "outputs": ["y"], "dims": [2]})",
      "\"y\"")));
}

}  // namespace
}  // namespace metac::softmax_weights_test
