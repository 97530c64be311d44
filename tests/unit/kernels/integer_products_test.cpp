// Products of small integers that are read as words.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "compiler/machine/cpu_target.h"
#include "compiler/ops/lower_model.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "compiler/session/session.h"
#include "frontends/json/json.h"

namespace metac::integer_products_test {
namespace {

// How many kernels of the model, made for `cpu`, have the text.
int kernels_with(const Model& model, const char* cpu, std::string_view text) {
  CompileOptions options;
  options.cpu = cpu_target(cpu);
  const CompiledModel compiled = compile_graph(*lower_model(model, {}), options);
  return static_cast<int>(
      std::count_if(compiled.run.kernels.begin(), compiled.run.kernels.end(),
                    [&](const KernelSource& kernel) { return kernel.text.find(text) != std::string::npos; }));
}

// One kernel finds the range of x, its scale and zero point and rounds it: what it stores are bytes all the same.
TEST(IntegerProducts, OfWhatAKernelOfSeveralStagesRounds) {
  const Model model = read_json_model(R"json({"metac_ir": 1, "opset": 17,
    "inputs": [{"name": "x", "dtype": "float32", "shape": [5, 70]}, {"name": "w", "dtype": "int8", "shape": [70, 64]}],
    "nodes": [{"op": "DynamicQuantizeLinear", "inputs": ["x"], "outputs": ["q", "scale", "zero"]},
              {"op": "MatMulInteger", "inputs": ["q", "w", "zero"], "outputs": ["y"]}], "outputs": ["y"]})json",
                                      "integers.json");
  EXPECT_EQ(kernels_with(model, "x86-64-v4+vnni", "dot_u8s8"), 1);

  std::mt19937 random(3);
  std::vector<float> x(5 * 70);
  std::vector<int8_t> w(70 * 64);
  for (float& v : x) v = static_cast<float>(random() % 2001) / 500 - 1;
  for (int8_t& v : w) v = static_cast<int8_t>(random() % 256);
  const float least = std::min(0.f, *std::min_element(x.begin(), x.end())),
              most = std::max(0.f, *std::max_element(x.begin(), x.end()));
  const float scale = (most - least) / 255, zero = std::rint(-least / scale);
  SessionOptions native;
  native.compile.cpu = cpu_target("native");
  Session session(model, native);
  const Tensor y =
      session.run({{"x", make_tensor<float>(DType::f32, {5, 70}, x)}, {"w", make_tensor<int8_t>(DType::i8, {70, 64}, w)}})
          .begin()
          ->second;
  for (size_t i = 0; i < 5; ++i)
    for (size_t j = 0; j < 64; ++j) {
      double expected = 0;
      for (size_t k = 0; k < 70; ++k)
        expected += (std::clamp(std::rint(x[i * 70 + k] / scale) + zero, 0.f, 255.f) - zero) * w[k * 64 + j];
      ASSERT_EQ(number_at(y, static_cast<int64_t>(i * 64 + j)), expected) << i << ", " << j;
    }
}

// Quantisers write a zero point a column, all of them 0: it costs the products of bytes nothing.
TEST(IntegerProducts, OfZeroPointsThatAreAllTheSame) {
  struct Case {
    const char *op, *domain, *inputs, *weights;
  };
  for (const Case& c : {Case{"MatMulInteger", "", "x, w, z, zero", "[64, 32]"},
                        Case{"QLinearMatMul", "", "x, s, z, w, scale, zero, s, z", "[64, 32]"},
                        Case{"ConvInteger", "", "x, w, z, zero", "[32, 64, 1]"},
                        Case{"QLinearConv", "", "x, s, z, w, scale, zero, s, z", "[32, 64, 1]"},
                        Case{"QGemm", "com.microsoft", "x, s, z, w, scale, zero", "[64, 32]"},
                        Case{"MatMulIntegerToFloat", "com.microsoft", "x, w, s, scale, z, zero", "[64, 32]"},
                        Case{"DynamicQuantizeMatMul", "com.microsoft", "real, w, scale, zero", "[64, 32]"}}) {
    nlohmann::json document = nlohmann::json::parse(R"json({"metac_ir": 1, "opset": {"": 17, "com.microsoft": 1},
      "inputs": [{"name": "x", "dtype": "uint8", "shape": [8, 64]}, {"name": "real", "dtype": "float32", "shape": [8, 64]},
                 {"name": "w", "dtype": "int8"}, {"name": "s", "dtype": "float32", "shape": []},
                 {"name": "z", "dtype": "uint8", "shape": []}, {"name": "scale", "dtype": "float32", "shape": [32]}],
      "parameters": [{"name": "zero", "dtype": "int8", "shape": [32]}],
      "nodes": [{"outputs": ["y"]}], "outputs": ["y"]})json");
    document["inputs"][2]["shape"] = nlohmann::json::parse(c.weights);
    if (document["inputs"][2]["shape"].size() == 3) document["inputs"][0]["shape"] = {1, 64, 40};
    document["parameters"][0]["data"] = std::vector<int>(32, 0);
    nlohmann::json& node = document["nodes"][0];
    node["op"] = c.op;
    node["domain"] = c.domain;
    std::istringstream names(c.inputs);
    for (std::string name; std::getline(names >> std::ws, name, ',');) node["inputs"].push_back(name);
    const Model model = read_json_model(document.dump(), "zeros.json");
    EXPECT_EQ(kernels_with(model, "x86-64-v4+vnni", "dot_u8s8"), 1) << c.op;
  }
}

