// Programs of several networks and steps: what a step computes, trains, keeps and leaves alone; gradients of gradients; what
// is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/train/step_program.h"
#include "tests/unit/training.h"

namespace metac::training_steps_test {
namespace {

using ::testing::HasSubstr;

// x [N, 2] -> y [N, 3], with a BatchNormalization where `normalised`.
Model network(const std::string& input, int inputs, int outputs, bool normalised, const std::string& weights) {
  const std::string i = std::to_string(inputs), o = std::to_string(outputs);
  const std::string zeros = outputs == 3 ? "[0, 0, 0]" : "[0]", ones = outputs == 3 ? "[1, 1, 1]" : "[1]";
  std::string text = R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": ")" + input +
                     R"(", "dtype": "float64", "shape": ["N", )" + i +
                     R"(]}], "parameters": [{"name": "w", "dtype": "float64", "shape": [)" + i + ", " + o +
                     R"(], "data": [)" + weights + "]}";
  if (normalised)
    for (const char* name : {"scale", "shift", "mean", "variance"})
      text += R"(, {"name": ")" + std::string(name) + R"(", "dtype": "float64", "shape": [)" + o + R"(], "data": )" +
              (name[0] == 's' && name[1] == 'c' ? ones
               : name[0] == 'v'                 ? ones
                                                : zeros) +
              "}";
  // The product's operand goes by its name: a call has others.
  text += R"(], "nodes": [{"op": "elementwise", "inputs": [")" + input + R"("], "outputs": ["d"], "body": "2*)" + input +
          R"("}, {"op": "MatMul", "inputs": ["d", "w"], "outputs": ["a"]})";
  if (normalised)
    text += R"(, {"op": "BatchNormalization", "inputs": ["a", "scale", "shift", "mean", "variance"], "outputs": ["n"]})";
  text += R"(, {"op": "Tanh", "inputs": [")" + std::string(normalised ? "n" : "a") +
          R"("], "outputs": ["y"]}], "outputs": ["y"]})";
  return read_json_model(text, input + ".json");
}

const std::map<std::string, Model>& networks() {
  static const std::map<std::string, Model> all = {
      {"D", network("image", 3, 1, false, "0.5, -0.25, 0.75")},
      {"B", network("image", 3, 3, true, "0.5, -0.25, 0.75, 1, 0.5, 0.25, -1, 2, 0.125")}};
  return all;
}

// Generator "model", critic "D" with a penalty on its gradient, as WGAN-GP.
const char* const recipe =
    R"json({"batch": 4, "networks": {"D": "d.json", "B": "b.json"}, "states": {"made": {"dtype": "float64", "shape": [4, 3]}},
  "fields": {"z": {"dtype": "float64", "shape": [2]}, "image": {"dtype": "float64", "shape": [3]}},
  "steps": [
    {"name": "critic", "trains": "D", "optimizer": {"kind": "sgd", "learning_rate": 1}, "loss": "loss", "keep": {"made": "y"}, "nodes": [
      {"op": "model", "domain": "network", "inputs": ["z"], "outputs": ["y"]}, {"op": "D", "domain": "network", "inputs": ["y"], "outputs": ["fake"]},
      {"op": "D", "domain": "network", "inputs": ["image"], "outputs": ["real"]}, {"op": "grad", "of": "real", "inputs": ["image"], "outputs": ["slope"]},
      {"op": "elementwise", "inputs": ["slope"], "outputs": ["square"], "body": "slope*slope"}, {"op": "sum", "inputs": ["square"], "outputs": ["penalty"]},
      {"op": "mean", "inputs": ["fake"], "outputs": ["f"]}, {"op": "mean", "inputs": ["real"], "outputs": ["r"]},
      {"op": "elementwise", "inputs": ["f", "r", "penalty"], "outputs": ["loss"], "body": "f - r + 0.3*penalty"}]},
    {"name": "generator", "trains": ["model"], "optimizer": {"kind": "sgd", "learning_rate": 0.5}, "loss": "loss", "every": 2, "nodes": [
      {"op": "model", "domain": "network", "inputs": ["z"], "outputs": ["y"]}, {"op": "D", "domain": "network", "inputs": ["y"], "outputs": ["s"]},
      {"op": "elementwise", "inputs": ["s", "made"], "outputs": ["l"], "body": "-s + @1(i0, 0)"}, {"op": "mean", "inputs": ["l"], "outputs": ["loss"]}]}]})json";

