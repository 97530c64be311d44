// The three fusions: the paper's rules one by one, the answers of what they make of random graphs, and their cost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "compiler/autodiff/gradient.h"
#include "compiler/ir/hints.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "compiler/region/fusion/fuse.h"
#include "compiler/region/fusion/fusion_cost.h"
#include "compiler/region/fusion/fusion_graph.h"
#include "compiler/tensor/contraction.h"
#include "tests/unit/random_graph.h"

namespace metac::fusion_test {
namespace {

Var* input(Graph& g, const char* name, Shape shape) {
  return g.add_input(name, Type{TypeKind::tensor, DType::f32, std::move(shape)});
}

FusedRegion fused(const Graph& g, Fusion fusion) {
  Needed needed;
  for (const Var* out : g.outputs) {
    needed.in_memory.insert(out);
    needed.own_memory.insert(out);
  }
  return fuse(g.ops, needed, [](const Var* v) { return v->constant.has_value(); }, g.symbols, fusion);
}

int64_t cost_of(const Graph& g, Fusion fusion) {
  return fusion_cost(fused(g, fusion), g.symbols, [&](int id) { return g.vars()[static_cast<size_t>(id)].get(); });
}
int64_t cost_unfused(const Graph& g) {
  return unfused_cost(g.ops, g.symbols, [](const Var* v) { return v->constant.has_value(); });
}

class PaperFusion : public testing::TestWithParam<Fusion> {};
INSTANTIATE_TEST_SUITE_P(Algorithms, PaperFusion, testing::Values(Fusion::paper, Fusion::greedy),
                         [](const auto& info) { return info.param == Fusion::paper ? "labelling" : "greedy"; });

TEST_P(PaperFusion, Rule1KeepsAReindexFromWhatComesBefore) {  // equations 10 to 12
  Graph g;
  Var* c = map(g, Fn::add, input(g, "a", {8}), input(g, "b", {8}));
  g.outputs = {broadcast_axes(g, c, {5, 8}, {0})};
  EXPECT_EQ(fused(g, GetParam()).items.size(), 2u);
  EXPECT_EQ(fused(g, Fusion::best).items.size(), 2u);
  EXPECT_EQ(cost_of(g, GetParam()), 8 * 4);
}

TEST_P(PaperFusion, Rule2KeepsAReductionFromWhatComesAfter) {  // equations 13 to 15
  Graph g;
  Var* b = reduce(g, input(g, "a", {5, 8}), {0}, Reduce::add, false);
  g.outputs = {map(g, Fn::add, b, input(g, "c", {8}))};
  EXPECT_EQ(fused(g, GetParam()).items.size(), 2u);
  EXPECT_EQ(fused(g, Fusion::best).items.size(), 1u);  // an epilogue
}

TEST(BestFusion, AReductionThatIsSlicedStoresNothingBeyondItsEnd) {
  Graph g;
  Var* sums = reduce(g, input(g, "a", {6, 8}), {1}, Reduce::add, false);
  g.outputs = {slice(g, sums, {0}, {0}, {4}, {1})};
  for (const Item& item : fused(g, Fusion::best).items)
    for (const Definition& d : item.group.stages) {
      Bounds bounds(g.symbols, d.domain);
      for (int k = 0; k < d.out->rank(); ++k)
        EXPECT_TRUE(bounds.proves_less(d.out_index[static_cast<size_t>(k)], d.out->shape()[k])) << to_string(d);
    }
}

TEST(BestFusion, AReflectedBorderIsStoredOnceBelowWindows) {  // not worked out for every point of every window
  for (bool windows : {true, false}) {
    Graph g;
    Var *x = input(g, "x", {1000}), *w = input(g, "w", {64, 8});
    Expr at = max(axis(0) - Expr(20), Expr(20) - axis(0));
    Var* padded = g.reindex({x}, {1040}, {min(at, Expr(1998) - at)});
    if (windows)
      g.outputs = {matmul(g, g.reindex({padded}, {61, 64}, {axis(0) * Expr(16) + axis(1)}), w)};
    else
      g.outputs = {map(g, Fn::neg, padded)};
    EXPECT_EQ(fused(g, Fusion::best).items.size(), windows ? 2u : 1u);
  }
}

TEST(BestFusion, AnEnlargementIsStoredBelowWindows) {  // which would read it at floor((i + j)/2)
  for (bool windows : {true, false}) {
    Graph g;
    Var *x = input(g, "x", {500}), *w = input(g, "w", {3, 8});
    Var* twice = g.reindex({x}, {1000}, {floor_div(axis(0), Expr(2))});
    if (windows)
      g.outputs = {matmul(g, g.reindex({twice}, {998, 3}, {axis(0) + axis(1)}), w)};
    else
      g.outputs = {map(g, Fn::neg, twice)};
    EXPECT_EQ(fused(g, Fusion::best).items.size(), windows ? 2u : 1u);
  }
}

TEST(BestFusion,
     SumsDoNotReadAtPartsOfTheirAxis) {  // channels made of pixels, at floor(k/4) and k mod 4, are stored below a window
  for (bool flatten : {false, true}) {   // which reads in the order of memory
    Graph g;
    Var *x = input(g, "x", flatten ? Shape{100, 3, 4} : Shape{3, 100, 4}), *w = input(g, "w", {12, 8});
    const Expr point = axis(0), outer = floor_div(axis(1), Expr(4)), inner = floor_mod(axis(1), Expr(4));
    Var* channels =
        g.reindex({x}, {100, 12}, flatten ? std::vector<Expr>{point, outer, inner} : std::vector<Expr>{outer, point, inner});
    g.outputs = {matmul(g, channels, w)};
    EXPECT_EQ(fused(g, Fusion::best).items.size(), flatten ? 1u : 2u) << to_string(fused(g, Fusion::best));
  }
}

TEST(BestFusion, ATableOfCosinesIsMadeByPrepare) {  // not once for each product, as a Fourier transform reads it
  for (bool sum : {true, false}) {
    Graph g;
    Var *x = input(g, "x", {50, 32}),
        *table = g.elementwise({}, {32, 24}, call(Fn::cos, {cast(axis(0) * axis(1), DType::f32)}));
    g.outputs = {sum ? matmul(g, x, table) : map(g, Fn::neg, table)};
    EXPECT_EQ(fused(g, Fusion::best).items.size(), sum ? 2u : 1u);
    const CompiledModel model = compile_graph(g, {});
    const auto cosines = [](const CompiledProgram& program) {
      return std::count_if(program.kernels.begin(), program.kernels.end(),
                           [](const KernelSource& kernel) { return kernel.text.find("cos(") != std::string::npos; });
    };
    EXPECT_EQ(cosines(model.run), sum ? 0 : 1);
    EXPECT_EQ(cosines(model.prepare), sum ? 1 : 0);
  }
}

TEST(BestFusion, PoolingIsNoRow) {  // its lanes run along whatever lies last, and so do those of its readers
  for (int64_t window : {2, 3}) {
    Graph g;
    Var* x = input(g, "x", {32, 64, 64});
    Var* windows =
        g.reindex({x}, {32, 30, 30, window, window}, {axis(0), axis(1) * Expr(2) + axis(3), axis(2) * Expr(2) + axis(4)});
    Var* pooled = reduce(g, windows, {3, 4}, Reduce::max, false);
    g.outputs = {pooled, map(g, Fn::neg, pooled)};
    EXPECT_EQ(fused(g, Fusion::best).items.size(), 2u);
  }
  Graph g;  // a row is one: softmax without its exp
  Var* x = input(g, "x", {32, 64});
  g.outputs = {map(g, Fn::sub, x, broadcast_axes(g, reduce(g, x, {1}, Reduce::max, false), {32, 64}, {1}))};
  EXPECT_EQ(fused(g, Fusion::best).items.size(), 1u);
}

// The elements that attain a maximum of their window are as many as all windows have: not worth memory, whoever reads them.
TEST(BestFusion, GradientsOfPoolingStoreNothingLargerThanWhatIsPooled) {
  Graph g;
  Var* x = input(g, "x", {4, 33, 33});
  Var* windows = g.reindex({x}, {4, 16, 16, 3, 3}, {axis(0), axis(1) * Expr(2) + axis(3), axis(2) * Expr(2) + axis(4)});
  Var* y = reduce(g, windows, {3, 4}, Reduce::max, false);
  g.outputs = gradient(g, {y}, {input(g, "seed", {4, 16, 16})}, {x});
  for (const Item& item : fused(g, Fusion::best).items)
    for (const Definition& d : item.group.stages)
      EXPECT_LE(element_count(d.out->shape()).as_int(), 4 * 33 * 33) << to_string(d);
}

// Scaled by channels and cut off at 0, read by a sum over windows and, for the derivative, at each point: the way back asks
// where the result is positive, so that what stands before the cut is never stored.
TEST(BestFusion, GradientsOfReluNeedNothingButItsResult) {
  Graph g;
  Var *x = input(g, "x", {8, 64}), *scale = input(g, "scale", {8}), *w = input(g, "w", {64, 16}),
      *seed = input(g, "seed", {8, 16});
  Var* scaled = map(g, Fn::mul, x, broadcast_axes(g, scale, {8, 64}, {1}));
  Var* y = map(g, Fn::max, scaled, scalar(g, DType::f32, 0));
  g.outputs = gradient(g, {matmul(g, y, w)}, {seed}, {w, x, scale});
  std::set<const Var*> stored;
  for (const Item& item : fused(g, Fusion::best).items)
    for (const Definition& d : item.group.stages) stored.insert(d.out);
  EXPECT_TRUE(stored.contains(y));
  EXPECT_FALSE(stored.contains(scaled));
}

TEST(BestFusion, WhatFollowsAConcatenationGoesIntoItsParts) {
  Graph g;
  std::vector<Var*> parts;
  for (int k = 0; k < 20; ++k) parts.push_back(input(g, ("x" + std::to_string(k)).c_str(), {8, 32, 16}));
  Var* all = concat(g, parts, 1);
  g.outputs = {map(g, Fn::neg, map(g, Fn::mul, all, input(g, "scale", {8, 640, 16})))};
  EXPECT_EQ(fused(g, Fusion::best).items.size(), 1u);
}

// A tile of products cannot ask at each element which part is read there: what is added from a concatenation, or from within
// a border, stands apart.
TEST(BestFusion, ProductsReadNoConcatenation) {
  for (bool border : {false, true}) {
    Graph g;
    Var *x = input(g, "x", {197, 64}), *w = input(g, "w", {64, 96}), *rest = input(g, "rest", {196, 96});
    Var* added = border ? g.reindex({rest}, {197, 96}, {axis(0) - Expr(1), axis(1)}, {Expr(0) <= axis(0) - Expr(1)})
                        : concat(g, {input(g, "first", {1, 96}), rest}, 0);
    g.outputs = {map(g, Fn::add, map(g, Fn::max, matmul(g, x, w), scalar(g, DType::f32, 0)), added)};
    const FusedRegion region = fused(g, Fusion::best);
    int products = 0;
    for (const Item& item : region.items)
      for (const Definition& d : item.group.stages) products += tiled_contraction_of(d).has_value();
    EXPECT_EQ(products, 1) << to_string(region);
  }
}

// A causal mask picks nothing: the softmax behind it is one kernel with the product.
TEST(BestFusion, MasksByPositionGoWithProducts) {
  Graph g;
  Var* mask = g.reindex({scalar(g, DType::f32, -1e9)}, {64, 64}, {}, {axis(0) < axis(1)});
  g.outputs = {map(g, Fn::add, matmul(g, input(g, "q", {64, 16}), input(g, "k", {16, 64})), mask)};
  EXPECT_EQ(fused(g, Fusion::best).items.size(), 1u);
}

// Read by a few it is stored, part by part, although little is read for it beside the parts.
TEST(BestFusion, ConcatenationsAreNotRepeated) {
  Graph g;
  Var* all = concat(g, {input(g, "first", {32, 1, 64}), input(g, "rest", {32, 196, 64})}, 1);
  Var* placed = map(g, Fn::add, all, broadcast_axes(g, input(g, "places", {197, 64}), {32, 197, 64}, {0}));
  g.outputs = {map(g, Fn::exp, placed), reduce(g, placed, {2}, Reduce::max, false)};
  std::set<const Var*> stored;
  for (const Item& item : fused(g, Fusion::best).items)
    for (const Definition& d : item.group.stages) stored.insert(d.out);
  EXPECT_TRUE(stored.contains(placed));
}

TEST_P(PaperFusion, Rule3MakesNoCycle) {  // 1 -> 2 -> 3 and 1 -> 3, where 2 fuses with neither
  Graph g;
  Var* one = map(g, Fn::neg, input(g, "x", {64, 128}));
  Var* two = reduce(g, one, {1}, Reduce::max, true);
  g.outputs = {map(g, Fn::sub, one, two)};
  FusedRegion region = fused(g, GetParam());
  for (const Item& item : region.items)
    for (const Definition& d : item.group.stages) {
      if (d.out == g.outputs[0]) {
        EXPECT_EQ(item.group.stages.size(), 1u);
      }
    }
  EXPECT_EQ(region.items.back().group.stages[0].out, g.outputs[0]);
  // {1, 2}: the reduction and the value that the subtraction reads again; the broadcast goes with the subtraction.
  EXPECT_EQ(cost_of(g, GetParam()), 64 * 128 * 4 + 64 * 4);
}

TEST_P(PaperFusion, Listing1IsOneKernel) {
  Graph g;
  Var *x = input(g, "x", {1, 3, 9, 9}), *p = input(g, "p", {4, 3, 2, 2});
  Shape domain = {1, 4, 8, 8, 3, 2, 2};
  Var* xx = g.reindex({x}, domain, {axis(0), axis(4), axis(2) + axis(5), axis(3) + axis(6)});
  Var* pp = g.reindex({p}, domain, {axis(1), axis(4), axis(5), axis(6)});
  g.outputs = {reduce(g, map(g, Fn::mul, xx, pp), {4, 5, 6}, Reduce::add, false)};
  EXPECT_EQ(fused(g, GetParam()).items.size(), 1u);
  EXPECT_EQ(cost_of(g, GetParam()), 0);
  EXPECT_EQ(cost_unfused(g), 3 * 4 * 64 * 12 * 4);
}

TEST_P(PaperFusion, Listing5FusesTheElementwisePart) {  // instance norm: Listing 6 has one nest for the last line
  Graph g;
  Var* x = input(g, "x", {2, 16, 8, 8});
  Var* xmean = mean(g, x, {0, 2, 3}, true);
  Var* x2mean = mean(g, map(g, Fn::mul, x, x), {0, 2, 3}, true);
  Var* xvar = map(g, Fn::sub, x2mean, map(g, Fn::mul, xmean, xmean));
  Var* root = elementwise(
      g, {xvar}, [](const std::vector<Expr>& v) { return call(Fn::sqrt, {v[0] + float_constant(1e-5, DType::f32)}); });
  g.outputs = {map(g, Fn::div, map(g, Fn::sub, x, xmean), root)};
  FusedRegion region = fused(g, GetParam());
  std::set<int> read;
  visit_loads(region.items.back().group.stages[0], [&](Expr n) { read.insert(n->id); });
  EXPECT_EQ(read, (std::set<int>{x->id, xmean->id, root->id}));
  EXPECT_EQ(region.items.size(), 4u);  // sum x, sum x*x, the statistics of 16 channels (two results), the last line
}

TEST_P(PaperFusion, StopFuseAndResultsStayInMemory) {
  Graph g;
  Var* x = input(g, "x", {100, 100});
  Var* a = map(g, Fn::neg, x);
  a->stop_fuse = true;
  Var* b = map(g, Fn::exp, a);
  Var* c = map(g, Fn::abs, b);
  g.outputs = {b, c};
  FusedRegion region = fused(g, GetParam());
  ASSERT_EQ(region.items.size(), 2u);
  EXPECT_EQ(region.items[1].group.stages.size(), 2u);  // two results under shared loops
  EXPECT_EQ(region.items[1].group.shared, 1);
}

TEST(BestFusion, StopFuseKeepsASumFromWhatFollowsIt) {
  for (const bool stops : {false, true}) {
    Graph g;
    Var* sum = matmul(g, input(g, "x", {64, 32}), input(g, "w", {32, 48}));
    sum->stop_fuse = stops;
    g.outputs = {map(g, Fn::add, sum, input(g, "y", {64, 48}))};
    std::set<const Var*> stored;
    for (const Item& item : fused(g, Fusion::best).items)
      for (const Definition& d : item.group.stages) stored.insert(d.out);
    EXPECT_EQ(stored.contains(sum), stops);
  }
}

TEST_P(PaperFusion, WindowsWithTwoReadersAreNeverStored) {
  Graph g;
  Var* x = input(g, "x", {64, 64});
  Var* windows = g.reindex({x}, {62, 62, 3, 3}, {axis(0) + axis(2), axis(1) + axis(3)});
  g.outputs = {reduce(g, windows, {2, 3}, Reduce::max, false), reduce(g, windows, {0, 1}, Reduce::min, false)};
  for (const Item& item : fused(g, GetParam()).items)
    for (const Definition& d : item.group.stages) EXPECT_NE(d.out, windows);
}

TEST_P(PaperFusion, LongChainsAreCutAndFast) {
  Graph g;
  Var* x = input(g, "x", {16});
  for (int k = 0; k < 20000; ++k) x = map(g, k % 2 ? Fn::neg : Fn::abs, x);
  g.outputs = {x};
  auto start = std::chrono::steady_clock::now();
  size_t kernels = fused(g, GetParam()).items.size();
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 10);
  EXPECT_GT(kernels, 20000u / 160);
  EXPECT_LT(kernels, 20000u / 20);
}

// ---- random graphs ----
const char* text_of(Fusion f) { return f == Fusion::paper ? "labelling" : f == Fusion::greedy ? "greedy" : "best"; }

std::vector<Tensor> compiled_answers(Graph& graph, Fusion fusion, const std::vector<Tensor>& inputs) {
  CompileOptions options;
  options.cpu = cpu_target("native");
  options.fusion = fusion;
  CompiledModel model = compile_graph(graph, options);
  WeightsBlock weights = run_prepare(model, options.cpu);
  return JitProgram(std::make_shared<CompiledProgram>(std::move(model.run)), weights, options.cpu, 2).run(inputs);
}

void expect_equal(const Tensor& found, const Tensor& expected, double tolerance, const std::string& where) {
  ASSERT_EQ(found.shape, expected.shape) << where;
  for (int64_t k = 0; k < expected.element_count(); ++k) {
    double e = number_at(expected, k), f = number_at(found, k);
    if (tolerance == 0)
      ASSERT_EQ(f, e) << where << ", element " << k;
    else
      ASSERT_NEAR(f, e, tolerance * (1 + std::abs(e))) << where << ", element " << k;
  }
}

TEST(Fusion, AllAgreeWithTheReferenceOnRandomGraphs) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    RandomGraphOptions options;
    options.sums = seed % 3 == 0;
    if (seed % 2) options.dims = {96, 80};  // large enough for rows in parallel
    RandomGraph reference(seed, options);
    std::vector<Tensor> inputs = reference.inputs(), expected = evaluate(*reference.graph, inputs);
    for (Fusion fusion : {Fusion::paper, Fusion::greedy, Fusion::best}) {
      RandomGraph again(seed, options);
      std::vector<Tensor> found = compiled_answers(*again.graph, fusion, inputs);
      ASSERT_EQ(found.size(), expected.size());
      for (size_t k = 0; k < found.size(); ++k)
        expect_equal(found[k], expected[k], options.sums ? 1e-4 : 0,
                     "seed " + std::to_string(seed) + ", " + text_of(fusion) + ", output " + std::to_string(k));
    }
  }
}

