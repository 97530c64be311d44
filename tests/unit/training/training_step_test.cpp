// Steps of training as a whole: learning, derivatives, accumulation, clipping, frozen parameters, averages, dropout, batch
// statistics.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/ops/control/body_parameters.h"
#include "tests/unit/training.h"

namespace metac::training_step_test {
namespace {

std::map<std::string, Tensor> batch_of_six() {
  return {{"x", random_doubles({6, 4}, 11)}, {"target", labels({6}, {0, 1, 2, 0, 1, 2})}};
}

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

TEST(TrainingStep, GradientsAreCentralDifferences) {
  JitTraining training(small_network(), plain);
  expect_central_differences(training, batch_of_six());
}

// A Loop whose body has a parameter, and in it an If whose branches have one each under the same name, one read by name in
// an expression: all three train.
TEST(TrainingStep, ParametersOfBodiesTrain) {
  const std::string bodies =
      R"json({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float64", "shape": ["N", 4]}],
    "parameters": [{"name": "trips", "dtype": "int64", "shape": [], "data": 3}, {"name": "going", "dtype": "bool", "shape": [], "data": true}],
    "nodes": [{"op": "Loop", "inputs": ["trips", "going", "x"], "outputs": ["h"], "attributes": {"body": {"type": "graph",
      "inputs": [{"name": "k", "dtype": "int64", "shape": []}, {"name": "on", "dtype": "bool", "shape": []}, {"name": "h_in", "dtype": "float64", "shape": ["N", 4]}],
      "parameters": [{"name": "w", "dtype": "float64", "shape": [4, 4], "data": [0.1, 0.2, 0.3, 0.4, -0.5, 0.6, 0.7, 0.8, 0.9, -1, 0.15, 0.25, 0.35, 0.45, -0.55, 0.65]},
                     {"name": "one", "dtype": "int64", "shape": [], "data": 1}],
      "nodes": [{"op": "Identity", "inputs": ["on"], "outputs": ["on_out"]}, {"op": "MatMul", "inputs": ["h_in", "w"], "outputs": ["a"]}, {"op": "Less", "inputs": ["k", "one"], "outputs": ["first"]},
                {"op": "If", "inputs": ["first"], "outputs": ["b"], "attributes": {
                  "then_branch": {"type": "graph", "parameters": [{"name": "w", "dtype": "float64", "shape": [4], "data": [0.5, 1, 1.5, 2]}],
                                  "nodes": [{"op": "Mul", "inputs": ["a", "w"], "outputs": ["t"]}], "outputs": ["t"]},
                  "else_branch": {"type": "graph", "parameters": [{"name": "w", "dtype": "float64", "shape": [4], "data": [0.3, -0.3, 0.2, 0.1]}],
                                  "nodes": [{"op": "elementwise", "inputs": ["a", "w"], "outputs": ["e"], "body": "a + w"}], "outputs": ["e"]}}},
                {"op": "Tanh", "inputs": ["b"], "outputs": ["h_out"]}],
      "outputs": ["on_out", "h_out"]}}}],
    "outputs": ["h"]})json";
  const Model model = with_body_parameters(read_json_model(bodies, "bodies.json"));
  std::vector<std::string> names;
  for (const Initializer& i : model.graph.initializers) names.push_back(i.name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("trips", "going", "w", "w.2", "w.3"));
  EXPECT_EQ(read_json_model(bodies, "bodies.json").graph.initializers.size(), 2u);
  JitTraining training(model, plain);
  EXPECT_EQ(training.states.size(), 3u);
  const std::vector<Tensor> start = training.states;
  training.step(batch_of_six(), 1, 0);
  for (size_t s = 0; s < start.size(); ++s)
    EXPECT_NE(number_at(start[s], 1), number_at(training.states[s], 1)) << training.t.states[s].name;
  training.states = start;
  expect_central_differences(training, batch_of_six());
}

