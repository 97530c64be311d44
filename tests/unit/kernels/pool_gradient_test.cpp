// What flows back through a pool that leaves a row of its image out.
#include <gtest/gtest.h>

#include <random>

#include "compiler/machine/cpu_target.h"
#include "compiler/ops/lower_model.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/session/session.h"
#include "frontends/json/json.h"

namespace metac::pool_gradient_test {
namespace {

Tensor random_tensor(std::vector<int64_t> shape, std::mt19937& random) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  std::vector<float> values;
  for (int64_t k = 0; k < count; ++k) values.push_back(static_cast<float>(random() % 1000) / 500 - 1);
  return make_tensor<float>(DType::f32, shape, values);
}

// The ninth row is in no window: which of its elements are largest is read beyond the last window, in memory that tests
// fill (tests/tools/fill_memory.c).
TEST(PoolGradient, OfARowInNoWindowIsZero) {
  const Model model = read_json_model(R"json({"metac_ir": 1, "opset": {"": 17, "ai.onnx.preview.training": 1},
    "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 64, 9, 14]},
               {"name": "w", "dtype": "float32", "shape": [16, 64, 2, 2]}],
    "nodes": [{"op": "MaxPool", "inputs": ["x"], "outputs": ["p"], "attributes": {"kernel_shape": [2, 2], "strides": [2, 2]}},
              {"op": "Conv", "inputs": ["p", "w"], "outputs": ["y"]},
              {"op": "elementwise", "inputs": ["y"], "outputs": ["s"], "body": "y*y"},
              {"op": "sum", "inputs": ["s"], "outputs": ["loss"]},
              {"op": "Gradient", "domain": "ai.onnx.preview.training", "inputs": ["x"], "outputs": ["dx"],
               "attributes": {"xs": ["x"], "y": "loss"}}], "outputs": ["dx"]})json",
                                      "pool.json");
  std::mt19937 random(3);
  const Tensor x = random_tensor({1, 64, 9, 14}, random), w = random_tensor({16, 64, 2, 2}, random);
  const Tensor expected = evaluate(*lower_model(model, {}), std::vector<Tensor>{x, w})[0];
  for (const char* cpu : {"native", "x86-64"}) {
    SessionOptions options;
    options.compile.cpu = cpu_target(cpu);
    const Tensor found = Session(model, options).run({{"x", x}, {"w", w}}).begin()->second;
    for (int64_t k = 0; k < found.element_count(); ++k)
      ASSERT_NEAR(number_at(found, k), number_at(expected, k), 2e-3) << cpu << " " << k;
  }
}

}  // namespace
}  // namespace metac::pool_gradient_test