TEST(Fusion, CostsOnRandomGraphs) {
  // Labelling is not always dearer than greedy, nor cheaper; over many graphs it is dearer, for it stops at labels.
  int64_t all_labelling = 0, all_greedy = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    RandomGraph random(seed, {.ops = 20, .dims = {96, 80}});
    int64_t labelling = cost_of(*random.graph, Fusion::paper), greedy = cost_of(*random.graph, Fusion::greedy),
            none = cost_unfused(*random.graph);
    EXPECT_LE(labelling, none) << "seed " << seed;
    EXPECT_LE(greedy, none) << "seed " << seed;
    all_labelling += labelling;
    all_greedy += greedy;
  }
  EXPECT_LT(all_greedy, all_labelling);
}

TEST(Fusion, NodesOfWhatIsReadTwiceAreNamedOnce) {  // appended, they were 2^60
  const auto compared = [](Graph& g, Var* x) { return map(g, Fn::max, map(g, Fn::exp, x), map(g, Fn::neg, x)); };
  const auto widened = [](Graph& g, Var* x) {  // each reader reads the row by itself
    Var* rows = broadcast_axes(g, x, {64, 8}, {0});
    return reduce(g, map(g, Fn::add, map(g, Fn::exp, rows), map(g, Fn::neg, rows)), {0}, Reduce::max, false);
  };
  const std::vector<std::pair<Fusion, std::function<Var*(Graph&, Var*)>>> chains = {
      {Fusion::best, compared}, {Fusion::paper, compared}, {Fusion::greedy, compared},
      {Fusion::best, widened},  {Fusion::paper, widened},  {Fusion::greedy, widened}};
  for (const auto& [fusion, step] : chains) {
    Graph g;
    Var* x = input(g, "x", {8});
    for (int k = 0; k < 60; ++k) x = step(g, x);
    g.outputs = {x};
    for (size_t k = 0; k < g.ops.size(); ++k) g.ops[k]->origin.node = static_cast<int>(k);
    size_t named = 0;
    for (const Item& item : fused(g, fusion).items)
      for (const Definition& d : item.group.stages) {
        EXPECT_TRUE(std::is_sorted(d.nodes.begin(), d.nodes.end(), std::less_equal<int>()));
        named += d.nodes.size();
      }
    EXPECT_GE(named, g.ops.size());
    EXPECT_LE(named, 60 * g.ops.size());
  }
}

TEST(Fusion, CostCountsAVarOncePerReadingGroup) {
  Graph g;
  int n = g.add_symbol({.name = "n", .min = 2, .hint = 10, .from_input = true});
  Var* x = input(g, "x", {symbol(n), 3});
  Var* a = map(g, Fn::exp, x);
  g.outputs = {reduce(g, a, {0}, Reduce::add, true), map(g, Fn::mul, a, a)};
  EXPECT_EQ(cost_unfused(g), 2 * 10 * 3 * 4);  // two reading ops; the symbol at its hint
  EXPECT_EQ(hinted_bytes(a, g.symbols), 120);
}

}  // namespace
}  // namespace metac::fusion_test
