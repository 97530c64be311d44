#include "compiler/oracle/evaluate_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/ir/builders.h"
#include "compiler/support/diagnostic.h"

namespace metac::evaluate_graph_test {
namespace {

using testing::ElementsAre;

Tensor floats(std::vector<int64_t> shape, const std::vector<float>& values) {
  return make_tensor<float>(DType::f32, std::move(shape), values);
}
Tensor integers(std::vector<int64_t> shape, const std::vector<int64_t>& values) {
  return make_tensor<int64_t>(DType::i64, std::move(shape), values);
}
std::vector<double> numbers(const Tensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.element_count(); ++i) out.push_back(number_at(t, i));
  return out;
}
Var* input(Graph& g, const char* name, DType dtype, Shape shape) {
  return g.add_input(name, Type{TypeKind::tensor, dtype, std::move(shape)});
}

TEST(EvaluateGraph, MatmulOfOpenBatch) {
  Graph g;
  int n = g.add_symbol({.name = "n"});
  Var* a = input(g, "a", DType::f32, {symbol(n), 3});
  Var* b = input(g, "b", DType::f32, {3, 2});
  g.outputs = {matmul(g, a, b)};
  auto out = evaluate(g, {{"a", floats({2, 3}, {1, 2, 3, 4, 5, 6})}, {"b", floats({3, 2}, {1, 0, 0, 1, 1, 1})}});
  EXPECT_EQ(out[0].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_THAT(numbers(out[0]), ElementsAre(4, 5, 10, 11));
}

TEST(EvaluateGraph, MatchesLoopsOnAStridedPaddedConvolution) {
  const int channels = 3, size = 7, filters = 4, out_size = 4, stride = 2;
  Graph g;
  Var* x = input(g, "x", DType::f32, {1, channels, size, size});
  Var* w = input(g, "w", DType::f32, {filters, channels, 3, 3});
  Shape domain = {1, filters, out_size, out_size, channels, 3, 3};
  Expr row = axis(2) * Expr(stride) + axis(5) - Expr(1), column = axis(3) * Expr(stride) + axis(6) - Expr(1);
  Var* xs = g.reindex({x}, domain, {axis(0), axis(4), row, column},
                      {Expr(0) <= row, row < Expr(size), Expr(0) <= column, column < Expr(size)});
  Var* ws = g.reindex({w}, domain, {axis(1), axis(4), axis(5), axis(6)});
  g.outputs = {reduce(g, map(g, Fn::mul, xs, ws), {4, 5, 6}, Reduce::add, false)};
  std::vector<float> xv(channels * size * size), wv(filters * channels * 9);
  for (size_t i = 0; i < xv.size(); ++i) xv[i] = static_cast<float>((i * 7) % 11) - 5;
  for (size_t i = 0; i < wv.size(); ++i) wv[i] = static_cast<float>((i * 5) % 7) - 3;
  auto out = evaluate(g, std::vector<Tensor>{floats({1, channels, size, size}, xv), floats({filters, channels, 3, 3}, wv)});
  for (int o = 0; o < filters; ++o)
    for (int r = 0; r < out_size; ++r)
      for (int c = 0; c < out_size; ++c) {
        double sum = 0;
        for (int i = 0; i < channels; ++i)
          for (int k = 0; k < 9; ++k) {
            int y = r * stride + k / 3 - 1, z = c * stride + k % 3 - 1;
            if (y >= 0 && y < size && z >= 0 && z < size)
              sum += xv[(i * size + y) * size + z] * wv[(o * channels + i) * 9 + k];
          }
        ASSERT_EQ(number_at(out[0], (o * out_size + r) * out_size + c), sum);
      }
}

TEST(EvaluateGraph, SoftmaxAndMaxOfNan) {
  Graph g;
  Var* x = input(g, "x", DType::f32, {2, 3});
  Var* top = reduce(g, x, {1}, Reduce::max, true);
  Var* e = map(g, Fn::exp, map(g, Fn::sub, x, top));
  g.outputs = {map(g, Fn::div, e, reduce(g, e, {1}, Reduce::add, true)), top};
  auto out = evaluate(g, std::vector<Tensor>{floats({2, 3}, {0, 0, 0, 1, NAN, 2})});
  EXPECT_THAT(numbers(out[0])[0], testing::DoubleNear(1.0 / 3, 1e-7));
  EXPECT_TRUE(std::isnan(numbers(out[1])[1]));
}

TEST(EvaluateGraph, GatherAndConcat) {
  Graph g;
  Var* x = input(g, "x", DType::i64, {4});
  Var* i = input(g, "i", DType::i64, {2});
  g.outputs = {concat(g, {gather(g, x, i, 0), x}, 0)};
  auto out = evaluate(g, std::vector<Tensor>{integers({4}, {10, 11, 12, 13}), integers({2}, {-1, 1})});
  EXPECT_THAT(numbers(out[0]), ElementsAre(13, 11, 10, 11, 12, 13));
}

TEST(EvaluateGraph, LoopWithCarriedAndStackedValues) {
  Graph g;
  Var* trips = input(g, "trips", DType::i64, {});
  Var* start = input(g, "start", DType::f32, {2});
  Region body;
  body.iteration = g.add_symbol({.name = "i"});
  Var* state = g.make_var(start->type);
  body.params = {state};
  g.open_region(&body);
  Var* next = map(g, Fn::add, state, state);
  g.close_region();
  body.results = {nullptr, next, next};
  Op* op = g.loop(trips, nullptr, {start}, std::move(body));
  g.outputs = op->outputs;
  auto out = evaluate(g, std::vector<Tensor>{integers({}, {3}), floats({2}, {1, 2})});
  EXPECT_THAT(numbers(out[0]), ElementsAre(8, 16));
  EXPECT_EQ(out[1].shape, (std::vector<int64_t>{3, 2}));
  EXPECT_THAT(numbers(out[1]), ElementsAre(2, 4, 4, 8, 8, 16));
  out = evaluate(g, std::vector<Tensor>{integers({}, {0}), floats({2}, {1, 2})});
  EXPECT_EQ(out[1].shape, (std::vector<int64_t>{0, 2}));
}

TEST(EvaluateGraph, RefusesInputsThatDoNotFit) {
  Graph g;
  int n = g.add_symbol({.name = "n", .min = 1, .max = 4, .divisor = 2});
  Var* a = input(g, "a", DType::f32, {symbol(n), 2});
  g.outputs = {map(g, Fn::neg, a)};
  EXPECT_THROW(evaluate(g, std::vector<Tensor>{floats({2, 3}, {1, 2, 3, 4, 5, 6})}), CompileError);
  EXPECT_THROW(evaluate(g, std::vector<Tensor>{floats({6, 2}, std::vector<float>(12))}), CompileError);
  EXPECT_THROW(evaluate(g, std::vector<Tensor>{floats({3, 2}, std::vector<float>(6))}), CompileError);
  EXPECT_THROW(evaluate(g, std::vector<Tensor>{integers({2, 2}, {1, 2, 3, 4})}), CompileError);
  EXPECT_THROW(evaluate(g, std::vector<Tensor>{floats({2, 2}, {1, 2, 3, 4})}, {.operations = 3}), CompileError);
  EXPECT_NO_THROW(evaluate(g, std::vector<Tensor>{floats({2, 2}, {1, 2, 3, 4})}));
}

TEST(EvaluateOp, FoldsWithinItsBudget) {
  Graph g;
  Var* c = g.add_constant(floats({2}, {1, 2}));
  Var* y = map(g, Fn::neg, c);
  Budget budget{.operations = 1000, .bytes = 1000};
  auto folded = evaluate_op(g, *y->producer, {&*c->constant}, budget);
  ASSERT_TRUE(folded);
  EXPECT_THAT(numbers((*folded)[0]), ElementsAre(-1, -2));
  EXPECT_LT(budget.bytes, 1000);
  Budget small{.operations = 1, .bytes = 1000};
  EXPECT_FALSE(evaluate_op(g, *y->producer, {&*c->constant}, small));
}

}  // namespace
}  // namespace metac::evaluate_graph_test
