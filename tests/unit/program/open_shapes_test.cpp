// What a run whose dims are not as its kernels were made for costs and answers: blocks of points that are mostly empty,
// operands that may be broadcast, tiles that reach beyond a row, filters that fit one length alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "compiler/ir/builders.h"
#include "compiler/ir/hints.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/sums/softmax.h"
#include "compiler/ops/typical_lengths.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "compiler/target/cpu/tiles/tiled_sum.h"
#include "compiler/tensor/definition.h"
#include "tests/unit/ramp.h"
#include "tests/unit/schedules_of.h"

namespace metac::open_shapes_test {
namespace {

// A compiled graph against the oracle's answers for the same graph, made a second time.
void expect_right(const std::function<void(Graph&)>& make, CompiledModel model, const CompileOptions& options,
                  const std::vector<std::vector<std::vector<int64_t>>>& runs) {
  Graph reference;
  make(reference);
  const WeightsBlock weights = run_prepare(model, options.cpu);
  JitProgram program(std::make_shared<CompiledProgram>(std::move(model.run)), weights, options.cpu, 2);
  for (const std::vector<std::vector<int64_t>>& shapes : runs) {
    std::vector<Tensor> inputs;
    std::string at;
    for (const std::vector<int64_t>& shape : shapes) {
      inputs.push_back(numbers(shape));
      for (int64_t d : shape) at += std::to_string(d) + " ";
    }
    const std::vector<Tensor> expected = evaluate(reference, inputs), found = program.run(inputs);
    ASSERT_EQ(found[0].shape, expected[0].shape) << at;
    double largest = 0, worst = 0;
    for (int64_t k = 0; k < expected[0].element_count(); ++k) {
      largest = std::max(largest, std::abs(number_at(expected[0], k)));
      const double error = std::abs(number_at(expected[0], k) - number_at(found[0], k));
      worst = std::max(worst, std::isnan(error) ? HUGE_VAL : error);
    }
    EXPECT_LE(worst, 2e-5 * largest) << at;
  }
}

// Blocks are cut for the typical size. A run of 20 points has three tiles for each of two panels, not a block's.
TEST(OpenShapes, NoBlockIsMostlyEmpty) {
  const std::vector<Symbol> symbols = {{.name = "n", .min = 1, .hint = 4096, .from_input = true}};
  TiledSum sum;
  sum.kept = {{0, symbol(0), LoopKind::serial, {}}, {1, Expr(64), LoopKind::serial, {}}};
  sum.reduced = {{2, Expr(256), LoopKind::serial, {}}};
  sum.body = load(0, DType::f32, {axis(0) * Expr(256) + axis(2)}) * load(1, DType::f32, {axis(2) * Expr(64) + axis(1)});
  sum.epilogue = load(reduced_value, DType::f32, {});
  sum.offset = axis(0) * Expr(64) + axis(1);
  sum.target = 2;
  sum.lane_axis = 1;
  sum.tile_axis = 0;
  sum.vectors = 2;
  sum.points = 8;
  sum.cache_bytes = 1 << 18;
  Kernel kernel;
  kernel.next_axis = 3;
  add_tiles(kernel, kernel.root, LoopKind::parallel, sum, symbols);
  EXPECT_THAT(kernel.schedule, testing::Contains(testing::HasSubstr("points in blocks")));
  const auto iterations = [&](int64_t points) {
    return hinted_value(parallel_extent(kernel), {{.name = "n", .min = 1, .hint = points, .from_input = true}});
  };
  EXPECT_EQ(iterations(20), 3 * 2);
  EXPECT_EQ(iterations(1), 1 * 2);
  EXPECT_LE(iterations(5000), 625 * 2 * 1.1);
}

// Two inputs whose dims are equal or 1: x lies row by row, y with the channels last, as the convolution before it stores it.
void add_of_two(Graph& g) {
  std::vector<Expr> dims;
  for (const char* name : {"h", "w", "p", "q"})
    dims.push_back(symbol(g.add_symbol({.name = name, .min = 1, .hint = 28, .from_input = true})));
  Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {1, 32, dims[0], dims[1]}});
  Var* y = g.add_input("y", Type{TypeKind::tensor, DType::f32, {1, 16, dims[2], dims[3]}});
  Var* w = g.add_constant(numbers({32, 16}));
  const auto product = [&](Var* of, Var* by) {
    const Shape all = {1, by->shape()[0], of->shape()[2], of->shape()[3], by->shape()[1]};
    return reduce(g,
                  map(g, Fn::mul, g.reindex({of}, all, {axis(0), axis(4), axis(2), axis(3)}),
                      g.reindex({by}, all, {axis(1), axis(4)})),
                  {4}, Reduce::add, false);
  };
  Var* sum = map(g, Fn::add, map(g, Fn::abs, x), map(g, Fn::abs, product(y, w)));
  g.outputs = {product(sum, g.add_constant(numbers({16, 32})))};
}

