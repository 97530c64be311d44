// Sums of products that read words of two bfloat16 (CompileOptions::precision). The processor that runs the tests need not
// have such products: the functions of runtime/device/dot.h compute the same bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "compiler/machine/cpu_target.h"
#include "compiler/ops/lower_model.h"
#include "compiler/program/compile.h"
#include "compiler/session/session.h"
#include "frontends/json/json.h"

namespace metac::half_products_test {
namespace {

std::vector<float> random_floats(size_t count, unsigned seed, float deviation = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> values(count);
  for (float& v : values) v = normal(random);
  return values;
}

CompileOptions options_for(DType precision, bool in_tiles = false) {
  CompileOptions options;
  options.cpu = cpu_target("native");
  options.cpu.bf16_products = true;
  options.cpu.matrix_products = in_tiles;
  options.precision = precision;
  return options;
}

int kernels_by_words(const Model& model, const CompileOptions& options) {
  const ExprScope scope;
  const CompiledModel compiled = compile_graph(*lower_model(model, {}), options);
  int found = 0;
  for (const KernelSource& kernel : compiled.run.kernels) {
    const bool by_words = kernel.text.find("dot_bf16") != std::string::npos;
    EXPECT_EQ(std::ranges::count(kernel.multiplies, "bfloat16"), by_words) << kernel.text;
    found += by_words;
  }
  return found;
}

struct Case {
  const char* name;
  std::string text;  // of the model
  std::vector<int64_t> input;
  std::vector<std::pair<const char*, std::vector<int64_t>>> weights;
  int by_words;
};

Model model_of(const Case& c) {
  Model model = read_json_model(c.text, c.name);
  unsigned seed = 7;
  for (const auto& [name, shape] : c.weights) {
    int64_t count = 1;
    for (int64_t extent : shape) count *= extent;
    model.graph.initializers.push_back(
        {name, make_tensor<float>(DType::f32, shape, random_floats(static_cast<size_t>(count), ++seed, 0.1f))});
  }
  return model;
}

Tensor answer(const Model& model, const Case& c, const CompileOptions& compile) {
  int64_t count = 1;
  for (int64_t extent : c.input) count *= extent;
  SessionOptions options;
  options.compile = compile;
  options.threads = 2;
  Session session(model, options);
  return session.run({{"x", make_tensor<float>(DType::f32, c.input, random_floats(static_cast<size_t>(count), 1))}})
      .begin()
      ->second;
}

std::vector<Case> cases() {
  return {
      {"two layers of rows",
       R"json({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [5, 64]}],
        "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["r"]}, {"op": "MatMul", "inputs": ["r", "w"], "outputs": ["m"]},
                  {"op": "Tanh", "inputs": ["m"], "outputs": ["t"]}, {"op": "MatMul", "inputs": ["t", "v"], "outputs": ["n"]},
                  {"op": "Add", "inputs": ["n", "r"], "outputs": ["y"]}], "outputs": ["y"]})json",
       {5, 64},
       {{"w", {64, 96}}, {"v", {96, 64}}},
       2},
      {"rows of an odd number of products",
       R"json({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [5, 64]}],
        "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["r"]}, {"op": "MatMul", "inputs": ["r", "w"], "outputs": ["m"]},
                  {"op": "Tanh", "inputs": ["m"], "outputs": ["t"]}, {"op": "MatMul", "inputs": ["t", "v"], "outputs": ["y"]}],
        "outputs": ["y"]})json",
       {5, 64},
       {{"w", {64, 37}}, {"v", {37, 96}}},
       2},
      {"rows of an open number",
       R"json({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": ["n", 64]}],
        "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["r"]}, {"op": "MatMul", "inputs": ["r", "w"], "outputs": ["y"]}],
        "outputs": ["y"]})json",
       {37, 64},
       {{"w", {64, 96}}},
       1},
      {"an output of the model that a product reads",
       R"json({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [5, 64]}],
        "nodes": [{"op": "Tanh", "inputs": ["x"], "outputs": ["t"]}, {"op": "MatMul", "inputs": ["t", "w"], "outputs": ["y"]}],
        "outputs": ["y", "t"]})json",
       {5, 64},
       {{"w", {64, 96}}},
       1},
      {"windows of which few taps live, in nine parts of the image",
       R"json({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 64, 28, 28]}],
        "nodes": [{"op": "Tanh", "inputs": ["x"], "outputs": ["t"]},
                  {"op": "Conv", "inputs": ["t", "w"], "outputs": ["y"], "attributes": {"dilations": [12, 12], "pads": [12, 12, 12, 12]}}],
        "outputs": ["y"]})json",
       {1, 64, 28, 28},
       {{"w", {48, 64, 3, 3}}},
       9},
      {"attention between products",
       R"json({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [40, 64]}],
        "nodes": [{"op": "Tanh", "inputs": ["x"], "outputs": ["t"]},
                  {"op": "MatMul", "inputs": ["t", "wq"], "outputs": ["q"]}, {"op": "MatMul", "inputs": ["t", "wk"], "outputs": ["k"]},
                  {"op": "MatMul", "inputs": ["t", "wv"], "outputs": ["v"]},
                  {"op": "Transpose", "inputs": ["k"], "outputs": ["kt"], "attributes": {"perm": [1, 0]}},
                  {"op": "MatMul", "inputs": ["q", "kt"], "outputs": ["s"]}, {"op": "Softmax", "inputs": ["s"], "outputs": ["p"]},
                  {"op": "MatMul", "inputs": ["p", "v"], "outputs": ["a"]}, {"op": "MatMul", "inputs": ["a", "wo"], "outputs": ["y"]}],
        "outputs": ["y"]})json",
       {40, 64},
       {{"wq", {64, 64}}, {"wk", {64, 64}}, {"wv", {64, 64}}, {"wo", {64, 48}}},
       4},
      {"attention with an odd number of keys, which are the model's as well",
       R"json({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [37, 64]}],
        "nodes": [{"op": "Tanh", "inputs": ["x"], "outputs": ["t"]}, {"op": "MatMul", "inputs": ["t", "wk"], "outputs": ["z"]},
                  {"op": "Transpose", "inputs": ["z"], "outputs": ["kt"], "attributes": {"perm": [1, 0]}},
                  {"op": "MatMul", "inputs": ["t", "kt"], "outputs": ["s"]}, {"op": "Softmax", "inputs": ["s"], "outputs": ["p"]},
                  {"op": "MatMul", "inputs": ["p", "x"], "outputs": ["y"]}], "outputs": ["y", "z"]})json",
       {37, 64},
       {{"wk", {64, 64}}},
       1},
      {"attention of an open number of rows, each of which sees the keys in front of it",
       R"json({"metac_ir": 1, "opset": 23, "inputs": [{"name": "x", "dtype": "float32", "shape": [1, "n", 64]}],
        "nodes": [{"op": "Tanh", "inputs": ["x"], "outputs": ["t"]}, {"op": "MatMul", "inputs": ["t", "wk"], "outputs": ["k"]},
                  {"op": "Attention", "inputs": ["t", "k", "x"], "outputs": ["y"],
                   "attributes": {"is_causal": 1, "q_num_heads": 2, "kv_num_heads": 2}}], "outputs": ["y"]})json",
       {1, 171, 64},
       {{"wk", {64, 64}}},
       1},
      {"attention whose keys lie side by side, of a depth that fills no vectors",
       R"json({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [3, 35, 38]}],
        "nodes": [{"op": "Transpose", "inputs": ["x"], "outputs": ["xt"], "attributes": {"perm": [0, 2, 1]}},
                  {"op": "Tanh", "inputs": ["xt"], "outputs": ["kt"]}, {"op": "Sigmoid", "inputs": ["x"], "outputs": ["q"]},
                  {"op": "MatMul", "inputs": ["q", "kt"], "outputs": ["s"]}, {"op": "Softmax", "inputs": ["s"], "outputs": ["p"]},
                  {"op": "MatMul", "inputs": ["p", "x"], "outputs": ["y"]}], "outputs": ["y"]})json",
       {3, 35, 38},
       {},
       1},
      {"what the model takes: windows of an odd length, borders, channels of an odd number",
       R"json({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 3, 21, 18]}],
        "nodes": [{"op": "Conv", "inputs": ["x", "a"], "outputs": ["c"], "attributes": {"strides": [2, 2], "pads": [2, 2, 2, 2]}},
                  {"op": "Conv", "inputs": ["x", "b"], "outputs": ["d"], "attributes": {"strides": [2, 2], "pads": [1, 0, 2, 3]}},
                  {"op": "Add", "inputs": ["c", "d"], "outputs": ["y"]}], "outputs": ["y"]})json",
       {2, 3, 21, 18},
       {{"a", {32, 3, 5, 5}}, {"b", {32, 3, 4, 4}}},
       2},
      {"what a transposed convolution gives, of lengths that its step does not divide",
       R"json({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 24, 10, 9]}],
        "nodes": [{"op": "ConvTranspose", "inputs": ["x", "a"], "outputs": ["c"], "attributes": {"strides": [2, 2]}},
                  {"op": "Relu", "inputs": ["c"], "outputs": ["r"]}, {"op": "Conv", "inputs": ["r", "b"], "outputs": ["y"]}],
        "outputs": ["y"]})json",
       {2, 24, 10, 9},
       {{"a", {24, 96, 3, 3}}, {"b", {32, 96, 1, 1}}},
       1},
      {"minimal filtering where it is faster",
       R"json({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 64, 40, 40]}],
        "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["r"]},
                  {"op": "Conv", "inputs": ["r", "a"], "outputs": ["c"], "attributes": {"pads": [1, 1, 1, 1]}},
                  {"op": "Relu", "inputs": ["c"], "outputs": ["d"]}, {"op": "Conv", "inputs": ["d", "b"], "outputs": ["y"]}],
        "outputs": ["y"]})json",
       {1, 64, 40, 40},
       {{"a", {64, 64, 3, 3}}, {"b", {16, 64, 1, 1}}},
       1},
      {"convolutions with a step, of one point, in groups, and of few points",
       R"json({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 32, 13, 11]}],
        "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["r"]},
                  {"op": "Conv", "inputs": ["r", "a"], "outputs": ["c"], "attributes": {"strides": [2, 2], "pads": [1, 1, 1, 1]}},
                  {"op": "Relu", "inputs": ["c"], "outputs": ["d"]}, {"op": "Conv", "inputs": ["d", "b"], "outputs": ["e"]},
                  {"op": "Sigmoid", "inputs": ["e"], "outputs": ["f"]},
                  {"op": "Conv", "inputs": ["f", "g"], "outputs": ["h"], "attributes": {"group": 2}},
                  {"op": "Add", "inputs": ["h", "f"], "outputs": ["i"]}, {"op": "Relu", "inputs": ["i"], "outputs": ["j"]},
                  {"op": "Conv", "inputs": ["j", "k"], "outputs": ["y"], "attributes": {"pads": [1, 1, 1, 1]}}],
        "outputs": ["y"]})json",
       {2, 32, 13, 11},
       {{"a", {48, 32, 3, 3}}, {"b", {64, 48, 1, 1}}, {"g", {64, 32, 1, 1}}, {"k", {32, 64, 3, 3}}},
       4},
  };
}

