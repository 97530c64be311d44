// Rows that lie side by side in memory: means and variances over the first axis, whole vectors of columns at a time.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "compiler/session/session.h"
#include "frontends/json/json.h"
#include "tests/unit/ramp.h"

namespace metac::lanes_across_test {
namespace {

class LanesAcross : public ::testing::TestWithParam<int64_t> {};

TEST_P(LanesAcross, StatisticsOfColumns) {
  const int64_t rows = 300, columns = GetParam();
  const std::string shape = "[300, " + std::to_string(columns) + "]";
  const Model model = read_json_model(
      R"({"metac_ir": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": )" + shape + R"json(}], "nodes": [
    {"op": "mean", "inputs": ["x"], "outputs": ["m"], "dims": [0], "keepdims": 1},
    {"op": "elementwise", "inputs": ["x", "m"], "outputs": ["d"], "body": "(x - m)*(x - m)"},
    {"op": "mean", "inputs": ["d"], "outputs": ["v"], "dims": [0], "keepdims": 1},
    {"op": "elementwise", "inputs": ["x", "m", "v"], "outputs": ["y"], "body": "(x - m)/sqrt(v + 1e-5)"}], "outputs": ["m", "v", "y"]})json",
      "columns.json");
  SessionOptions options;
  options.compile.cpu = cpu_target("native");
  std::unique_ptr<Graph> graph = lower_model(model, {});
  const int64_t lanes = options.compile.cpu.vector_bytes / 4;
  std::string across;
  for (const KernelSource& kernel : compile_graph(*graph, options.compile).run.kernels)
    for (const std::string& step : kernel.schedule)
      if (step.rfind("lanes across", 0) == 0) across = step;
  // As many vectors as leave blocks for threads.
  const int64_t vectors = columns % (4 * lanes) == 0 && columns >= 32 * lanes  ? 4
                          : columns % (2 * lanes) == 0 && columns >= 8 * lanes ? 2
                                                                               : 1;
  EXPECT_EQ(across, columns < lanes ? "" : "lanes across " + std::to_string(vectors * lanes) + " rows");
  std::mt19937 random(4);
  std::vector<float> x(static_cast<size_t>(rows * columns));
  for (float& value : x) value = static_cast<float>(random() % 2001) / 500 - 1;
  Session session(model, options);
  std::map<std::string, Tensor> out;
  for (auto& [name, tensor] : session.run({{"x", make_tensor<float>(DType::f32, {rows, columns}, x)}})) out[name] = tensor;
  for (int64_t c = 0; c < columns; ++c) {
    double mean = 0, variance = 0;
    for (int64_t r = 0; r < rows; ++r)
      mean += static_cast<double>(x[static_cast<size_t>(r * columns + c)]) / static_cast<double>(rows);
    for (int64_t r = 0; r < rows; ++r)
      variance +=
          std::pow(static_cast<double>(x[static_cast<size_t>(r * columns + c)]) - mean, 2) / static_cast<double>(rows);
    EXPECT_NEAR(number_at(out["m"], c), mean, 1e-5);
    EXPECT_NEAR(number_at(out["v"], c), variance, 1e-5);
    for (int64_t r = 0; r < rows; ++r)
      ASSERT_NEAR(number_at(out["y"], r * columns + c),
                  (static_cast<double>(x[static_cast<size_t>(r * columns + c)]) - mean) / std::sqrt(variance + 1e-5), 1e-4)
          << "row " << r << ", column " << c;
  }
}

// Whole vectors, a rest, and fewer columns than a vector has lanes.
INSTANTIATE_TEST_SUITE_P(Columns, LanesAcross, ::testing::Values(512, 64, 40, 16, 3));

// Rows that nobody has counted may be one: where the columns of a matrix lie side by side lanes run along them, however few
// they are (low-rank adapters that a run chooses), and nothing is turned for lanes along rows.
TEST(LanesAcross, FewColumnsBesideOpenRows) {
  const Model model = read_json_model(
      R"json({"metac_ir": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": ["s", 64]}, {"name": "a", "dtype": "float32", "shape": [64, 8]},
    {"name": "b", "dtype": "float32", "shape": [8, 64]}], "nodes": [
    {"op": "matmul", "inputs": ["x", "a"], "outputs": ["narrow"]}, {"op": "matmul", "inputs": ["narrow", "b"], "outputs": ["wide"]},
    {"op": "elementwise", "inputs": ["x", "wide"], "outputs": ["y"], "body": "x + wide"}], "outputs": ["y"]})json",
      "few_columns.json");
  SessionOptions options;
  options.compile.cpu = cpu_target("x86-64-v4");
  std::unique_ptr<Graph> graph = lower_model(model, {});
  const CompiledModel compiled = compile_graph(*graph, options.compile);
  ASSERT_FALSE(compiled.run.kernels.empty());
  for (const KernelSource& kernel : compiled.run.kernels)
    EXPECT_EQ(kernel.text.find("axes stored as"), std::string::npos) << kernel.text;
}