TEST(OpenShapes, WhatMayBeBroadcastIsTransposedWhereItIsNot) {
  Graph g;
  add_of_two(g);
  CompileOptions options;
  options.cpu = cpu_target("native");
  CompiledModel model = compile_graph(g, options);
  EXPECT_THAT(schedules_of(model), testing::HasSubstr("where nothing is broadcast"));
  std::vector<std::vector<std::vector<int64_t>>> runs;
  for (auto [h, w, p, q] : std::vector<std::array<int64_t, 4>>{
           {28, 28, 28, 28}, {19, 33, 19, 33}, {1, 1, 9, 20}, {9, 1, 9, 20}, {1, 20, 9, 20}, {9, 20, 1, 1}, {1, 1, 1, 1}})
    runs.push_back({{1, 32, h, w}, {1, 16, p, q}});
  expect_right(add_of_two, std::move(model), options, runs);
}

// Three convolutions, the first with stride 2; 24 filters leave a vector half empty.
void convolutions(Graph& g) {
  const int h = g.add_symbol({.name = "h", .min = 1, .hint = 28, .from_input = true});
  const int w = g.add_symbol({.name = "w", .min = 1, .hint = 28, .from_input = true});
  Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {2, 16, symbol(h), symbol(w)}});
  for (auto [filters, stride] : {std::pair<int64_t, int64_t>{24, 2}, {40, 1}, {24, 1}}) {
    Var* padded = pad(g, x, {0, 0, 1, 1}, {0, 0, 1, 1}, float_constant(0, DType::f32));
    const auto points = [&](size_t k) { return floor_div(x->shape()[k] - Expr(1), stride) + Expr(1); };
    const Expr channels = x->shape()[1];
    const Shape all = {2, filters, points(2), points(3), channels, 3, 3};
    Var* data =
        g.reindex({padded}, all, {axis(0), axis(4), axis(2) * Expr(stride) + axis(5), axis(3) * Expr(stride) + axis(6)});
    Var* weights =
        g.reindex({g.add_constant(numbers({filters, channels.as_int(), 3, 3}))}, all, {axis(1), axis(4), axis(5), axis(6)});
    Var* sum = reduce(g, map(g, Fn::mul, data, weights), {4, 5, 6}, Reduce::add, false);
    x = map(g, Fn::max, sum, scalar(g, DType::f32, 0));
  }
  g.outputs = {map(g, Fn::add, x, x)};
}

// The last tile of a row has as many points as are left, or has some twice, which are stored once: neither the row behind it
// nor what lies behind the last one may change.
TEST(OpenShapes, TheLastTileHasPointsTwice) {
  for (const char* cpu : {"native", "x86-64-v3", "x86-64"}) {
    Graph g;
    convolutions(g);
    CompileOptions options;
    options.cpu = cpu_target(cpu);
    options.winograd = 0;
    CompiledModel model = compile_graph(g, options);
    EXPECT_THAT(schedules_of(model), testing::HasSubstr("the last tile has points twice"));
    std::vector<std::vector<std::vector<int64_t>>> runs;
    for (int64_t w = 1; w <= 33; ++w) runs.push_back({{2, 16, 1 + w % 5, w}});
    expect_right(convolutions, std::move(model), options, runs);
  }
}

