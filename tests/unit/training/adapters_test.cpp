// Low-rank adapters: which initialisers are matrices of products, what is added beside them, and what trains.
// tests/train/run_adapters.py compares whole trainings with float64, and reads and merges files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/ir/element.h"
#include "compiler/ops/attributes.h"
#include "compiler/train/adapters/add_adapters.h"
#include "compiler/train/adapters/choose_adapter.h"
#include "compiler/train/adapters/product_weights.h"
#include "compiler/train/forms/straight_through.h"
#include "tests/unit/training.h"

namespace metac {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

JitTraining adapted(Model model, const std::string& recipe_text) {
  Recipe recipe = read_recipe(recipe_text, "recipe.json");
  add_adapters(model, recipe);
  return JitTraining(build_training_model(model, recipe, {}));
}

std::string with(const std::string& fields) {
  return R"({"batch": 6, "loss": "cross_entropy", "optimizer": {"kind": "sgd", "momentum": 0.5}, )" + fields + "}";
}

std::map<std::string, Tensor> batch_of_six() {
  return {{"x", random_doubles({6, 4}, 11)}, {"target", labels({6}, {0, 1, 2, 0, 1, 2})}};
}

std::vector<std::string> names_of(const JitTraining& training, train::StateRole role) {
  std::vector<std::string> names;
  for (const TrainingState& state : training.t.states)
    if (state.role == role) names.push_back(state.name);
  return names;
}

std::string refusal(Model model, const std::string& recipe_text) {
  try {
    Recipe recipe = read_recipe(recipe_text, "recipe.json");
    add_adapters(model, recipe);
  } catch (const CompileError& error) {
    return error.what();
  }
  return "";
}

// Nodes over parameters "w" [4, 4], "v" [3, 4], "cube" [2, 4, 4] and the input x [N, 4].
Model network_of(const std::string& nodes, const std::string& outputs, const std::string& dtype = "float64") {
  const auto numbers = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += (i ? "," : "") + std::to_string(((i * 7) % 11 - 5) / 8.0);
    return text;
  };
  return read_json_model(R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": ")" + dtype +
                             R"(", "shape": ["N", 4]}], "parameters": [
        {"name": "w", "dtype": ")" +
                             dtype + R"(", "shape": [4, 4], "data": [)" + numbers(16) + R"(]},
        {"name": "v", "dtype": ")" +
                             dtype + R"(", "shape": [3, 4], "data": [)" + numbers(12) + R"(]},
        {"name": "cube", "dtype": ")" +
                             dtype + R"(", "shape": [2, 4, 4], "data": [)" + numbers(32) + R"(]}],
      "nodes": [)" + nodes + R"(], "outputs": [)" +
                             outputs + "]}",
                         "network.json");
}

TEST(Adapters, LayersAreCalledAsPyTorchCallsThem) {
  EXPECT_EQ(layer_of_weight("layers.0.q_proj.weight"), "layers.0.q_proj");
  EXPECT_EQ(layer_of_weight("layers.0.q_proj.qweight"), "layers.0.q_proj");
  EXPECT_EQ(layer_of_weight("attn.MatMul.weight_Q4"), "attn.MatMul");
  EXPECT_EQ(layer_of_weight("fc.weight_quantized"), "fc");
  EXPECT_EQ(layer_of_weight("w1"), "w1");
  EXPECT_EQ(layer_of_weight("weights.0"), "weights.0");
  EXPECT_EQ(layer_of_weight(".weight"), ".weight");
}

TEST(Adapters, WeightsOfProductsAreFound) {
  const Model model = network_of(
      R"({"op": "Gemm", "inputs": ["x", "v"], "outputs": ["a"], "attributes": {"transB": 1, "alpha": 0.5}},
         {"op": "Transpose", "inputs": ["w"], "outputs": ["turned"], "attributes": {"perm": [1, 0]}},
         {"op": "MatMul", "inputs": ["x", "turned"], "outputs": ["b"]}, {"op": "MatMul", "inputs": ["b", "turned"], "outputs": ["c"]},
         {"op": "MatMul", "inputs": ["x", "cube"], "outputs": ["d"]}, {"op": "MatMul", "inputs": ["v", "w"], "outputs": ["e"]})",
      R"("a", "c", "d", "e")");
  const std::vector<ProductWeight> found = product_weights(model);
  ASSERT_EQ(found.size(), 2u);  // neither one of rank 3 nor one that multiplies a weight
  EXPECT_EQ(found[0].initializer, 1);
  EXPECT_EQ(found[0].depth, 4);
  EXPECT_EQ(found[0].columns, 3);
  EXPECT_TRUE(found[0].transposed);
  EXPECT_EQ(found[0].products[0].factor, 0.5);
  EXPECT_EQ(found[1].initializer, 0);
  EXPECT_TRUE(found[1].transposed);
  ASSERT_EQ(found[1].products.size(), 2u);
  EXPECT_EQ(found[1].products[1].node, 3);
}

