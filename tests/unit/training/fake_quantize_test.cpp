// The straight-through derivative of QuantizeLinear and DequantizeLinear in training, by hand; their values, to the bit.
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/train/forms/straight_through.h"
#include "tests/unit/training.h"

namespace metac::fake_quantize_test {
namespace {

struct Element {
  double x, s, z, low, high;
  double integer() const { return std::clamp(std::nearbyint(x / s) + z, low, high); }
  double value() const { return (integer() - z) * s; }
  double by_x() const { return std::nearbyint(x / s) + z >= low && std::nearbyint(x / s) + z <= high ? 1 : 0; }
  // LSQ, equation 3.
  double by_s() const {
    const double q = std::nearbyint(x / s) + z;
    return q < low ? low - z : q > high ? high - z : std::nearbyint(x / s) - x / s;
  }
};

// x [2, 3, 4] in all parts of the range, scales and zero points along axis 1.
std::string document(const std::string& nodes, bool zero_point) {
  return R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float64", "shape": [2, 3, 4]}, {"name": "t", "dtype": "float64", "shape": [2, 3, 4]}],
    "parameters": [{"name": "s", "dtype": "float64", "shape": [3], "data": [0.02, 0.011, 0.3]})" +
         std::string(zero_point ? R"(, {"name": "z", "dtype": "int8", "shape": [3], "data": [-100, 3, 90]})" : "") +
         R"(], "nodes": [)" + nodes + R"(, {"op": "elementwise", "inputs": ["y", "t"], "outputs": ["p"], "body": "y*t"},
    {"op": "sum", "inputs": ["p"], "outputs": ["total"]}, {"op": "grad", "of": "total", "inputs": ["x", "s"], "outputs": ["dx", "ds"]}],
    "outputs": ["y", "dx", "ds"]})";
}

void expect_by_hand(const std::string& node, bool zero_point, double low, double high, double gain, double widest = 5) {
  SessionOptions options;
  options.compile.cpu = cpu_target("native");
  options.threads = 1;
  Session session(read_json_model(document(node, zero_point), "fake.json"), options);
  const Tensor x = random_doubles({2, 3, 4}, 5, -widest, widest), t = random_doubles({2, 3, 4}, 6);
  std::map<std::string, Tensor> found;
  for (auto& [name, tensor] : session.run({{"x", x}, {"t", t}})) found[name] = tensor;
  const double scales[] = {0.02, 0.011, 0.3}, zeros[] = {-100, 3, 90};
  std::vector<double> by_scale(3);
  int inside = 0;
  for (int64_t i = 0; i < 24; ++i) {
    const size_t c = static_cast<size_t>(i / 4 % 3);
    const Element e{number_at(x, i), scales[c], zero_point ? zeros[c] : 0, low, high};
    inside += e.by_x() == 1;
    EXPECT_DOUBLE_EQ(number_at(found["y"], i), e.value()) << i;
    EXPECT_EQ(number_at(found["dx"], i), e.by_x() * number_at(t, i)) << i;
    by_scale[c] += gain * e.by_s() * number_at(t, i);
  }
  EXPECT_GT(inside, 3);
  EXPECT_LT(inside, 21);
  for (int64_t c = 0; c < 3; ++c) EXPECT_NEAR(number_at(found["ds"], c), by_scale[static_cast<size_t>(c)], 1e-9) << c;
}

TEST(FakeQuantize, DerivativesAreThoseByHand) {
  const std::string begin = R"({"op": "fake_quantize", "domain": "metac", "outputs": ["y"], "inputs": ["x", "s")";
  expect_by_hand(begin + R"(, "z"], "attributes": {"low": -128, "high": 127}})", true, -128, 127, 0);
  expect_by_hand(begin + R"(, "z"], "attributes": {"low": -128, "high": 127, "scale_gradient": 0.25}})", true, -128, 127,
                 0.25);
  expect_by_hand(begin + R"(], "attributes": {"low": -7, "high": 7, "scale_gradient": 0.5}})", false, -7, 7, 0.5, 0.5);
}

std::string pair_with(const std::string& of_both, const std::string& of_second = "") {
  return R"({"op": "QuantizeLinear", "inputs": ["x", "s", "z"], "outputs": ["q"], "attributes": {)" + of_both +
         R"(}}, {"op": "DequantizeLinear", "inputs": ["q", "s", "z"], "outputs": ["y"], "attributes": {)" +
         (of_second.empty() ? of_both : of_second) + "}}";
}

TEST(FakeQuantize, TakesThePlaceOfPairs) {
  // The same values to the bit, and a derivative where the pair has none.
  Model model = read_json_model(document(pair_with(R"("axis": 1)"), true), "pair.json");
  SessionOptions options;
  options.compile.cpu = cpu_target("native");
  const std::map<std::string, Tensor> given = {{"x", random_doubles({2, 3, 4}, 5, -5, 5)},
                                               {"t", random_doubles({2, 3, 4}, 6)}};
  const auto pair = Session(model, options).run(given);
  EXPECT_EQ(pairs_to_fake_quantize(model), 1);
  const auto one = Session(model, options).run(given);
  double sum_of_pair = 0, sum = 0;
  for (int64_t i = 0; i < 24; ++i) {
    EXPECT_EQ(number_at(pair[0].second, i), number_at(one[0].second, i)) << i;
    sum_of_pair += std::abs(number_at(pair[1].second, i));
    sum += std::abs(number_at(one[1].second, i));
  }
  EXPECT_EQ(sum_of_pair, 0);
  EXPECT_GT(sum, 1);
  // What is no pair stays: other axes, integers that are read otherwise.
  Model apart = read_json_model(document(pair_with(R"("axis": 1)", R"("axis": -2)"), true), "pair.json");
  EXPECT_EQ(pairs_to_fake_quantize(apart), 0);
}

TEST(FakeQuantize, RefusesAnEmptyRange) {
  const std::string node =
      R"({"op": "fake_quantize", "domain": "metac", "inputs": ["x", "s"], "outputs": ["y"], "attributes": {"low": 7, "high": 7}})";
  try {
    SessionOptions options;
    options.compile.cpu = cpu_target("native");
    Session(read_json_model(document(node, false), "fake.json"), options)
        .run({{"x", random_doubles({2, 3, 4}, 5)}, {"t", random_doubles({2, 3, 4}, 6)}});
    FAIL() << "it was taken";
  } catch (const CompileError& error) {
    EXPECT_NE(std::string(error.what()).find("low is 7"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace metac::fake_quantize_test