// Sides of 14 and 10 fill tiles of two outputs and no tiles of four, sides of 20 both: where a side is typically 14, longer
// ones do not decide alone, and the smaller filter's weights take less than half of the memory.
TEST(OpenShapes, FiltersAreForLongerAndShorterSidesToo) {
  const auto filters = [](int64_t length, bool open) {
    Graph g;
    const auto side = [&](const char* name) {
      return open ? symbol(g.add_symbol({.name = name, .min = 1, .hint = length, .from_input = true})) : Expr(length);
    };
    const Expr h = side("h"), w = side("w");
    Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {1, 256, h, w}});
    Var* padded = pad(g, x, {0, 0, 1, 1}, {0, 0, 1, 1}, float_constant(0, DType::f32));
    const Shape all = {1, 256, h, w, 256, 3, 3};
    Var* data = g.reindex({padded}, all, {axis(0), axis(4), axis(2) + axis(5), axis(3) + axis(6)});
    Var* weights = g.reindex({g.add_constant(numbers({256, 256, 3, 3}))}, all, {axis(1), axis(4), axis(5), axis(6)});
    g.outputs = {reduce(g, map(g, Fn::mul, data, weights), {4, 5, 6}, Reduce::add, false)};
    CompileOptions options;
    options.cpu = cpu_target("x86-64-v4");
    return schedules_of(compile_graph(g, options));
  };
  EXPECT_THAT(filters(14, false), testing::HasSubstr("F(2x2, 3x3)"));
  EXPECT_THAT(filters(14, true), testing::HasSubstr("F(2x2, 3x3)"));
  EXPECT_THAT(filters(20, false), testing::HasSubstr("F(4x4, 3x3)"));
  EXPECT_THAT(filters(20, true), testing::HasSubstr("F(4x4, 3x3)"));
}

// Levels of a pyramid, each an input with dims of its own: what is halved and added typically fits.
TEST(OpenShapes, DimsThatMustFitTypicallyDo) {
  Graph g;
  std::vector<int> sides;
  for (const char* name : {"a", "b", "c", "d"})
    sides.push_back(g.add_symbol({.name = name, .min = 1, .max = 1'000'000'000, .hint = 224, .from_input = true}));
  const auto hint = [&](size_t k) { return g.symbols[static_cast<size_t>(sides[k])].hint; };
  const auto side = [&](size_t k) { return symbol(sides[k]); };
  g.require(logical_or(equal(side(0), side(1) * Expr(2)), equal(side(0), Expr(1))), "a and 2 b must broadcast");
  g.require(logical_or(equal(side(1), side(2) * Expr(2)), equal(side(1), Expr(1))), "b and 2 c must broadcast");
  g.require(equal(side(3) + side(2), Expr(300)), "of two symbols nothing is known");
  choose_matching_lengths(g, sides);
  EXPECT_EQ(hint(0), 224);
  EXPECT_EQ(hint(1), 112);
  EXPECT_EQ(hint(2), 56);
  EXPECT_EQ(hint(3), 224);
  g.symbols[static_cast<size_t>(sides[1])].hint = 224;
  choose_matching_lengths(g, {sides[2]});  // somebody has said how large the others are
  EXPECT_EQ(hint(1), 224);
  EXPECT_EQ(hint(0), 224);
}

// Attention of a row block: a query that has no keys sums nothing, which is 0 however its weights would be divided.
void attention(Graph& g) {
  const Expr keys = symbol(g.add_symbol({.name = "keys", .min = 0, .hint = 64, .from_input = true}));
  const Expr queries = symbol(g.add_symbol({.name = "queries", .min = 1, .hint = 64, .from_input = true}));
  Var* q = g.add_input("q", Type{TypeKind::tensor, DType::f32, {2, queries, 8}});
  Var* k = g.add_input("k", Type{TypeKind::tensor, DType::f32, {2, 8, keys}});
  Var* v = g.add_input("v", Type{TypeKind::tensor, DType::f32, {2, keys, 8}});
  g.outputs = {matmul(g, softmax(g, matmul(g, q, k), {2}), v)};
}

TEST(OpenShapes, AttentionToNothingIsZero) {
  Graph g;
  attention(g);
  CompileOptions options;
  options.cpu = cpu_target("native");
  expect_right(attention, compile_graph(g, options), options,
               {{{2, 3, 8}, {2, 8, 5}, {2, 5, 8}}, {{2, 3, 8}, {2, 8, 0}, {2, 0, 8}}, {{2, 40, 8}, {2, 8, 1}, {2, 1, 8}}});
}

}  // namespace
}  // namespace metac::open_shapes_test