// Unsigned weights with zero points of their own are signed ones with others, which the sums of the data's rows make up for.
TEST(IntegerProducts, OfUnsignedWeightsWithZeroPoints) {
  nlohmann::json document = nlohmann::json::parse(R"json({"metac_ir": 1, "opset": 17,
    "inputs": [{"name": "x", "dtype": "float32", "shape": [9, 70]}, {"name": "w", "dtype": "uint8", "shape": [70, 48]},
               {"name": "each", "dtype": "uint8", "shape": [48]}],
    "parameters": [{"name": "v", "dtype": "uint8", "shape": [70, 32]}, {"name": "one", "dtype": "uint8", "shape": [], "data": 97}],
    "nodes": [{"op": "DynamicQuantizeLinear", "inputs": ["x"], "outputs": ["q", "scale", "zero"]},
              {"op": "MatMulInteger", "inputs": ["q", "v", "zero", "one"], "outputs": ["y"]},
              {"op": "MatMulInteger", "inputs": ["q", "w", "zero", "each"], "outputs": ["z"]}], "outputs": ["y", "z"]})json");
  std::mt19937 random(7);
  nlohmann::json& numbers = document["parameters"][0]["data"];
  for (int k = 0; k < 70 * 32; ++k) numbers.push_back(random() % 256);
  const Model model = read_json_model(document.dump(), "unsigned.json");
  EXPECT_EQ(kernels_with(model, "x86-64-v4+vnni", "dot_u8s8"), 2);
  std::vector<float> x(9 * 70);
  std::vector<uint8_t> w(70 * 48), each(48);
  for (float& v : x) v = static_cast<float>(random() % 2001) / 700 - 1;
  for (std::vector<uint8_t>* bytes : {&w, &each})
    for (uint8_t& v : *bytes) v = static_cast<uint8_t>(random() % 256);
  const std::vector<Tensor> inputs = {make_tensor<float>(DType::f32, {9, 70}, x),
                                      make_tensor<uint8_t>(DType::u8, {70, 48}, w),
                                      make_tensor<uint8_t>(DType::u8, {48}, each)};
  const std::vector<Tensor> expected = evaluate(*lower_model(model, {}), inputs);
  SessionOptions native;
  native.compile.cpu = cpu_target("native");
  for (const auto& [name, found] : Session(model, native).run({{"x", inputs[0]}, {"w", inputs[1]}, {"each", inputs[2]}}))
    for (int64_t k = 0; k < found.element_count(); ++k)
      ASSERT_EQ(number_at(found, k), number_at(expected[name == "y" ? 0 : 1], k)) << name << ", " << k;
}

