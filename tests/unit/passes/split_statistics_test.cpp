// Statistics of channels that lie last, over the points of many images: sums of parts in the order of memory.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "compiler/session/session.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/program/compile.h"
#include "frontends/json/json.h"

namespace metac::split_statistics_test {
namespace {

const char* const by_points = "points in the order of memory, all channels of each";

SessionOptions small_cache(int threads) {
  SessionOptions options;
  options.compile.cpu = cpu_target("native");
  options.compile.cpu.l2_bytes = 64 << 10;
  options.threads = threads;
  return options;
}

// How many kernels walk points in order, and how many sums these have.
std::pair<int, int> kernels_by_points(const Model& model) {
  const CompiledModel compiled = compile_graph(*lower_model(model, {}), small_cache(1).compile);
  int kernels = 0, sums = 0;
  for (const KernelSource& kernel : compiled.run.kernels) {
    int own = 0;
    for (const std::string& step : kernel.schedule) own += step == by_points;
    kernels += own > 0, sums += own;
  }
  return {kernels, sums};
}

std::vector<float> images(int64_t elements, double offset) {
  std::mt19937 random(4);
  std::vector<float> x(static_cast<size_t>(elements));
  for (float& value : x) value = static_cast<float>(static_cast<double>(random() % 2001) / 500 - 2 + offset);
  return x;
}

struct Size {
  int64_t rows, columns, channels;
};
class SplitStatistics : public ::testing::TestWithParam<Size> {};

// One pass for mean and variance, which stay exact where the mean is large beside the deviation; the bits are those of any
// number of threads.
TEST_P(SplitStatistics, MeanAndVariance) {
  const auto [rows, columns, channels] = GetParam();
  const std::string shape = concat("[4, ", rows, ", ", columns, ", ", channels, "]");
  const Model model = read_json_model(
      R"({"metac_ir": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": )" + shape + R"json(}], "nodes": [
    {"op": "mean", "inputs": ["x"], "outputs": ["m"], "dims": [0, 1, 2], "keepdims": 1},
    {"op": "elementwise", "inputs": ["x", "m"], "outputs": ["d"], "body": "(x - m)*(x - m)"},
    {"op": "mean", "inputs": ["d"], "outputs": ["v"], "dims": [0, 1, 2], "keepdims": 1},
    {"op": "elementwise", "inputs": ["x", "m", "v"], "outputs": ["y"], "body": "(x - m)/sqrt(v + 1e-5)"}], "outputs": ["m", "v", "y"]})json",
      "images.json");
  EXPECT_EQ(kernels_by_points(model), std::pair(1, 2));
  const int64_t points = 4 * rows * columns;
  const std::vector<float> x = images(points * channels, 100);
  const Tensor data = make_tensor<float>(DType::f32, {4, rows, columns, channels}, x);
  std::map<std::string, Tensor> out, alone;
  for (auto& [name, tensor] : Session(model, small_cache(2)).run({{"x", data}})) out[name] = tensor;
  for (auto& [name, tensor] : Session(model, small_cache(1)).run({{"x", data}})) alone[name] = tensor;
  for (auto& [name, tensor] : out)
    for (int64_t i = 0; i < tensor.element_count(); ++i)
      ASSERT_EQ(number_at(tensor, i), number_at(alone[name], i)) << name << " " << i;
  for (int64_t c = 0; c < channels; ++c) {
    double mean = 0, variance = 0;
    for (int64_t p = 0; p < points; ++p)
      mean += static_cast<double>(x[static_cast<size_t>(p * channels + c)]) / static_cast<double>(points);
    for (int64_t p = 0; p < points; ++p)
      variance +=
          std::pow(static_cast<double>(x[static_cast<size_t>(p * channels + c)]) - mean, 2) / static_cast<double>(points);
    EXPECT_NEAR(number_at(out["m"], c), mean, 5e-5);  // a few ULPs of 100
    EXPECT_NEAR(number_at(out["v"], c), variance, 1e-5);
    for (int64_t p = 0; p < points; p += 17)
      ASSERT_NEAR(number_at(out["y"], p * channels + c),
                  (static_cast<double>(x[static_cast<size_t>(p * channels + c)]) - mean) / std::sqrt(variance + 1e-5), 1e-4)
          << "point " << p << ", channel " << c;
  }
}

// Whole vectors; a rest of channels; rows of an odd length; few points a part.
INSTANTIATE_TEST_SUITE_P(Sizes, SplitStatistics,
                         ::testing::Values(Size{32, 16, 32}, Size{28, 28, 37}, Size{31, 13, 24}, Size{7, 7, 256}));

// Sums of a gradient over the same data share a kernel; the same sum asked for in two shapes is taken once.
TEST(SplitStatistics, SumsOfTheSameData) {
  const Model model = read_json_model(
      R"json({"metac_ir": 1, "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 16, 16, 48]}, {"name": "g", "dtype": "float32", "shape": [4, 16, 16, 48]}], "nodes": [
    {"op": "sum", "inputs": ["g"], "outputs": ["s"], "dims": [0, 1, 2], "keepdims": 1},
    {"op": "elementwise", "inputs": ["x", "g"], "outputs": ["p"], "body": "x*g"},
    {"op": "sum", "inputs": ["p"], "outputs": ["t"], "dims": [0, 1, 2], "keepdims": 1},
    {"op": "elementwise", "inputs": ["g", "s", "t"], "outputs": ["y"], "body": "g*t - s"},
    {"op": "sum", "inputs": ["g"], "outputs": ["u"], "dims": [0, 1, 2], "keepdims": 0}], "outputs": ["s", "t", "u", "y"]})json",
      "sums.json");
  EXPECT_EQ(kernels_by_points(model), std::pair(1, 2));
  const std::vector<float> x = images(4 * 256 * 48, 0.5), g = images(4 * 256 * 48, -0.25);
  std::map<std::string, Tensor> out;
  for (auto& [name, tensor] : Session(model, small_cache(2))
                                  .run({{"x", make_tensor<float>(DType::f32, {4, 16, 16, 48}, x)},
                                        {"g", make_tensor<float>(DType::f32, {4, 16, 16, 48}, g)}}))
    out[name] = tensor;
  for (int64_t c = 0; c < 48; ++c) {
    double s = 0, t = 0;
    for (int64_t p = 0; p < 1024; ++p) {
      const size_t at = static_cast<size_t>(p * 48 + c);
      s += static_cast<double>(g[at]), t += static_cast<double>(x[at]) * static_cast<double>(g[at]);
    }
    EXPECT_NEAR(number_at(out["s"], c), s, 1e-3);
    EXPECT_NEAR(number_at(out["t"], c), t, 1e-2);
    EXPECT_EQ(number_at(out["u"], c), number_at(out["s"], c));
    EXPECT_NEAR(number_at(out["y"], 5 * 48 + c), static_cast<double>(g[static_cast<size_t>(5 * 48 + c)]) * t - s, 2e-2);
  }
}

}  // namespace
}  // namespace metac::split_statistics_test