TEST(Adapters, TheyAloneTrain) {
  const std::string adapters = R"("adapters": {"match": "w?", "rank": 2, "alpha": 3})";
  JitTraining training = adapted(small_network(), with(adapters));
  EXPECT_THAT(names_of(training, train::StateRole::parameter),
              ElementsAre("w1.lora_A", "w1.lora_B", "w2.lora_A", "w2.lora_B"));
  EXPECT_THAT(names_of(training, train::StateRole::optimiser),
              ElementsAre("w1.lora_A/momentum", "w1.lora_B/momentum", "w2.lora_A/momentum", "w2.lora_B/momentum"));
  EXPECT_THAT(names_of(training, train::StateRole::frozen), ElementsAre("w1", "b1", "w2"));
  EXPECT_EQ(training.state("w1.lora_A").shape, (std::vector<int64_t>{4, 2}));
  EXPECT_EQ(training.state("w2.lora_B").shape, (std::vector<int64_t>{2, 3}));
  JitTraining more = adapted(small_network(), with(adapters + R"(, "train": "b1")"));
  EXPECT_EQ(names_of(more, train::StateRole::parameter).size(), 5u);
}

// B is zero at first: the network is that without adapters. The seed says what A is.
TEST(Adapters, AtFirstTheyAddNothing) {
  JitTraining bare(build_training_model(small_network(), read_recipe(with(R"("train": "w1")"), "recipe.json"), {}));
  JitTraining one = adapted(small_network(), with(R"("adapters": {"match": "w1"})"));
  JitTraining other = adapted(small_network(), with(R"("seed": 5, "adapters": {"match": "w1"})"));
  EXPECT_EQ(bare.step(batch_of_six(), 0.1, 0), one.step(batch_of_six(), 0.1, 0));
  EXPECT_NE(number_at(one.state("w1.lora_A"), 0), number_at(other.state("w1.lora_A"), 0));
  EXPECT_NE(number_at(one.state("w1.lora_B"), 0), 0);
}

// Away from where they begin, with a Gemm that transposes data and weight, one weight in two products, and one behind
// another: central differences of the loss by every element.
TEST(Adapters, GradientsAreCentralDifferences) {
  const Model model = network_of(
      R"({"op": "MatMul", "inputs": ["x", "w"], "outputs": ["a"]}, {"op": "Tanh", "inputs": ["a"], "outputs": ["b"]},
         {"op": "MatMul", "inputs": ["b", "w"], "outputs": ["c"]}, {"op": "Transpose", "inputs": ["c"], "outputs": ["d"]},
         {"op": "Gemm", "inputs": ["d", "v"], "outputs": ["y"], "attributes": {"transA": 1, "transB": 1, "alpha": 0.7}})",
      R"("y")");
  JitTraining training = adapted(
      model,
      R"({"batch": 6, "loss": "cross_entropy", "optimizer": "sgd", "adapters": [{"match": "*", "rank": 1}, {"match": "w", "rank": 2, "alpha": 5}]})");
  ASSERT_THAT(names_of(training, train::StateRole::parameter), ElementsAre("w.lora_A", "w.lora_B", "v.lora_A", "v.lora_B"));
  for (size_t s = 0; s < 4; ++s) training.states[s] = random_doubles(training.states[s].shape, static_cast<unsigned>(s));
  expect_central_differences(training, batch_of_six());
}