// A convolution that was left out of quantising reads, beside one that was not, what is stored in bytes: it has the tiles of
// real numbers all the same.
TEST(IntegerProducts, AProductOfRealNumbersReadsWhatIsNarrowElsewhere) {
  const Model model = read_json_model(R"json({"metac_ir": 1, "opset": 17,
    "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 32, 14, 14]}, {"name": "w", "dtype": "int8", "shape": [64, 32, 3, 3]},
               {"name": "v", "dtype": "float32", "shape": [64, 32, 3, 3]}, {"name": "scale", "dtype": "float32", "shape": []},
               {"name": "zero", "dtype": "uint8", "shape": []}],
    "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["positive"]},
              {"op": "QuantizeLinear", "inputs": ["positive", "scale", "zero"], "outputs": ["q"]},
              {"op": "DequantizeLinear", "inputs": ["q", "scale", "zero"], "outputs": ["narrow"]},
              {"op": "DequantizeLinear", "inputs": ["w", "scale"], "outputs": ["weights"]},
              {"op": "Conv", "inputs": ["narrow", "weights"], "outputs": ["of_bytes"], "attributes": {"strides": [2, 2]}},
              {"op": "Conv", "inputs": ["narrow", "v"], "outputs": ["of_numbers"], "attributes": {"strides": [2, 2]}}],
    "outputs": ["of_bytes", "of_numbers"]})json",
                                      "left_out.json");
  for (const char* cpu : {"x86-64-v4+vnni", "x86-64-v3"}) {
    EXPECT_EQ(kernels_with(model, cpu, "// schedule: tile: "), 2) << cpu;
  }
  std::mt19937 random(4);
  const auto drawn = [&](std::vector<int64_t> shape) {
    std::vector<float> values(static_cast<size_t>(shape[0] * shape[1] * shape[2] * shape[3]));
    for (float& v : values) v = static_cast<float>(random() % 2001) / 1000 - 1;
    return make_tensor<float>(DType::f32, std::move(shape), values);
  };
  std::vector<int8_t> w(64 * 32 * 9);
  for (int8_t& v : w) v = static_cast<int8_t>(random() % 255 - 127);
  const std::vector<Tensor> inputs = {drawn({1, 32, 14, 14}), make_tensor<int8_t>(DType::i8, {64, 32, 3, 3}, w),
                                      drawn({64, 32, 3, 3}), make_tensor<float>(DType::f32, {}, std::vector<float>{0.004f}),
                                      make_tensor<uint8_t>(DType::u8, {}, std::vector<uint8_t>{3})};
  const std::vector<Tensor> expected = evaluate(*lower_model(model, {}), inputs);
  SessionOptions native;
  native.compile.cpu = cpu_target("native");
  Session session(model, native);
  const auto found =
      session.run({{"x", inputs[0]}, {"w", inputs[1]}, {"v", inputs[2]}, {"scale", inputs[3]}, {"zero", inputs[4]}});
  for (const auto& [name, tensor] : found) {
    const Tensor& wanted = expected[name == "of_bytes" ? 0 : 1];
    for (int64_t k = 0; k < wanted.element_count(); ++k)
      ASSERT_NEAR(number_at(tensor, k), number_at(wanted, k), 2e-4) << name << ", " << k;
  }
}

// The three channels of an image are one word, for a sum that alone reads them: with another one beside it, of the same
// windows, they stay bytes.
TEST(IntegerProducts, TwoSumsReadTheSameFewChannels) {
  for (const char* others : {"of_bytes", "of_numbers"}) {
    const Model model = read_json_model(std::string(R"json({"metac_ir": 1, "opset": 17,
      "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 3, 14, 14]}, {"name": "w", "dtype": "int8", "shape": [16, 3, 2, 2]},
                 {"name": "v", "dtype": "int8", "shape": [16, 3, 2, 2]}, {"name": "of_numbers", "dtype": "float32", "shape": [16, 3, 2, 2]},
                 {"name": "scale", "dtype": "float32", "shape": []}, {"name": "zero", "dtype": "uint8", "shape": []}],
      "nodes": [{"op": "QuantizeLinear", "inputs": ["x", "scale", "zero"], "outputs": ["q"]},
                {"op": "DequantizeLinear", "inputs": ["q", "scale", "zero"], "outputs": ["narrow"]},
                {"op": "DequantizeLinear", "inputs": ["w", "scale"], "outputs": ["weights"]},
                {"op": "DequantizeLinear", "inputs": ["v", "scale"], "outputs": ["of_bytes"]},
                {"op": "Conv", "inputs": ["narrow", "weights"], "outputs": ["first"]},
                {"op": "Conv", "inputs": ["narrow", ")json") +
                                            others + R"json("], "outputs": ["second"]}],
      "outputs": ["first", "second"]})json",
                                        "few_channels.json");
    std::mt19937 random(5);
    std::vector<float> x(3 * 14 * 14), numbers(16 * 3 * 4);
    for (std::vector<float>* values : {&x, &numbers})
      for (float& value : *values) value = static_cast<float>(random() % 2001) / 1000;
    std::vector<int8_t> w(16 * 3 * 4), v(16 * 3 * 4);
    for (std::vector<int8_t>* values : {&w, &v})
      for (int8_t& value : *values) value = static_cast<int8_t>(random() % 255 - 127);
    const std::vector<int64_t> shape = {16, 3, 2, 2};
    const std::vector<std::pair<std::string, Tensor>> inputs = {
        {"x", make_tensor<float>(DType::f32, {1, 3, 14, 14}, x)},
        {"w", make_tensor<int8_t>(DType::i8, shape, w)},
        {"v", make_tensor<int8_t>(DType::i8, shape, v)},
        {"of_numbers", make_tensor<float>(DType::f32, shape, numbers)},
        {"scale", make_tensor<float>(DType::f32, {}, std::vector<float>{0.0078125f})},
        {"zero", make_tensor<uint8_t>(DType::u8, {}, std::vector<uint8_t>{3})}};
    std::vector<Tensor> given;
    for (const auto& [name, tensor] : inputs) given.push_back(tensor);
    const std::vector<Tensor> expected = evaluate(*lower_model(model, {}), given);
    SessionOptions native;
    native.compile.cpu = cpu_target("native");
    Session session(model, native);
    for (const auto& [name, tensor] : session.run({inputs.begin(), inputs.end()})) {
      const Tensor& wanted = expected[name == "first" ? 0 : 1];
      for (int64_t at = 0; at < wanted.element_count(); ++at)
        ASSERT_NEAR(number_at(tensor, at), number_at(wanted, at), 2e-4) << others << ", " << name << ", " << at;
    }
  }
}

