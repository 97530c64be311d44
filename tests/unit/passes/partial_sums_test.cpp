// Long sums are taken in parts: what float32 loses stays small however long they are and however their lanes lie.
#include <gtest/gtest.h>

#include <functional>
#include <numeric>

#include "compiler/session/session.h"
#include "compiler/machine/cpu_target.h"
#include "frontends/json/json.h"

namespace metac::partial_sums_test {
namespace {

struct Case {
  const char* what;
  std::vector<int64_t> shape;
  std::string axes;
  bool open;
};

std::string json_shape(const Case& c) {
  std::string text;
  for (int64_t d : c.shape) text += (text.empty() ? "[" : ", ") + (c.open ? "null" : std::to_string(d));
  return text + "]";
}

class PartialSums : public testing::TestWithParam<Case> {};

// One accumulator alone would be off by 1e-5 to 1e-3 here: what is added to it is cut to its last place, always the same
// way.
TEST_P(PartialSums, KeepWhatFloat32Has) {
  const Case& c = GetParam();
  const std::string text =
      R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": )" + json_shape(c) +
      R"(}], "nodes": [{"op": "ReduceMean", "inputs": ["x"], "outputs": ["y"], "attributes": {"keepdims": 0, "axes": )" +
      c.axes + R"(}}], "outputs": ["y"]})";
  const int64_t n = std::accumulate(c.shape.begin(), c.shape.end(), int64_t{1}, std::multiplies<>());
  std::vector<float> x(static_cast<size_t>(n));
  for (int64_t k = 0; k < n; ++k) x[static_cast<size_t>(k)] = 0.1f + static_cast<float>(k % 7) * 1e-6f;
  SessionOptions options;
  options.compile.cpu = cpu_target("native");
  Session session(read_json_model(text, "mean.json"), options);
  const Tensor y = session.run({{"x", make_tensor<float>(DType::f32, c.shape, x)}}).begin()->second;
  ASSERT_GT(y.element_count(), 0);
  for (int64_t k = 0; k < y.element_count(); ++k) ASSERT_NEAR(number_at(y, k), 0.100003, 7e-7) << "element " << k;
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (bool open : {false, true}) {
    out.push_back({"LanesAlongTheResult", {1, 280, 264, 32}, "[1, 2]", open});
    out.push_back({"LanesAlongThePrimeSum", {3, 100003}, "[1]", open});
    out.push_back({"ManyRowsOfAPrimeNumber", {100003, 16}, "[0]", open});
    out.push_back({"NoLanes", {2, 70000, 3}, "[1]", open});
    out.push_back({"ShortInnerLoop", {5003, 9, 14}, "[0, 2]", open});
    out.push_back({"EverythingAtOnce", {7, 333, 17, 28}, "[0, 1, 2, 3]", open});
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Shapes, PartialSums, testing::ValuesIn(cases()),
                         [](const auto& info) { return std::string(info.param.what) + (info.param.open ? "Open" : ""); });

}  // namespace
}  // namespace metac::partial_sums_test