// float16 data and weights: A and B stay float32, and what a step does to them is what one in float32 does but for rounding.
TEST(Adapters, DataMayBeHalf) {
  const auto network = [](const std::string& dtype) {
    return network_of(
        R"({"op": "cast", "inputs": ["x"], "outputs": ["h"], "dtype": ")" + dtype +
            R"("}, {"op": "cast", "inputs": ["w"], "outputs": ["g"], "dtype": ")" + dtype +
            R"("}, {"op": "MatMul", "inputs": ["h", "narrow"], "outputs": ["a"]}, {"op": "cast", "inputs": ["a"], "outputs": ["y"], "dtype": "float32"})",
        R"("y")", "float32");
  };
  const auto trained = [&](DType dtype) {
    Model model = network(std::string(name_of(dtype)));
    std::vector<float> values;
    for (int i = 0; i < 16; ++i) values.push_back(static_cast<float>((i * 5 % 13 - 6) / 8.0));
    Tensor narrow = make_tensor<float>(DType::f32, {4, 4}, values);
    if (dtype == DType::f16) {
      std::vector<uint16_t> bits;
      for (float v : values) bits.push_back(float_to_half(v));
      narrow = make_tensor<uint16_t>(DType::f16, {4, 4}, bits);
    }
    model.graph.initializers.push_back({"narrow", narrow});
    JitTraining training = adapted(
        model, R"({"batch": 6, "loss": "cross_entropy", "optimizer": "sgd", "adapters": {"match": "narrow", "rank": 2}})");
    std::vector<float> x;
    const Tensor wide = random_doubles({6, 4}, 11);
    for (int64_t i = 0; i < 24; ++i) x.push_back(static_cast<float>(number_at(wide, i)));
    for (int k = 0; k < 3; ++k)
      training.step({{"x", make_tensor<float>(DType::f32, {6, 4}, x)}, {"target", labels({6}, {0, 1, 2, 0, 1, 2})}}, 1, k);
    return training.state("narrow.lora_B");
  };
  const Tensor half = trained(DType::f16), single = trained(DType::f32);
  ASSERT_EQ(half.dtype, DType::f32);
  double greatest = 0;
  for (int64_t i = 0; i < 8; ++i) greatest = std::max(greatest, std::abs(number_at(single, i)));
  for (int64_t i = 0; i < 8; ++i) EXPECT_NEAR(number_at(half, i), number_at(single, i), 5e-3 * greatest) << i;
  EXPECT_GT(greatest, 0.01);
}

// Half storage rounds what the network computes with; a step moves B as one in float32 does but for that.
TEST(Adapters, StorageMayBeHalf) {
  const auto trained = [](const std::string& more) {
    JitTraining training =
        adapted(small_network("float32"), with(more + R"("adapters": {"match": "w?", "rank": 2, "alpha": 3})"));
    std::vector<float> x;
    const Tensor wide = random_doubles({6, 4}, 11);
    for (int64_t i = 0; i < 24; ++i) x.push_back(static_cast<float>(number_at(wide, i)));
    for (int k = 0; k < 3; ++k)
      training.step({{"x", make_tensor<float>(DType::f32, {6, 4}, x)}, {"target", labels({6}, {0, 1, 2, 0, 1, 2})}}, 1, k);
    return training.state("w1.lora_B");
  };
  const Tensor half = trained(R"("storage": "bfloat16", )"), single = trained("");
  double greatest = 0;
  for (int64_t i = 0; i < 10; ++i) greatest = std::max(greatest, std::abs(number_at(single, i)));
  for (int64_t i = 0; i < 10; ++i) EXPECT_NEAR(number_at(half, i), number_at(single, i), 0.1 * greatest) << i;
  EXPECT_GT(greatest, 0.01);
}

TEST(Adapters, TheirDropoutDrops) {
  JitTraining training = adapted(small_network(), with(R"("adapters": {"match": "w1", "dropout": 0.5})"));
  training.states[1] = random_doubles(training.states[1].shape, 4);
  const std::vector<Tensor> start = training.states;
  const double one = training.step(batch_of_six(), 0, 0, true, 1, 0);
  training.states = start;
  EXPECT_EQ(training.step(batch_of_six(), 0, 0, true, 1, 0), one);
  EXPECT_NE(training.step(batch_of_six(), 0, 0, true, 1, 1), one);
}

TEST(Adapters, WhatIsNoMatrixOfAProductIsTold) {
  const Model small = small_network();
  EXPECT_THAT(refusal(small, with(R"("adapters": {"match": "w3"})")), HasSubstr("did you mean \"w1\"?"));
  EXPECT_THAT(refusal(small, with(R"("adapters": {"match": ["w1", "b1"]})")),
              HasSubstr("\"b1\" 5, which is not the matrix of a product: line 1, node #1 (Add) reads it"));
  const Model cube = network_of(R"({"op": "MatMul", "inputs": ["x", "cube"], "outputs": ["y"]})", R"("y")");
  EXPECT_THAT(refusal(cube, with(R"("adapters": {"match": "cube"})")), HasSubstr("\"cube\" 2x4x4"));
  const Model both = network_of(R"({"op": "MatMul", "inputs": ["x", "w"], "outputs": ["a"]},
    {"op": "Gemm", "inputs": ["a", "w"], "outputs": ["y"], "attributes": {"transB": 1}})",
                                R"("y")");
  EXPECT_THAT(refusal(both, with(R"("adapters": {"match": "w"})")), HasSubstr("as it is and transposed"));
  Model twice = small;
  Recipe recipe = read_recipe(with(R"("adapters": {"match": "w1"})"), "recipe.json");
  add_adapters(twice, recipe);
  EXPECT_THAT(refusal(twice, with(R"("adapters": {"match": "w1"})")), HasSubstr("already: it has adapters"));
}

