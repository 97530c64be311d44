// Products with the windows of images, as Swin transformers take them: an axis counts images, rows and columns of windows,
// and is divided by several constants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/oracle/evaluate_graph.h"
#include "frontends/json/json.h"
#include "tests/unit/ramp.h"
#include "tests/unit/schedule_that_answers.h"

namespace metac::window_products_test {
namespace {

// Windows of 8 x 8 of images of 14 x 14, which end in zeros.
Model windows(const std::string& images) {
  const auto ints = [](const char* name, const char* values) {
    return std::string(R"({"op": "Constant", "inputs": [], "outputs": [")") + name + R"("], "attributes": {"value_ints": )" +
           values + "}},\n";
  };
  return read_json_model(
      R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": [)" + images +
          R"(, 14, 14, 24]}, {"name": "w", "dtype": "float32", "shape": [24, 48]}], "nodes": [)" +
          ints("ends", "[0, 0, 0, 0, 0, 2, 2, 0]") + ints("apart", "[-1, 2, 8, 2, 8, 24]") + ints("rows", "[-1, 64, 24]") +
          R"({"op": "Pad", "inputs": ["x", "ends"], "outputs": ["p"]}, {"op": "Reshape", "inputs": ["p", "apart"], "outputs": ["a"]},
    {"op": "Transpose", "inputs": ["a"], "outputs": ["t"], "attributes": {"perm": [0, 1, 3, 2, 4, 5]}},
    {"op": "Reshape", "inputs": ["t", "rows"], "outputs": ["r"]}, {"op": "MatMul", "inputs": ["r", "w"], "outputs": ["y"]}], "outputs": ["y"]})",
      "windows.json");
}

TEST(WindowProducts, AreTiledWhateverTheBatchIs) {
  for (const char* images : {"1", "3", "\"n\""}) {
    const Model model = windows(images);
    for (int64_t n : {1, 3}) {
      if (images[0] != '"' && images != std::to_string(n)) continue;
      const std::vector<Tensor> inputs = {ramp({n, 14, 14, 24}, 3), ramp({24, 48}, 5)};
      const Tensor expected = evaluate(*lower_model(model, {}), inputs)[0];
      for (const char* cpu : {"native", "x86-64-v3"})
        EXPECT_THAT(schedule_that_answers(model, cpu, inputs, expected), testing::HasSubstr("lanes in registers"))
            << images << " " << n << " " << cpu;
    }
  }
}

}  // namespace
}  // namespace metac::window_products_test
