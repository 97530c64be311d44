// Gradients of normalisations: how many sums over their data they take, and that these are the right ones.
#include <gtest/gtest.h>

#include <random>

#include "compiler/autodiff/gradient.h"
#include "compiler/ir/builders.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/passes/merge_equal_ops.h"
#include "compiler/passes/remove_dead_ops.h"

namespace metac::factored_sum_test {
namespace {

struct Normalised {
  Graph g;
  Var *x, *scale, *shift, *y;
};

// y = (x - mean) * scale / sqrt(variance + 0.1) + shift of each channel
void normalise(Normalised& n, DType dtype) {
  const auto input = [&](const char* name, const std::vector<int64_t>& shape) {
    return n.g.add_input(name, Type{TypeKind::tensor, dtype, shape_of(shape)});
  };
  n.x = input("x", {3, 4, 5});
  n.scale = input("scale", {1, 4, 1});
  n.shift = input("shift", {1, 4, 1});
  Var* m = mean(n.g, n.x, {0, 2}, true);
  Var* v = mean(n.g, elementwise(n.g, {n.x, m}, [](const std::vector<Expr>& e) { return (e[0] - e[1]) * (e[0] - e[1]); }),
                {0, 2}, true);
  Var* a = elementwise(n.g, {n.scale, v}, [](const std::vector<Expr>& e) {
    return e[0] / call(Fn::sqrt, {e[1] + constant_of(e[1]->dtype, 0.1)});
  });
  n.y = elementwise(n.g, {n.x, m, a, n.shift}, [](const std::vector<Expr>& e) { return (e[0] - e[1]) * e[2] + e[3]; });
}

int sums_over_data(const Graph& g) {
  int sums = 0;
  for (const Op* op : g.ops)
    sums += op->kind == OpKind::reindex_reduce && op->inputs[0]->shape() == shape_of(std::vector<int64_t>{3, 4, 5});
  return sums;
}

// The mean and the variance, sum(dy) and sum(dy * (x - mean)): what is constant along a sum leaves it, and deviations from a
// mean sum up to 0.
TEST(FactoredSum, FourSumsOfANormalisation) {
  Normalised n;
  normalise(n, DType::f32);
  Var* seed = n.g.add_input("seed", n.y->type);
  for (Var* d : gradient(n.g, {n.y}, {seed}, {n.x, n.scale, n.shift})) n.g.outputs.push_back(d);
  merge_equal_ops(n.g);
  remove_dead_ops(n.g);
  EXPECT_EQ(sums_over_data(n.g), 4) << to_string(n.g);
}

TEST(FactoredSum, NarrowTypesKeepTheirProducts) {
  Normalised n;
  normalise(n, DType::f16);
  Var* seed = n.g.add_input("seed", n.y->type);
  for (Var* d : gradient(n.g, {n.y}, {seed}, {n.x, n.scale, n.shift})) n.g.outputs.push_back(d);
  merge_equal_ops(n.g);
  remove_dead_ops(n.g);
  EXPECT_GT(sums_over_data(n.g), 4);
}

// First and second derivatives along random directions, against central differences.
TEST(FactoredSum, DerivativesOfANormalisation) {
  Normalised n;
  normalise(n, DType::f64);
  Graph& g = n.g;
  const std::vector<Var*> wrt = {n.x, n.scale, n.shift};
  const auto total = [&](Var* a, Var* b) { return reduce(g, map(g, Fn::mul, a, b), {0, 1, 2}, Reduce::add, false); };
  std::vector<Var*> along;
  for (Var* v : wrt) along.push_back(g.add_input("along", v->type));
  Var* seed = elementwise(g, {n.y}, [](const std::vector<Expr>& e) { return call(Fn::sin, {e[0]}); });
  std::vector<Var*> levels = {total(n.y, seed)};
  for (int order = 0; order < 2; ++order) {
    const std::vector<Var*> gradients = gradient(g, levels.back(), wrt);
    Var* sum = nullptr;
    for (size_t k = 0; k < wrt.size(); ++k)
      sum = sum ? map(g, Fn::add, sum, total(gradients[k], along[k])) : total(gradients[k], along[k]);
    levels.push_back(sum);
  }
  g.outputs = levels;
  GraphEvaluator evaluator(g);
  std::mt19937 random(3);
  std::uniform_real_distribution<double> between(-1, 1);
  std::vector<Tensor> at, direction;
  for (const Var* v : wrt)
    for (auto* list : {&at, &direction}) {
      std::vector<double> values(static_cast<size_t>(element_count(v->shape()).as_int()));
      for (double& value : values) value = between(random);
      list->push_back(make_tensor<double>(DType::f64, static_shape(v->shape()), values));
    }
  const auto run = [&](double step) {
    std::vector<Tensor> inputs;
    for (size_t k = 0; k < at.size(); ++k) {
      std::vector<double> values(static_cast<size_t>(at[k].element_count()));
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = number_at(at[k], static_cast<int64_t>(i)) + step * number_at(direction[k], static_cast<int64_t>(i));
      inputs.push_back(make_tensor<double>(DType::f64, at[k].shape, values));
    }
    inputs.insert(inputs.end(), direction.begin(), direction.end());
    return evaluator.run(inputs);
  };
  constexpr double step = 1e-5;
  const auto here = run(0), plus = run(step), minus = run(-step);
  for (size_t order = 1; order <= 2; ++order) {
    const double numeric = (number_at(plus[order - 1], 0) - number_at(minus[order - 1], 0)) / (2 * step);
    EXPECT_NEAR(number_at(here[order], 0), numeric, 1e-6 * (1 + std::abs(numeric))) << "order " << order;
  }
}

}  // namespace
}  // namespace metac::factored_sum_test