double norm(const Tensor& t) {
  double sum = 0;
  for (int64_t k = 0; k < t.element_count(); ++k) sum += number_at(t, k) * number_at(t, k);
  return std::sqrt(sum);
}

double distance(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape, b.shape);
  double sum = 0;
  for (int64_t k = 0; k < a.element_count(); ++k) sum += std::pow(number_at(a, k) - number_at(b, k), 2);
  return std::sqrt(sum);
}

// Of what tile registers multiply, the same answers but for the order of the sum.
TEST(HalfProducts, InTileRegistersAreTheSameSums) {
  int in_tiles = 0;
  for (const Case& c : cases()) {
    const Model model = model_of(c);
    const CompileOptions options = options_for(DType::bf16, true);
    {
      const ExprScope scope;
      for (const KernelSource& kernel : compile_graph(*lower_model(model, {}), options).run.kernels)
        in_tiles += kernel.text.find("matrix.multiply<detail::OfHalves") != std::string::npos;
    }
    const Tensor wide = answer(model, c, options_for(DType::f32)), rounded = answer(model, c, options);
    const double relative = distance(wide, rounded) / norm(wide);
    EXPECT_GT(relative, 1e-5) << c.name << ": nothing was rounded";
    EXPECT_LT(relative, 0.01) << c.name;
  }
  const bool has_lanes = cpu_target("native").vector_bytes == 64;
  EXPECT_GE(in_tiles, has_lanes ? 8 : 0);
}

