// Operations and bytes of kernels, and what `metac bench` makes of them.
#include "compiler/tensor/work.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compiler/api/bench/bench_report.h"
#include "compiler/ir/builders.h"
#include "compiler/ir/expr.h"
#include "compiler/ir/hints.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/program/compile.h"
#include "compiler/program/program_work.h"

namespace metac::work_test {
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

// Of all launches of a run.
Work total(const CompiledModel& model) {
  Work sum;
  for (const KernelWork& kernel : kernel_works(model, model.run)) {
    sum.operations = bool(sum.operations) && bool(kernel.work.operations) ? sum.operations + kernel.work.operations : Expr();
    sum.bytes = bool(sum.bytes) && bool(kernel.work.bytes) ? sum.bytes + kernel.work.bytes : Expr();
  }
  return sum;
}

// -1: not a number.
int64_t total_operations(const CompiledModel& model) {
  const Expr sum = total(model).operations;
  return bool(sum) && sum.if_int() ? sum.as_int() : -1;
}

TEST(Work, OfAMatrixProductWithItsEpilogue) {
  for (Fusion fusion : {Fusion::best, Fusion::greedy, Fusion::paper}) {
    Graph g;
    Var *a = input(g, "a", {30, 40}), *b = input(g, "b", {40, 50}), *c = input(g, "c", {50});
    g.outputs = {map(g, Fn::neg, map(g, Fn::add, matmul(g, a, b), c))};
    CompiledModel model = compiled(g, fusion);
    EXPECT_EQ(total_operations(model), 2 * 30 * 40 * 50);
    if (fusion != Fusion::best) continue;
    EXPECT_EQ(total(model).bytes, Expr(4 * (30 * 40 + 40 * 50 + 30 * 50 + 50)));  // the bias too
  }
}

TEST(Work, AStridedReadTakesWhatItReaches) {
  Graph g;
  Var *x = input(g, "x", {8, 60}), *w = input(g, "w", {8, 16});
  Var* every_third = g.reindex({x}, {8, 20}, {axis(0), axis(1) * Expr(3)});
  g.outputs = {matmul(g, transpose(g, w, {1, 0}), every_third)};
  CompiledModel model = compiled(g);
  EXPECT_EQ(total_operations(model), 2 * 16 * 8 * 20);
}

TEST(Work, SumsOfSquaresAndElementwiseAreNoContractions) {
  Graph g;
  Var* x = input(g, "x", {64, 64});
  Var* squares = metac::reduce(g, map(g, Fn::mul, x, x), {1}, Reduce::add, true);
  g.outputs = {map(g, Fn::mul, x, squares)};
  CompiledModel model = compiled(g);
  EXPECT_EQ(total_operations(model), 0);
  for (const KernelWork& kernel : kernel_works(model, model.run)) EXPECT_GE(kernel.work.bytes.as_int(), 4 * 64 * 64);
}

TEST(Work, ProductsOfPartsOfOneVar) {  // queries and keys that one projection made
  Graph g;
  Var* x = input(g, "x", {40, 32});
  const auto half = [&](int64_t from) { return g.reindex({x}, {40, 16}, {axis(0), axis(1) + Expr(from)}); };
  g.outputs = {matmul(g, half(0), transpose(g, half(16), {1, 0}))};
  EXPECT_EQ(total_operations(compiled(g)), 2 * 40 * 40 * 16);
}

TEST(Work, OfOpenDimsIsAnExpression) {
  Graph g;
  int n = g.add_symbol({.name = "n", .min = 1, .max = 1 << 20, .from_input = true});
  g.outputs = {matmul(g, input(g, "a", {symbol(n), 16}), input(g, "b", {16, 16}))};
  const Work work = total(compiled(g));
  EXPECT_EQ(work.operations, symbol(n) * Expr(2 * 16 * 16));
  EXPECT_EQ(share_of(work.operations, symbol(n) * Expr(4 * 16 * 16)), 0.5);
  EXPECT_EQ(share_of(work.operations, Expr(7)), std::nullopt);
}

TEST(Work, CostsFollowTheWorkThatIsLeftToATask) {
  Graph g;
  const int n = g.add_symbol({.name = "n", .min = 1, .max = 1 << 20, .hint = 64, .from_input = true});
  const Expr rows = symbol(n);
  const Work work{rows * Expr(2 * 64 * 64), rows * Expr(4 * 64) + Expr(4 * 64 * 64)};
  const std::optional<ChainCosts> costs = cpu_costs.beside;
  const Expr of_all = cost_by_size(5000, work, Expr(4), costs, g.symbols);  // four tasks, however many rows there are
  ASSERT_TRUE(of_all);
  EXPECT_NEAR(static_cast<double>(hinted_value(of_all, g.symbols)), 5000, 50);
  g.symbols[static_cast<size_t>(n)].hint = 6400;
  EXPECT_NEAR(static_cast<double>(hinted_value(of_all, g.symbols)), 450000, 50000);
  EXPECT_FALSE(cost_by_size(5000, {work.operations, Expr(0)}, rows, costs, g.symbols));    // a row each: always the same
  EXPECT_FALSE(cost_by_size(5000, {work.operations, Expr()}, Expr(4), costs, g.symbols));  // not known
}

TEST(Work, OfAKernelIsThatOfAllItsLaunches) {  // squares of matrices: one kernel, several launches
  Graph g;
  Var* x = input(g, "x", {48, 48});
  for (int k = 0; k < 3; ++k) x = matmul(g, x, x);
  g.outputs = {x};
  const CompiledModel model = compiled(g);
  EXPECT_EQ(total_operations(model), 3 * 2 * 48 * 48 * 48);
  int64_t launches = 0;
  for (const KernelWork& kernel : kernel_works(model, model.run))
    launches += kernel.work.operations.is_int(0) ? 0 : *kernel.launches;
  EXPECT_EQ(launches, 3);
}

TEST(Work, AFactorThatDoesNotChangeAlongTheSumIsNoContraction) {  // a mean of scaled channels
  Graph g;
  Var *x = input(g, "x", {8, 49}), *scale = input(g, "scale", {8, 1});
  g.outputs = {metac::reduce(g, map(g, Fn::mul, x, scale), {1}, Reduce::add, false)};
  EXPECT_EQ(total_operations(compiled(g)), 0);
}

TEST(Work, BeyondSixtyFourBitsIsNotKnown) {
  Definition d;
  Graph g;
  d.out = g.make_var(Type{TypeKind::tensor, DType::f32, {Expr(int64_t{1} << 40), Expr(int64_t{1} << 40)}});
  d.domain = d.out->shape();
  d.out_index = {axis(0), axis(1)};
  d.body = float_constant(1, DType::f32);
  const Work work = kernel_work({d}, {}, [&](int id) { return g.vars()[static_cast<size_t>(id)].get(); });
  EXPECT_TRUE(work.operations.is_int(0));
  EXPECT_FALSE(work.bytes);
}

TEST(BenchReport, TheBoundIsTheSlowerLimitOfEachContraction) {
  BenchResult result;
  result.times = summarise_times({4, 1, 2, 3, 5});
  EXPECT_EQ(result.times.median_ms, 3);
  EXPECT_EQ(result.times.min_ms, 1);
  EXPECT_EQ(result.times.p99_ms, 5);
  result.steps = {
      {"a", 1, 0, 100e6, 1e6}, {"b", 1, 0, 1e6, 20e6}, {"moves", 1, 0, 0, 50e6}};  // 1 ms of arithmetic; 2 ms of traffic
  result.profile = {{"k", 2, 1'500'000, 100e6, 2e3}, {"k", 1, 500'000, 50e6, 1e3}};
  result.profiled_runs = 1;
  result.profiled_ms = 3.3;
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
  result.steps.push_back({"code", 1, 0, -1, 5});  // not known is not nothing
  report = bench_report(result, &peak);
  EXPECT_TRUE(report["operations"].is_null() && report["gflops"].is_null() && report["bound_ms"].is_null());
  EXPECT_NE(bench_text(report).find("is not known"), std::string::npos);
}

}  // namespace
}  // namespace metac::work_test
