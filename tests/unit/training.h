// Steps of training run by the JIT: what the tests of losses, optimisers and whole recipes share.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "compiler/machine/cpu_target.h"
#include "compiler/session/session.h"
#include "compiler/train/training_model.h"
#include "frontends/json/json.h"

namespace metac {

// Two layers, x [N, 4] -> y [N, 3], with fixed random weights; `dtype` float32 or float64.
inline Model small_network(const std::string& dtype = "float64") {
  std::mt19937 random(3);
  auto numbers = [&](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += (i ? "," : "") + std::to_string(static_cast<double>(random() % 2001) / 1000 - 1);
    return text;
  };
  std::string text = R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": ")" + dtype +
                     R"(", "shape": ["N", 4]}], "parameters": [)";
  text += R"({"name": "w1", "dtype": ")" + dtype + R"(", "shape": [4, 5], "data": [)" + numbers(20) + "]},";
  text += R"({"name": "b1", "dtype": ")" + dtype + R"(", "shape": [5], "data": [)" + numbers(5) + "]},";
  text += R"({"name": "w2", "dtype": ")" + dtype + R"(", "shape": [5, 3], "data": [)" + numbers(15) + "]}],";
  text +=
      R"("nodes": [{"op": "MatMul", "inputs": ["x", "w1"], "outputs": ["a"]}, {"op": "Add", "inputs": ["a", "b1"], "outputs": ["h"]},
    {"op": "Tanh", "inputs": ["h"], "outputs": ["t"]}, {"op": "MatMul", "inputs": ["t", "w2"], "outputs": ["y"]}], "outputs": ["y"]})";
  return read_json_model(text, "small.json");
}

// A training run in this process: states are kept here and swapped as the training program does it.
class JitTraining {
 public:
  JitTraining(const Model& model, const std::string& recipe)
      : JitTraining(build_training_model(model, read_recipe(recipe, "recipe.json"), {})) {}
  explicit JitTraining(TrainingModel model)
      : t(std::move(model)), step_(t.step, options()), evaluate_(t.evaluate, options()) {
    for (const TrainingState& state : t.states) states.push_back(state.initial);
  }

  // One call of the step with a batch by field name; returns the loss.
  double step(const std::map<std::string, Tensor>& batch, double rate, int64_t update, bool apply = true, int64_t seed = 1,
              int64_t call = -1) {
    std::map<std::string, Tensor> inputs;
    for (size_t k = 0; k < t.step_inputs.size(); ++k) {
      Tensor& value = inputs[t.step.graph.inputs[k].name];
      switch (t.step_inputs[k].source) {
        case train::Source::data:
          value = batch.at(t.fields[t.step_inputs[k].index].name);
          break;
        case train::Source::learning_rate:
          value = make_tensor<double>(DType::f64, {}, std::vector<double>{rate});
          break;
        case train::Source::step:
          value = make_tensor<int64_t>(DType::i64, {}, std::vector<int64_t>{update});
          break;
        case train::Source::call:
          value = make_tensor<int64_t>(DType::i64, {}, std::vector<int64_t>{call < 0 ? update : call});
          break;
        case train::Source::seed:
          value = make_tensor<int64_t>(DType::i64, {}, std::vector<int64_t>{seed});
          break;
        case train::Source::apply:
          value = make_tensor<uint8_t>(DType::boolean, {}, std::vector<uint8_t>{apply});
          break;
        default:
          value = states[t.step_inputs[k].index];
      }
    }
    auto outputs = step_.run(inputs);
    double loss = 0;
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (t.step_outputs[k].source == train::Source::loss) loss = number_at(outputs[k].second, 0);
      if (t.step_outputs[k].source == train::Source::state) states[t.step_outputs[k].index] = outputs[k].second;
      if (t.step_outputs[k].source == train::Source::metric)
        metrics[t.metrics[t.step_outputs[k].index].name] = number_at(outputs[k].second, 0);
    }
    return loss;
  }

  // The outputs of the evaluation: the loss and the metrics of every sample.
  std::vector<Tensor> evaluate(const std::map<std::string, Tensor>& batch) {
    std::map<std::string, Tensor> inputs;
    for (size_t k = 0; k < t.evaluate_inputs.size(); ++k) {
      const TrainingPort& port = t.evaluate_inputs[k];
      inputs[t.evaluate.graph.inputs[k].name] =
          port.source == train::Source::data ? batch.at(t.fields[port.index].name) : states[port.index];
    }
    std::vector<Tensor> out;
    for (auto& [name, tensor] : evaluate_.run(inputs)) out.push_back(tensor);
    return out;
  }

  Tensor& state(const std::string& name) {
    for (size_t k = 0; k < states.size(); ++k)
      if (t.states[k].name == name) return states[k];
    fail("there is no state ", quoted(name));
  }

  TrainingModel t;
  std::vector<Tensor> states;
  std::map<std::string, double> metrics;

 private:
  static SessionOptions options() {
    SessionOptions o;
    o.compile.cpu = cpu_target("native");
    o.threads = 1;
    return o;
  }
  Session step_, evaluate_;
};

inline Tensor random_doubles(std::vector<int64_t> shape, unsigned seed, double low = -1, double high = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> between(low, high);
  Tensor empty{DType::f64, shape, nullptr, {}};
  std::vector<double> values(static_cast<size_t>(empty.element_count()));
  for (double& v : values) v = between(random);
  return make_tensor<double>(DType::f64, shape, values);
}

inline Tensor labels(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  return make_tensor<int64_t>(DType::i64, std::move(shape), values);
}

// Of every state, in a training with plain SGD: with a rate of 1 a parameter moves by its gradient.
inline void expect_central_differences(JitTraining& training, const std::map<std::string, Tensor>& batch) {
  const std::vector<Tensor> start = training.states;
  training.step(batch, 1, 0);
  const std::vector<Tensor> moved = training.states;
  for (size_t s = 0; s < start.size(); ++s) {
    for (int64_t i = 0; i < start[s].element_count(); ++i) {
      auto loss_at = [&](double step) {
        training.states = start;
        std::vector<double> values;
        for (int64_t k = 0; k < start[s].element_count(); ++k)
          values.push_back(number_at(start[s], k) + (k == i ? step : 0));
        training.states[s] = make_tensor<double>(DType::f64, start[s].shape, values);
        return training.step(batch, 0, 0);
      };
      const double numeric = (loss_at(1e-6) - loss_at(-1e-6)) / 2e-6,
                   exact = number_at(start[s], i) - number_at(moved[s], i);
      EXPECT_NEAR(exact, numeric, 1e-8) << training.t.states[s].name << "[" << i << "]";
    }
  }
}

}  // namespace metac