TEST(HalfProducts, AreTheSumsOfRoundedOperands) {
  for (const Case& c : cases()) {
    const Model model = model_of(c);
    EXPECT_EQ(kernels_by_words(model, options_for(DType::bf16)), c.by_words) << c.name;
    EXPECT_EQ(kernels_by_words(model, options_for(DType::f32)), 0) << c.name;
    const Tensor wide = answer(model, c, options_for(DType::f32)), rounded = answer(model, c, options_for(DType::bf16));
    // bfloat16 rounds by at most 2^-9; a few layers of independent errors.
    const double relative = distance(wide, rounded) / norm(wide);
    EXPECT_GT(relative, 1e-5) << c.name << ": nothing was rounded";
    EXPECT_LT(relative, 0.01) << c.name;
  }
}

// What a model stores in bfloat16 needs no permission.
TEST(HalfProducts, OfModelsInBfloat16) {
  const Case c = {"two layers in bfloat16",
                  R"json({"metac_ir": 1, "opset": 22, "inputs": [{"name": "x", "dtype": "float32", "shape": [5, 64]}],
        "nodes": [{"op": "Cast", "inputs": ["x"], "outputs": ["h"], "attributes": {"to": 16}},
                  {"op": "Cast", "inputs": ["w"], "outputs": ["wh"], "attributes": {"to": 16}},
                  {"op": "Cast", "inputs": ["v"], "outputs": ["vh"], "attributes": {"to": 16}},
                  {"op": "MatMul", "inputs": ["h", "wh"], "outputs": ["m"]}, {"op": "Tanh", "inputs": ["m"], "outputs": ["t"]},
                  {"op": "MatMul", "inputs": ["t", "vh"], "outputs": ["n"]},
                  {"op": "Cast", "inputs": ["n"], "outputs": ["y"], "attributes": {"to": 1}}], "outputs": ["y"]})json",
                  {5, 64},
                  {{"w", {64, 96}}, {"v", {96, 64}}},
                  2};
  const Model model = model_of(c);
  EXPECT_EQ(kernels_by_words(model, options_for(DType::f32)), c.by_words);
  CompileOptions plain = options_for(DType::f32);
  plain.cpu.bf16_products = false;
  EXPECT_EQ(kernels_by_words(model, plain), 0);
  const Tensor by_words = answer(model, c, options_for(DType::f32)), widened = answer(model, c, plain);
  for (int64_t k = 0; k < widened.element_count(); ++k)  // sums in another order, rounded to bfloat16
    EXPECT_NEAR(number_at(by_words, k), number_at(widened, k), 0.02 * (1 + std::abs(number_at(widened, k)))) << k;
}