// The model is the network of a loss that does not depend on one of two matched weights, and rounds its data.
TEST(Adapters, WhatKeepsThemFromLearningIsTold) {
  Model model = network_of(R"({"op": "QuantizeLinear", "inputs": ["x", "scale"], "outputs": ["q"]},
    {"op": "DequantizeLinear", "inputs": ["q", "scale"], "outputs": ["d"]},
    {"op": "MatMul", "inputs": ["d", "w"], "outputs": ["y"]}, {"op": "Gemm", "inputs": ["x", "v"], "outputs": ["z"], "attributes": {"transB": 1}})",
                           R"("y", "z")", "float32");
  model.graph.initializers.push_back({"scale", filled_tensor(DType::f32, {}, 0.1)});
  Recipe recipe = read_recipe(with(R"("adapters": {"match": "*"})"), "recipe.json");
  add_adapters(model, recipe);
  EXPECT_THAT(note_of_rounding(model), HasSubstr("1 node rounds values"));
  Model trained = model;
  EXPECT_EQ(pairs_to_fake_quantize(trained), 1);
  EXPECT_EQ(note_of_rounding(trained), "");
  try {
    build_training_model(model, recipe, {});
    FAIL() << "it trains what has no derivative";
  } catch (const CompileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no parameter matches \"v.lora_A\""));
  }
}

// Files are nobody's we know: what a node says of its weight is not believed where the bytes say otherwise.
TEST(Adapters, AttributesThatBytesContradictAreNotBelieved) {
  Node node;
  node.op_type = "MatMulNBits";
  node.domain = "com.microsoft";
  node.inputs = {"x", "packed", "scales"};
  node.outputs = {"y"};
  Model model;
  model.graph.initializers = {{"packed", filled_tensor(DType::u8, {4, 1, 8}, 0)},
                              {"scales", filled_tensor(DType::f32, {4, 1}, 1)}};
  const auto found = [&](int64_t depth, int64_t columns) {
    node.attributes["K"] = integer_attribute(depth);
    node.attributes["N"] = integer_attribute(columns);
    model.graph.nodes = {node};
    return product_weights(model).size();
  };
  EXPECT_EQ(found(16, 4), 1u);
  EXPECT_EQ(found(-16, 4), 0u);
  EXPECT_EQ(found(int64_t{1} << 62, 4), 0u);
  EXPECT_EQ(found(16, INT64_MAX), 0u);
}

TEST(Adapters, OldFilesBecomeThoseThatHaveAdapters) {
  Model model = small_network();
  model.ir_version = 3;
  Recipe recipe = read_recipe(with(R"("adapters": {"match": "w1"})"), "recipe.json");
  add_adapters(model, recipe);
  EXPECT_EQ(model.ir_version, 4);
  Model older = small_network();
  older.opset_imports[""] = 6;
  EXPECT_THAT(refusal(older, with(R"("adapters": {"match": "w1"})")), HasSubstr("is of opset 6"));
}

TEST(Adapters, TheChoiceOfEachRowIsAsLongAsTheBatch) {
  Model open = small_network();
  add_adapter_choice(open, {}, AdapterInput::each_row);
  EXPECT_EQ(open.graph.inputs.back().name, "adapter");
  EXPECT_EQ(open.graph.inputs.back().type.dtype, DType::i64);
  EXPECT_EQ((*open.graph.inputs.back().type.shape)[0].symbol, "N");
  Model fixed = small_network();
  (*fixed.graph.inputs[0].type.shape)[0] = {6, ""};
  add_adapter_choice(fixed, {}, AdapterInput::each_row);
  ASSERT_EQ(fixed.graph.inputs.back().type.shape->size(), 1u);
  EXPECT_EQ((*fixed.graph.inputs.back().type.shape)[0].value, 6);
  Model one = small_network();
  add_adapter_choice(one, {}, AdapterInput::scalar);
  EXPECT_TRUE(one.graph.inputs.back().type.shape->empty());
}

TEST(Adapters, NoInputTakesTheNameOfTheChoice) {
  Model model = small_network();
  model.graph.inputs[0].name = "adapter";
  model.graph.nodes[0].inputs[0] = "adapter";
  EXPECT_THROW(add_adapter_choice(model, {}, AdapterInput::scalar), CompileError);
}

}  // namespace
}  // namespace metac