// A depthwise convolution has no words: it reads integers as they are stored, without the zero point where that is not 0,
// and multiplies them as numbers.
TEST(IntegerProducts, ADepthwiseConvolutionReadsWhatIsNarrow) {
  struct Case {
    const char* dtype;
    int zero, stride;
    const char* stored;
  };
  for (const Case& c : {Case{"uint8", 0, 1, "const uint8_t*"}, Case{"uint8", 9, 2, "const int16_t*"},
                        Case{"int8", 0, 2, "const int8_t*"}, Case{"int8", -128, 1, "const int16_t*"}}) {
    nlohmann::json document = nlohmann::json::parse(R"json({"metac_ir": 1, "opset": 17,
      "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 48, 13, 14]}],
      "parameters": [{"name": "s", "dtype": "float32", "shape": [], "data": 0.0078125}, {"name": "z", "shape": []},
                     {"name": "w", "dtype": "int8", "shape": [48, 1, 3, 3]}, {"name": "t", "dtype": "float32", "shape": [48]},
                     {"name": "p", "dtype": "int8", "shape": [48]}],
      "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["positive"]},
                {"op": "QuantizeLinear", "inputs": ["positive", "s", "z"], "outputs": ["q"]},
                {"op": "DequantizeLinear", "inputs": ["q", "s", "z"], "outputs": ["value"]},
                {"op": "DequantizeLinear", "inputs": ["w", "t", "p"], "outputs": ["weights"], "attributes": {"axis": 0}},
                {"op": "Conv", "inputs": ["value", "weights"], "outputs": ["sum"],
                 "attributes": {"group": 48, "pads": [1, 1, 1, 1]}},
                {"op": "QuantizeLinear", "inputs": ["sum", "s", "z"], "outputs": ["y"]}], "outputs": ["y"]})json");
    std::mt19937 random(6);
    nlohmann::json& parameters = document["parameters"];
    parameters[1]["dtype"] = c.dtype;
    parameters[1]["data"] = c.zero;
    for (int k = 0; k < 48 * 9; ++k) parameters[2]["data"].push_back(static_cast<int>(random() % 255) - 127);
    for (int k = 0; k < 48; ++k) parameters[3]["data"].push_back(0.001953125 * (1 + k % 3));
    parameters[4]["data"] = std::vector<int>(48, 0);
    document["nodes"][4]["attributes"]["strides"] = {c.stride, c.stride};
    const Model model = read_json_model(document.dump(), "depthwise.json");
    for (const char* cpu : {"x86-64-v4+vnni", "x86-64-v3"}) {
      CompileOptions options;
      options.cpu = cpu_target(cpu);
      int reading = 0;
      for (const KernelSource& kernel : compile_graph(*lower_model(model, {}), options).run.kernels)
        reading +=
            kernel.text.find("// schedule: tile: ") != std::string::npos && kernel.text.find(c.stored) != std::string::npos;
      EXPECT_EQ(reading, 1) << cpu << ", " << c.stored;
    }
    std::vector<float> x(48 * 13 * 14);
    for (float& v : x) v = static_cast<float>(random() % 2001) / 1000 - 1;
    const Tensor input = make_tensor<float>(DType::f32, {1, 48, 13, 14}, x);
    const Tensor expected = evaluate(*lower_model(model, {}), {input})[0];
    SessionOptions native;
    native.compile.cpu = cpu_target("native");
    const Tensor found = Session(model, native).run({{"x", input}}).begin()->second;
    for (int64_t k = 0; k < expected.element_count(); ++k)
      ASSERT_NEAR(number_at(found, k), number_at(expected, k), 1) << c.stored << ", " << k;
  }
}