Model generator() { return network("z", 2, 3, false, "0.25, -0.5, 1, 0.75, 0.3, -0.2"); }

TrainingModel program(const std::string& text = recipe) {
  return training_model_of_steps(generator(), networks(), read_recipe(text, "recipe.json"), {});
}

// Step `k` of a program by itself, run by the JIT; a further step's loss is then a metric.
JitTraining step_of(const TrainingModel& whole, int k) {
  TrainingModel t = whole;
  if (k > 0) {
    t.step = whole.further[static_cast<size_t>(k) - 1].model;
    t.step_inputs = whole.further[static_cast<size_t>(k) - 1].inputs;
    t.step_outputs = whole.further[static_cast<size_t>(k) - 1].outputs;
  }
  t.evaluate = t.step;
  return JitTraining(t);
}

std::map<std::string, Tensor> batch() { return {{"z", random_doubles({4, 2}, 1)}, {"image", random_doubles({4, 3}, 2)}}; }

TEST(TrainingSteps, EachTrainsItsOwnAndReadsTheOthers) {
  const TrainingModel t = program();
  ASSERT_EQ(t.further.size(), 1u);
  EXPECT_EQ(t.further[0].every, 2);
  std::vector<std::string> states;
  for (const TrainingState& state : t.states) states.push_back(state.name);
  EXPECT_THAT(states, ::testing::UnorderedElementsAre("made", "D/w", "w"));  // B is called by nobody
  JitTraining critic = step_of(t, 0), makes = step_of(t, 1);
  critic.step(batch(), 1, 0);
  EXPECT_EQ(number_at(critic.state("w"), 0), 0.25);
  EXPECT_NE(number_at(critic.state("D/w"), 0), 0.5);
  EXPECT_NE(number_at(critic.state("made"), 0), 0);
  makes.step(batch(), 1, 0);
  EXPECT_NE(number_at(makes.state("w"), 0), 0.25);
  EXPECT_EQ(number_at(makes.state("D/w"), 0), 0.5);
  EXPECT_EQ(number_at(makes.state("made"), 0), 0);
}

// With plain SGD a parameter moves by rate times its gradient: those of the critic are of a penalty on a gradient.
TEST(TrainingSteps, GradientsAreCentralDifferences) {
  for (int k : {0, 1}) {
    JitTraining training = step_of(program(), k);
    const std::string name = k ? "w" : "D/w";
    auto loss = [&](double rate) {
      const double first = training.step(batch(), rate, 0);
      return k ? training.metrics.at("generator loss") : first;
    };
    const std::vector<Tensor> start = training.states;
    loss(1);
    const Tensor from =
                     [&] {
                       for (size_t s = 0; s < start.size(); ++s)
                         if (training.t.states[s].name == name) return start[s];
                       return Tensor();
                     }(),
                 moved = training.state(name);
    for (int64_t i = 0; i < from.element_count(); ++i) {
      auto at = [&](double step) {
        training.states = start;
        std::vector<double> values;
        for (int64_t j = 0; j < from.element_count(); ++j) values.push_back(number_at(from, j) + (j == i ? step : 0));
        training.state(name) = make_tensor<double>(DType::f64, from.shape, values);
        return loss(0);
      };
      const double numeric = (at(1e-6) - at(-1e-6)) / 2e-6;
      EXPECT_NEAR((number_at(from, i) - number_at(moved, i)) / (k ? 0.5 : 1), numeric, 1e-8) << name << "[" << i << "]";
      EXPECT_GT(std::fabs(numeric), 1e-4);
    }
  }
}

