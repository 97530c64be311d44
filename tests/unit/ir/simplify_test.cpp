// The passes before fusion, one by one on small graphs, and the list of passes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <sstream>

#include "compiler/ir/bounds.h"
#include "compiler/ir/builders.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/passes/fill_empty.h"
#include "compiler/passes/fold_constants.h"
#include "compiler/passes/merge_equal_ops.h"
#include "compiler/passes/remove_dead_ops.h"
#include "compiler/passes/skip_copies.h"
#include "compiler/program/compile.h"
#include "compiler/program/pass_list.h"
#include "compiler/support/diagnostic.h"
#include "tests/unit/random_graph.h"

namespace metac::simplify_test {
namespace {

using testing::HasSubstr;

Var* input(Graph& g, const char* name, Shape shape) {
  return g.add_input(name, Type{TypeKind::tensor, DType::f32, std::move(shape)});
}
Var* constant(Graph& g, std::vector<int64_t> shape, const std::vector<float>& values, bool parameter = false) {
  return g.add_constant(make_tensor<float>(DType::f32, std::move(shape), values), "c", parameter);
}
Var* result(Graph& g, Var* x) { return map(g, Fn::neg, x); }  // outputs keep a Var of their own

TEST(PassList, NamesAndReasons) {
  EXPECT_EQ(pass_list(target_cpu()).front().name, "verify");
  EXPECT_EQ(pass_list(target_cpu()).back().name, "build_program");
  for (const PassEntry& pass : pass_list(target_cpu())) {
    EXPECT_FALSE(pass.reason.empty()) << pass.name;
    EXPECT_NO_THROW(check_pass_name(std::string(pass.name), target_cpu()));
  }
  try {
    check_pass_name("fusion", target_cpu());
    FAIL() << "accepted";
  } catch (const CompileError& e) {
    EXPECT_THAT(e.what(), HasSubstr("there is no pass \"fusion\""));
    for (const PassEntry& pass : pass_list(target_cpu())) EXPECT_THAT(e.what(), HasSubstr(std::string(pass.name)));
  }
}

TEST(PassList, EveryPassPrintsAndIsTimed) {
  for (const PassEntry& pass : pass_list(target_cpu())) {
    Graph g;
    g.outputs = {map(g, Fn::exp, input(g, "x", {3, 4}))};
    std::ostringstream text;
    CompileOptions options;
    options.cpu = cpu_target("native");
    options.print_after = pass.name;
    options.time_passes = true;
    options.trace = &text;
    compile_graph(g, options);
    std::string times, rest;
    for (std::string line, all = text.str(); !all.empty();) {
      line = all.substr(0, all.find('\n'));
      all.erase(0, line.size() + 1);
      (line.ends_with(" ms") ? times : rest) += line + "\n";
    }
    for (const PassEntry& other : pass_list(target_cpu())) EXPECT_THAT(times, HasSubstr(std::string(other.name) + ": "));
    EXPECT_FALSE(rest.empty()) << pass.name;
  }
}

TEST(Bounds, QuotientsByWhatMayBeNegative) {
  const Bounds bounds({Symbol{.name = "n", .min = 1, .max = 9}, Symbol{.name = "step", .min = -4, .max = 4},
                       Symbol{.name = "up", .min = 0, .max = 4}});
  const Interval either = bounds.interval(floor_div(symbol(0), symbol(1))),
                 up = bounds.interval(floor_div(symbol(0), symbol(2)));
  EXPECT_EQ(either.low, -9);
  EXPECT_EQ(either.high, 9);
  EXPECT_EQ(up.low, 0);
  EXPECT_EQ(up.high, 9);
}

TEST(SkipCopies, ProductsWithOneAndTransposesUndone) {
  Graph g;
  Var* x = input(g, "x", {3, 5});
  Var* same = elementwise(g, {x}, [](const std::vector<Expr>& v) {
    return v[0] * float_constant(1, DType::f32) - float_constant(0, DType::f32);
  });
  Var* back = transpose(g, transpose(g, same, {1, 0}), {1, 0});
  Var* reshaped = reshape(g, reshape(g, back, {15}), {3, 5});
  g.outputs = {result(g, reshaped)};
  EXPECT_GE(skip_copies(g), 3);
  EXPECT_EQ(g.outputs[0]->producer->inputs[0], x);
  remove_dead_ops(g);
  verify(g);
  EXPECT_EQ(g.ops.size(), 1u);
}

TEST(SkipCopies, WhatChangesABitStays) {
  Graph g;
  Var* x = input(g, "x", {4});
  Var* plus = elementwise(
      g, {x}, [](const std::vector<Expr>& v) { return v[0] + float_constant(0, DType::f32); });  // -0.0 becomes 0.0
  Var* other = transpose(g, transpose(g, input(g, "y", {2, 3, 4}), {1, 2, 0}), {1, 2, 0});       // not undone
  g.outputs = {result(g, plus), result(g, other)};
  EXPECT_EQ(skip_copies(g), 0);
  auto out = evaluate(g, std::vector<Tensor>{make_tensor<float>(DType::f32, {4}, {-0.0F, 0, 1, 2}),
                                             make_tensor<float>(DType::f32, {2, 3, 4}, std::vector<float>(24))});
  EXPECT_TRUE(std::signbit(number_at(out[0], 0)));  // -(-0.0 + 0.0)
}

// ---- what has no elements ----
TEST(FillEmpty, WhatIsEmptyAndWhatIsMadeOfIt) {
  Graph g;
  Var* x = input(g, "x", {0, 4});
  Var* doubled = map(g, Fn::add, x, x);
  std::vector<Var*> reduced;
  for (Reduce how : {Reduce::add, Reduce::mul, Reduce::min, Reduce::max})
    reduced.push_back(reduce(g, doubled, {0}, how, false));
  Var* both = concat(g, {x, input(g, "y", {2, 4})}, 0);
  g.outputs = {doubled, reduced[0], reduced[1], reduced[2], reduced[3], both};
  EXPECT_EQ(fill_empty(g), 6);  // and the part of the concatenation
  verify(g);
  for (size_t k = 0; k < 5; ++k) EXPECT_TRUE(g.outputs[k]->producer->inputs.empty());
  const auto out = evaluate(g, std::vector<Tensor>{make_tensor<float>(DType::f32, {0, 4}, {}),
                                                   make_tensor<float>(DType::f32, {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8})});
  EXPECT_EQ(out[0].shape, (std::vector<int64_t>{0, 4}));
  const double infinity = std::numeric_limits<double>::infinity(), identities[] = {0, 1, infinity, -infinity};
  for (size_t k = 0; k < 4; ++k)
    for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(number_at(out[1 + k], i), identities[k]);
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(number_at(out[5], i), static_cast<double>(i + 1));
}

TEST(FillEmpty, LeavesTheRestAlone) {
  Graph g;
  Var* x = input(g, "x", {3, 4});
  g.outputs = {reduce(g, map(g, Fn::exp, x), {0}, Reduce::add, false)};
  EXPECT_EQ(fill_empty(g), 0);
  EXPECT_EQ(g.ops.size(), 2u);
}

TEST(FoldConstants, SmallConstantsButNoParameters) {
  Graph g;
  Var* x = input(g, "x", {3});
  Var* c = map(g, Fn::exp, map(g, Fn::add, constant(g, {3}, {1, 2, 3}), constant(g, {3}, {4, 5, 6})));
  Var* p = map(g, Fn::exp, constant(g, {3}, {1, 2, 3}, true));
  g.outputs = {map(g, Fn::mul, map(g, Fn::add, x, c), p)};
  EXPECT_EQ(fold_constants(g), 2);
  verify(g);
  ASSERT_TRUE(c->constant);
  EXPECT_FLOAT_EQ(static_cast<float>(number_at(*c->constant, 2)), std::exp(9.0F));
  EXPECT_FALSE(p->constant);
  EXPECT_EQ(g.ops.size(), 3u);
}

TEST(FoldConstants, StopsAtItsBudgets) {
  auto chain = [](Graph& g) {
    Var* c = constant(g, {1000}, std::vector<float>(1000, 0.5F));
    for (int k = 0; k < 50; ++k) c = map(g, Fn::exp, c);
    g.outputs = {map(g, Fn::mul, input(g, "x", {1000}), c)};
  };
  Graph all, some, none;
  chain(all);
  chain(some);
  chain(none);
  EXPECT_EQ(fold_constants(all), 50);
  int folded = fold_constants(some, {.most_elements = 4096, .operations = 20'000, .bytes = 1 << 20});
  EXPECT_GT(folded, 0);
  EXPECT_LT(folded, 21);
  verify(some);
  EXPECT_EQ(fold_constants(none, {.most_elements = 999}), 0);
}

TEST(FoldConstants, ABombIsLeftAlone) {
  Graph g;
  Var* x = broadcast_to(g, constant(g, {1}, {1}), {Dim(int64_t{1} << 34)});
  g.outputs = {reduce(g, x, {0}, Reduce::add, true)};
  Var* sum = reduce(g, x, {0}, Reduce::max, true);
  g.outputs.push_back(map(g, Fn::neg, sum));
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(fold_constants(g), 0);
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 1);
}

TEST(MergeEqualOps, OnlyWhatIsEqual) {
  Graph g;
  Var* x = input(g, "x", {3, 4});
  Var *a = map(g, Fn::exp, x), *b = map(g, Fn::exp, x), *c = map(g, Fn::log, x);
  Var *sum_a = reduce(g, a, {1}, Reduce::add, true), *sum_b = reduce(g, b, {1}, Reduce::add, true),
      *top = reduce(g, b, {1}, Reduce::max, true);
  g.outputs = {result(g, sum_a), result(g, sum_b), result(g, top), result(g, c)};
  EXPECT_EQ(merge_equal_ops(g), 2);  // exp and its sum; outputs stay two
  remove_dead_ops(g);
  verify(g);
  EXPECT_EQ(g.ops.size(), 8u);
  EXPECT_NE(g.outputs[0], g.outputs[1]);
  EXPECT_EQ(g.outputs[0]->producer->inputs[0], g.outputs[1]->producer->inputs[0]);
}

TEST(MergeEqualOps, NotWhereFusionIsForbidden) {
  Graph g;
  Var* x = input(g, "x", {3});
  Var *a = map(g, Fn::exp, x), *b = map(g, Fn::exp, x);
  b->stop_fuse = true;
  g.outputs = {map(g, Fn::add, a, b)};
  EXPECT_EQ(merge_equal_ops(g), 0);
}

TEST(RemoveDeadOps, WhatNobodyReads) {
  Graph g;
  Var* x = input(g, "x", {3});
  map(g, Fn::exp, map(g, Fn::log, x));
  g.outputs = {map(g, Fn::neg, x)};
  EXPECT_EQ(remove_dead_ops(g), 2);
  EXPECT_EQ(g.ops.size(), 1u);
}

TEST(SimplifyingPasses, KeepAnswersOfRandomGraphs) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    RandomGraph random(seed, {.ops = 30, .sums = true});
    Graph& g = *random.graph;
    std::vector<Tensor> inputs = random.inputs(), expected = evaluate(g, inputs);
    fill_empty(g);
    skip_copies(g);
    fold_constants(g);
    merge_equal_ops(g);
    remove_dead_ops(g);
    verify(g);
    std::vector<Tensor> found = evaluate(g, inputs);
    for (size_t k = 0; k < expected.size(); ++k)
      for (int64_t i = 0; i < expected[k].element_count(); ++i)
        ASSERT_EQ(number_at(found[k], i), number_at(expected[k], i)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace metac::simplify_test
