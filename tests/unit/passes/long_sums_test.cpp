// Sums that are much longer than their result is large: in parts, and a part in chunks.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compiler/session/session.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/lower_model.h"
#include "compiler/program/compile.h"
#include "compiler/target/cpu/tiles/long_sum.h"
#include "frontends/json/json.h"

namespace metac::long_sums_test {
namespace {

struct Case {
  int64_t images, height, width, a, b;
  bool chunks;
};

class LongSums : public testing::TestWithParam<Case> {};

TEST_P(LongSums, InPartsAndChunks) {
  const Case c = GetParam();
  auto shape = [&](int64_t channels) {
    return "[" + std::to_string(c.images) + ", " + std::to_string(c.height) + ", " + std::to_string(c.width) + ", " +
           std::to_string(channels) + "]";
  };
  const Model model = read_json_model(
      R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": )" + shape(c.a) +
          R"(}, {"name": "y", "dtype": "float32", "shape": )" + shape(c.b) +
          R"json(}], "nodes": [{"op": "Einsum", "inputs": ["x", "y"], "outputs": ["s"], "attributes": {"equation": "nhwa,nhwb->ab"}}, {"op": "elementwise", "inputs": ["s"], "outputs": ["z"], "body": "max(s, 0)"}], "outputs": ["z"]})json",
      "long.json");
  SessionOptions options;
  options.compile.cpu = cpu_target(
      "x86-64-v4");  // what is done depends on caches and vectors: those of one processor, whatever this machine has
  std::string schedule;
  const CompiledModel compiled = compile_graph(*lower_model(model, {}), options.compile);
  options.compile.cpu = cpu_target("native");
  EXPECT_EQ(compiled.run.kernels.size(), 2u);  // the parts, and what adds them up
  for (const KernelSource& kernel : compiled.run.kernels)
    for (const std::string& step : kernel.schedule) schedule += step + "\n";
  EXPECT_NE(schedule.find("tile:"), std::string::npos) << schedule;
  EXPECT_EQ(schedule.find("the sum in") != std::string::npos, c.chunks) << schedule;
  const int64_t points = c.images * c.height * c.width;
  std::mt19937 random(5);
  auto values = [&](int64_t n) {
    std::vector<float> out(static_cast<size_t>(n));
    for (float& v : out) v = static_cast<float>(random() % 2001) / 1000 - 1;
    return out;
  };
  const std::vector<float> x = values(points * c.a), y = values(points * c.b);
  std::vector<double> expected(static_cast<size_t>(c.a * c.b));
  for (int64_t p = 0; p < points; ++p)
    for (int64_t i = 0; i < c.a; ++i)
      for (int64_t k = 0; k < c.b; ++k)
        expected[static_cast<size_t>(i * c.b + k)] += static_cast<double>(x[static_cast<size_t>(p * c.a + i)]) *
                                                      static_cast<double>(y[static_cast<size_t>(p * c.b + k)]);
  std::vector<Tensor> found;
  for (int threads : {1, 3}) {
    options.threads = threads;
    Session session(model, options);
    found.push_back(session
                        .run({{"x", make_tensor<float>(DType::f32, {c.images, c.height, c.width, c.a}, x)},
                              {"y", make_tensor<float>(DType::f32, {c.images, c.height, c.width, c.b}, y)}})
                        .begin()
                        ->second);
  }
  for (int64_t k = 0; k < c.a * c.b; ++k) {
    ASSERT_NEAR(number_at(found[0], k), std::max(0.0, expected[static_cast<size_t>(k)]),
                2e-5 * std::sqrt(static_cast<double>(points)))
        << "element " << k;
    ASSERT_EQ(number_at(found[0], k), number_at(found[1], k)) << "element " << k << " on one thread and on three";
  }
}

// Parts alone; parts in chunks, with a rest of points and of lanes; one image, cut along its rows.
INSTANTIATE_TEST_SUITE_P(Shapes, LongSums,
                         testing::Values(Case{8, 28, 28, 32, 32, false}, Case{8, 80, 96, 37, 83, true},
                                         Case{6, 80, 96, 64, 48, true}, Case{1, 512, 96, 64, 64, true},
                                         Case{7, 64, 64, 96, 16, false}));

TEST(LongSums, WhatPartsAddUpToLiesAsTheyDo) {
  const Model model = read_json_model(
      R"json({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 4096, 7, 7]},
      {"name": "v", "dtype": "float32", "shape": [4096, 4096, 1, 1]}, {"name": "w", "dtype": "float32", "shape": [4096, 4096, 1, 1]}],
      "nodes": [{"op": "Conv", "inputs": ["x", "v"], "outputs": ["a"]}, {"op": "Relu", "inputs": ["a"], "outputs": ["b"]},
                {"op": "Conv", "inputs": ["b", "w"], "outputs": ["c"]}, {"op": "Relu", "inputs": ["c"], "outputs": ["d"]}], "outputs": ["d"]})json",
      "long.json");
  CompileOptions options;
  options.cpu = cpu_target("x86-64-v4");
  const CompiledModel compiled = compile_graph(*lower_model(model, {}), options);
  int totals = 0;
  for (const KernelSource& kernel : compiled.run.kernels)
    for (const std::string& step : kernel.schedule) totals += step == "vectorise along the output";
  EXPECT_EQ(totals, 1);  // of the first convolution; the second one's is the answer, which is wanted plain
}

// Three channels by 32, 8 images: the parts are images, which could be lanes of vectors of 8. The total has no such axis.
TEST(LongSums, PartsThatFillAVector) {
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    const Model model = read_json_model(
        R"json({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [8, 112, 112, 3]}, {"name": "y", "dtype": "float32", "shape": [8, 112, 112, 32]},
        {"name": "w", "dtype": "float32", "shape": [32, 64]}], "nodes": [{"op": "Einsum", "inputs": ["x", "y"], "outputs": ["s"], "attributes": {"equation": "nhwa,nhwb->ab"}},
                  {"op": "MatMul", "inputs": ["s", "w"], "outputs": ["z"]}], "outputs": ["z"]})json",
        "long.json");
    CompileOptions options;
    options.cpu = cpu_target(cpu);
    EXPECT_GE(compile_graph(*lower_model(model, {}), options).run.kernels.size(), 3u) << cpu;
  }
}

TEST(LongSumPlan, SharesOfTheResultStayInTheCache) {
  constexpr int64_t cache = 1 << 20;
  LongSum sum;
  sum.points = {9, 5};
  sum.tile_points = 13;
  sum.panels = 4;
  sum.panel_row_bytes = 128;
  sum.steps = {8, 56, 56};
  const auto plan = plan_long_sum(sum, cache);
  ASSERT_TRUE(plan);
  EXPECT_EQ(sum.panels % plan->groups, 0);
  EXPECT_EQ(sum.steps[plan->level] % plan->chunk_steps, 0);
  int64_t steps = 1;
  for (size_t k = 0; k < plan->level; ++k) steps *= sum.steps[k];
  EXPECT_EQ(plan->chunks, steps * (sum.steps[plan->level] / plan->chunk_steps));
  sum.steps = {8, 7, 7};  // an operand stays in the cache
  EXPECT_FALSE(plan_long_sum(sum, cache));
  sum.steps = {8, 56, 56};
  sum.points = {1};
  sum.panels = 4;  // four shares at most
  EXPECT_FALSE(plan_long_sum(sum, cache));
  sum.outside = 8;
  EXPECT_TRUE(plan_long_sum(sum, cache));
}

}  // namespace
}  // namespace metac::long_sums_test
