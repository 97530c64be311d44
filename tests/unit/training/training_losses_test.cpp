// Every loss against its formula in double, for a step and for each sample of an evaluation.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/unit/training.h"

namespace metac::training_losses_test {
namespace {

// A network that hands its input on, so that scores are what the test says; the parameter is a zero that is added.
Model identity_network(const std::string& shape, const std::string& last) {
  return read_json_model(R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float64", "shape": )" + shape +
                             R"(}],
    "parameters": [{"name": "w", "dtype": "float64", "shape": [)" +
                             last + R"(], "data": [)" + std::string(last == "3" ? "0,0,0" : "0,0,0,0") + R"(]}],
    "nodes": [{"op": "Add", "inputs": ["x", "w"], "outputs": ["y"]}], "outputs": ["y"]})",
                         "identity.json");
}

using Values = std::vector<double>;

struct LossCase {
  const char* name;
  const char* recipe;  // the loss as JSON
  bool classes;        // the target is class numbers 2, 0, 1, 1; else floats
  double low, high;    // of the scores
  double target_low, target_high;
  std::function<double(const Values& x, const Values& t)>
      sample;                                     // loss of one sample's 3 scores; classes: t has the number alone
  std::function<double(const Values& t)> weight;  // of one sample in the mean; null: 1
};
void PrintTo(const LossCase& c, std::ostream* out) { *out << c.name; }

double mean3(const Values& x, const Values& t, const std::function<double(double, double)>& f) {
  return (f(x[0], t[0]) + f(x[1], t[1]) + f(x[2], t[2])) / 3;
}
double log_sum(const Values& x) { return std::log(std::exp(x[0]) + std::exp(x[1]) + std::exp(x[2])); }
double nll(const Values& x, int k) { return log_sum(x) - x[k]; }
double bce(double x, double t) {
  const double p = 1 / (1 + std::exp(-x));
  return -t * std::log(p) - (1 - t) * std::log(1 - p);
}
double smooth(double d, double beta) { return std::fabs(d) < beta ? 0.5 * d * d / beta : std::fabs(d) - 0.5 * beta; }
const double class_weights[3] = {0.5, 2, 1.25};
double smoothed(const Values& x, const Values& t, double s) {
  double out = (1 - s) * class_weights[int(t[0])] * nll(x, int(t[0]));
  for (int c = 0; c < 3; ++c) out += s / 3 * class_weights[c] * nll(x, c);
  return out;
}

const LossCase loss_cases[] = {
    {"cross_entropy", R"("cross_entropy")", true, -3, 3, 0, 0, [](auto& x, auto& t) { return nll(x, int(t[0])); }, nullptr},
    {"cross_entropy_smoothed", R"({"kind": "cross_entropy", "label_smoothing": 0.1})", true, -3, 3, 0, 0,
     [](auto& x, auto& t) { return 0.9 * nll(x, int(t[0])) + 0.1 / 3 * (nll(x, 0) + nll(x, 1) + nll(x, 2)); }, nullptr},
    {"cross_entropy_weighted", R"({"kind": "cross_entropy", "class_weights": [0.5, 2, 1.25], "label_smoothing": 0.2})", true,
     -3, 3, 0, 0, [](auto& x, auto& t) { return smoothed(x, t, 0.2); }, [](auto& t) { return class_weights[int(t[0])]; }},
    {"cross_entropy_ignoring", R"({"kind": "cross_entropy", "ignore_index": 1})", true, -3, 3, 0, 0,
     [](auto& x, auto& t) { return t[0] == 1 ? 0 : nll(x, int(t[0])); }, [](auto& t) { return t[0] == 1 ? 0.0 : 1.0; }},
    {"cross_entropy_of_log_probabilities", R"({"kind": "cross_entropy", "scores": "log_probabilities"})", true, -3, 0, 0, 0,
     [](auto& x, auto& t) { return -x[int(t[0])]; }, nullptr},
    {"cross_entropy_of_probabilities", R"({"kind": "cross_entropy", "scores": "probabilities"})", true, 0.1, 0.9, 0, 0,
     [](auto& x, auto& t) { return -std::log(x[int(t[0])]); }, nullptr},
    {"bce_with_logits", R"("bce_with_logits")", false, -3, 3, 0, 1, [](auto& x, auto& t) { return mean3(x, t, bce); },
     nullptr},
    {"bce_with_logits_weighted", R"({"kind": "bce_with_logits", "positive_weight": 3})", false, -3, 3, 0, 1,
     [](auto& x, auto& t) {
       return mean3(x, t, [](double a, double b) { return 3 * b * bce(a, 1) + (1 - b) * bce(a, 0); });
     },
     nullptr},
    {"mse", R"("mse")", false, -2, 2, -2, 2,
     [](auto& x, auto& t) { return mean3(x, t, [](double a, double b) { return (a - b) * (a - b); }); }, nullptr},
    {"l1", R"("l1")", false, -2, 2, -2, 2,
     [](auto& x, auto& t) { return mean3(x, t, [](double a, double b) { return std::fabs(a - b); }); }, nullptr},
    {"smooth_l1", R"({"kind": "smooth_l1", "beta": 0.7})", false, -2, 2, -2, 2,
     [](auto& x, auto& t) { return mean3(x, t, [](double a, double b) { return smooth(a - b, 0.7); }); }, nullptr},
    {"huber", R"({"kind": "huber", "beta": 0.7})", false, -2, 2, -2, 2,
     [](auto& x, auto& t) { return mean3(x, t, [](double a, double b) { return 0.7 * smooth(a - b, 0.7); }); }, nullptr},
    {"hinge", R"("hinge")", false, -2, 2, -1, 1,
     [](auto& x, auto& t) { return mean3(x, t, [](double a, double b) { return std::max(0.0, 1 - a * b); }); }, nullptr},
    {"kl_divergence", R"("kl_divergence")", false, -2, 2, 0, 1,
     [](auto& x, auto& t) { return mean3(x, t, [&](double a, double b) { return b * (std::log(b) - (a - log_sum(x))); }); },
     nullptr},
    {"kl_divergence_of_logarithms", R"({"kind": "kl_divergence", "log_target": true, "scores": "log_probabilities"})", false,
     -2, 0, -2, 0, [](auto& x, auto& t) { return mean3(x, t, [](double a, double b) { return std::exp(b) * (b - a); }); },
     nullptr},
    {"expression", R"json({"kind": "expression", "body": "abs(y - target)*exp(target)", "operands": ["y", "target"]})json",
     false, -2, 2, -2, 2,
     [](auto& x, auto& t) { return mean3(x, t, [](double a, double b) { return std::fabs(a - b) * std::exp(b); }); },
     nullptr},
    {"nodes",
     R"({"kind": "expression", "nodes": [{"op": "Sub", "inputs": ["y", "target"], "outputs": ["d"]}, {"op": "elementwise", "inputs": ["d"], "outputs": ["e"], "body": "d*d*d*d"}], "value": "e"})",
     false, -2, 2, -2, 2,
     [](auto& x, auto& t) { return mean3(x, t, [](double a, double b) { return std::pow(a - b, 4); }); }, nullptr},
};

class Losses : public ::testing::TestWithParam<LossCase> {};

TEST_P(Losses, AreTheirFormula) {
  const LossCase& c = GetParam();
  JitTraining training(identity_network(R"(["N", 3])", "3"),
                       std::string(R"({"batch": 4, "loss": )") + c.recipe + R"(, "optimizer": "sgd"})");
  const Tensor x = random_doubles({4, 3}, 5, c.low, c.high);
  const Tensor target = c.classes ? labels({4}, {2, 0, 1, 1}) : random_doubles({4, 3}, 6, c.target_low, c.target_high);
  double sum = 0, weights = 0;
  std::vector<double> samples;
  for (int n = 0; n < 4; ++n) {
    Values scores, targets;
    for (int k = 0; k < 3; ++k) scores.push_back(number_at(x, n * 3 + k));
    if (c.classes)
      targets = {number_at(target, n)};
    else
      for (int k = 0; k < 3; ++k) targets.push_back(number_at(target, n * 3 + k));
    const double value = c.sample(scores, targets), weight = c.weight ? c.weight(targets) : 1;
    samples.push_back(weight == 0 ? 0 : value / weight);
    sum += value;
    weights += weight;
  }
  const std::map<std::string, Tensor> batch = {{"x", x}, {"target", target}};
  EXPECT_NEAR(training.step(batch, 0, 0), sum / weights, 1e-12);
  const Tensor evaluated = training.evaluate(batch)[0];
  for (int n = 0; n < 4; ++n) EXPECT_NEAR(number_at(evaluated, n), samples[n], 1e-12) << "sample " << n;
}

INSTANTIATE_TEST_SUITE_P(All, Losses, ::testing::ValuesIn(loss_cases),
                         [](const auto& info) { return std::string(info.param.name); });

// The two-headed loss of detection: each element with weights of its own.
TEST(Loss, DetectionLossHasTwoWeightsAnElement) {
  JitTraining training(identity_network(R"(["N", 3])", "3"),
                       R"({"batch": 4, "loss": {"kind": "bce_smooth_l1", "beta": 0.5}, "optimizer": "sgd"})");
  std::map<std::string, Tensor> batch = {{"x", random_doubles({4, 3}, 5)},
                                         {"target", random_doubles({4, 3}, 6, 0, 1)},
                                         {"heat_weight", random_doubles({4, 3}, 7, 0, 2)},
                                         {"reg_weight", random_doubles({4, 3}, 8, 0, 2)}};
  double sum = 0;
  for (int i = 0; i < 12; ++i) {
    const double x = number_at(batch["x"], i), t = number_at(batch["target"], i);
    sum += number_at(batch["heat_weight"], i) * bce(x, t) + number_at(batch["reg_weight"], i) * smooth(x - t, 0.5);
  }
  EXPECT_NEAR(training.step(batch, 0, 0), sum / 12, 1e-12);
}

// Scores [N, C, d] with one label a position, and scores [N, d, C].
TEST(Loss, ClassesMayStandOnAnyAxis) {
  const Tensor x = random_doubles({2, 3, 4}, 9);
  for (int axis : {1, 2}) {
    JitTraining training(identity_network(R"(["N", 3, 4])", "4"),
                         R"({"batch": 2, "loss": {"kind": "cross_entropy", "axis": )" + std::to_string(axis) +
                             R"(}, "metrics": ["accuracy"], "optimizer": "sgd"})");
    const int classes = axis == 1 ? 3 : 4, places = axis == 1 ? 4 : 3;
    double sum = 0, right = 0;
    std::vector<int64_t> numbers;
    for (int n = 0; n < 2; ++n)
      for (int p = 0; p < places; ++p) {
        numbers.push_back((n + p) % 3);
        auto at = [&](int c) { return number_at(x, axis == 1 ? (n * 3 + c) * 4 + p : (n * 3 + p) * 4 + c); };
        double total = 0;
        int best = 0;
        for (int c = 0; c < classes; ++c) total += std::exp(at(c)), best = at(c) > at(best) ? c : best;
        sum += std::log(total) - at(static_cast<int>(numbers.back()));
        right += best == numbers.back();
      }
    EXPECT_NEAR(training.step({{"x", x}, {"target", labels({2, places}, numbers)}}, 0, 0), sum / (2 * places), 1e-12);
    EXPECT_NEAR(training.metrics["accuracy"], right / (2 * places), 1e-6);
  }
}

TEST(Loss, ALabelThatIsNoClassIsNoNumber) {
  JitTraining training(identity_network(R"(["N", 3])", "3"), R"({"batch": 2, "loss": "cross_entropy", "optimizer": "sgd"})");
  EXPECT_TRUE(std::isnan(training.step({{"x", random_doubles({2, 3}, 5)}, {"target", labels({2}, {1, 3})}}, 0, 0)));
  EXPECT_TRUE(std::isnan(training.step({{"x", random_doubles({2, 3}, 5)}, {"target", labels({2}, {-1, 2})}}, 0, 0)));
}

TEST(Loss, AddUpWithTheirWeights) {
  JitTraining both(
      identity_network(R"(["N", 3])", "3"),
      R"({"batch": 4, "loss": [{"kind": "mse", "weight": 2}, {"kind": "l1", "weight": 0.5}], "metrics": ["mse", "mae", "rmse"], "optimizer": "sgd"})");
  const std::map<std::string, Tensor> batch = {{"x", random_doubles({4, 3}, 5)}, {"target", random_doubles({4, 3}, 6)}};
  const double loss = both.step(batch, 0, 0);
  EXPECT_NEAR(loss, 2 * both.metrics["mse"] + 0.5 * both.metrics["mae"], 1e-6);
}

}  // namespace
}  // namespace metac::training_losses_test
