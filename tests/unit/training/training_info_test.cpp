// The training algorithm that an ONNX file has of its own: read, written, made a step, run against its formula, refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/train/forms/model_algorithm.h"
#include "frontends/onnx/onnx.h"
#include "tests/unit/training.h"

namespace metac::training_info_test {
namespace {

using ::testing::HasSubstr;

Model linear() {
  return read_json_model(
      R"({"metac_ir": 1, "opset": {"": 17, "ai.onnx.preview.training": 1}, "ir_version": 8, "inputs": [{"name": "x", "dtype": "float64", "shape": ["N", 2]}],
    "parameters": [{"name": "w", "dtype": "float64", "shape": [2, 1], "data": [0.5, -1]}],
    "nodes": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["y"]}], "outputs": ["y"]})",
      "linear.json");
}

// Momentum on the mean squared error; T counts.
TrainingInfo algorithm() {
  Model part = read_json_model(R"({"metac_ir": 1, "opset": {"": 17, "ai.onnx.preview.training": 1},
    "inputs": [{"name": "t", "dtype": "float64", "shape": ["N", 1]}, {"name": "R", "dtype": "float64", "shape": []}],
    "parameters": [{"name": "V", "dtype": "float64", "shape": [2, 1], "data": [0, 0]}, {"name": "T", "dtype": "int64", "shape": [], "data": 0}, {"name": "one", "dtype": "int64", "shape": [], "data": 1}],
    "nodes": [{"op": "Sub", "inputs": ["y", "t"], "outputs": ["d"]}, {"op": "Mul", "inputs": ["d", "d"], "outputs": ["q"]},
              {"op": "ReduceMean", "inputs": ["q"], "outputs": ["loss"], "attributes": {"keepdims": 0}},
              {"op": "Gradient", "domain": "ai.onnx.preview.training", "inputs": ["w"], "outputs": ["g"], "attributes": {"xs": ["w"], "y": "loss"}},
              {"op": "Momentum", "domain": "ai.onnx.preview.training", "inputs": ["R", "T", "w", "g", "V"], "outputs": ["w_new", "V_new"],
               "attributes": {"alpha": 0.5, "beta": 1.0, "mode": "standard", "norm_coefficient": 0.0}},
              {"op": "Add", "inputs": ["T", "one"], "outputs": ["T_new"]}],
    "outputs": ["loss", "w_new", "V_new", "T_new"]})",
                               "algorithm.json");
  TrainingInfo info;
  info.algorithm = part.graph;
  info.update_bindings = {{"w", "w_new"}, {"V", "V_new"}, {"T", "T_new"}};
  info.initialization =
      read_json_model(
          R"({"metac_ir": 1, "nodes": [{"op": "fill", "inputs": [], "outputs": ["w0"], "shape": [2, 1], "value": 0.25, "dtype": "float64"}], "outputs": ["w0"]})",
          "begin.json")
          .graph;
  info.initialization_bindings = {{"w", "w0"}};
  return info;
}

const char* const recipe = R"({"batch": 3, "algorithm": {"from": "model", "scalars": {"R": "learning_rate"}}})";

std::map<std::string, Tensor> run_now(const Model& model) {
  SessionOptions options;
  options.compile.cpu = cpu_target("native");
  Model with_domain = model;
  with_domain.opset_imports["metac"] = 1;
  std::map<std::string, Tensor> out;
  for (auto& [name, tensor] : Session(with_domain, options).run({})) out[name] = tensor;
  return out;
}

TEST(TrainingInfo, SurvivesTheFile) {
  const std::string bytes = add_training_info(to_onnx_bytes(linear()), algorithm());
  const std::vector<TrainingInfo> infos = read_training_info(bytes, "linear.onnx");
  ASSERT_EQ(infos.size(), 1u);
  EXPECT_EQ(infos[0].update_bindings, algorithm().update_bindings);
  EXPECT_EQ(infos[0].initialization_bindings, algorithm().initialization_bindings);
  EXPECT_EQ(infos[0].algorithm.nodes.size(), 6u);
  EXPECT_EQ(read_onnx(bytes, "linear.onnx").graph.nodes.size(), 1u);
}

