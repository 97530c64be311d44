// Operations and bytes of kernels, and what `metac bench` makes of them.
#include "compiler/kernel/work.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compiler/api/bench_report.h"
#include "compiler/ir/builders.h"
#include "compiler/jit/cpu_target.h"
#include "compiler/passes/compile.h"

namespace metac {
namespace {

Var* input(Graph& g, const char* name, Shape shape) {
  return g.add_input(name, Type{TypeKind::tensor, DType::f32, std::move(shape)});
}

CompiledModel compiled(Graph& g, Fusion fusion = Fusion::best) {
  CompileOptions options;
  options.cpu = cpu_target("native");
  options.fusion = fusion;
  return compile_graph(g, options);
}

double total_operations(const CompiledModel& model) {
  double sum = 0;
  for (const ContractionWork& work : model.run.contractions) sum += work.operations;
  return sum;
}

TEST(Work, OfAMatrixProductWithItsEpilogue) {
  for (Fusion fusion : {Fusion::best, Fusion::greedy, Fusion::paper}) {
    Graph g;
    Var *a = input(g, "a", {30, 40}), *b = input(g, "b", {40, 50}), *c = input(g, "c", {50});
    g.outputs = {map(g, Fn::neg, map(g, Fn::add, matmul(g, a, b), c))};
    CompiledModel model = compiled(g, fusion);
    ASSERT_EQ(model.run.contractions.size(), 1u);
    EXPECT_EQ(model.run.contractions[0].operations, 2 * 30 * 40 * 50);
    EXPECT_EQ(model.run.contractions[0].bytes, 4 * (30 * 40 + 40 * 50 + 30 * 50));
    if (fusion != Fusion::best) continue;
    double operations = 0, bytes = 0;
    for (const KernelSource& kernel : model.run.kernels) operations += kernel.flops, bytes = std::max(bytes, kernel.bytes);
    EXPECT_EQ(operations, 2 * 30 * 40 * 50);
    EXPECT_EQ(bytes, 4 * (30 * 40 + 40 * 50 + 30 * 50 + 50));  // and the bias
  }
}

TEST(Work, AStridedReadTakesWhatItReaches) {
  Graph g;
  Var *x = input(g, "x", {8, 60}), *w = input(g, "w", {8, 16});
  Var* every_third = g.reindex({x}, {8, 20}, {axis(0), axis(1) * Expr(3)});
  g.outputs = {matmul(g, transpose(g, w, {1, 0}), every_third)};
  CompiledModel model = compiled(g);
  ASSERT_EQ(model.run.contractions.size(), 1u);
  EXPECT_EQ(model.run.contractions[0].operations, 2 * 16 * 8 * 20);
  EXPECT_EQ(model.run.contractions[0].bytes, 4 * (8 * 20 + 8 * 16 + 16 * 20));
}

TEST(Work, SumsOfSquaresAndElementwiseAreNoContractions) {
  Graph g;
  Var* x = input(g, "x", {64, 64});
  Var* squares = metac::reduce(g, map(g, Fn::mul, x, x), {1}, Reduce::add, true);
  g.outputs = {map(g, Fn::mul, x, squares)};
  CompiledModel model = compiled(g);
  EXPECT_TRUE(model.run.contractions.empty());
  for (const KernelSource& kernel : model.run.kernels) {
    EXPECT_EQ(kernel.flops, 0);
    EXPECT_GE(kernel.bytes, 4 * 64 * 64);
  }
}

TEST(Work, ProductsOfPartsOfOneVar) {  // queries and keys that one projection made
  Graph g;
  Var* x = input(g, "x", {40, 32});
  const auto half = [&](int64_t from) { return g.reindex({x}, {40, 16}, {axis(0), axis(1) + Expr(from)}); };
  g.outputs = {matmul(g, half(0), transpose(g, half(16), {1, 0}))};
  EXPECT_EQ(total_operations(compiled(g)), 2 * 40 * 40 * 16);
}

TEST(Work, OpenDimsCountNothing) {
  Graph g;
  int n = g.add_symbol({.name = "n", .min = 1, .max = 1 << 20, .from_input = true});
  g.outputs = {matmul(g, input(g, "a", {symbol(n), 16}), input(g, "b", {16, 16}))};
  EXPECT_EQ(total_operations(compiled(g)), 0);
}

TEST(BenchReport, TheBoundIsTheSlowerLimitOfEachContraction) {
  BenchResult result;
  result.times = summarise_times({4, 1, 2, 3, 5});
  EXPECT_EQ(result.times.median_ms, 3);
  EXPECT_EQ(result.times.min_ms, 1);
  EXPECT_EQ(result.times.p99_ms, 5);
  result.contractions = {{{}, 100e6, 1e6}, {{}, 1e6, 20e6}};  // 1 ms of arithmetic; 2 ms of traffic
  result.kernels = {{"k", {{}, 50e6, 1e3}}};
  result.profile = {{"k", 2, 1'500'000}, {"k", 1, 500'000}};
  MachinePeak peak{1, 100, 10};
  nlohmann::ordered_json report = bench_report(result, &peak);
  EXPECT_DOUBLE_EQ(report["bound_ms"].get<double>(), 3);
  EXPECT_DOUBLE_EQ(report["bound_share"].get<double>(), 1);
  EXPECT_DOUBLE_EQ(report["arithmetic_ms"].get<double>(), 1.01);
  EXPECT_DOUBLE_EQ(report["gflops"].get<double>(), 101e6 / 3e6);
  ASSERT_EQ(report["profile"].size(), 1u);
  EXPECT_DOUBLE_EQ(report["profile"][0]["gflops"].get<double>(), 75);
  EXPECT_DOUBLE_EQ(report["profile"][0]["bound_share"].get<double>(), 0.75);
  EXPECT_NE(bench_text(report).find("100% of it reached"), std::string::npos);
  EXPECT_FALSE(bench_report(result, nullptr).contains("bound_ms"));
}

}  // namespace
}  // namespace metac
