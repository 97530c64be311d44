// Causal attention: a block of rows leaves keys out that none of its rows may see, and the result stays what it was.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "compiler/ir/builders.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/sums/softmax.h"
#include "compiler/program/compile.h"
#include "tests/unit/ramp.h"
#include "tests/unit/schedules_of.h"

namespace metac::keys_in_sight_test {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr int64_t heads = 2, depth = 24;
const char* const left_out = "keys that no row of a block may see are left out";

// May row axis(1) see key axis(2)?
using Mask = std::function<Expr(Expr row, Expr key)>;

// softmax(select(mask, q k, hidden)) v: q [heads, rows, depth], k and v with `keys`; 0: dims that a run knows.
void attend(Graph& g, int64_t rows, int64_t keys, const Mask& mask, double hidden) {
  const auto dim = [&](const char* name, int64_t n) {
    return n > 0 ? Expr(n) : symbol(g.add_symbol({.name = name, .min = 1, .hint = 128, .from_input = true}));
  };
  const Expr n = dim("rows", rows), m = dim("keys", keys);
  const auto input = [&](const char* name, Shape shape) {
    return g.add_input(name, Type{TypeKind::tensor, DType::f32, std::move(shape)});
  };
  Var *q = input("q", {heads, n, depth}), *k = input("k", {heads, depth, m}), *v = input("v", {heads, m, depth});
  const Expr score = load(0, DType::f32, {axis(0), axis(1), axis(2)});
  Var* masked = g.elementwise({matmul(g, q, k)}, {heads, n, m},
                              select(mask(axis(1), axis(2)), score, float_constant(hidden, DType::f32)));
  g.outputs = {matmul(g, softmax(g, masked, {2}), v)};
}

struct Sizes {
  int64_t rows, keys;
};

// May it, in numbers?
using Sees = std::function<bool(int64_t row, int64_t key)>;

// Compiles attention of `rows` and `keys`, runs it for `all` sizes and holds it against float64. Returns its schedules.
std::string check(int64_t known_rows, int64_t known_keys, const Mask& mask, const Sees& sees, const std::vector<Sizes>& all,
                  double hidden = -std::numeric_limits<double>::infinity()) {
  Graph g;
  attend(g, known_rows, known_keys, mask, hidden);
  CompileOptions options;
  options.cpu = cpu_target("native");
  CompiledModel model = compile_graph(g, options);
  const std::string schedules = schedules_of(model);
  const WeightsBlock weights = run_prepare(model, options.cpu);
  JitProgram program(std::make_shared<CompiledProgram>(std::move(model.run)), weights, options.cpu, 2);
  for (const auto& [rows, keys] : all) {
    const Tensor q = ramp({heads, rows, depth}, 3), k = ramp({heads, depth, keys}, 5), v = ramp({heads, keys, depth}, 7);
    const Tensor found = program.run({q, k, v})[0];
    double worst = 0;
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t row = 0; row < rows; ++row) {
        std::vector<double> score(static_cast<size_t>(keys));
        double most = -std::numeric_limits<double>::infinity(), sum = 0;
        for (int64_t key = 0; key < keys; ++key) {
          double& s = score[static_cast<size_t>(key)];
          for (int64_t d = 0; d < depth; ++d)
            s += number_at(q, (h * rows + row) * depth + d) * number_at(k, (h * depth + d) * keys + key);
          if (!sees(row, key)) s = hidden;
          most = std::max(most, s);
        }
        for (double& s : score) sum += s = std::exp(s - most);
        for (int64_t d = 0; d < depth; ++d) {
          double wanted = 0;
          for (int64_t key = 0; key < keys; ++key)
            wanted += score[static_cast<size_t>(key)] / sum * number_at(v, (h * keys + key) * depth + d);
          worst = std::max(worst, std::abs(wanted - number_at(found, (h * rows + row) * depth + d)));
        }
      }
    EXPECT_LT(worst, 1e-4) << rows << " rows, " << keys << " keys\n" << schedules;
  }
  return schedules;
}

TEST(KeysInSight, BehindTheLastRowNothingIsComputed) {
  const Mask causal = [](Expr row, Expr key) { return key <= row; };
  const Sees sees = [](int64_t row, int64_t key) { return key <= row; };
  for (const int64_t n : {128, 131, 203}) EXPECT_THAT(check(n, n, causal, sees, {{n, n}}), HasSubstr(left_out));
  EXPECT_THAT(check(0, 0, causal, sees, {{1, 1}, {9, 9}, {17, 17}, {64, 64}, {150, 150}, {20, 300}, {300, 20}}),
              HasSubstr(left_out));
}

