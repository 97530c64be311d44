// Every optimiser against its formula in double, over several steps, on a loss whose gradient is known: half the sum of
// squares of the distance to a target that differs from step to step.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/unit/training.h"

namespace metac::training_optimisers_test {
namespace {

constexpr int steps = 7;
const double initial[3] = {0.5, -1.25, 2};

Model parameter_alone() {
  return read_json_model(R"({"metac_ir": 1, "inputs": [{"name": "x", "dtype": "float64", "shape": ["N", 3]}],
    "parameters": [{"name": "w", "dtype": "float64", "shape": [3], "data": [0.5, -1.25, 2]}],
    "nodes": [{"op": "elementwise", "inputs": ["x", "w"], "outputs": ["y"], "body": "w + 0*x"}], "outputs": ["y"]})",
                         "parameter.json");
}

double target_at(int step, int k) { return std::sin(1.0 + 3 * step + k); }

// One parameter's element under way: value, gradient, number of the update from 1, learning rate, and three numbers to keep.
struct Element {
  double p, g, lr;
  int t;
  double a = 0, b = 0, c = 0;
};

struct OptimiserCase {
  const char* name;
  const char* recipe;
  std::function<void(Element&)> update;
};
void PrintTo(const OptimiserCase& c, std::ostream* out) { *out << c.name; }

void adam(Element& e, double beta1, double beta2, double epsilon, bool amsgrad) {
  e.a = beta1 * e.a + (1 - beta1) * e.g;
  e.b = beta2 * e.b + (1 - beta2) * e.g * e.g;
  e.c = std::max(e.c, e.b);
  const double v = (amsgrad ? e.c : e.b) / (1 - std::pow(beta2, e.t));
  e.p -= e.lr * (e.a / (1 - std::pow(beta1, e.t))) / (std::sqrt(v) + epsilon);
}

const OptimiserCase optimiser_cases[] = {
    {"sgd", R"({"kind": "sgd"})", [](Element& e) { e.p -= e.lr * e.g; }},
    {"sgd_decay", R"({"kind": "sgd", "weight_decay": 0.1})", [](Element& e) { e.p -= e.lr * (e.g + 0.1 * e.p); }},
    {"momentum", R"({"kind": "sgd", "momentum": 0.9})", [](Element& e) { e.a = 0.9 * e.a + e.g, e.p -= e.lr * e.a; }},
    {"momentum_dampened", R"({"kind": "sgd", "momentum": 0.9, "dampening": 0.3})",
     [](Element& e) { e.a = e.t == 1 ? e.g : 0.9 * e.a + 0.7 * e.g, e.p -= e.lr * e.a; }},
    {"nesterov", R"({"kind": "sgd", "momentum": 0.8, "nesterov": true, "weight_decay": 0.05})",
     [](Element& e) {
       const double g = e.g + 0.05 * e.p;
       e.a = 0.8 * e.a + g;
       e.p -= e.lr * (g + 0.8 * e.a);
     }},
    {"adam", R"({"kind": "adam"})", [](Element& e) { adam(e, 0.9, 0.999, 1e-8, false); }},
    {"adam_decay", R"({"kind": "adam", "beta1": 0.8, "beta2": 0.95, "epsilon": 1e-3, "weight_decay": 0.1})",
     [](Element& e) {
       e.g += 0.1 * e.p;
       adam(e, 0.8, 0.95, 1e-3, false);
     }},
    {"amsgrad", R"({"kind": "adam", "amsgrad": true, "beta2": 0.5})", [](Element& e) { adam(e, 0.9, 0.5, 1e-8, true); }},
    {"adamw", R"({"kind": "adamw"})",
     [](Element& e) {
       e.p *= 1 - e.lr * 0.01;
       adam(e, 0.9, 0.999, 1e-8, false);
     }},
    {"adagrad", R"({"kind": "adagrad", "rate_decay": 0.1, "initial_accumulator": 0.2, "weight_decay": 0.1})",
     [](Element& e) {
       const double g = e.g + 0.1 * e.p;
       e.a = (e.t == 1 ? 0.2 : e.a) + g * g;
       e.p -= e.lr / (1 + (e.t - 1) * 0.1) * g / (std::sqrt(e.a) + 1e-10);
     }},
    {"rmsprop", R"({"kind": "rmsprop"})",
     [](Element& e) { e.a = 0.99 * e.a + 0.01 * e.g * e.g, e.p -= e.lr * e.g / (std::sqrt(e.a) + 1e-8); }},
    {"rmsprop_centered", R"({"kind": "rmsprop", "centered": true, "momentum": 0.9, "alpha": 0.9, "weight_decay": 0.1})",
     [](Element& e) {
       const double g = e.g + 0.1 * e.p;
       e.a = 0.9 * e.a + 0.1 * g * g;
       e.b = 0.9 * e.b + 0.1 * g;
       e.c = 0.9 * e.c + g / (std::sqrt(e.a - e.b * e.b) + 1e-8);
       e.p -= e.lr * e.c;
     }},
    {"lion", R"({"kind": "lion", "weight_decay": 0.1})",
     [](Element& e) {
       const double u = 0.9 * e.a + 0.1 * e.g;
       e.p = e.p * (1 - e.lr * 0.1) - e.lr * ((u > 0) - (u < 0));
       e.a = 0.99 * e.a + 0.01 * e.g;
     }},
};

