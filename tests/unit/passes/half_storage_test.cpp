// Networks stored in half precision: their losses stay near those of float32, updates are those of float32, and a gradient
// that overflows changes nothing but the scale.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/training.h"

namespace metac::half_storage_test {
namespace {

// Convolution, normalisation, pooling and a linear layer: x [N, 1, 8, 8] -> y [N, 4].
Model picture_network() {
  std::mt19937 random(3);
  auto numbers = [&](int count, double scale) {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += (i ? "," : "") + std::to_string(scale * (static_cast<double>(random() % 2001) / 1000 - 1));
    return text;
  };
  auto filled = [](const char* name, const char* value) {
    std::string text;
    for (int i = 0; i < 8; ++i) text += std::string(i ? "," : "") + value;
    return std::string(R"({"name": ")") + name + R"(", "dtype": "float32", "shape": [8], "data": [)" + text + "]}";
  };
  return read_json_model(
      R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 1, 8, 8]}], "parameters": [
    {"name": "conv", "dtype": "float32", "shape": [8, 1, 3, 3], "data": [)" +
          numbers(72, 0.5) + "]}," + filled("scale", "1") + "," + filled("bias", "0") + "," + filled("mean", "0") + "," +
          filled("variance", "1") + R"(,
    {"name": "w", "dtype": "float32", "shape": [4, 8], "data": [)" +
          numbers(32, 0.5) + R"(]}], "nodes": [
    {"op": "Conv", "inputs": ["x", "conv"], "outputs": ["c"], "attributes": {"pads": [1, 1, 1, 1]}},
    {"op": "BatchNormalization", "inputs": ["c", "scale", "bias", "mean", "variance"], "outputs": ["b"]},
    {"op": "Relu", "inputs": ["b"], "outputs": ["r"]}, {"op": "GlobalAveragePool", "inputs": ["r"], "outputs": ["p"]}, {"op": "Flatten", "inputs": ["p"], "outputs": ["f"]},
    {"op": "Gemm", "inputs": ["f", "w"], "outputs": ["y"], "attributes": {"transB": 1}}], "outputs": ["y"]})",
      "pictures.json");
}

// Four patterns of stripes in noise.
std::map<std::string, Tensor> batch_of(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> x(16 * 64);
  std::vector<int64_t> classes(16);
  for (size_t n = 0; n < 16; ++n) {
    classes[n] = static_cast<int64_t>(random() % 4);
    for (size_t k = 0; k < 64; ++k)
      x[n * 64 + k] = static_cast<float>(random() % 2001) / 4000 - 0.25f +
                      ((k / 8 * (classes[n] % 2 == 0) + k * (classes[n] / 2 == 0)) % 2 == 0 ? 1.0f : -1.0f);
  }
  return {{"x", make_tensor<float>(DType::f32, {16, 1, 8, 8}, x)}, {"target", labels({16}, classes)}};
}

std::string recipe_of(const std::string& extra) {
  return R"({"batch": 16, "loss": "cross_entropy", "optimizer": {"kind": "sgd", "learning_rate": 0.05, "momentum": 0.9})" +
         extra + "}";
}

class HalfStorage : public ::testing::TestWithParam<const char*> {};

TEST_P(HalfStorage, LossesStayNearThoseOfFloat32) {
  JitTraining single(picture_network(), recipe_of(""));
  JitTraining half(picture_network(), recipe_of(std::string(R"(, "storage": ")") + GetParam() + "\""));
  double first = 0, last = 0, largest = 0, half_sum = 0, single_sum = 0;
  for (int64_t update = 0; update < 60; ++update) {
    const auto batch = batch_of(static_cast<unsigned>(update));
    const double expected = single.step(batch, 0.05, update), given = half.step(batch, 0.05, update);
    if (update == 0) first = expected;
    largest = std::max(largest, std::fabs(given - expected) / expected);
    half_sum += given, single_sum += expected;
    last = expected;
  }
  EXPECT_LT(last, 0.8 * first) << "it learns nothing: the comparison says nothing";
  EXPECT_LT(largest, 0.1);
  EXPECT_NEAR(half_sum / single_sum, 1, 0.01);
  EXPECT_GT(largest, 1e-6) << "nothing was rounded";
  for (const TrainingState& state : half.t.states) EXPECT_EQ(state.initial.dtype, DType::f32) << state.name;
  const auto batch = batch_of(100);
  const Tensor expected = single.evaluate(batch)[0], given = half.evaluate(batch)[0];
  for (int64_t n = 0; n < 16; ++n) EXPECT_NEAR(number_at(given, n), number_at(expected, n), 0.1);
}

INSTANTIATE_TEST_SUITE_P(Types, HalfStorage, ::testing::Values("bfloat16", "float16"));

TEST(HalfStorage, AnOverflowChangesTheScaleAlone) {
  JitTraining t(picture_network(), recipe_of(R"(, "storage": "float16", "loss_scale": 16777216)"));
  const auto before = t.states;
  EXPECT_TRUE(std::isfinite(t.step(batch_of(1), 0.05, 0)));
  EXPECT_EQ(number_at(t.state("loss_scale"), 0), 8388608);
  for (size_t k = 0; k < before.size(); ++k) {
    if (t.t.states[k].role == train::StateRole::counter) continue;
    for (int64_t i = 0; i < before[k].element_count(); ++i)
      ASSERT_EQ(number_at(before[k], i), number_at(t.states[k], i)) << t.t.states[k].name;
  }
  for (int64_t update = 1; update < 20; ++update) t.step(batch_of(static_cast<unsigned>(update)), 0.05, update);
  EXPECT_NE(number_at(before[0], 0), number_at(t.states[0], 0));
  EXPECT_GT(number_at(t.state("loss_scale/good_calls"), 0), 0);
}

TEST(HalfStorage, RecipesThatCannotBeAreRefused) {
  auto message = [&](const std::string& extra) {
    try {
      read_recipe(recipe_of(extra), "r.json");
    } catch (const CompileError& error) {
      return std::string(error.diagnostic.message);
    }
    return std::string();
  };
  EXPECT_NE(message(R"(, "storage": "int8")").find("bfloat16"), std::string::npos);
  EXPECT_NE(message(R"(, "loss_scale": 1024)").find("is for a storage of float16"), std::string::npos);
  EXPECT_NE(message(R"(, "storage": "float16", "accumulate": 2)").find("does not go with"), std::string::npos);
}

}  // namespace
}  // namespace metac::half_storage_test
