// Loops cut where conditions, clamps and remainders of their index change, with lanes in what is between the borders, and
// windows one axis after the other: on every CPU as the graph says.
#include "compiler/loops/index_set_splitting.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "compiler/ir/builders.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "tests/unit/ramp.h"

namespace metac::index_set_splitting_test {
namespace {

struct Case {
  const char* name;
  std::vector<int64_t> shape;  // of the operand
  std::function<Var*(Graph&, Var*)> result;
  std::string schedule = "index set split";  // what some kernel's schedule begins with; empty: neither of the two
};

// Maxima or sums of windows of k by k elements, `dilation` apart, at a stride, over `margin` elements of padding; over the
// second and third axis.
Var* windows(Graph& g, Var* x, Reduce reduction, int64_t k, int64_t stride, int64_t margin, int64_t dilation = 1) {
  const int rank = x->rank();
  const int64_t reach = dilation * (k - 1) + 1;
  Shape shape = x->shape();
  std::vector<Expr> indices = identity_indices(rank), conditions;
  for (int axis_of_window : {1, 2}) {
    const size_t a = static_cast<size_t>(axis_of_window);
    const Expr extent = shape[a],
               at = axis(axis_of_window) * Expr(stride) + axis(rank + axis_of_window - 1) * Expr(dilation) - Expr(margin);
    shape[a] = Expr((extent.as_int() + 2 * margin - reach) / stride + 1);
    indices[a] = at;
    conditions.insert(conditions.end(), {Expr(0) <= at, at < extent});
  }
  shape.insert(shape.end(), {Expr(k), Expr(k)});
  return reduce(g, g.reindex({x}, shape, indices, conditions, identity_of(reduction, DType::f32)), {rank, rank + 1},
                reduction, false);
}

Var* moved(Graph& g, Var* x, std::vector<int64_t> shape, std::vector<Expr> indices, std::vector<Expr> conditions = {}) {
  return g.reindex({x}, Shape(shape.begin(), shape.end()), std::move(indices), std::move(conditions),
                   float_constant(-1, DType::f32));
}

std::vector<Case> cases() {
  const Expr i = axis(0), j = axis(1);
  std::vector<Case> out;
  const char *const pieces = "index set split", *const rows = "windows one axis after the other";
  struct Window {
    int64_t k, stride, margin, dilation;
    const char* schedule;
  };
  for (const Window& w : std::vector<Window>{{3, 1, 1, 1, rows},
                                             {3, 2, 1, 1, pieces},
                                             {5, 1, 2, 1, rows},
                                             {5, 2, 2, 2, rows},
                                             {4, 1, 0, 3, rows},
                                             {2, 3, 0, 1, ""},
                                             {7, 4, 3, 1, pieces},
                                             {3, 5, 1, 1, ""}})
    for (Reduce reduction : {Reduce::max, Reduce::add}) {
      out.push_back({"windows",
                     {3, 33, 75},
                     [=](Graph& g, Var* x) { return windows(g, x, reduction, w.k, w.stride, w.margin, w.dilation); },
                     w.schedule});
      out.push_back({"windows, channels last",
                     {2, 19, 21, 20},
                     [=](Graph& g, Var* x) { return windows(g, x, reduction, w.k, w.stride, w.margin, w.dilation); },
                     w.schedule == rows ? rows : ""});
    }
  out.push_back({"lower triangle", {40, 40}, [=](Graph& g, Var* x) { return moved(g, x, {40, 40}, {i, j}, {j <= i}); }});
  out.push_back({"above a diagonal that begins outside", {20, 50}, [=](Graph& g, Var* x) {
                   return moved(g, x, {20, 50}, {i, j}, {i + Expr(-5) <= j});
                 }});
  out.push_back(
      {"edge", {5, 40}, [=](Graph& g, Var* x) {
         return moved(g, x, {9, 61}, {max(min(i - Expr(2), Expr(4)), Expr(0)), max(min(j - Expr(10), Expr(39)), Expr(0))});
       }});
  out.push_back({"repeated", {5, 24}, [=](Graph& g, Var* x) {
                   return moved(g, x, {10, 72}, {floor_mod(i, Expr(5)), floor_mod(j + Expr(7), Expr(24))});
                 }});
  out.push_back({"all but one", {6, 70}, [=](Graph& g, Var* x) {
                   return moved(g, x, {6, 70}, {i, j}, {not_equal(j, Expr(35))});
                 }});
  out.push_back({"many repetitions are no borders",
                 {5, 2},
                 [=](Graph& g, Var* x) {
                   return moved(g, x, {5, 90}, {i, floor_mod(j, Expr(2))});
                 },
                 ""});
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
      std::string schedule;
      for (const KernelSource& kernel : model.run.kernels)
        for (const std::string& step : kernel.schedule)
          if (step.starts_with("index set split") || step.starts_with("windows one axis")) schedule = step;
      EXPECT_TRUE(c.schedule.empty() ? schedule.empty() : schedule.starts_with(c.schedule)) << schedule;
      const WeightsBlock weights = run_prepare(model, options.cpu);
      for (int threads : {1, 2}) {
        const Tensor found =
            JitProgram(std::make_shared<CompiledProgram>(model.run), weights, options.cpu, threads).run({values})[0];
        ASSERT_EQ(found.shape, expected.shape);
        for (int64_t k = 0; k < found.element_count(); ++k)
          ASSERT_NEAR(number_at(found, k), number_at(expected, k), 1e-5) << "element " << k;
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
  EXPECT_TRUE(split_index_set({7, symbol(0), LoopKind::serial, {}}, {inside}, {window}, bounds, 8).empty())
      << "a border that moves with the loops inside";
}

// Of a loop whose extent a run decides: borders are as far inside as they may be, and a piece that grows with it is decided.
TEST(IndexSetSplitting, PiecesOfAnOpenLoop) {
  const Expr extent = symbol(0) + Expr(5), at = axis(7) - Expr(2);
  const Loop loop{7, extent, LoopKind::serial, {}};
  Bounds bounds({Symbol{.name = "n", .min = 1, .hint = 40, .from_input = true}}, {});
  bounds.set_axis(7, extent);
  const Expr index = max(min(at, symbol(0) - Expr(1)), Expr(0));
  const std::vector<IndexPiece> pieces = split_index_set(loop, {index}, {}, bounds, 8);
  ASSERT_EQ(pieces.size(), 3u);
  const Expr ends[] = {3, symbol(0) + Expr(2), extent};  // at 2 either side is 0
  for (size_t k = 0; k < 3; ++k)
    EXPECT_EQ(simplify(pieces[k].start + pieces[k].extent, bounds), ends[k]) << to_string(pieces[k].extent);
  EXPECT_TRUE(pieces[1].decided);
  EXPECT_EQ(pieces[1].expressions[0], at);
}

}  // namespace
}  // namespace metac::index_set_splitting_test