// A softmax of columns, turned upside down: what never leaves the kernel has the columns of a block side by side.
TEST(LanesAcross, ArraysOfABlock) {
  for (const int64_t columns : {256, 40}) {
    SCOPED_TRACE(columns);
    const std::string n = std::to_string(columns);
    const Model model = read_json_model(
        R"({"metac_ir": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [60, )" + n + R"json(]}], "nodes": [
      {"op": "mean", "inputs": ["x"], "outputs": ["m"], "dims": [0], "keepdims": 1},
      {"op": "elementwise", "inputs": ["x", "m"], "outputs": ["d"], "body": "exp(x - m)"},
      {"op": "sum", "inputs": ["d"], "outputs": ["s"], "dims": [0], "keepdims": 1},
      {"op": "elementwise", "inputs": ["d", "s"], "outputs": ["y"], "body": "@0(59 - i0, i1)/@1(0, i1)", "shape": "@0.shape"}], "outputs": ["y"]})json",
        "turned.json");
    SessionOptions options;
    options.compile.cpu = cpu_target("native");
    const CompiledModel compiled = compile_graph(*lower_model(model, {}), options.compile);
    bool across = false, inside = false;
    for (const KernelSource& kernel : compiled.run.kernels) {
      inside |= kernel.text.find("alignas(64) float t") != std::string::npos;
      for (const std::string& step : kernel.schedule) across |= step.rfind("lanes across", 0) == 0;
    }
    EXPECT_TRUE(across);
    EXPECT_TRUE(inside) << "the case is not what it should be";
    std::vector<float> x(static_cast<size_t>(60 * columns));
    for (size_t k = 0; k < x.size(); ++k) x[k] = static_cast<float>(k * 7919 % 1013) / 500 - 1;
    Session session(model, options);
    const Tensor y = session.run({{"x", make_tensor<float>(DType::f32, {60, columns}, x)}}).begin()->second;
    for (int64_t c = 0; c < columns; ++c) {
      double sum = 0;
      const auto power = [&](int64_t r) { return std::exp(static_cast<double>(x[static_cast<size_t>(r * columns + c)])); };
      for (int64_t r = 0; r < 60; ++r) sum += power(r);
      for (int64_t r = 0; r < 60; ++r)
        ASSERT_NEAR(number_at(y, r * columns + c), power(59 - r) / sum, 1e-5) << "row " << r << ", column " << c;
    }
  }
}

// Normalised channels of each image, stored last: the images are loops around the blocks.
TEST(LanesAcross, BelowOtherSharedLoops) {
  for (const int64_t images : {1, 3})
    for (const int64_t columns : {96, 40}) {
      SCOPED_TRACE(testing::Message() << images << " images of " << columns << " columns");
      const std::string shape = "[" + std::to_string(images) + ", 150, " + std::to_string(columns) + "]";
      const Model model = read_json_model(
          R"({"metac_ir": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": )" + shape + R"json(}], "nodes": [
        {"op": "mean", "inputs": ["x"], "outputs": ["m"], "dims": [1], "keepdims": 1},
        {"op": "elementwise", "inputs": ["x", "m"], "outputs": ["d"], "body": "(x - m)*(x - m)"},
        {"op": "mean", "inputs": ["d"], "outputs": ["v"], "dims": [1], "keepdims": 1},
        {"op": "elementwise", "inputs": ["x", "m", "v"], "outputs": ["y"], "body": "erf((x - m)/sqrt(v + 1e-5))"}], "outputs": ["y"]})json",
          "images.json");
      SessionOptions options;
      options.compile.cpu = cpu_target("native");
      const std::unique_ptr<Graph> graph = lower_model(model, {});
      bool across = false;
      for (const KernelSource& kernel : compile_graph(*graph, options.compile).run.kernels)
        for (const std::string& step : kernel.schedule) across |= step.rfind("lanes across", 0) == 0;
      EXPECT_TRUE(across);
      const Tensor x = ramp({images, 150, columns}, 7), expected = evaluate(*graph, {x})[0];
      const Tensor y = Session(model, options).run({{"x", x}}).begin()->second;
      for (int64_t k = 0; k < expected.element_count(); ++k)
        ASSERT_NEAR(number_at(y, k), number_at(expected, k), 1e-5) << "element " << k;
    }
}

}  // namespace
}  // namespace metac::lanes_across_test
