// Networks as PyTorch's exporters write them: in training form, with equal parameters kept once, with copies and folded
// values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/api/compile_training.h"
#include "compiler/train/forms/exported_parameters.h"
#include "compiler/train/forms/inference_form.h"
#include "frontends/onnx/onnx.h"
#include "tests/unit/training.h"

namespace metac::exported_models_test {
namespace {

using testing::HasSubstr;

std::string parameter(const std::string& name, std::vector<int64_t> shape, const std::vector<double>& values,
                      const std::string& dtype = "float64") {
  auto list = [](const auto& numbers) {
    std::string text;
    for (auto n : numbers) text += (text.empty() ? "" : ",") + std::to_string(n);
    return "[" + text + "]";
  };
  return R"({"name": ")" + name + R"(", "dtype": ")" + dtype + R"(", "shape": )" + list(shape) + R"(, "data": )" +
         list(values) + "}";
}

std::string node(const std::string& op, const std::string& inputs, const std::string& outputs,
                 const std::string& more = "") {
  auto list = [](const std::string& words) {
    std::string text, word;
    for (char c : words + " ") {
      if (c != ' ')
        word += c;
      else
        text += (text.empty() ? "\"" : ", \"") + (word == "-" ? "" : word) + "\"", word.clear();
    }
    return "[" + text + "]";
  };
  return R"({"op": ")" + op + R"(", "inputs": )" + list(inputs) + R"(, "outputs": )" + list(outputs) + more + "}";
}
std::string attributes(const std::string& text) { return R"(, "attributes": {)" + text + "}"; }
const std::string yes = R"("value": {"type": "tensor", "dtype": "bool", "shape": [], "data": true})";

Model model_of(int opset, const std::vector<std::string>& parameters, const std::vector<std::string>& nodes,
               const std::string& more = "") {
  auto joined = [](const std::vector<std::string>& texts) {
    std::string all;
    for (const std::string& t : texts) all += (all.empty() ? "" : ",\n") + t;
    return all;
  };
  return read_json_model(R"({"metac_ir": 1, "producer": "pytorch", "opset": )" + std::to_string(opset) +
                             R"(, "inputs": [{"name": "x", "dtype": "float64", "shape": ["N", 3]}], "outputs": ["y"])" +
                             more + R"(, "parameters": [)" + joined(parameters) + R"(], "nodes": [)" + joined(nodes) + "]}",
                         "exported.json");
}

const std::vector<std::string> statistics = {parameter("b.weight", {3}, {1, 2, 0.5}), parameter("b.bias", {3}, {0, 1, -1}),
                                             parameter("b.running_mean", {3}, {0.1, 0.2, 0.3}),
                                             parameter("b.running_var", {3}, {1, 2, 3})};
const std::string b = " b.weight b.bias b.running_mean b.running_var";

// BatchNormalization and Dropout, in training form as opset `opset` says it, or for inference.
Model exported(int opset, bool training, double ratio = 0.25, const std::string& mask = "") {
  const std::string mode = training && opset >= 14 ? R"("training_mode": 1, "momentum": 0.75)" : R"("momentum": 0.75)";
  std::vector<std::string> nodes = {
      node("BatchNormalization", "x" + b, training ? (opset >= 14 ? "n m1 v1" : "n m1 v1 m2 v2") : "n", attributes(mode))};
  std::vector<std::string> parameters = statistics;
  if (opset < 12) {
    nodes.push_back(node("Dropout", "n", training ? "d mask" : "d", attributes("\"ratio\": " + std::to_string(ratio))));
  } else {
    nodes.push_back(node("Constant", "", "on", attributes(yes)));
    nodes.back().replace(nodes.back().find("[\"\"]"), 4, "[]");
    parameters.push_back(parameter("ratio", {}, {ratio}, "float32"));
    parameters.back().replace(parameters.back().find("[" + std::to_string(ratio) + "]"), std::to_string(ratio).size() + 2,
                              std::to_string(ratio));
    nodes.push_back(node("Dropout", training ? "n ratio on" : "n ratio", training ? "d mask" : "d"));
  }
  nodes.push_back(mask.empty() ? node("Identity", "d", "y") : mask);
  return model_of(opset, parameters, nodes);
}

const char* recipe_text = R"({"batch": 6, "loss": "mse", "optimizer": "sgd"})";
TrainingModel training_of(const Model& model, const std::string& recipe = recipe_text) {
  return training_model(model, read_recipe(recipe, "recipe.json"), {});
}

std::string refusal(const Model& model, const std::string& recipe = recipe_text) {
  try {
    training_of(model, recipe);
  } catch (const CompileError& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> trained(const TrainingModel& t) {
  std::vector<std::string> names;
  for (const TrainingState& state : t.states)
    if (state.role == train::StateRole::parameter) names.push_back(state.name);
  return names;
}

TEST(ExportedModels, TrainingFormIsFoundAndLeft) {
  for (int opset : {9, 11, 12, 13, 14, 17, 22}) {
    const InferenceForm form = inference_form(exported(opset, true)), plain = inference_form(exported(opset, false));
    EXPECT_EQ(form.normalised.size(), 1u) << opset;
    EXPECT_EQ(form.dropped.size(), opset >= 12 ? 1u : 0u) << opset;
    EXPECT_TRUE(plain.normalised.empty() && plain.dropped.empty() && !form.impossible);
    for (const Node& n : form.model.graph.nodes) {
      EXPECT_EQ(n.outputs.size(), 1u);
      EXPECT_EQ(n.attributes.count("training_mode"), 0u);
      EXPECT_LE(n.inputs.size(), n.op_type == "Dropout" ? 2u : 5u);
    }
    EXPECT_TRUE(inference_form(form.model).normalised.empty());
    // It is written so, and what was trained says which nodes were in training form.
    const Model again = read_onnx(to_onnx_bytes(form.model), "again.onnx");
    EXPECT_TRUE(was_exported_for_training(again.graph.nodes[0]));
  }
}

TEST(ExportedModels, TrainingFormTrainsAndEvaluatesAsInferenceFormDoes) {
  const std::map<std::string, Tensor> batch = {{"x", random_doubles({6, 3}, 1)}, {"target", random_doubles({6, 3}, 2)}};
  for (int opset : {9, 11, 13, 14, 17}) {
    JitTraining training(training_of(exported(opset, true))), plain(training_of(exported(opset, false)));
    for (int64_t k = 0; k < 4; ++k) EXPECT_EQ(training.step(batch, 0.1, k), plain.step(batch, 0.1, k)) << opset;
    ASSERT_EQ(training.states.size(), 4u);
    for (size_t s = 0; s < training.states.size(); ++s)
      EXPECT_EQ(number_at(training.states[s], 1), number_at(plain.states[s], 1)) << training.t.states[s].name;
    EXPECT_NE(number_at(training.state("b.running_mean"), 0), 0.1);
    // Evaluation neither looks at the rest of the batch nor at the number of the run.
    const double first = number_at(training.evaluate(batch)[0], 0);
    EXPECT_EQ(first, number_at(training.evaluate(batch)[0], 0));
    EXPECT_EQ(first, number_at(plain.evaluate(batch)[0], 0));
    std::vector<double> numbers(18, 9);
    for (int k = 0; k < 3; ++k) numbers[static_cast<size_t>(k)] = number_at(batch.at("x"), k);
    const std::map<std::string, Tensor> other = {{"x", make_tensor<double>(DType::f64, {6, 3}, numbers)},
                                                 {"target", batch.at("target")}};
    EXPECT_EQ(first, number_at(training.evaluate(other)[0], 0));
  }
}

TEST(ExportedModels, MasksThatAreReadAreThoseOfTheStep) {
  // y = d + 10 * mask: with x normalised to nonzero numbers an element is 0 where and only where the mask is.
  Model model = exported(17, true, 0.5, node("Cast", "mask", "m", attributes("\"to\": 11")));
  const Model rest = model_of(17, {parameter("ten", {1}, {10})}, {node("Mul", "m ten", "t"), node("Add", "d t", "y")});
  model.graph.nodes.insert(model.graph.nodes.end(), rest.graph.nodes.begin(), rest.graph.nodes.end());
  model.graph.initializers.push_back(rest.graph.initializers[0]);
  JitTraining training(training_of(
      model,
      R"({"batch": 6, "loss": {"kind": "expression", "body": "(d == 0.0) == (m == 0.0) ? 0.0 : 1.0 + 0*d", "operands": ["d", "m"], "reduction": "sum"}, "optimizer": "sgd"})"));
  EXPECT_EQ(training.step({{"x", random_doubles({6, 3}, 1)}}, 0, 0), 0);
}

TEST(ExportedModels, OneThatWasPutIntoEvaluationModeStaysSo) {
  std::vector<std::string> parameters = statistics;
  for (const char* name : {"c.weight", "c.bias", "c.running_mean", "c.running_var"})
    parameters.push_back(parameter(name, {3}, {1, 2, 3}));
  for (const char* mode : {"1", "0"}) {
    const Model model =
        model_of(17, parameters,
                 {node("BatchNormalization", "x" + b, "n", attributes("\"training_mode\": " + std::string(mode))),
                  node("BatchNormalization", "n c.weight c.bias c.running_mean c.running_var", "y m v",
                       attributes("\"training_mode\": 1"))});
    auto count = [&](const std::string& more) {
      int statistic = 0;
      for (const TrainingState& state :
           training_of(model, R"({"batch": 6, "loss": "mse", "optimizer": "sgd")" + more + "}").states)
        statistic += state.role == train::StateRole::statistic;
      return statistic;
    };
    EXPECT_EQ(count(""), *mode == '1' ? 4 : 2);
    EXPECT_EQ(count(R"(, "batch_norm": {"statistics": "batch"})"), 4);
    EXPECT_EQ(count(R"(, "batch_norm": {"statistics": "running"})"), 0);
  }
}

// What TorchScript's exporter makes of a fresh network in evaluation mode: ones and zeros are kept once.
TEST(ExportedModels, EqualParametersKeptOnceAreTheirOwnAgain) {
  const std::vector<std::string> parameters = {parameter("a.weight", {3}, {1, 1, 1}), parameter("a.bias", {3}, {0, 0, 0})};
  std::vector<std::string> nodes;
  for (const char* name : {"a.running_var", "b.weight", "b.running_var"})
    nodes.push_back(node("Identity", "a.weight", name));
  for (const char* name : {"a.running_mean", "b.bias", "b.running_mean"}) nodes.push_back(node("Identity", "a.bias", name));
  nodes.push_back(node("BatchNormalization", "x a.weight a.bias a.running_mean a.running_var", "h"));
  nodes.push_back(node("BatchNormalization", "h b.weight b.bias b.running_mean b.running_var", "y"));
  const Model model = model_of(17, parameters, nodes);
  const TrainingModel t = training_of(model);
  EXPECT_THAT(trained(t), testing::UnorderedElementsAre("a.weight", "a.bias", "b.weight", "b.bias"));
  EXPECT_THAT(t.notes[0], HasSubstr("6 parameters and buffers that the exporter kept once"));
  EXPECT_EQ(t.network.graph.initializers.size(), 8u);
  JitTraining training(t);
  training.step({{"x", random_doubles({6, 3}, 1)}, {"target", random_doubles({6, 3}, 2)}}, 0.1, 0);
  EXPECT_NE(number_at(training.state("a.weight"), 0), number_at(training.state("b.weight"), 0));
  EXPECT_NE(number_at(training.state("a.running_var"), 0), number_at(training.state("a.weight"), 0));
  // As the file has them they cannot train: a scale that is a variance too.
  EXPECT_THAT(refusal(model, R"({"batch": 6, "loss": "mse", "optimizer": "sgd", "merged": "tie"})"),
              HasSubstr("which is the running"));
}

Model linear_layers(const std::string& first, const std::string& second) {
  return model_of(17, {parameter("onnx::MatMul_4", {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9})},
                  {node("Identity", "onnx::MatMul_4", "onnx::MatMul_5"),
                   node("MatMul", "x onnx::MatMul_4", "h", R"(, "name": ")" + first + "\""),
                   node("MatMul", "h onnx::MatMul_5", "y", R"(, "name": ")" + second + "\"")});
}

TEST(ExportedModels, ALayerThatIsCalledTwiceIsOneAndCopiesAreTwo) {
  auto count = [](const Model& model, const std::string& more) {
    return trained(training_of(model, R"({"batch": 6, "loss": "mse", "optimizer": "sgd")" + more + "}")).size();
  };
  EXPECT_EQ(count(linear_layers("/h/MatMul", "/h_1/MatMul"), ""), 1u);
  EXPECT_EQ(count(linear_layers("/layers.0/MatMul", "/layers.1/MatMul"), ""), 2u);
  EXPECT_EQ(count(linear_layers("/h/MatMul", "/h_1/MatMul"), R"(, "merged": "separate")"), 2u);
  EXPECT_EQ(count(linear_layers("/layers.0/MatMul", "/layers.1/MatMul"), R"(, "merged": "tie")"), 1u);
}

TEST(ExportedModels, ATransposedCopyIsTheParameter) {
  const Model model = model_of(
      17, {parameter("e.weight", {2, 3}, {1, 2, 3, 4, 5, 6}), parameter("onnx::MatMul_9", {3, 2}, {1, 4, 2, 5, 3, 6})},
      {node("MatMul", "x onnx::MatMul_9", "h"), node("MatMul", "h e.weight", "y")});
  EXPECT_THAT(trained(training_of(model)), testing::ElementsAre("e.weight"));
  EXPECT_EQ(trained(training_of(model, R"({"batch": 6, "loss": "mse", "optimizer": "sgd", "merged": "tie"})")).size(), 2u);
}

// What the dynamo exporter says beside the graph.
std::string says(const std::string& lines) {
  return R"(, "graph_metadata": {"pkg.torch.export.ExportedProgram.graph_signature": ")" + lines + "\"}";
}
std::string called(const std::string& arguments) {
  return R"(, "metadata": {"pkg.torch.onnx.fx_node": "call_function[target=t](args = ()" + arguments + "))\"}";
}