TEST(KeysInSight, RowsMayBeginBehindAPast) {
  const Mask past = [](Expr row, Expr key) { return key < row + Expr(41); };
  const Sees sees = [](int64_t row, int64_t key) { return key < row + 41; };
  EXPECT_THAT(check(100, 200, past, sees, {{100, 200}}), HasSubstr(left_out));
  EXPECT_THAT(check(0, 0, past, sees, {{30, 71}, {90, 500}}), HasSubstr(left_out));
}

// Where the limit is data, of each head its own, nothing else reads those, which may say anything.
TEST(KeysInSight, LimitsMayBeData) {
  constexpr int64_t rows = 90, keys = 140;
  Graph g;
  const auto input = [&](const char* name, Shape shape, DType dtype) {
    return g.add_input(name, Type{TypeKind::tensor, dtype, std::move(shape)});
  };
  Var *q = input("q", {heads, rows, depth}, DType::f32), *k = input("k", {heads, depth, keys}, DType::f32),
      *v = input("v", {heads, keys, depth}, DType::f32), *past = input("past", {heads}, DType::i64);
  const Expr score = load(0, DType::f32, {axis(0), axis(1), axis(2)}), before = load(1, DType::i64, {axis(0)});
  const Expr seen = logical_and(call(Fn::lt, {axis(2), call(Fn::add, {before, Expr(rows)})}),
                                call(Fn::le, {axis(2), call(Fn::add, {before, axis(1)})}));
  Var* masked = g.elementwise({matmul(g, q, k), past}, {heads, rows, keys},
                              select(seen, score, float_constant(-INFINITY, DType::f32)));
  g.outputs = {matmul(g, softmax(g, masked, {2}), v)};
  CompileOptions options;
  options.cpu = cpu_target("native");
  CompiledModel model = compile_graph(g, options);
  EXPECT_THAT(schedules_of(model), HasSubstr(left_out));
  const WeightsBlock weights = run_prepare(model, options.cpu);
  JitProgram program(std::make_shared<CompiledProgram>(std::move(model.run)), weights, options.cpu, 2);
  const Tensor data[] = {ramp({heads, rows, depth}, 3), ramp({heads, depth, keys}, 5), ramp({heads, keys, depth}, 7)};
  const auto run = [&](int64_t first, int64_t second) {
    return program.run({data[0], data[1], data[2], make_tensor<int64_t>(DType::i64, {heads}, {first, second})})[0];
  };
  // Behind a past that is longer than all keys every row sees everything, as it does behind the longest that there is.
  const Tensor all = run(1000, keys), most = run(INT64_MAX / 2, keys);
  for (int64_t n = 0; n < heads * rows * depth; ++n) ASSERT_EQ(number_at(all, n), number_at(most, n));
  // A row that sees nothing is the softmax of minus infinities.
  const Tensor none = run(50, -1000);
  for (int64_t n = 0; n < heads * rows * depth; ++n) ASSERT_EQ(std::isnan(number_at(none, n)), n >= rows * depth);
}

// Beside the limit something else may hide keys, whose rows are then masked where they are seen.
TEST(KeysInSight, OtherConditionsStay) {
  const Mask window = [](Expr row, Expr key) { return logical_and(key <= row, row < key + Expr(50)); };
  const Sees sees = [](int64_t row, int64_t key) { return key <= row && row < key + 50; };
  EXPECT_THAT(check(170, 170, window, sees, {{170, 170}}), HasSubstr(left_out));
}

TEST(KeysInSight, AllKeysWhereRowsSeeLessAndLessOrHiddenOnesCount) {
  const Mask backward = [](Expr row, Expr key) { return key <= Expr(160) - row; };
  EXPECT_THAT(check(130, 161, backward, [](int64_t row, int64_t key) { return key <= 160 - row; }, {{130, 161}}),
              Not(HasSubstr(left_out)));
  const Mask causal = [](Expr row, Expr key) { return key <= row; };
  EXPECT_THAT(check(
                  130, 130, causal, [](int64_t row, int64_t key) { return key <= row; }, {{130, 130}}, -2),
              Not(HasSubstr(left_out)));
}

}  // namespace
}  // namespace metac::keys_in_sight_test