// A network as training has it: its parameters are inputs. Convolutions of one point, with a step and by minimal filtering,
// rows, an odd number of classes; `batch` samples.
std::string training_step(int batch) {
  const std::string n = std::to_string(batch), xs = R"json(["x", "a", "b", "c", "d"])json";
  return R"json({"metac_ir": 1, "opset": {"": 17, "ai.onnx.preview.training": 1}, "inputs": [
      {"name": "x", "dtype": "float32", "shape": [)json" +
         n + R"json(, 96, 10, 10]}, {"name": "a", "dtype": "float32", "shape": [96, 96, 1, 1]},
      {"name": "b", "dtype": "float32", "shape": [112, 96, 3, 3]}, {"name": "c", "dtype": "float32", "shape": [96, 112, 3, 3]},
      {"name": "d", "dtype": "float32", "shape": [2400, 37]}],
    "nodes": [{"op": "Conv", "inputs": ["x", "a"], "outputs": ["f"]}, {"op": "Sigmoid", "inputs": ["f"], "outputs": ["g"]},
      {"op": "Conv", "inputs": ["g", "b"], "outputs": ["h"], "attributes": {"pads": [1, 1, 1, 1], "strides": [2, 2]}},
      {"op": "Tanh", "inputs": ["h"], "outputs": ["i"]}, {"op": "Conv", "inputs": ["i", "c"], "outputs": ["j"], "attributes": {"pads": [1, 1, 1, 1]}},
      {"op": "Flatten", "inputs": ["j"], "outputs": ["k"]}, {"op": "MatMul", "inputs": ["k", "d"], "outputs": ["l"]},
      {"op": "Softmax", "inputs": ["l"], "outputs": ["m"]}, {"op": "elementwise", "inputs": ["m"], "outputs": ["s"], "body": "m*m"},
      {"op": "sum", "inputs": ["s"], "outputs": ["loss"]},
      {"op": "Gradient", "domain": "ai.onnx.preview.training", "inputs": )json" +
         xs + R"json(, "outputs": ["dx", "da", "db", "dc", "dd"],
       "attributes": {"xs": )json" +
         xs + R"json(, "y": "loss"}}], "outputs": ["loss", "dx", "da", "db", "dc", "dd"]})json";
}

std::vector<std::pair<std::string, Tensor>> derivatives(const Model& model, const CompileOptions& compile) {
  std::map<std::string, Tensor> inputs;
  unsigned seed = 3;
  const std::unique_ptr<Graph> graph = lower_model(model, {});
  for (const Var* in : graph->inputs) {
    std::vector<int64_t> shape;
    for (const Expr extent : in->shape()) shape.push_back(extent.as_int());
    const auto count = static_cast<size_t>(std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
    inputs[in->name] = make_tensor<float>(DType::f32, shape, random_floats(count, ++seed, in->name == "x" ? 1.0f : 0.05f));
  }
  SessionOptions options;
  options.compile = compile;
  options.threads = 2;
  Session session(model, options);
  return session.run(inputs);
}

// Forward, by the data and by the parameters: the latter are summed over the samples, two at a time where they are even,
// each tap of a small image by itself.
TEST(HalfProducts, OfDerivatives) {
  for (const auto& [batch, by_words] : {std::pair(8, 20), std::pair(3, 6)}) {
    const Model model = read_json_model(training_step(batch), "training");
    EXPECT_EQ(kernels_by_words(model, options_for(DType::bf16)), by_words) << batch;
    const auto wide = derivatives(model, options_for(DType::f32)), rounded = derivatives(model, options_for(DType::bf16));
    for (size_t k = 0; k < wide.size(); ++k) {
      const auto& [name, exact] = wide[k];
      const double relative = distance(exact, rounded.at(k).second) / norm(exact);
      EXPECT_GT(relative, 1e-7) << name << " of " << batch << ": nothing was rounded";
      EXPECT_LT(relative, 0.02) << name << " of " << batch;
    }
  }
}

// The positions of the data that a weight meets are conditions on both.
TEST(HalfProducts, OfDerivativesOfDilatedWindowsWithSteps) {
  const Model model = read_json_model(R"json({"metac_ir": 1, "opset": {"": 17, "ai.onnx.preview.training": 1},
    "inputs": [{"name": "x", "dtype": "float32", "shape": [4, 37, 14, 7]},
               {"name": "w", "dtype": "float32", "shape": [96, 37, 5, 5]}],
    "nodes": [{"op": "Conv", "inputs": ["x", "w"], "outputs": ["y"],
               "attributes": {"dilations": [2, 2], "pads": [4, 4, 4, 4], "strides": [2, 2]}},
              {"op": "elementwise", "inputs": ["y"], "outputs": ["s"], "body": "y*y"},
              {"op": "sum", "inputs": ["s"], "outputs": ["loss"]},
              {"op": "Gradient", "domain": "ai.onnx.preview.training", "inputs": ["x", "w"], "outputs": ["dx", "dw"],
               "attributes": {"xs": ["x", "w"], "y": "loss"}}], "outputs": ["dx", "dw"]})json",
                                      "dilated");
  EXPECT_EQ(kernels_by_words(model, options_for(DType::bf16)), 2);
  const auto wide = derivatives(model, options_for(DType::f32)), rounded = derivatives(model, options_for(DType::bf16));
  for (size_t k = 0; k < wide.size(); ++k)
    EXPECT_LT(distance(wide[k].second, rounded[k].second) / norm(wide[k].second), 0.02) << wide[k].first;
}

TEST(HalfProducts, KeptNodesReadFloat) {
  const Case c = cases()[0];
  CompileOptions options = options_for(DType::bf16);
  options.keep = {"MatMul"};
  EXPECT_EQ(kernels_by_words(model_of(c), options), 0);
}

// Without such products nothing is rounded.
TEST(HalfProducts, AreForProcessorsThatHaveThem) {
  const Case c = cases()[0];
  CompileOptions options = options_for(DType::bf16);
  options.cpu.bf16_products = false;
  EXPECT_EQ(kernels_by_words(model_of(c), options), 0);
}

}  // namespace
}  // namespace metac::half_products_test
