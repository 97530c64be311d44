// Convolutions in groups, on an input that lies as the caller has it: in register tiles whatever the channels of a group,
// and right.
#include <gtest/gtest.h>

#include "compiler/machine/cpu_target.h"
#include "compiler/ops/lower_model.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "frontends/json/json.h"
#include "tests/unit/ramp.h"
#include "tests/unit/schedule_that_answers.h"

namespace metac::grouped_convolution_test {
namespace {

struct Case {
  int64_t groups, in, out;  // channels of a group
  int64_t window, stride;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << c.groups << " groups of " << c.in << " to " << c.out << ", window " << c.window << ", stride " << c.stride;
}

class GroupedConvolution : public testing::TestWithParam<Case> {};

TEST_P(GroupedConvolution, InTiles) {
  const Case c = GetParam();
  const int64_t size = 17, in = c.groups * c.in, out = c.groups * c.out;
  auto list = [](std::initializer_list<int64_t> dims) {
    std::string text;
    for (int64_t d : dims) text += (text.empty() ? "[" : ", ") + std::to_string(d);
    return text + "]";
  };
  const std::string pads = list({c.window / 2, c.window / 2, c.window / 2, c.window / 2}),
                    strides = list({c.stride, c.stride});
  const Model model = read_json_model(
      R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": )" + list({2, in, size, size}) +
          R"(}, {"name": "w", "dtype": "float32", "shape": )" + list({out, c.in, c.window, c.window}) +
          R"(}], "nodes": [{"op": "Conv", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {"group": )" +
          std::to_string(c.groups) + R"(, "pads": )" + pads + R"(, "strides": )" + strides + R"(}}], "outputs": ["y"]})",
      "groups.json");
  const std::vector<Tensor> inputs = {ramp({2, in, size, size}, 3), ramp({out, c.in, c.window, c.window}, 5)};
  const Tensor expected = evaluate(*lower_model(model, {}), inputs)[0];
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"})
    EXPECT_NE(schedule_that_answers(model, cpu, inputs, expected).find("tile:"), std::string::npos) << cpu;
}

INSTANTIATE_TEST_SUITE_P(Groups, GroupedConvolution,
                         testing::Values(Case{32, 1, 1, 3, 1}, Case{32, 1, 1, 1, 1}, Case{32, 2, 2, 3, 1},
                                         Case{32, 4, 4, 3, 1}, Case{32, 4, 4, 1, 1}, Case{32, 4, 8, 3, 2},
                                         Case{16, 8, 8, 3, 1}, Case{16, 8, 8, 3, 2}, Case{16, 8, 8, 1, 1},
                                         Case{8, 16, 16, 3, 2}, Case{4, 32, 32, 3, 2}, Case{4, 24, 16, 5, 2},
                                         Case{3, 40, 32, 3, 2}));

// Taps further apart than a tile's points share nothing: the sum goes tap by tap over all channels, in chunks that stay in
// the cache. Further apart still, the image is cut into parts (border_parts_test.cpp).
TEST(DilatedConvolution, TapsFarApart) {
  auto dilated = [](int64_t in, int64_t out, int64_t dilation) {
    auto text = [](int64_t n) { return std::to_string(n); };
    const std::string d = text(dilation);
    return read_json_model(
        R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [1, )" + text(in) +
            R"(, 20, 20]}, {"name": "w", "dtype": "float32", "shape": [)" + text(out) + ", " + text(in) +
            R"(, 3, 3]}], "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["r"]}, {"op": "Conv", "inputs": ["r", "w"], "outputs": ["y"], "attributes": {"dilations": [)" +
            d + ", " + d + R"(], "pads": [)" + d + ", " + d + ", " + d + ", " + d + R"json(]}}], "outputs": ["y"]})json",
        "dilated.json");
  };
  for (int64_t dilation : {2, 9, 12}) {
    const Model model = dilated(24, 40, dilation);
    const std::vector<Tensor> inputs = {ramp({1, 24, 20, 20}, 3), ramp({40, 24, 3, 3}, 5)};
    const Tensor expected = evaluate(*lower_model(model, {}), inputs)[0];
    for (const char* cpu : {"x86-64-v3", "x86-64-v4"})
      EXPECT_NE(schedule_that_answers(model, cpu, inputs, expected).find("tile:"), std::string::npos) << cpu;
    CompileOptions options;
    options.cpu = cpu_target("x86-64-v3");
    options.cpu.l2_bytes = 512 << 10;
    const CompiledModel large = compile_graph(*lower_model(dilated(480, 256, dilation), {}), options);
    std::string schedule;
    for (const KernelSource& kernel : large.run.kernels)
      for (const std::string& step : kernel.schedule) schedule += step + "\n";
    EXPECT_EQ(schedule.find("the sum in 9 chunks") != std::string::npos, dilation == 9) << dilation << "\n" << schedule;
  }
}

// A product may store images last, while a depthwise convolution behind it wants channels last: the copy between them keeps
// the zeros around the data that the convolution relies on.
class BehindAProduct : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};

TEST_P(BehindAProduct, ReadsZerosAround) {
  const auto [images, size] = GetParam();
  const std::string shape =
      "[" + std::to_string(images) + ", 160, " + std::to_string(size) + ", " + std::to_string(size) + "]";
  const Model model =
      read_json_model(R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": )" + shape +
                          R"json(}, {"name": "w", "dtype": "float32", "shape": [960, 160, 1, 1]},
      {"name": "k", "dtype": "float32", "shape": [960, 1, 3, 3]}],
      "nodes": [{"op": "Conv", "inputs": ["x", "w"], "outputs": ["c"], "attributes": {}}, {"op": "Relu", "inputs": ["c"], "outputs": ["r"]},
                {"op": "Conv", "inputs": ["r", "k"], "outputs": ["y"], "attributes": {"group": 960, "pads": [1, 1, 1, 1]}}], "outputs": ["y"]})json",
                      "depthwise.json");
  const std::vector<Tensor> inputs = {ramp({images, 160, size, size}, 3), ramp({960, 160, 1, 1}, 5),
                                      ramp({960, 1, 3, 3}, 7)};
  const Tensor expected = evaluate(*lower_model(model, {}), inputs)[0];
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) schedule_that_answers(model, cpu, inputs, expected);
}

