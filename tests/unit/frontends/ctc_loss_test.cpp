// ctc_loss against all alignments, its derivative against central differences, and the recipe's loss on both.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/training.h"

namespace metac::ctc_loss_test {
namespace {

struct Sequences {
  int64_t batch, steps, classes, most;
  std::vector<int64_t> labels, label_lengths, step_lengths;
  int64_t blank = 0;
};

// Repeated labels (which need a blank between), lengths shorter than the arrays, no labels, and one that does not fit.
const Sequences sequences{
    5, 5, 3, 3, {1, 1, 2, /**/ 2, 1, 0, /**/ 0, 0, 0, /**/ 2, 0, 0, /**/ 1, 1, 1}, {3, 2, 0, 1, 3}, {5, 4, 3, 5, 4}};

// -log of the sum over all readings of `steps` steps that are the labels after repetitions and blanks are dropped.
double brute_force(const Tensor& log_p, const Sequences& s, int64_t n) {
  const int64_t steps = s.step_lengths[n];
  int64_t readings = 1;
  for (int64_t t = 0; t < steps; ++t) readings *= s.classes;
  const std::vector<int64_t> wanted(s.labels.begin() + n * s.most, s.labels.begin() + n * s.most + s.label_lengths[n]);
  double probability = 0;
  for (int64_t reading = 0; reading < readings; ++reading) {
    std::vector<int64_t> read;
    int64_t rest = reading, before = -1;
    double logarithm = 0;
    for (int64_t t = 0; t < steps; ++t, rest /= s.classes) {
      const int64_t c = rest % s.classes;
      logarithm += number_at(log_p, (n * s.steps + t) * s.classes + c);
      if (c != before && c != s.blank) read.push_back(c);
      before = c;
    }
    if (read == wanted) probability += std::exp(logarithm);
  }
  return -std::log(probability);
}

std::string ctc_model(const std::string& extra) {
  return R"({"metac_ir": 1, "opset": {"": 17, "ai.onnx.preview.training": 1}, "inputs": [{"name": "p", "dtype": "float64", "shape": [5, 5, 3]}, {"name": "labels", "dtype": "int64", "shape": [5, 3]},
    {"name": "label_lengths", "dtype": "int64", "shape": [5]}, {"name": "step_lengths", "dtype": "int64", "shape": [5]}],
    "nodes": [{"op": "ctc_loss", "inputs": ["p", "labels", "label_lengths", "step_lengths"], "outputs": ["loss"])" +
         extra + R"(},
      {"op": "elementwise", "inputs": ["loss"], "outputs": ["finite"], "body": "loss > 1e20 ? 0 : loss"},
      {"op": "sum", "inputs": ["finite"], "outputs": ["total"]},
      {"op": "Gradient", "domain": "ai.onnx.preview.training", "inputs": ["p"], "outputs": ["d"], "attributes": {"xs": ["p"], "y": "total"}}],
    "outputs": ["loss", "d", "total"]})";
}

std::map<std::string, Tensor> run(const std::string& model, const Tensor& p, const Sequences& s) {
  SessionOptions options;
  options.compile.cpu = cpu_target("native");
  Session session(read_json_model(model, "ctc.json"), options);
  std::map<std::string, Tensor> out;
  for (auto& [name, tensor] : session.run({{"p", p},
                                           {"labels", labels({s.batch, s.most}, s.labels)},
                                           {"label_lengths", labels({s.batch}, s.label_lengths)},
                                           {"step_lengths", labels({s.batch}, s.step_lengths)}}))
    out[name] = tensor;
  return out;
}

TEST(CtcLoss, IsTheSumOverAllAlignments) {
  const Tensor p = random_doubles({5, 5, 3}, 11, -3, 0);
  auto out = run(ctc_model(""), p, sequences);
  for (int n = 0; n < 5; ++n) {
    const double expected = brute_force(p, sequences, n);
    EXPECT_EQ(n == 4, std::isinf(expected));
    if (!std::isinf(expected)) {
      EXPECT_NEAR(number_at(out["loss"], n), expected, 1e-12) << "sequence " << n;
    }
  }
  EXPECT_TRUE(std::isinf(number_at(out["loss"], 4)));
  EXPECT_EQ(number_at(run(ctc_model(R"(, "zero_infinity": 1)"), p, sequences)["loss"], 4), 0);
}

TEST(CtcLoss, AnotherClassMayBeTheBlank) {
  Sequences s = sequences;
  s.blank = 2;
  for (int64_t& label : s.labels) label = label == 2 ? 0 : label;
  const Tensor p = random_doubles({5, 5, 3}, 12, -3, 0);
  auto out = run(ctc_model(R"(, "blank": 2)"), p, s);
  for (int n = 0; n < 4; ++n) EXPECT_NEAR(number_at(out["loss"], n), brute_force(p, s, n), 1e-12) << "sequence " << n;
}

