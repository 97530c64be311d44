// Convolutions of bytes that are computed in words: transposed ones, taps beyond the data, few filters.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "compiler/machine/cpu_target.h"
#include "compiler/ops/lower_model.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "compiler/session/session.h"
#include "frontends/json/json.h"

namespace metac::integer_convolutions_test {
namespace {

struct Case {
  const char* op;
  int channels, filters, size;
  nlohmann::json attributes;
  int in_words = 1;  // kernels
  int zero_point = 120;
};

// x is rounded to uint8, weights are int8 with a scale for each filter.
nlohmann::json document_of(const Case& c, std::mt19937& random) {
  const bool transposed = c.op == std::string("ConvTranspose");
  const int kernel = c.attributes["kernel_shape"][0], read = c.channels / c.attributes.value("group", 1);
  nlohmann::json document = nlohmann::json::parse(R"json({"metac_ir": 1, "opset": 17,
    "inputs": [{"name": "x", "dtype": "float32"}],
    "parameters": [{"name": "s", "dtype": "float32", "shape": [], "data": 0.0078125},
                   {"name": "z", "dtype": "uint8", "shape": [], "data": 120},
                   {"name": "w", "dtype": "int8"}, {"name": "t", "dtype": "float32"}, {"name": "p", "dtype": "int8"}],
    "nodes": [{"op": "QuantizeLinear", "inputs": ["x", "s", "z"], "outputs": ["q"]},
              {"op": "DequantizeLinear", "inputs": ["q", "s", "z"], "outputs": ["value"]},
              {"op": "DequantizeLinear", "inputs": ["w", "t", "p"], "outputs": ["weights"]},
              {"inputs": ["value", "weights"], "outputs": ["y"]}], "outputs": ["y"]})json");
  document["inputs"][0]["shape"] = {1, c.channels, c.size, c.size};
  nlohmann::json& parameters = document["parameters"];
  parameters[1]["data"] = c.zero_point;
  parameters[2]["shape"] = {transposed ? c.channels : c.filters, transposed ? c.filters : read, kernel, kernel};
  for (int k = 0; k < read * c.filters * kernel * kernel; ++k)
    parameters[2]["data"].push_back(static_cast<int>(random() % 255) - 127);
  parameters[3]["shape"] = parameters[4]["shape"] = {c.filters};
  for (int k = 0; k < c.filters; ++k) parameters[3]["data"].push_back(0.001953125 * (1 + k % 3));
  parameters[4]["data"] = std::vector<int>(static_cast<size_t>(c.filters), 0);
  document["nodes"][2]["attributes"] = {{"axis", transposed ? 1 : 0}};
  document["nodes"][3]["op"] = c.op;
  document["nodes"][3]["attributes"] = c.attributes;
  return document;
}

int kernels_in_words(const Model& model) {
  CompileOptions options;
  options.cpu = cpu_target("x86-64-v4+vnni");
  int count = 0;
  for (const KernelSource& kernel : compile_graph(*lower_model(model, {}), options).run.kernels)
    count += kernel.text.find("dot_u8s8(") != std::string::npos;
  return count;
}

void expect_numbers(const Model& model, const Case& c, std::mt19937& random) {
  std::vector<float> x(static_cast<size_t>(c.channels * c.size * c.size));
  for (float& v : x) v = static_cast<float>(random() % 2001) / 1000 - 1;
  const Tensor input = make_tensor<float>(DType::f32, {1, c.channels, c.size, c.size}, x);
  const auto expected = evaluate(*lower_model(model, {}), {input});
  for (const char* cpu : {"native", "x86-64-v3"}) {
    SessionOptions options;
    options.compile.cpu = cpu_target(cpu);
    const auto found = Session(model, options).run({{"x", input}});
    for (size_t o = 0; o < expected.size(); ++o) {
      const Tensor& y = found[o].second;
      ASSERT_EQ(y.shape, expected[o].shape);
      for (int64_t k = 0; k < y.element_count(); ++k)
        ASSERT_NEAR(number_at(y, k), number_at(expected[o], k), 2e-4)
            << c.op << " " << c.attributes << " " << cpu << " output " << o << " element " << k;
    }
  }
}

TEST(IntegerConvolutions, AreThoseOfNumbers) {
  using nlohmann::json;
  const Case cases[] = {
      {"ConvTranspose", 32, 20, 6, {{"kernel_shape", {2, 2}}, {"strides", {2, 2}}}},
      {"ConvTranspose", 20, 32, 6, {{"kernel_shape", {4, 4}}, {"strides", {2, 2}}, {"pads", {1, 1, 1, 1}}}},
      // 3 x 3 taps at stride 2 are one, two, two and four at each residue of the result
      {"ConvTranspose",
       16,
       16,
       5,
       {{"kernel_shape", {3, 3}}, {"strides", {2, 2}}, {"pads", {1, 1, 1, 1}}, {"output_padding", {1, 1}}}},
      // one row and column of data: its borders are conditions on the taps alone
      {"ConvTranspose", 16, 16, 1, {{"kernel_shape", {3, 3}}, {"strides", {2, 2}}, {"output_padding", {1, 1}}}},
      // 11 points are no whole number of residues
      {"ConvTranspose", 16, 16, 5, {{"kernel_shape", {3, 3}}, {"strides", {2, 2}}}, 0},
      {"Conv", 16, 16, 5, {{"kernel_shape", {3, 3}}, {"dilations", {6, 6}}, {"pads", {6, 6, 6, 6}}}},
      // where zeros are outside, the taps that live are summed, in nine parts of the image
      {"Conv", 16, 16, 28, {{"kernel_shape", {3, 3}}, {"dilations", {12, 12}}, {"pads", {12, 12, 12, 12}}}, 9, 0},
      {"Conv", 16, 16, 28, {{"kernel_shape", {3, 3}}, {"dilations", {12, 12}}, {"pads", {12, 12, 12, 12}}}},
      {"Conv", 16, 3, 9, {{"kernel_shape", {3, 3}}, {"pads", {1, 1, 1, 1}}}},
      {"Conv", 16, 1, 9, {{"kernel_shape", {3, 3}}, {"pads", {1, 1, 1, 1}}}, 0},
      // a vector has words of two or four groups; of 40 channels the last vector reads beyond
      {"Conv", 32, 32, 9, {{"kernel_shape", {3, 3}}, {"group", 4}, {"pads", {1, 1, 1, 1}}}},
      {"Conv", 40, 40, 9, {{"kernel_shape", {3, 3}}, {"group", 5}, {"pads", {1, 1, 1, 1}}, {"strides", {2, 2}}}},
      {"Conv", 40, 40, 5, {{"kernel_shape", {1, 1}}, {"group", 5}}},
      {"Conv", 32, 32, 7, {{"kernel_shape", {3, 3}}, {"group", 8}, {"pads", {1, 1, 1, 1}}}},
      {"Conv", 16, 32, 7, {{"kernel_shape", {3, 3}}, {"group", 4}, {"pads", {1, 1, 1, 1}}}},
      {"Conv", 64, 32, 7, {{"kernel_shape", {3, 3}}, {"group", 4}, {"pads", {1, 1, 1, 1}}}, 0},
      {"Conv", 48, 48, 7, {{"kernel_shape", {3, 3}}, {"group", 8}, {"pads", {1, 1, 1, 1}}}, 0},
  };
  std::mt19937 random(6);
  for (const Case& c : cases) {
    const Model model = read_json_model(document_of(c, random).dump(), "convolution.json");
    EXPECT_EQ(kernels_in_words(model), c.in_words) << c.op << " " << c.attributes;
    expect_numbers(model, c, random);
  }
}

TEST(IntegerConvolutions, ReadWordsOfTwoAxesOfOneValue) {
  // With padding a word is of channels, without of the three taps, which are more.
  const Case c = {"Conv", 2, 25, 8, {{"kernel_shape", {3, 3}}, {"pads", {1, 1, 1, 1}}}};
  std::mt19937 random(6);
  nlohmann::json document = document_of(c, random);
  document["nodes"].push_back({{"op", "Conv"}, {"inputs", {"value", "weights"}}, {"outputs", {"inner"}}});
  document["outputs"] = {"y", "inner", "q"};
  const Model model = read_json_model(document.dump(), "convolution.json");
  EXPECT_EQ(kernels_in_words(model), 2);
  expect_numbers(model, c, random);
}

}  // namespace
}  // namespace metac::integer_convolutions_test