INSTANTIATE_TEST_SUITE_P(Maps, BehindAProduct,
                         testing::Values(std::pair<int64_t, int64_t>{8, 1}, std::pair<int64_t, int64_t>{8, 2},
                                         std::pair<int64_t, int64_t>{8, 4}, std::pair<int64_t, int64_t>{16, 2}));

// 16 groups of 8 channels with constant weights, on 28x28 points.
Model groups_of_eight(int64_t stride) {
  const std::vector<int64_t> shape = {128, 8, 3, 3};
  const Tensor weights = ramp(shape, 5);
  std::string data;
  for (int64_t k = 0; k < weights.element_count(); ++k) data += (k ? ", " : "") + std::to_string(number_at(weights, k));
  const std::string strides = std::to_string(stride) + ", " + std::to_string(stride);
  return read_json_model(
      R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 128, 28, 28]}],
      "parameters": [{"name": "w", "dtype": "float32", "shape": [128, 8, 3, 3], "data": [)" +
          data + R"json(]}],
      "nodes": [{"op": "Conv", "inputs": ["x", "w"], "outputs": ["y"], "attributes": {"group": 16, "pads": [1, 1, 1, 1], "strides": [)json" +
          strides + R"json(]}}], "outputs": ["y"]})json",
      "narrow.json");
}

// A group that fills one vector of filters leaves the register tile waiting for its loads: minimal filtering pays sooner
// than for wide layers.
TEST(GroupedConvolution, NarrowGroupsAreFiltered) {
  const Model model = groups_of_eight(1);
  const std::vector<Tensor> inputs = {ramp({1, 128, 28, 28}, 3)};
  EXPECT_NE(schedule_that_answers(model, "x86-64-v3", inputs, evaluate(*lower_model(model, {}), inputs)[0])
                .find("minimal filtering"),
            std::string::npos);
}

// Two groups share a vector of 16 lanes where rows of points would be gathered, element by element, into lanes.
TEST(GroupedConvolution, StridedWindowsAreNotPacked) {
  const Model model = groups_of_eight(2);
  const std::vector<Tensor> inputs = {ramp({1, 128, 28, 28}, 3)};
  const std::string schedule =
      schedule_that_answers(model, "x86-64-v4", inputs, evaluate(*lower_model(model, {}), inputs)[0]);
  EXPECT_NE(schedule.find("tile:"), std::string::npos) << schedule;
  EXPECT_EQ(schedule.find("not vectorised"), std::string::npos) << schedule;
}

}  // namespace
}  // namespace metac::grouped_convolution_test