TEST(CtcLoss, ItsDerivativeIsThatOfCentralDifferences) {
  const Tensor p = random_doubles({5, 5, 3}, 13, -3, 0);
  const Tensor derivative = run(ctc_model(""), p, sequences)["d"];
  for (int64_t k = 0; k < 75; ++k) {
    if (k % 15 / 3 >= sequences.step_lengths[k / 15] || k / 15 == 4) {
      EXPECT_EQ(number_at(derivative, k), 0) << "element " << k;
      continue;
    }
    double values[2];
    for (int side = 0; side < 2; ++side) {
      std::vector<double> moved(75);
      for (int64_t i = 0; i < 75; ++i) moved[i] = number_at(p, i) + (i == k ? (side ? 1e-6 : -1e-6) : 0);
      values[side] = brute_force(make_tensor<double>(DType::f64, {5, 5, 3}, moved), sequences, k / 15);
    }
    EXPECT_NEAR(number_at(derivative, k), (values[1] - values[0]) / 2e-6, 1e-8) << "element " << k;
  }
}

TEST(CtcLoss, LabelsAndLengthsThatCannotBeAreNoNumbers) {
  Sequences s = sequences;
  s.labels[0] = 3;         // no class
  s.labels[3] = 0;         // the blank
  s.label_lengths[2] = 4;  // more than there are
  s.step_lengths[3] = 6;
  auto out = run(ctc_model(""), random_doubles({5, 5, 3}, 14, -3, 0), s);
  for (int n = 0; n < 4; ++n) EXPECT_TRUE(std::isnan(number_at(out["loss"], n))) << "sequence " << n;
}

Model sequence_network(const std::string& shape) {
  return read_json_model(
      R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float64", "shape": )" + shape + R"(}],
    "parameters": [{"name": "w", "dtype": "float64", "shape": [3], "data": [0,0,0]}], "nodes": [{"op": "Add", "inputs": ["x", "w"], "outputs": ["y"]}], "outputs": ["y"]})",
      "sequences.json");
}

TEST(CtcLoss, OfARecipe) {
  Sequences s = sequences;
  s.batch = 4;
  s.step_lengths = {5, 5, 5, 5};
  s.labels = {1, 1, 2, 2, 1, -1, -1, -1, -1, 2, -1, -1};  // without lengths, negative ones end them
  s.label_lengths = {3, 2, 0, 1};
  const Tensor x = random_doubles({4, 5, 3}, 15, -2, 2);
  std::vector<double> log_p(60);
  for (int r = 0; r < 20; ++r) {
    double sum = 0;
    for (int c = 0; c < 3; ++c) sum += std::exp(number_at(x, r * 3 + c));
    for (int c = 0; c < 3; ++c) log_p[r * 3 + c] = number_at(x, r * 3 + c) - std::log(sum);
  }
  const Tensor p = make_tensor<double>(DType::f64, {4, 5, 3}, log_p);
  double mean = 0, sum = 0;
  for (int n = 0; n < 4; ++n) {
    const double value = brute_force(p, s, n);
    sum += value;
    mean += value / static_cast<double>(std::max<int64_t>(s.label_lengths[n], 1)) / 4;
  }
  const Tensor target = labels({4, 3}, s.labels);
  JitTraining by_mean(sequence_network(R"(["N", 5, 3])"),
                      R"({"batch": 4, "loss": {"kind": "ctc", "longest": 3}, "optimizer": "sgd"})");
  EXPECT_NEAR(by_mean.step({{"x", x}, {"target", target}}, 0, 0), mean, 1e-12);
  const Tensor own = by_mean.evaluate({{"x", x}, {"target", target}})[0];
  EXPECT_NEAR(number_at(own, 1), brute_force(p, s, 1) / 2, 1e-12);
  JitTraining by_sum(
      sequence_network(R"(["N", 5, 3])"),
      R"({"batch": 4, "loss": {"kind": "ctc", "reduction": "sum", "target_lengths": "n", "input_lengths": "t"},
    "fields": {"target": {"dtype": "int64", "shape": [3]}}, "optimizer": "sgd"})");
  EXPECT_NEAR(
      by_sum.step({{"x", x}, {"target", target}, {"n", labels({4}, s.label_lengths)}, {"t", labels({4}, s.step_lengths)}}, 0,
                  0),
      sum, 1e-12);
}

TEST(CtcLoss, RecipesThatCannotBeAreRefused) {
  auto message = [&](const std::string& loss) {
    try {
      build_training_model(sequence_network(R"(["N", 5, 3])"),
                           read_recipe(R"({"batch": 4, "loss": )" + loss + R"(, "optimizer": "sgd"})", "r.json"), {});
    } catch (const CompileError& error) {
      return std::string(error.diagnostic.message);
    }
    return std::string();
  };
  EXPECT_NE(message(R"("ctc")").find("how many labels has a sample at most"), std::string::npos);
  EXPECT_NE(message(R"({"kind": "ctc", "longest": 3, "blank": 3})").find("\"blank\" is 3, there are 3 classes"),
            std::string::npos);
  EXPECT_NE(message(R"({"kind": "ctc", "longest": 3, "time_first": true})").find("[steps, batch, classes]"),
            std::string::npos);
}

}  // namespace
}  // namespace metac::ctc_loss_test