// One BatchNormalization behind a linear layer, in the form that inference has; opset 9 says training by its outputs, 17 by
// an attribute.
Model normalised_network(int opset) {
  return read_json_model(R"({"metac_ir": 1, "opset": )" + std::to_string(opset) +
                             R"(, "inputs": [{"name": "x", "dtype": "float64", "shape": ["N", 3]}],
    "parameters": [{"name": "scale", "dtype": "float64", "shape": [3], "data": [1, 2, 0.5]}, {"name": "shift", "dtype": "float64", "shape": [3], "data": [0, 1, -1]},
                   {"name": "mean", "dtype": "float64", "shape": [3], "data": [0.1, 0.2, 0.3]}, {"name": "variance", "dtype": "float64", "shape": [3], "data": [1, 2, 3]}],
    "nodes": [{"op": "BatchNormalization", "inputs": ["x", "scale", "shift", "mean", "variance"], "outputs": ["y"], "attributes": {"momentum": 0.75, "epsilon": 0.0009765625}}], "outputs": ["y"]})",
                         "normalised.json");
}

TEST(TrainingStep, BatchNormalizationTrainsByTheBatch) {
  for (int opset : {9, 17})
    for (bool unbiased : {true, false}) {
      JitTraining training(normalised_network(opset),
                           std::string(R"({"batch": 5, "loss": "mse", "optimizer": "sgd")") +
                               (unbiased ? "}" : R"(, "batch_norm": {"running_variance": "population"}})"));
      const Tensor x = random_doubles({5, 3}, 4), target = random_doubles({5, 3}, 5);
      const double scale[3] = {1, 2, 0.5}, shift[3] = {0, 1, -1}, old_mean[3] = {0.1, 0.2, 0.3}, old_variance[3] = {1, 2, 3};
      double loss = 0, mean[3], variance[3];
      for (int c = 0; c < 3; ++c) {
        mean[c] = variance[c] = 0;
        for (int n = 0; n < 5; ++n) mean[c] += number_at(x, n * 3 + c) / 5;
        for (int n = 0; n < 5; ++n) variance[c] += std::pow(number_at(x, n * 3 + c) - mean[c], 2) / 5;
        for (int n = 0; n < 5; ++n) {
          const double y = (number_at(x, n * 3 + c) - mean[c]) / std::sqrt(variance[c] + 0.0009765625) * scale[c] + shift[c];
          loss += std::pow(y - number_at(target, n * 3 + c), 2) / 15;
        }
      }
      EXPECT_NEAR(training.step({{"x", x}, {"target", target}}, 0, 0), loss, 1e-12);
      for (int c = 0; c < 3; ++c) {
        EXPECT_NEAR(number_at(training.state("mean"), c), 0.75 * old_mean[c] + 0.25 * mean[c], 1e-12);
        EXPECT_NEAR(number_at(training.state("variance"), c),
                    0.75 * old_variance[c] + 0.25 * variance[c] * (unbiased ? 5.0 / 4 : 1), 1e-12);
      }
      // Evaluation normalises by the running values.
      double evaluated = 0;
      for (int c = 0; c < 3; ++c) {
        const double m = number_at(training.state("mean"), c), v = number_at(training.state("variance"), c);
        evaluated +=
            std::pow((number_at(x, c) - m) / std::sqrt(v + 0.0009765625) * scale[c] + shift[c] - number_at(target, c), 2) /
            3;
      }
      EXPECT_NEAR(number_at(training.evaluate({{"x", x}, {"target", target}})[0], 0), evaluated, 1e-12);
    }
}

TEST(TrainingStep, BatchNormalizationMayStayAsItIs) {
  TrainingModel model = build_training_model(
      normalised_network(17),
      read_recipe(R"({"batch": 5, "loss": "mse", "optimizer": "sgd", "batch_norm": {"statistics": "running"}})",
                  "recipe.json"),
      {});
  for (const TrainingState& state : model.states) EXPECT_NE(state.role, train::StateRole::statistic);
}

TEST(TrainingStep, NumbersThatAreNoneAreRefusedOrLeftAlone) {
  Model normalised = normalised_network(17);
  normalised.graph.nodes[0].attributes["momentum"].real = INFINITY;
  const Recipe recipe = read_recipe(R"({"batch": 5, "loss": "mse", "optimizer": "sgd"})", "recipe.json");
  EXPECT_THROW(build_training_model(normalised, recipe, {}), CompileError);
}

