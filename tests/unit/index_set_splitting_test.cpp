// Loops cut where conditions, clamps and remainders of their index change: on every CPU, with lanes in what is between the borders.
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "compiler/ir/builders.h"
#include "compiler/jit/cpu_target.h"
#include "compiler/jit/jit_program.h"
#include "compiler/kernel/evaluate_graph.h"
#include "compiler/kernel/index_set_splitting.h"
#include "compiler/passes/compile.h"
#include "tests/unit/ramp.h"

namespace metac {
namespace {

struct Case {
  const char* name;
  std::vector<int64_t> shape;              // of the operand
  std::function<Var*(Graph&, Var*)> result;
  bool split = true;                       // is there a loop that is worth cutting?
};

// Maxima or sums of windows of k by k elements at a stride, over `margin` elements of padding.
Var* windows(Graph& g, Var* x, Reduce reduction, int64_t k, int64_t stride, int64_t margin) {
  const int64_t h = x->shape()[1].as_int(), w = x->shape()[2].as_int();
  const Expr fill = identity_of(reduction, DType::f32), row = axis(1) * Expr(stride) + axis(3) - Expr(margin), column = axis(2) * Expr(stride) + axis(4) - Expr(margin);
  const auto extent = [&](int64_t n) { return Expr((n + 2 * margin - k) / stride + 1); };
  Var* spread = g.reindex({x}, {x->shape()[0], extent(h), extent(w), k, k}, {axis(0), row, column}, {Expr(0) <= row, row < Expr(h), Expr(0) <= column, column < Expr(w)}, fill);
  return reduce(g, spread, {3, 4}, reduction, false);
}

Var* moved(Graph& g, Var* x, std::vector<int64_t> shape, std::vector<Expr> indices, std::vector<Expr> conditions = {}) {
  return g.reindex({x}, Shape(shape.begin(), shape.end()), std::move(indices), std::move(conditions), float_constant(-1, DType::f32));
}

std::vector<Case> cases() {
  const Expr i = axis(0), j = axis(1);
  std::vector<Case> out;
  for (const auto& [k, stride, margin] : std::vector<std::array<int64_t, 3>>{{3, 1, 1}, {3, 2, 1}, {5, 1, 2}, {2, 3, 0}, {7, 4, 3}, {3, 5, 1}})
    for (Reduce reduction : {Reduce::max, Reduce::add})
      out.push_back({"windows", {3, 33, 75}, [=](Graph& g, Var* x) { return windows(g, x, reduction, k, stride, margin); }, stride <= 4 && margin > 0});
  out.push_back({"lower triangle", {40, 40}, [=](Graph& g, Var* x) { return moved(g, x, {40, 40}, {i, j}, {j <= i}); }});
  out.push_back({"above a diagonal that begins outside", {20, 50}, [=](Graph& g, Var* x) { return moved(g, x, {20, 50}, {i, j}, {i + Expr(-5) <= j}); }});
  out.push_back({"edge", {5, 40}, [=](Graph& g, Var* x) { return moved(g, x, {9, 61}, {max(min(i - Expr(2), Expr(4)), Expr(0)), max(min(j - Expr(10), Expr(39)), Expr(0))}); }});
  out.push_back({"repeated", {5, 24}, [=](Graph& g, Var* x) { return moved(g, x, {10, 72}, {floor_mod(i, Expr(5)), floor_mod(j + Expr(7), Expr(24))}); }});
  out.push_back({"all but one", {6, 70}, [=](Graph& g, Var* x) { return moved(g, x, {6, 70}, {i, j}, {not_equal(j, Expr(35))}); }});
  out.push_back({"many repetitions are no borders", {5, 2}, [=](Graph& g, Var* x) { return moved(g, x, {5, 90}, {i, floor_mod(j, Expr(2))}); }, false});
  return out;
}

TEST(IndexSetSplitting, SameResultsInPieces) {
  for (const Case& c : cases())
    for (const char* cpu : {"native", "x86-64-v3", "x86-64"}) {
      SCOPED_TRACE(std::string(c.name) + " for " + cpu);
      Graph g;
      Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, Shape(c.shape.begin(), c.shape.end())});
      g.outputs = {c.result(g, x)};
      const Tensor values = ramp(c.shape, 5), expected = evaluate(g, {values})[0];
      CompileOptions options;
      options.cpu = cpu_target(cpu);
      const CompiledModel model = compile_graph(g, options);
      bool split = false;
      for (const KernelSource& kernel : model.run.kernels)
        for (const std::string& step : kernel.schedule) split |= step.rfind("index set split", 0) == 0;
      EXPECT_EQ(split, c.split);
      const WeightsBlock weights = run_prepare(model, options.cpu);
      for (int threads : {1, 2}) {
        const Tensor found = JitProgram(std::make_shared<CompiledProgram>(model.run), weights, options.cpu, threads).run({values})[0];
        ASSERT_EQ(found.shape, expected.shape);
        for (int64_t k = 0; k < found.element_count(); ++k) ASSERT_NEAR(number_at(found, k), number_at(expected, k), 1e-5) << "element " << k;
      }
    }
}

// The pieces are the loop: none is missing, none comes twice, and outside of them nothing is decided.
TEST(IndexSetSplitting, PiecesCoverTheLoop) {
  const Loop loop{7, 50, LoopKind::serial, {}}, window{8, 3, LoopKind::serial, {}};
  Bounds bounds;
  bounds.set_axis(7, 50);
  bounds.set_axis(8, 3);
  const Expr at = axis(7) * Expr(2) + axis(8) - Expr(1), inside = logical_and(Expr(0) <= at, at < Expr(99));
  const std::vector<IndexPiece> pieces = split_index_set(loop, {inside, Expr()}, {window}, bounds, 8);
  ASSERT_EQ(pieces.size(), 3u);
  const int64_t starts[] = {0, 1, 49};
  for (size_t k = 0; k < 3; ++k) {
    EXPECT_TRUE(pieces[k].start.is_int(starts[k])) << to_string(pieces[k].start);
    EXPECT_TRUE((pieces[k].start + pieces[k].extent).is_int(k < 2 ? starts[k + 1] : 50)) << to_string(pieces[k].extent);
    EXPECT_EQ(pieces[k].decided, k == 1);
    EXPECT_EQ(pieces[k].expressions[0], k == 1 ? bool_constant(true) : inside);
  }
  EXPECT_TRUE(split_index_set(loop, {inside}, {window}, bounds, 49).empty()) << "a piece that is too short for lanes";
  EXPECT_TRUE(split_index_set({7, symbol(0), LoopKind::serial, {}}, {inside}, {window}, bounds, 8).empty()) << "an extent that is not known";
}

}  // namespace
}  // namespace metac