// The recipe whose loss is 0.5 |w - target|^2, whatever x is; `extra` adds to it.
std::string recipe_of(const std::string& optimiser, const std::string& extra = "") {
  return R"json({"batch": 1, "loss": {"kind": "expression", "body": "0.5*(y - target)*(y - target)", "operands": ["y", "target"], "reduction": "sum"}, "optimizer": )json" +
         optimiser + extra + "}";
}
std::map<std::string, Tensor> batch_at(int step) {
  return {{"x", random_doubles({1, 3}, 1)},
          {"target", make_tensor<double>(DType::f64, {1, 3},
                                         std::vector<double>{target_at(step, 0), target_at(step, 1), target_at(step, 2)})}};
}

class Optimisers : public ::testing::TestWithParam<OptimiserCase> {};

TEST_P(Optimisers, AreTheirFormula) {
  JitTraining training(parameter_alone(), recipe_of(GetParam().recipe));
  Element elements[3];
  for (int k = 0; k < 3; ++k) elements[k].p = initial[k];
  for (int step = 0; step < steps; ++step) {
    const double rate = 0.1 / (1 + step);  // a schedule: the rate differs from step to step
    training.step(batch_at(step), rate, step);
    for (int k = 0; k < 3; ++k) {
      Element& e = elements[k];
      e.g = e.p - target_at(step, k);
      e.lr = rate;
      e.t = step + 1;
      GetParam().update(e);
      EXPECT_NEAR(number_at(training.state("w"), k), e.p, 1e-12) << "step " << step << ", element " << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Optimisers, ::testing::ValuesIn(optimiser_cases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Update, GradientsAreClippedByNorm) {
  JitTraining training(parameter_alone(), recipe_of(R"("sgd")", R"(, "clip": {"norm": 0.5})"));
  training.step(batch_at(0), 1, 0);
  double norm = 0;
  for (int k = 0; k < 3; ++k) norm += std::pow(initial[k] - target_at(0, k), 2);
  norm = std::sqrt(norm);
  ASSERT_GT(norm, 0.5);
  for (int k = 0; k < 3; ++k)
    EXPECT_NEAR(number_at(training.state("w"), k), initial[k] - (initial[k] - target_at(0, k)) * 0.5 / (norm + 1e-6), 1e-12);
}

TEST(Update, GradientsAreClippedByValue) {
  JitTraining training(parameter_alone(), recipe_of(R"("sgd")", R"(, "clip": {"value": 0.75})"));
  training.step(batch_at(0), 1, 0);
  for (int k = 0; k < 3; ++k)
    EXPECT_NEAR(number_at(training.state("w"), k),
                initial[k] - std::min(0.75, std::max(-0.75, initial[k] - target_at(0, k))), 1e-12);
}

// Two calls of half the gradient each are one update; the first of them changes nothing but the sum.
TEST(Update, GradientsAccumulate) {
  JitTraining training(parameter_alone(), recipe_of(R"({"kind": "adam"})", R"(, "accumulate": 2)"));
  Element elements[3];
  for (int k = 0; k < 3; ++k) elements[k].p = initial[k];
  for (int update = 0; update < 3; ++update) {
    const Tensor before = training.state("w");
    training.step(batch_at(2 * update), 0.1, update, false);
    for (int k = 0; k < 3; ++k) EXPECT_EQ(number_at(training.state("w"), k), number_at(before, k));
    training.step(batch_at(2 * update + 1), 0.1, update, true);
    for (int k = 0; k < 3; ++k) {
      Element& e = elements[k];
      e.g = 0.5 * (e.p - target_at(2 * update, k)) + 0.5 * (e.p - target_at(2 * update + 1, k));
      e.lr = 0.1;
      e.t = update + 1;
      adam(e, 0.9, 0.999, 1e-8, false);
      EXPECT_NEAR(number_at(training.state("w"), k), e.p, 1e-12);
      EXPECT_EQ(number_at(training.state("w/accumulated"), k), 0);
    }
  }
}

TEST(Update, AveragesFollowAndAreWhatIsEvaluated) {
  JitTraining training(parameter_alone(), recipe_of(R"("sgd")", R"(, "average": 0.9)"));
  double average[3] = {initial[0], initial[1], initial[2]};
  for (int step = 0; step < 4; ++step) {
    training.step(batch_at(step), 0.3, step);
    for (int k = 0; k < 3; ++k) {
      average[k] = 0.9 * average[k] + 0.1 * number_at(training.state("w"), k);
      EXPECT_NEAR(number_at(training.state("w/average"), k), average[k], 1e-12);
    }
  }
  double loss = 0;
  for (int k = 0; k < 3; ++k) loss += 0.5 * std::pow(average[k] - target_at(4, k), 2);
  EXPECT_NEAR(number_at(training.evaluate(batch_at(4))[0], 0), loss, 1e-12);
}

// The plain mean of what the parameters were behind updates 2, 3 and 4; what they are before.
TEST(Update, AveragesFromAnUpdateOn) {
  JitTraining training(parameter_alone(), recipe_of(R"("sgd")", R"(, "average": {"from": 2})"));
  double sum[3] = {};
  for (int step = 0; step < 5; ++step) {
    training.step(batch_at(step), 0.3, step);
    for (int k = 0; k < 3; ++k) {
      const double now = number_at(training.state("w"), k);
      sum[k] += step < 2 ? 0 : now;
      EXPECT_NEAR(number_at(training.state("w/average"), k), step < 2 ? now : sum[k] / (step - 1), 1e-12);
    }
  }
}

// Groups: a rate and a decay of their own, by pattern; the later group wins.
TEST(Update, GroupsScaleRatesAndDecay) {
  JitTraining training(small_network(),
                       R"({"batch": 6, "loss": "cross_entropy", "optimizer": {"kind": "sgd", "weight_decay": 0.5},
    "groups": [{"match": "*", "rate_scale": 0}, {"match": ["w?"], "rate_scale": 1, "weight_decay": 0}], "freeze": ["w2"]})");
  JitTraining plain(small_network(), R"({"batch": 6, "loss": "cross_entropy", "optimizer": "sgd"})");
  const std::map<std::string, Tensor> batch = {{"x", random_doubles({6, 4}, 11)},
                                               {"target", labels({6}, {0, 1, 2, 0, 1, 2})}};
  const Tensor bias = training.state("b1"), frozen = training.state("w2");
  training.step(batch, 0.1, 0);
  plain.step(batch, 0.1, 0);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(number_at(training.state("w1"), i), number_at(plain.state("w1"), i));
  for (int i = 0; i < 5; ++i) EXPECT_EQ(number_at(training.state("b1"), i), number_at(bias, i));
  for (int i = 0; i < 15; ++i) EXPECT_EQ(number_at(training.state("w2"), i), number_at(frozen, i));
}

}  // namespace
}  // namespace metac::training_optimisers_test