// A sigmoid between bytes is a table of 256, whether the bytes are signed or not; its epilogue keeps its lanes.
TEST(ByteTables, WhatFollowsFromOneByteIsLookedUp) {
  for (const char* dtype : {"uint8", "int8"}) {
    nlohmann::json document = nlohmann::json::parse(R"json({"metac_ir": 1, "opset": 17,
      "inputs": [{"name": "x", "dtype": "float32", "shape": [8, 40]}, {"name": "w", "dtype": "float32", "shape": [40, 70]}],
      "parameters": [{"name": "s", "dtype": "float32", "shape": [], "data": 0.0625},
                     {"name": "t", "dtype": "float32", "shape": [], "data": 0.0078125}, {"name": "z", "shape": [], "data": 5}],
      "nodes": [{"op": "MatMul", "inputs": ["x", "w"], "outputs": ["sum"]},
                {"op": "QuantizeLinear", "inputs": ["sum", "s", "z"], "outputs": ["q"]},
                {"op": "DequantizeLinear", "inputs": ["q", "s", "z"], "outputs": ["value"]},
                {"op": "Sigmoid", "inputs": ["value"], "outputs": ["gate"]},
                {"op": "QuantizeLinear", "inputs": ["gate", "t", "z"], "outputs": ["narrow"]},
                {"op": "DequantizeLinear", "inputs": ["narrow", "t", "z"], "outputs": ["wide"]},
                {"op": "Mul", "inputs": ["value", "wide"], "outputs": ["swish"]},
                {"op": "QuantizeLinear", "inputs": ["swish", "s", "z"], "outputs": ["y"]}], "outputs": ["y"]})json");
    document["parameters"][2]["dtype"] = dtype;
    const Model model = read_json_model(document.dump(), "swish.json");
    for (const char* cpu : {"x86-64-v4+amx", "x86-64-v4+bf16", "x86-64-v4", "x86-64-v3", "x86-64"}) {
      CompileOptions options;
      options.cpu = cpu_target(cpu);
      const CompiledModel compiled = compile_graph(*lower_model(model, {}), options);
      ASSERT_EQ(compiled.run.kernels.size(), 1U) << cpu;
      const std::string& text = compiled.run.kernels[0].text;
      EXPECT_NE(text.find("look_up<Vec<"), std::string::npos) << cpu;
      EXPECT_EQ(text.find("sigmoid(", text.find('{')), std::string::npos) << cpu;
    }
    std::mt19937 random(5);
    const auto drawn = [&](std::vector<int64_t> shape) {
      std::vector<float> values(static_cast<size_t>(shape[0] * shape[1]));
      for (float& v : values) v = static_cast<float>(random() % 2001) / 1000 - 1;
      return make_tensor<float>(DType::f32, std::move(shape), values);
    };
    const std::vector<Tensor> inputs = {drawn({8, 40}), drawn({40, 70})};
    const Tensor expected = evaluate(*lower_model(model, {}), inputs)[0];
    SessionOptions native;
    native.compile.cpu = cpu_target("native");
    Session session(model, native);
    const Tensor found = session.run({{"x", inputs[0]}, {"w", inputs[1]}}).begin()->second;
    for (int64_t k = 0; k < expected.element_count(); ++k)
      ASSERT_NEAR(number_at(found, k), number_at(expected, k), 1) << dtype << ", " << k;
  }
}

}  // namespace
}  // namespace metac::integer_products_test