TEST(ExportedModels, WhatIsABufferDoesNotTrain) {
  const Model model = model_of(18, {parameter("w", {3}, {1, 2, 3}), parameter("places", {3}, {1, 2, 3})},
                               {node("Mul", "x w", "h"), node("Add", "h places", "y")},
                               says(R"(\np_w: PARAMETER target='w'\nb_places: BUFFER target='places' persistent=True\n)"));
  EXPECT_THAT(trained(training_of(model)), testing::ElementsAre("w"));
  EXPECT_THAT(trained(training_of(model, R"({"batch": 6, "loss": "mse", "optimizer": "sgd", "train": "*"})")),
              testing::ElementsAre("w", "places"));
  EXPECT_EQ(read_onnx(to_onnx_bytes(model), "a.onnx").graph.metadata, model.graph.metadata);
}

TEST(ExportedModels, WhatCannotTrainAlikeIsRefused) {
  const std::string two = says(R"(\np_a: PARAMETER target='a'\np_b: PARAMETER target='b'\n)");
  const std::string body =
      R"(, "attributes": {"then_branch": {"type": "graph", "nodes": [{"op": "BatchNormalization", "inputs": ["x", "b.weight", "b.bias", "b.running_mean", "b.running_var"], "outputs": ["t", "u", "v"], "attributes": {"training_mode": 1}}], "outputs": ["t"]},
    "else_branch": {"type": "graph", "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["e"]}], "outputs": ["e"]}})";
  const std::string condition = R"({"name": "c", "dtype": "bool", "shape": [], "data": true})";
  std::vector<std::string> with_condition = statistics;
  with_condition.push_back(condition);
  const std::pair<Model, std::string> cases[] = {
      {model_of(17, statistics,
                {node("BatchNormalization", "x" + b, "h m v", attributes("\"training_mode\": 1")), node("Add", "h m", "y")}),
       "its output \"m\" is read"},
      {model_of(17, statistics, {node("BatchNormalization", "x b.weight b.bias b.bias b.weight", "y")}),
       "would not train apart"},
      {model_of(18, {parameter("a", {3}, {1, 1, 1})},
                {node("Mul", "x a", "h", called("%x, %p_a")), node("Mul", "h a", "y", called("%mul, %p_b"))}, two),
       "reads \"a\" where PyTorch has \"b\""},
      {model_of(18, {parameter("val_3", {3, 3}, std::vector<double>(9, 0.5))},
                {node("MatMul", "x val_3", "h", called("%x, %p_a")), node("MatMul", "h val_3", "y", called("%h, %p_b"))},
                two),
       "of several parameters that were equal"},
      {model_of(18, {parameter("a", {3}, {1, 1, 1}), parameter("val_3", {3}, {1, 1, 1})},
                {node("Mul", "x a", "h"), node("Mul", "h val_3", "y")}, two),
       "a constant that the exporter computed"},
      {model_of(17, {parameter("a", {3}, {1, 1, 1}), parameter("r", {3}, {1, 1, 1})},
                {node("Mul", "x a", "h"), node("ReduceMax", "h", "q", attributes("\"keepdims\": 0")),
                 node("Dropout", "h q", "y")}),
       "is not known when compiling"},
      {model_of(17, with_condition, {node("If", "c", "h", body), node("Mul", "h b.weight", "y")}),
       "was exported for training, and inside If"},
      {model_of(17, {parameter("a", {3}, {1, 1, 1})},
                {node("Mul", "x a", "h"), node("Multinomial", "h", "q", attributes("\"sample_size\": 3")),
                 node("Cast", "q", "y", attributes("\"to\": 11"))}),
       "draws random numbers"},
  };
  for (const auto& [model, reason] : cases) EXPECT_THAT(refusal(model), HasSubstr(reason));
  for (const auto& [model, reason] : cases) EXPECT_THAT(refusal(model), HasSubstr("node #"));
  EXPECT_EQ(refusal(cases[4].first, R"({"batch": 6, "loss": "mse", "optimizer": "sgd", "freeze": "val_3"})"), "");
  EXPECT_EQ(
      refusal(cases[6].first, R"({"batch": 6, "loss": "mse", "optimizer": "sgd", "batch_norm": {"statistics": "running"}})"),
      "");
  // A value a channel has no variance.
  EXPECT_THAT(refusal(exported(17, true), R"({"batch": 1, "loss": "mse", "optimizer": "sgd"})"),
              HasSubstr("one value a channel"));
}

TEST(ExportedModels, FoldedNormalisationIsRefusedWhereItWouldTrain) {
  auto network = [](const std::string& weight, const std::string& bias, const std::string& metadata) {
    Model model =
        model_of(17, {parameter(weight, {2, 1, 1}, {1, 2}), parameter(bias, {2}, {1, 2}), parameter("head", {1}, {2})},
                 {node("Unsqueeze", "x axes", "u"), node("Conv", "u " + weight + " " + bias, "c", metadata),
                  node("Mul", "c head", "y")});
    model.graph.initializers.push_back({"axes", make_tensor<int64_t>(DType::i64, {1}, std::vector<int64_t>{1})});
    return model;
  };
  const std::string rewritten = R"(, "metadata": {"pkg.onnxscript.rewriter.rule_name": "FuseBatchNormIntoConv"})";
  for (const Model& model : {network("onnx::Conv_5", "onnx::Conv_6", ""), network("c.weight", "c.bias", rewritten)}) {
    EXPECT_THAT(refusal(model), HasSubstr("a BatchNormalization was folded into it"));
    EXPECT_EQ(refusal(model, R"({"batch": 6, "train": "head", "loss": "mse", "optimizer": "sgd"})"), "");
    EXPECT_EQ(refusal(model, R"({"batch": 6, "batch_norm": {"statistics": "running"}, "loss": "mse", "optimizer": "sgd"})"),
              "");
  }
  EXPECT_EQ(refusal(network("c.weight", "c.bias", "")), "");
}

TEST(ExportedModels, RandomOperatorsDrawBySeedAndCall) {
  for (const std::string op : {"RandomNormalLike", "RandomUniformLike", "Bernoulli"}) {
    const Model model = model_of(17, {parameter("w", {3}, {0.3, 0.3, 0.3})},
                                 {node("Mul", "x w", "h"), node(op, "h", "r"), node("Add", "h r", "y")});
    const TrainingModel t = training_of(
        model, R"({"batch": 4000, "loss": {"kind": "expression", "body": "r", "operands": ["r"]}, "optimizer": "sgd"})");
    const std::map<std::string, Tensor> batch = {
        {"x", make_tensor<double>(DType::f64, {4000, 3}, std::vector<double>(12000, 1))}};
    auto mean = [&](int64_t seed, int64_t call) { return JitTraining(t).step(batch, 0, 0, true, seed, call); };
    const double first = mean(1, 0);
    EXPECT_EQ(first, mean(1, 0)) << op;
    EXPECT_NE(first, mean(1, 1)) << op;
    EXPECT_NE(first, mean(2, 0)) << op;
    EXPECT_NEAR(first, op == "RandomNormalLike" ? 0 : op == "Bernoulli" ? 0.3 : 0.5, 0.04) << op;
    JitTraining training(t);
    EXPECT_EQ(number_at(training.evaluate(batch)[0], 0), number_at(training.evaluate(batch)[0], 0)) << op;
  }
}

}  // namespace
}  // namespace metac::exported_models_test