TEST(TrainingInfo, ItsAlgorithmIsTheStep) {
  const std::vector<TrainingInfo> infos =
      read_training_info(add_training_info(to_onnx_bytes(linear()), algorithm()), "linear.onnx");
  JitTraining training(training_model_of_algorithm(linear(), infos[0], read_recipe(recipe, "recipe.json"), {}, run_now));
  const Tensor x = random_doubles({3, 2}, 1), target = random_doubles({3, 1}, 2);
  double w[2] = {0.25, 0.25}, v[2] = {0, 0};
  for (int step = 0; step < 4; ++step) {
    double loss = 0, g[2] = {0, 0};
    for (int n = 0; n < 3; ++n) {
      const double d = number_at(x, 2 * n) * w[0] + number_at(x, 2 * n + 1) * w[1] - number_at(target, n);
      loss += d * d / 3;
      for (int k = 0; k < 2; ++k) g[k] += 2 * d * number_at(x, 2 * n + k) / 3;
    }
    const std::vector<Tensor> evaluated = training.evaluate({{"x", x}, {"t", target}});
    ASSERT_EQ(evaluated.size(), 1u);
    ASSERT_EQ(evaluated[0].shape, std::vector<int64_t>{3});
    for (int n = 0; n < 3; ++n) EXPECT_NEAR(number_at(evaluated[0], n), loss, 1e-12);
    EXPECT_NEAR(training.step({{"x", x}, {"t", target}}, 0.1, step), loss, 1e-12);
    for (int k = 0; k < 2; ++k) {
      v[k] = 0.5 * v[k] + g[k];
      w[k] -= 0.1 * v[k];
      EXPECT_NEAR(number_at(training.state("w"), k), w[k], 1e-12);
    }
    EXPECT_EQ(number_at(training.state("T"), 0), step + 1);
  }
  EXPECT_EQ(training.t.states[0].role, train::StateRole::parameter);
  EXPECT_EQ(training.t.states[2].role, train::StateRole::counter);
}

TEST(TrainingInfo, WhatDoesNotFitIsRefused) {
  auto refusal = [](const TrainingInfo& info, const std::string& text) {
    try {
      training_model_of_algorithm(linear(), info, read_recipe(text, "recipe.json"), {}, run_now);
    } catch (const CompileError& error) {
      return error.diagnostic.text();
    }
    return std::string("taken");
  };
  TrainingInfo info = algorithm();
  info.update_bindings[0].first = "z";
  EXPECT_THAT(refusal(info, recipe), HasSubstr("an update is bound to \"z\", which is no initialiser"));
  info = algorithm();
  info.update_bindings[0].second = "T_new";
  EXPECT_THAT(refusal(info, recipe), HasSubstr("the update of \"w\" is int64"));
  info = algorithm();
  info.initialization_bindings[0].second = "w1";
  EXPECT_THAT(refusal(info, recipe), HasSubstr("the initialization has no output \"w1\""));
  EXPECT_THAT(refusal(algorithm(), R"({"batch": 3, "algorithm": {"from": "model", "scalars": {"S": "step"}}})"),
              HasSubstr("the algorithm has no input \"S\""));
  EXPECT_THAT(refusal(algorithm(),
                      R"({"batch": 3, "algorithm": {"from": "model", "loss": "los", "scalars": {"R": "learning_rate"}}})"),
              HasSubstr("did you mean \"loss\"?"));
  EXPECT_THAT(refusal(algorithm(), R"({"batch": 3, "algorithm": {"from": "model"}})"), HasSubstr("input \"R\" is a scalar"));
  EXPECT_THAT(refusal(algorithm(), R"({"batch": 3, "optimizer": "sgd", "algorithm": {"from": "model"}})"),
              HasSubstr("no field \"optimizer\""));
}

}  // namespace
}  // namespace metac::training_info_test