Model dropping_network(int opset) {
  return read_json_model(
      R"({"metac_ir": 1, "opset": )" + std::to_string(opset) +
          R"(, "inputs": [{"name": "x", "dtype": "float64", "shape": ["N", 1000]}],
    "parameters": [{"name": "w", "dtype": "float64", "shape": [1000], "data": )" +
          "[1" +
          [] {
            std::string t;
            for (int i = 1; i < 1000; ++i) t += ",1";
            return t;
          }() +
          R"(]}, {"name": "ratio", "dtype": "float32", "shape": [], "data": 0.25}],
    "nodes": [{"op": "Mul", "inputs": ["x", "w"], "outputs": ["h"]}, )" +
          (opset < 12
               ? R"({"op": "Dropout", "inputs": ["h"], "outputs": ["y"], "attributes": {"ratio": 0.25}}], "outputs": ["y"]})"
               : R"({"op": "Dropout", "inputs": ["h", "ratio"], "outputs": ["y"]}], "outputs": ["y"]})"),
      "dropping.json");
}

// With plain SGD, a rate of 1 and the loss sum y, w moves by minus what Dropout multiplied with.
TEST(TrainingStep, DropoutDropsByCounterSeedAndPlace) {
  for (int opset : {10, 17}) {
    const char* recipe =
        R"({"batch": 20, "loss": {"kind": "expression", "body": "y", "operands": ["y"], "reduction": "sum"}, "optimizer": "sgd"})";
    auto masks = [&](int64_t seed, int64_t call) {
      JitTraining training(dropping_network(opset), recipe);
      training.step({{"x", make_tensor<double>(DType::f64, {20, 1000}, std::vector<double>(20000, 1))}}, 1, 0, true, seed,
                    call);
      std::vector<double> kept;
      for (int i = 0; i < 1000; ++i) kept.push_back(1 - number_at(training.state("w"), i));
      return kept;
    };
    const auto first = masks(1, 0);
    double sum = 0;
    for (double m : first) {
      sum += m * 0.75;
      EXPECT_NEAR(m * 0.75, std::round(m * 0.75), 1e-9);
    }
    EXPECT_NEAR(sum / 20000, 0.75, 0.015);  // five deviations of 20000 draws
    EXPECT_EQ(first, masks(1, 0));
    EXPECT_NE(first, masks(1, 1));
    EXPECT_NE(first, masks(2, 0));
    // Evaluation drops nothing.
    JitTraining training(dropping_network(opset), recipe);
    const Tensor evaluated =
        training.evaluate({{"x", make_tensor<double>(DType::f64, {20, 1000}, std::vector<double>(20000, 1))}})[0];
    EXPECT_EQ(number_at(evaluated, 0), 1000);
  }
}

// What flows back through a convolution to a pooling is a contraction under conditions: the sum over the pooling's windows
// that is wanted at the same elements does not take it into a kernel by rows.
TEST(TrainingStep, GradientsOfConvolutionsAreNoRowKernel) {
  auto ones = [](int count) {
    std::string text = "[1";
    for (int i = 1; i < count; ++i) text += ",1";
    return text + "]";
  };
  Model model = read_json_model(
      R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": ["N", 3, 16, 16]}],
    "parameters": [{"name": "w1", "dtype": "float32", "shape": [16, 3, 3, 3], "data": )" +
          ones(16 * 27) + R"(}, {"name": "w2", "dtype": "float32", "shape": [16, 16, 3, 3], "data": )" + ones(16 * 16 * 9) +
          R"(}],
    "nodes": [{"op": "Conv", "inputs": ["x", "w1"], "outputs": ["c"], "attributes": {"pads": [1, 1, 1, 1]}},
              {"op": "MaxPool", "inputs": ["c"], "outputs": ["h"], "attributes": {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "strides": [2, 2]}},
              {"op": "Conv", "inputs": ["h", "w2"], "outputs": ["a"], "attributes": {"pads": [1, 1, 1, 1]}}, {"op": "Add", "inputs": ["a", "h"], "outputs": ["y"]}], "outputs": ["y"]})",
      "pooled.json");
  TrainingModel training =
      build_training_model(model, read_recipe(R"({"batch": 4, "loss": "mse", "optimizer": "sgd"})", "recipe.json"), {});
  CompileOptions options;
  options.cpu = cpu_target("native");
  CompiledModel compiled = compile_graph(*lower_model(training.step, {}), options);
  for (const KernelSource& kernel : compiled.run.kernels)
    EXPECT_EQ(kernel.text.find("stages under 4 shared loops"), std::string::npos) << kernel.text;
}

}  // namespace
}  // namespace metac::training_step_test