// A network that a step calls twice averages its statistics twice, one after the other.
TEST(TrainingSteps, StatisticsGoOnFromCallToCall) {
  const char* const twice =
      R"json({"batch": 4, "networks": {"D": "d.json", "B": "b.json"}, "batch_norm": {"momentum": 0.9}, "fields": {"image": {"dtype": "float64", "shape": [3]}},
    "steps": [{"name": "s", "trains": "B", "optimizer": "sgd", "loss": "loss", "nodes": [
      {"op": "B", "domain": "network", "inputs": ["image"], "outputs": ["a"]}, {"op": "B", "domain": "network", "inputs": ["a"], "outputs": ["b"]}, {"op": "mean", "inputs": ["b"], "outputs": ["loss"]}]}]})json";
  JitTraining training = step_of(program(twice), 0);
  const auto given = batch();
  training.step(given, 0, 0);
  const double w[9] = {0.5, -0.25, 0.75, 1, 0.5, 0.25, -1, 2, 0.125};
  std::vector<double> x(12), y(12);
  for (int64_t i = 0; i < 12; ++i) x[static_cast<size_t>(i)] = number_at(given.at("image"), i);
  double mean[3] = {0, 0, 0};
  for (int call = 0; call < 2; ++call) {
    for (int c = 0; c < 3; ++c) {
      double sum = 0, squares = 0, a[4];
      for (int n = 0; n < 4; ++n) {
        a[n] = 0;
        for (int f = 0; f < 3; ++f) a[n] += 2 * x[static_cast<size_t>(3 * n + f)] * w[3 * f + c];
        sum += a[n] / 4;
      }
      for (int n = 0; n < 4; ++n) squares += (a[n] - sum) * (a[n] - sum) / 4;
      for (int n = 0; n < 4; ++n) y[static_cast<size_t>(3 * n + c)] = std::tanh((a[n] - sum) / std::sqrt(squares + 1e-5));
      mean[c] = 0.9 * mean[c] + 0.1 * sum;
    }
    x = y;
  }
  for (int c = 0; c < 3; ++c) EXPECT_NEAR(number_at(training.state("B/mean"), c), mean[c], 1e-12);
}

TEST(TrainingSteps, WhatDoesNotFitIsRefused) {
  auto refusal = [](const std::string& from, const std::string& to) {
    std::string text = recipe;
    text.replace(text.find(from), from.size(), to);
    try {
      program(text);
    } catch (const CompileError& error) {
      return error.diagnostic.text();
    }
    return std::string("taken");
  };
  EXPECT_THAT(refusal(R"("inputs": ["fake"])", R"("inputs": ["fakes"])"),
              HasSubstr("\"fakes\" is no value of the step, no field and no state; did you mean \"fake\"?"));
  EXPECT_THAT(refusal(R"("loss": "loss", "keep")", R"("loss": "los", "keep")"), HasSubstr("the loss \"los\" is no value"));
  EXPECT_THAT(refusal(R"("loss": "loss", "keep")", R"("loss": "fake", "keep")"),
              HasSubstr("the loss \"fake\" is float64 of shape [4, 1], not a float scalar"));
  EXPECT_THAT(refusal(R"("keep": {"made": "y"})", R"("keep": {"made": "fake"})"),
              HasSubstr("what \"made\" becomes is float64 of shape [4, 1], the state is float64 of shape [4, 3]"));
  EXPECT_THAT(refusal(R"("inputs": ["z"])", R"("inputs": ["z", "z"])"),
              HasSubstr("calls \"model\" with 2 inputs, it has 1"));
  EXPECT_THAT(refusal(R"("fields": {"z")", R"("fields": {"y": {"dtype": "float64"}, "z")"),
              HasSubstr("computes \"y\", which is a field of the samples"));
}

}  // namespace
}  // namespace metac::training_steps_test
