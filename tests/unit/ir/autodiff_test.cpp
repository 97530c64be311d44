// First and second derivatives of small graphs against central differences in float64, reverse against forward mode.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "compiler/autodiff/gradient.h"
#include "compiler/ir/builders.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/support/diagnostic.h"

namespace metac::autodiff_test {
namespace {

Shape dims(std::initializer_list<int64_t> values) { return shape_of(std::vector<int64_t>(values)); }
Var* input(Graph& g, const char* name, Shape shape) {
  return g.add_input(name, Type{TypeKind::tensor, DType::f64, std::move(shape)});
}
Tensor doubles(std::vector<int64_t> shape, const std::vector<double>& values) {
  return make_tensor<double>(DType::f64, std::move(shape), values);
}

Tensor random_tensor(std::vector<int64_t> shape, std::mt19937& random) {
  std::uniform_real_distribution<double> between(-1, 1);
  Tensor t{DType::f64, shape, nullptr, {}};
  std::vector<double> values(t.element_count());
  for (double& v : values) v = between(random);
  return doubles(shape, values);
}

Tensor moved(const Tensor& x, const Tensor& direction, double step) {
  std::vector<double> values(x.element_count());
  for (size_t i = 0; i < values.size(); ++i) values[i] = number_at(x, i) + step * number_at(direction, i);
  return doubles(x.shape, values);
}

using Build = std::function<Var*(Graph&, const std::vector<Var*>&)>;

// For f: inputs -> tensor y and a random seed s, with L = <s, y>:
// order k is the derivative of order k-1 along a random direction. All of them against central differences of the one
// before, in reverse and in forward mode.
void check(const std::vector<std::vector<int64_t>>& shapes, const Build& build, int orders = 2, double shift = 0) {
  std::mt19937 random(7);
  Graph g;
  std::vector<Var*> x, v;
  std::vector<Tensor> values, directions;
  for (size_t k = 0; k < shapes.size(); ++k) {
    x.push_back(input(g, ("x" + std::to_string(k)).c_str(), shape_of(shapes[k])));
    values.push_back(random_tensor(shapes[k], random));
    if (shift != 0)
      values.back() = moved(values.back(), doubles(shapes[k], std::vector<double>(values.back().element_count(), 1)), shift);
  }
  for (size_t k = 0; k < shapes.size(); ++k) {
    v.push_back(input(g, ("v" + std::to_string(k)).c_str(), shape_of(shapes[k])));
    directions.push_back(random_tensor(shapes[k], random));
  }
  Var* y = build(g, x);
  Var* seed = g.elementwise(
      {}, y->shape(), call(Fn::sin, {cast(linear_index(y->shape(), identity_indices(y->rank())) + Expr(1), DType::f64)}));
  auto total = [&](Var* a, Var* b) {
    std::vector<int> axes;
    for (int k = 0; k < a->rank(); ++k) axes.push_back(k);
    return reduce(g, map(g, Fn::mul, a, b), axes, Reduce::add, false);
  };
  std::vector<Var*> levels = {total(y, seed)}, forward = {levels[0]};
  for (int order = 1; order <= orders; ++order) {
    auto gradients = gradient(g, levels.back(), x);
    Var* sum = nullptr;
    for (size_t k = 0; k < x.size(); ++k) {
      Var* term = total(gradients[k], v[k]);
      sum = sum ? map(g, Fn::add, sum, term) : term;
    }
    levels.push_back(sum);
    forward.push_back(jvp(g, {forward.back()}, x, v)[0]);
  }
  for (Var* level : levels) g.outputs.push_back(level);
  for (Var* level : forward) g.outputs.push_back(level);
  verify(g);
  GraphEvaluator evaluator(g);
  auto run = [&](double step) {
    std::vector<Tensor> inputs;
    for (size_t k = 0; k < x.size(); ++k) inputs.push_back(moved(values[k], directions[k], step));
    inputs.insert(inputs.end(), directions.begin(), directions.end());
    return evaluator.run(inputs);
  };
  const double step = 1e-6;
  auto here = run(0), plus = run(step), minus = run(-step);
  for (int order = 1; order <= orders; ++order) {
    const double exact = number_at(here[order], 0);
    const double numeric = (number_at(plus[order - 1], 0) - number_at(minus[order - 1], 0)) / (2 * step);
    EXPECT_NEAR(exact, numeric, 1e-5 + 1e-5 * std::fabs(numeric)) << "order " << order;
    const double tangent = number_at(here[orders + 1 + order], 0);
    EXPECT_NEAR(exact, tangent, 1e-10 + 1e-10 * std::fabs(exact)) << "forward mode, order " << order;
  }
}

Var* convolution(Graph& g, Var* x, Var* w, int stride, int pad) {
  const auto xs = static_shape(x->shape()), ws = static_shape(w->shape());
  const int64_t rows = (xs[2] + 2 * pad - ws[2]) / stride + 1, columns = (xs[3] + 2 * pad - ws[3]) / stride + 1;
  Shape domain = dims({xs[0], ws[0], rows, columns, xs[1], ws[2], ws[3]});
  Expr r = axis(2) * Expr(stride) + axis(5) - Expr(pad), c = axis(3) * Expr(stride) + axis(6) - Expr(pad);
  Var* windows =
      g.reindex({x}, domain, {axis(0), axis(4), r, c}, {Expr(0) <= r, r < Expr(xs[2]), Expr(0) <= c, c < Expr(xs[3])});
  Var* weights = g.reindex({w}, domain, {axis(1), axis(4), axis(5), axis(6)});
  return reduce(g, map(g, Fn::mul, windows, weights), {4, 5, 6}, Reduce::add, false);
}

// y[n, o, r*stride + kr - pad, ...] += x[n, i, r, c] * w[i, o, kr, kc]
Var* transposed_convolution(Graph& g, Var* x, Var* w, int stride, int pad) {
  const auto xs = static_shape(x->shape()), ws = static_shape(w->shape());
  const int64_t rows = (xs[2] - 1) * stride + ws[2] - 2 * pad, columns = (xs[3] - 1) * stride + ws[3] - 2 * pad;
  Shape domain = dims({xs[0], ws[1], xs[2], xs[3], xs[1], ws[2], ws[3]});
  Var* inputs = g.reindex({x}, domain, {axis(0), axis(4), axis(2), axis(3)});
  Var* weights = g.reindex({w}, domain, {axis(4), axis(1), axis(5), axis(6)});
  Expr r = axis(2) * Expr(stride) + axis(5) - Expr(pad), c = axis(3) * Expr(stride) + axis(6) - Expr(pad);
  return g.reindex_reduce({map(g, Fn::mul, inputs, weights)}, dims({xs[0], ws[1], rows, columns}), {axis(0), axis(1), r, c},
                          Reduce::add, {Expr(0) <= r, r < Expr(rows), Expr(0) <= c, c < Expr(columns)});
}

Var* softmax(Graph& g, Var* x) {
  Var* e = map(g, Fn::exp, map(g, Fn::sub, x, reduce(g, x, {x->rank() - 1}, Reduce::max, true)));
  return map(g, Fn::div, e, reduce(g, e, {x->rank() - 1}, Reduce::add, true));
}

TEST(Autodiff, ConvolutionStride1) {
  check({{2, 3, 5, 5}, {4, 3, 3, 3}}, [](Graph& g, const auto& v) { return convolution(g, v[0], v[1], 1, 1); });
}
TEST(Autodiff, ConvolutionStride2OfTanh) {
  check({{1, 2, 6, 7}, {3, 2, 3, 3}},
        [](Graph& g, const auto& v) { return map(g, Fn::tanh, convolution(g, v[0], v[1], 2, 1)); });
}
TEST(Autodiff, TransposedConvolution) {
  check({{1, 3, 4, 4}, {3, 2, 3, 3}}, [](Graph& g, const auto& v) { return transposed_convolution(g, v[0], v[1], 2, 1); });
}
TEST(Autodiff, Softmax) {
  check({{3, 5}}, [](Graph& g, const auto& v) { return softmax(g, v[0]); }, 3);
}
TEST(Autodiff, LayerNorm) {
  check({{4, 6}, {6}, {6}}, [](Graph& g, const auto& v) {
    Var* centred = map(g, Fn::sub, v[0], mean(g, v[0], {1}, true));
    Var* variance = mean(g, map(g, Fn::mul, centred, centred), {1}, true);
    Var* deviation = map(g, Fn::sqrt, map(g, Fn::add, variance, scalar(g, DType::f64, 1e-5)));
    return map(g, Fn::add, map(g, Fn::mul, map(g, Fn::div, centred, deviation), v[1]), v[2]);
  });
}
TEST(Autodiff, Attention) {
  check({{2, 3, 4}, {2, 5, 4}, {2, 5, 3}}, [](Graph& g, const auto& v) {
    Var* scores = map(g, Fn::mul, matmul(g, v[0], transpose(g, v[1], {0, 2, 1})), scalar(g, DType::f64, 0.5));
    return matmul(g, softmax(g, scores), v[2]);
  });
}
TEST(Autodiff, MaximumOfWindowsThatOverlap) {
  check({{1, 7}}, [](Graph& g, const auto& v) {
    Var* windows = g.reindex({v[0]}, dims({1, 5, 3}), {axis(0), axis(1) + axis(2)});
    Var* top = reduce(g, windows, {2}, Reduce::max, false);
    return map(g, Fn::mul, top, top);
  });
}
TEST(Autodiff, ProductAndMinimum) {
  check({{3, 4}}, [](Graph& g, const auto& v) {
    return map(g, Fn::mul, reduce(g, v[0], {1}, Reduce::mul, true), reduce(g, v[0], {1}, Reduce::min, true));
  });
}
TEST(Autodiff, GatherAndScatterByIndexTensor) {
  check({{4, 3}}, [](Graph& g, const auto& v) {
    Var* at = g.add_constant(make_tensor<int64_t>(DType::i64, {5}, {2, 0, 2, 3, 2}));
    Var* rows = gather(g, map(g, Fn::exp, v[0]), at, 0);
    return g.reindex_reduce({map(g, Fn::mul, rows, rows), at}, dims({4, 3}), {load(1, DType::i64, {axis(0)}), axis(1)},
                            Reduce::add);
  });
}
TEST(Autodiff, LoadsAwayFromTheElementItself) {
  check({{5}, {}}, [](Graph& g, const auto& v) {
    // y[i] = x[i] * x[4 - i] + s * sin(x[i])
    Expr here = load(0, DType::f64, {axis(0)}), there = load(0, DType::f64, {Expr(4) - axis(0)});
    return g.elementwise({v[0], v[1]}, dims({5}), here * there + load(1, DType::f64, {}) * call(Fn::sin, {here}));
  });
}
TEST(Autodiff, BranchNotTakenLeavesNoNan) {
  Graph g;
  Var* x = input(g, "x", dims({2}));
  Expr value = load(0, DType::f64, {axis(0)}), none = float_constant(0, DType::f64);
  Var* y = reduce(g, g.elementwise({x}, select(none < value, call(Fn::log, {value}), none)), {0}, Reduce::add, false);
  g.outputs = gradient(g, y, {x});
  auto out = evaluate(g, std::vector<Tensor>{doubles({2}, {0, 2})});
  EXPECT_EQ(number_at(out[0], 0), 0);
  EXPECT_EQ(number_at(out[0], 1), 0.5);
}
// A softmax of nothing is NaN; Where takes 0 instead. What the row was made of gets the gradient 0, the other row its own.
TEST(Autodiff, WhatWhereLeavesOutMayBeNan) {
  Graph g;
  Var* x = input(g, "x", dims({2, 3}));
  Var* keep = g.add_input("keep", Type{TypeKind::tensor, DType::boolean, dims({2, 3})});
  Var* some = g.add_input("some", Type{TypeKind::tensor, DType::boolean, dims({2, 3})});
  const auto where = [&](Var* condition, Var* then, double otherwise) {
    return g.elementwise({condition, then}, dims({2, 3}),
                         select(load(0, DType::boolean, identity_indices(2)), load(1, DType::f64, identity_indices(2)),
                                float_constant(otherwise, DType::f64)));
  };
  Var* y = where(some, softmax(g, where(keep, x, -INFINITY)), 0);
  Var* seed = input(g, "seed", dims({2, 3}));
  g.outputs = gradient(g, {y}, {seed}, {x});
  auto out = evaluate(g, std::vector<Tensor>{doubles({2, 3}, {1, 2, 3, 0, 0, 0}),
                                             make_tensor<uint8_t>(DType::boolean, {2, 3}, {0, 0, 0, 1, 1, 0}),
                                             make_tensor<uint8_t>(DType::boolean, {2, 3}, {0, 0, 0, 1, 1, 1}),
                                             doubles({2, 3}, {1, 1, 1, 1, 0, 0})});
  const double expected[] = {0, 0, 0, 0.25, -0.25, 0};
  for (int64_t k = 0; k < 6; ++k) EXPECT_EQ(number_at(out[0], k), expected[k]) << k;
}
TEST(Autodiff, StopGradAndCasts) {
  Graph g;
  Var* x = input(g, "x", dims({}));
  Var* held = map(g, Fn::mul, x, x);
  held->stop_grad = true;
  Var* through = cast(g, cast(g, x, DType::f32), DType::f64);
  Var* cut = cast(g, cast(g, x, DType::i64), DType::f64);
  g.outputs = gradient(g, map(g, Fn::mul, map(g, Fn::mul, held, through), cut), {x});
  EXPECT_EQ(number_at(evaluate(g, std::vector<Tensor>{doubles({}, {3})})[0], 0), 27);
}
TEST(Autodiff, NothingToDifferentiate) {
  Graph g;
  Var* x = input(g, "x", dims({2}));
  Var* other = input(g, "other", dims({3}));
  Var* whole = g.add_input("whole", Type{TypeKind::tensor, DType::i64, {}});
  Var* y = reduce(g, x, {0}, Reduce::add, false);
  g.outputs = gradient(g, y, {other});
  EXPECT_EQ(number_at(evaluate(g, std::vector<Tensor>{doubles({2}, {1, 1}), doubles({3}, {1, 1, 1}),
                                                      make_tensor<int64_t>(DType::i64, {}, {1})})[0],
                      2),
            0);
  EXPECT_THROW(gradient(g, y, {whole}), CompileError);
  EXPECT_THROW(gradient(g, x, {x}), CompileError);
}

// ---- regions ----
TEST(Autodiff, If) {
  for (bool taken : {true, false})
    check({{3}, {3}}, [&](Graph& g, const auto& v) {
      Region then_branch, else_branch;
      g.open_region(&then_branch);
      then_branch.results = {map(g, Fn::mul, map(g, Fn::sin, v[0]), v[1])};
      g.close_region();
      g.open_region(&else_branch);
      else_branch.results = {map(g, Fn::exp, v[1])};
      g.close_region();
      Var* condition = g.add_constant(make_tensor<uint8_t>(DType::boolean, {}, {taken}));
      return map(g, Fn::mul, g.if_(condition, std::move(then_branch), std::move(else_branch))->outputs[0], v[0]);
    });
}

// h <- tanh(W h + x[i]); stacked outputs h; W captured.
Var* recurrence(Graph& g, Var* w, Var* xs, Var* start, Var* trips, bool stacked) {
  Region body;
  body.iteration = g.add_symbol({.name = "i"});
  Var* h = g.make_var(start->type);
  body.params = {h};
  g.open_region(&body);
  Var* x = g.reindex({xs}, start->shape(), {symbol(body.iteration), axis(0)});
  Var* next = map(g, Fn::tanh, map(g, Fn::add, matmul(g, w, h), x));
  g.close_region();
  body.results = {nullptr, next};
  if (stacked) body.results.push_back(next);
  Op* op = g.loop(trips, nullptr, {start}, std::move(body));
  return op->outputs[stacked ? 1 : 0];
}

TEST(Autodiff, LoopWithCapturedWeights) {
  for (bool stacked : {false, true})
    check({{3, 3}, {4, 3}, {3}}, [&](Graph& g, const auto& v) {
      return recurrence(g, v[0], v[1], v[2], g.add_constant(make_tensor<int64_t>(DType::i64, {}, {4})), stacked);
    });
}
TEST(Autodiff, LoopThirdOrder) {
  check(
      {{2, 2}, {3, 2}, {2}},
      [&](Graph& g, const auto& v) {
        return recurrence(g, v[0], v[1], v[2], g.add_constant(make_tensor<int64_t>(DType::i64, {}, {3})), true);
      },
      3);
}
TEST(Autodiff, LoopWithACondition) {
  // x <- x * x while x < 10 (at most 20 times), from a start above 1: the number of iterations is known while running.
  check(
      {{}},
      [&](Graph& g, const auto& v) {
        Region body;
        Var* x = g.make_var(v[0]->type);
        body.params = {x};
        g.open_region(&body);
        Var* next = map(g, Fn::mul, x, x);
        Var* go_on = map(g, Fn::lt, next, scalar(g, DType::f64, 10));
        g.close_region();
        body.results = {go_on, next};
        Var* yes = g.add_constant(make_tensor<uint8_t>(DType::boolean, {}, {1}));
        return g.loop(g.add_constant(make_tensor<int64_t>(DType::i64, {}, {20})), yes, {v[0]}, std::move(body))->outputs[0];
      },
      2, 2.5);
}

// ---- every scalar function, by itself ----
class ScalarRules : public testing::TestWithParam<Fn> {};
TEST_P(ScalarRules, FirstAndSecondDerivative) {
  const Fn fn = GetParam();
  const bool above_one = fn == Fn::acosh, inside = fn == Fn::asin || fn == Fn::acos || fn == Fn::atanh;
  const bool positive =
      fn == Fn::log || fn == Fn::sqrt || fn == Fn::pow || fn == Fn::log1p || fn == Fn::floor_mod || fn == Fn::trunc_mod;
  check(
      {{6}, {6}},
      [&](Graph& g, const auto& v) {
        Var* a = inside ? map(g, Fn::mul, v[0], scalar(g, DType::f64, 0.9)) : v[0];
        return arity(fn) == 1 ? map(g, fn, a) : map(g, fn, a, v[1]);
      },
      2, above_one || positive ? 2.5 : 0);
}
INSTANTIATE_TEST_SUITE_P(All, ScalarRules,
                         testing::Values(Fn::neg, Fn::abs, Fn::sign, Fn::sqrt, Fn::exp, Fn::log, Fn::sin, Fn::cos, Fn::tan,
                                         Fn::asin, Fn::acos, Fn::atan, Fn::sinh, Fn::cosh, Fn::tanh, Fn::asinh, Fn::acosh,
                                         Fn::atanh, Fn::erf, Fn::sigmoid, Fn::expm1, Fn::log1p, Fn::floor, Fn::ceil,
                                         Fn::trunc, Fn::rint, Fn::add, Fn::sub, Fn::mul, Fn::div, Fn::floor_div,
                                         Fn::floor_mod, Fn::trunc_mod, Fn::pow, Fn::atan2, Fn::min, Fn::max),
                         [](const auto& param) { return std::string(name_of(param.param)); });

TEST(ScalarRulesAtKinks, ReluAndTies) {
  Graph g;
  Var* x = input(g, "x", dims({2}));
  Var* y = input(g, "y", dims({2}));
  Var* relu = map(g, Fn::max, x, scalar(g, DType::f64, 0));
  Var* tie = map(g, Fn::max, x, y);
  Var* ones = fill(g, dims({2}), float_constant(1, DType::f64));
  auto a = gradient(g, {relu}, {ones}, {x});
  auto b = gradient(g, {tie}, {ones}, {x, y});
  g.outputs = {a[0], b[0], b[1]};
  auto out = evaluate(g, std::vector<Tensor>{doubles({2}, {0, 1}), doubles({2}, {0, 3})});
  EXPECT_EQ(number_at(out[0], 0), 0);
  EXPECT_EQ(number_at(out[0], 1), 1);
  EXPECT_EQ(number_at(out[1], 0), 0.5);
  EXPECT_EQ(number_at(out[2], 0), 0.5);
  EXPECT_EQ(number_at(out[2], 1), 1);
}

// What does not move where a slope is infinite contributes 0, not 0 times infinity; what moves is infinite.
TEST(ScalarRulesAtKinks, InfiniteSlopes) {
  const std::vector<std::pair<Fn, double>> steep = {{Fn::sqrt, 0}, {Fn::asin, 1},  {Fn::asin, -1},
                                                    {Fn::acos, 1}, {Fn::acosh, 1}, {Fn::pow, 0}};
  for (auto [fn, at] : steep) {
    Graph g;
    Var *x = input(g, "x", dims({3})), *d = input(g, "d", dims({3})), *half = input(g, "half", dims({3}));
    Var* y = arity(fn) == 1 ? map(g, fn, x) : map(g, fn, x, half);
    Var* gradients = gradient(g, {y}, {d}, {x})[0];
    Var* tangents = jvp(g, {y}, {x}, {d})[0];
    g.outputs = {gradients, tangents, jvp(g, {gradients}, {d}, {d})[0]};
    const double inside = fn == Fn::acosh ? 2 : 0.5;
    const auto out = evaluate(
        g, std::vector<Tensor>{doubles({3}, {at, at, inside}), doubles({3}, {0, 1, 0}), doubles({3}, {0.5, 0.5, 0.5})});
    for (const Tensor& result : out) {
      EXPECT_EQ(number_at(result, 0), 0) << name_of(fn);
      EXPECT_TRUE(std::isinf(number_at(result, 1))) << name_of(fn) << " " << number_at(result, 1);
      EXPECT_EQ(number_at(result, 2), 0) << name_of(fn);
    }
    // Linear in the gradient all the same: its slope at a gradient of 0 is the function's own.
    Graph h;
    Var *p = input(h, "p", dims({})), *c = input(h, "c", dims({})), *e = input(h, "e", dims({}));
    Var* q = arity(fn) == 1 ? map(h, fn, p) : map(h, fn, p, e);
    h.outputs = {gradient(h, {gradient(h, {q}, {c}, {p})[0]}, {e}, {c})[0]};
    const double slope =
        number_at(evaluate(h, std::vector<Tensor>{doubles({}, {inside}), doubles({}, {0}), doubles({}, {0.5})})[0], 0);
    EXPECT_GT(std::fabs(slope), 0.1) << name_of(fn);
  }
}

// A sum of two products is no contraction; the sums of each are.
TEST(Autodiff, TheTangentOfAContractionIsTwoContractions) {
  Graph g;
  Var *a = input(g, "a", dims({3, 4})), *b = input(g, "b", dims({4, 5})), *ta = input(g, "ta", dims({3, 4})),
      *tb = input(g, "tb", dims({4, 5}));
  Var* y = matmul(g, a, b);
  const size_t before = g.ops.size();
  jvp(g, {y}, {a, b}, {ta, tb});
  int sums = 0;
  for (size_t k = before; k < g.ops.size(); ++k) {
    if (g.ops[k]->kind != OpKind::reindex_reduce) continue;
    ++sums;
    EXPECT_EQ(g.ops[k]->inputs[0]->producer->bodies[0]->fn, Fn::mul) << to_string(g);
  }
  EXPECT_EQ(sums, 2);
}

// What only moves elements is no sum on its way back: kernels before it would be split there.
TEST(Autodiff, WhatMovesElementsMovesThemBack) {
  Graph g;
  Var* x = input(g, "x", dims({2, 3, 4}));
  Var* turned = g.reindex({x}, dims({4, 1, 2, 3}), {axis(2), axis(3), axis(0)});
  Var* flat = reshape(g, turned, dims({8, 3}));
  Var* seed = input(g, "seed", dims({8, 3}));
  const size_t before = g.ops.size();
  gradient(g, {flat}, {seed}, {x});
  for (size_t k = before; k < g.ops.size(); ++k) EXPECT_NE(g.ops[k]->kind, OpKind::reindex_reduce) << to_string(g);
  check({{2, 3, 4}}, [](Graph& graph, const std::vector<Var*>& in) {
    Var* y = reshape(graph, graph.reindex({in[0]}, dims({4, 1, 2, 3}), {axis(2), axis(3), axis(0)}), dims({2, 12}));
    return map(graph, Fn::mul, y, y);
  });
}

}  // namespace
}  // namespace metac::autodiff_test
