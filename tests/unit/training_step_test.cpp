// Steps of training as a whole: learning, derivatives, accumulation, clipping, frozen parameters, averages, dropout, batch statistics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/training.h"

namespace metac {
namespace {

std::map<std::string, Tensor> batch_of_six() { return {{"x", random_doubles({6, 4}, 11)}, {"target", labels({6}, {0, 1, 2, 0, 1, 2})}}; }

const char* const plain = R"({"batch": 6, "loss": "cross_entropy", "optimizer": {"kind": "sgd"}, "metrics": ["accuracy"]})";

TEST(TrainingStep, LossFallsAndTheNetworkLearns) {
  JitTraining training(small_network("float32"), plain);
  auto batch = batch_of_six();
  std::vector<float> x;
  for (int64_t i = 0; i < 24; ++i) x.push_back(static_cast<float>(number_at(batch["x"], i)));
  batch["x"] = make_tensor<float>(DType::f32, {6, 4}, x);
  double first = training.step(batch, 0.5, 0), last = first;
  for (int k = 1; k < 200; ++k) last = training.step(batch, 0.5, k);
  EXPECT_GT(first, 0.8);
  EXPECT_LT(last, 0.05);
  EXPECT_EQ(training.metrics["accuracy"], 1);
  auto evaluated = training.evaluate(batch);
  ASSERT_EQ(evaluated[0].shape, std::vector<int64_t>{6});
  double mean = 0;
  for (int i = 0; i < 6; ++i) mean += number_at(evaluated[0], i) / 6;
  EXPECT_NEAR(mean, last, 0.01);
}

// With plain SGD and a rate of 1 the parameter moves by its gradient.
TEST(TrainingStep, GradientsAreCentralDifferences) {
  JitTraining training(small_network(), plain);
  const auto batch = batch_of_six();
  const std::vector<Tensor> start = training.states;
  training.step(batch, 1, 0);
  const std::vector<Tensor> moved = training.states;
  for (size_t s = 0; s < start.size(); ++s) {
    for (int64_t i = 0; i < start[s].element_count(); ++i) {
      auto loss_at = [&](double step) {
        training.states = start;
        std::vector<double> values;
        for (int64_t k = 0; k < start[s].element_count(); ++k) values.push_back(number_at(start[s], k) + (k == i ? step : 0));
        training.states[s] = make_tensor<double>(DType::f64, start[s].shape, values);
        return training.step(batch, 0, 0);
      };
      const double numeric = (loss_at(1e-6) - loss_at(-1e-6)) / 2e-6, exact = number_at(start[s], i) - number_at(moved[s], i);
      EXPECT_NEAR(exact, numeric, 1e-8) << training.t.states[s].name << "[" << i << "]";
    }
  }
}

}  // namespace
}  // namespace metac
