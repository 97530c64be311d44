// Convolutions whose taps lie far beyond the image near its borders: each part of the image sums the taps that live there,
// and the answers are right.
#include <gtest/gtest.h>

#include <sstream>

#include "compiler/oracle/evaluate_graph.h"
#include "frontends/json/json.h"
#include "tests/unit/ramp.h"
#include "tests/unit/schedule_that_answers.h"

namespace metac::border_parts_test {
namespace {

using Dims = std::vector<int64_t>;

struct Case {
  Dims image, dilations;
  int parts = 1;   // how many kernels with a register tile
  Dims pads = {};  // empty: the dilations, on both sides
  int64_t batch = 1, window = 3, stride = 1, groups = 1;
  std::string behind = "";  // what follows: "", "residual" or "concat"
  int64_t channels = 32;    // of the data
};

std::string list(const Dims& dims) {
  std::string text;
  for (int64_t d : dims) text += (text.empty() ? "[" : ", ") + std::to_string(d);
  return text + "]";
}

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << list(c.image) << " dilated by " << list(c.dilations) << ", " << c.groups << " groups, stride " << c.stride
             << ", batch " << c.batch << ", window " << c.window << ", " << c.channels << " channels " << c.behind;
}

Dims joined(std::initializer_list<Dims> lists) {
  Dims all;
  for (const Dims& l : lists) all.insert(all.end(), l.begin(), l.end());
  return all;
}

class BorderParts : public testing::TestWithParam<Case> {};

TEST_P(BorderParts, Answer) {
  const Case c = GetParam();
  const size_t rank = c.image.size();
  const Dims x_shape = joined({{c.batch, c.channels}, c.image}),
             w_shape = joined({{32, c.channels / c.groups}, Dims(rank, c.window)});
  const std::string behind =
      c.behind == "residual" ? R"(, {"op": "Add", "inputs": ["c", "r"], "outputs": ["y"], "attributes": {}})"
      : c.behind == "concat" ? R"(, {"op": "Concat", "inputs": ["r", "c"], "outputs": ["y"], "attributes": {"axis": 1}})"
                             : "";
  const Model model = read_json_model(
      R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": )" + list(x_shape) +
          R"(}, {"name": "w", "dtype": "float32", "shape": )" + list(w_shape) +
          R"(}], "nodes": [{"op": "Relu", "inputs": ["x"], "outputs": ["r"]}, {"op": "Conv", "inputs": ["r", "w"], "outputs": [")" +
          (c.behind.empty() ? "y" : "c") + R"("], "attributes": {"dilations": )" + list(c.dilations) + R"(, "pads": )" +
          list(c.pads.empty() ? joined({c.dilations, c.dilations}) : c.pads) + R"(, "strides": )" +
          list(Dims(rank, c.stride)) + R"(, "group": )" + std::to_string(c.groups) + "}}" + behind +
          R"(], "outputs": ["y"]})",
      "borders.json");
  const std::vector<Tensor> inputs = {ramp(x_shape, 3), ramp(w_shape, 5)};
  const Tensor expected = evaluate(*lower_model(model, {}), inputs)[0];
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    std::istringstream schedule(schedule_that_answers(model, cpu, inputs, expected));
    int tiled = 0;
    for (std::string step; std::getline(schedule, step);) tiled += step.starts_with("tile:");
    EXPECT_EQ(tiled, c.parts) << cpu;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Convolutions, BorderParts,
    testing::Values(Case{{28, 28}, {12, 12}, 9}, Case{{28, 28}, {24, 24}, 9}, Case{{64}, {24}, 3},
                    Case{{16, 40}, {1, 18}, 1}, Case{{16, 40}, {6, 18}, 9}, Case{{28, 28}, {12, 12}, 9, {}, 3},
                    Case{{28, 28}, {12, 12}, 9, {}, 1, 3, 1, 1, "residual"},
                    Case{{28, 28}, {12, 12}, 9, {}, 2, 3, 1, 1, "concat"}, Case{{28, 28}, {12, 12}, 9, {}, 1, 3, 1, 2},
                    Case{{40, 40}, {16, 16}, 9, {}, 1, 3, 2}, Case{{30, 30}, {12, 12}, 9, {20, 20, 0, 0}},
                    Case{{31, 31}, {7, 7}, 9}, Case{{32, 32}, {8, 8}, 16, {14, 14, 14, 14}, 1, 5},
                    Case{{12, 12, 12}, {4, 4, 4}, 1, {}, 1, 3, 1, 2}, Case{{4, 4}, {1, 1}, 1}, Case{{2, 2}, {1, 1}, 1},
                    Case{{28, 28}, {36, 36}, 1}, Case{{28, 7}, {24, 1}, 9, {}, 1, 3, 1, 1, "", 1},
                    Case{{28, 28}, {24, 24}, 9, {}, 1, 3, 1, 1, "", 1}));

}  // namespace
}  // namespace metac::border_parts_test
