// Results that take the memory of an operand: where that happens, where it must not, and that answers stay the same.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/jit/jit_program.h"
#include "compiler/loops/overwrite.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "compiler/program/memory/plan_memory.h"
#include "compiler/target/cpu/strategies/lower_group.h"
#include "tests/unit/random_graph.h"

namespace metac::in_place_test {
namespace {

Var* input(Graph& g, const char* name, Shape shape) {
  return g.add_input(name, Type{TypeKind::tensor, DType::f32, std::move(shape)});
}

CompiledModel compiled(Graph& g) {
  CompileOptions options;
  options.cpu = cpu_target("native");
  return compile_graph(g, options);
}

std::vector<Tensor> answers(CompiledModel model, const std::vector<Tensor>& inputs, int threads) {
  CpuTarget cpu = cpu_target("native");
  WeightsBlock weights = run_prepare(model, cpu);
  return JitProgram(std::make_shared<CompiledProgram>(std::move(model.run)), weights, cpu, threads).run(inputs);
}

Tensor ramp(std::vector<int64_t> shape) {
  int64_t n = 1;
  for (int64_t d : shape) n *= d;
  std::vector<float> values;
  for (int64_t k = 0; k < n; ++k) values.push_back(static_cast<float>(k % 101) / 10);
  return make_tensor<float>(DType::f32, std::move(shape), values);
}

void expect_same(const std::vector<Tensor>& found, const std::vector<Tensor>& expected, double tolerance,
                 const std::string& where) {
  ASSERT_EQ(found.size(), expected.size()) << where;
  for (size_t t = 0; t < found.size(); ++t) {
    ASSERT_EQ(found[t].shape, expected[t].shape) << where;
    for (int64_t k = 0; k < expected[t].element_count(); ++k) {
      double e = number_at(expected[t], k);
      ASSERT_NEAR(number_at(found[t], k), e, tolerance * (1 + std::abs(e)))
          << where << ", output " << t << ", element " << k;
    }
  }
}

// x -> f -> f -> ... where nothing may be fused.
Var* unfused_chain(Graph& g, Var* x, int length) {
  for (int k = 0; k < length; ++k) {
    x = elementwise(g, {x}, [](const std::vector<Expr>& v) { return v[0] + float_constant(1, DType::f32); });
    x->stop_fuse = true;
  }
  return x;
}

TEST(InPlace, AChainThatCannotBeFusedNeedsOneValue) {
  for (int64_t n : {7, 1000, 100'003}) {  // less than a vector, one task, many chunks and a rest
    Graph g;
    Var* x = input(g, "x", {n});
    g.outputs = {map(g, Fn::neg, unfused_chain(g, x, 5))};
    std::vector<Tensor> inputs = {ramp({n})}, expected = evaluate(g, inputs);
    CompiledModel model = compiled(g);
    EXPECT_EQ(model.run.results_in_place, 4);  // the first makes the value, four replace it, the last writes the output
    EXPECT_LE(model.run.arena_bytes, n * 4 + 128);
    EXPECT_EQ(model.run.arena_bytes, model.run.live_set_bytes);
    expect_same(answers(std::move(model), inputs, 2), expected, 0, std::to_string(n));
  }
}

TEST(InPlace, WhatIsReadAgainStays) {
  Graph g;
  Var* x = input(g, "x", {5000});
  Var* a = unfused_chain(g, x, 1);
  Var* b = unfused_chain(g, a, 1);
  g.outputs = {map(g, Fn::mul, a, b)};
  CompiledModel model = compiled(g);
  EXPECT_EQ(model.run.results_in_place, 0);
}

TEST(InPlace, WhatIsReadElsewhereStays) {  // the rows reversed: element 0 is read when the last is stored
  Graph g;
  Var* x = input(g, "x", {64, 64});
  Var* a = unfused_chain(g, x, 1);
  Var* b = elementwise(g, {g.reindex({a}, {64, 64}, {Expr(63) - axis(0), axis(1)})},
                       [](const std::vector<Expr>& v) { return v[0] + v[0]; });
  b->stop_fuse = true;
  g.outputs = {unfused_chain(g, b, 1)};
  std::vector<Tensor> inputs = {ramp({64, 64})}, expected = evaluate(g, inputs);
  CompiledModel model = compiled(g);
  EXPECT_EQ(model.run.results_in_place, 0);
  expect_same(answers(std::move(model), inputs, 2), expected, 0, "reversed");
}

// The last part of the concatenation reads v where it stores; but the first parts have been stored elsewhere by then.
TEST(InPlace, AResultOfSeveralKernelsStaysApart) {
  for (int64_t parts : {2, 4}) {
    Graph g;
    Var* x = input(g, "x", {50, 24});
    Var* v = unfused_chain(g, x, 1);
    int64_t width = 24 / parts;
    std::vector<Var*> joined;
    for (int64_t k = 0; k + 1 < parts; ++k)
      joined.push_back(unfused_chain(g, slice(g, v, {1}, {Expr(width * k)}, {Expr(width)}, {Expr(1)}), 1));
    joined.push_back(slice(g, v, {1}, {Expr(24 - width)}, {Expr(width)}, {Expr(1)}));
    Var* whole = concat(g, joined, 1);
    whole->stop_fuse = true;
    g.outputs = {unfused_chain(g, whole, 1)};
    std::vector<Tensor> inputs = {ramp({50, 24})}, expected = evaluate(g, inputs);
    expect_same(answers(compiled(g), inputs, 2), expected, 0, std::to_string(parts) + " parts");
  }
}

TEST(InPlace, OpenDimsToo) {
  Graph g;
  int n = g.add_symbol({.name = "n", .min = 1, .max = 1 << 20, .from_input = true});
  Var* x = input(g, "x", {symbol(n)});
  g.outputs = {map(g, Fn::neg, unfused_chain(g, x, 3))};
  std::vector<Tensor> inputs = {ramp({3001})}, expected = evaluate(g, inputs);
  CompiledModel model = compiled(g);
  EXPECT_EQ(model.run.results_in_place, 2);
  expect_same(answers(std::move(model), inputs, 2), expected, 0, "open");
}

TEST(InPlace, AResidualAdditionInTheEpilogueOfAMatrixProduct) {
  for (int64_t width : {64, 72, 80, 200}) {  // whole tiles, and a rest of another width
    Graph g;
    Var *x = input(g, "x", {50, 64}), *y = input(g, "y", {50, width}), *w = input(g, "w", {64, width});
    Var* a = unfused_chain(g, x, 1);
    Var* b = unfused_chain(g, y, 2);
    Var* sum = map(g, Fn::add, matmul(g, a, w), b);
    sum->stop_fuse = true;
    g.outputs = {unfused_chain(g, sum, 1)};
    std::vector<Tensor> inputs = {ramp({50, 64}), ramp({50, width}), ramp({64, width})}, expected = evaluate(g, inputs);
    CompiledModel model = compiled(g);
    EXPECT_EQ(model.run.results_in_place, 2) << width;  // in the chain of b, and the sum into b
    expect_same(answers(std::move(model), inputs, 2), expected, 1e-4, "residual");
  }
}

TEST(InPlace, RandomGraphsThatMayNotBeFused) {
  int64_t in_place = 0;
  for (unsigned seed = 100; seed < 110; ++seed) {
    RandomGraphOptions options;
    options.dims = seed % 2 ? std::vector<int64_t>{4, 6} : std::vector<int64_t>{70, 90};
    auto make = [&] {
      auto random = std::make_unique<RandomGraph>(seed, options);
      for (Op* op : random->graph->ops)
        if (op->id % 3 != 0) op->outputs[0]->stop_fuse = true;
      return random;
    };
    auto reference = make();
    std::vector<Tensor> inputs = reference->inputs(), expected = evaluate(*reference->graph, inputs);
    CompiledModel model = compiled(*reference->graph);
    in_place += model.run.results_in_place;
    EXPECT_GE(model.run.arena_bytes, model.run.live_set_bytes);
    expect_same(answers(std::move(model), inputs, 2), expected, 1e-4, "seed " + std::to_string(seed));
  }
  EXPECT_GT(in_place, 0);
}

// ---- the decision itself, on a loop tree ----
struct OneKernel {
  Graph g;
  Layouts layouts;
  Kernel kernel;
  OneKernel(const std::function<Var*(Graph&, Var*)>& op, Shape shape) {
    Var* out = op(g, input(g, "x", std::move(shape)));
    Group group;
    group.stages = definitions_of(out->producer, g.symbols);
    LoweringContext context;
    context.symbols = &g.symbols;
    context.layouts = &layouts;
    context.var = [this](int id) { return g.vars()[static_cast<size_t>(id)].get(); };
    kernel = lower_group(group, context);
  }
  bool may() const {
    for (int r = 0; r < 2; ++r)
      if (kernel.arguments[static_cast<size_t>(r)].written) return may_overwrite(kernel, r, 1 - r, g.symbols);
    return false;
  }
};

TEST(InPlace, TheLoopTreeDecides) {
  EXPECT_TRUE(OneKernel([](Graph& g, Var* x) { return map(g, Fn::exp, x); }, {100'003}).may());  // chunks
  EXPECT_TRUE(OneKernel([](Graph& g, Var* x) { return map(g, Fn::exp, x); }, {3, 50, 17}).may());
  EXPECT_FALSE(OneKernel([](Graph& g, Var* x) { return transpose(g, x, {1, 0}); }, {64, 64}).may());
  EXPECT_FALSE(OneKernel([](Graph& g, Var* x) { return g.reindex({x}, {64}, {Expr(63) - axis(0)}); }, {64}).may());
  EXPECT_FALSE(OneKernel([](Graph& g, Var* x) { return reduce(g, x, {0}, Reduce::add, false); }, {64, 64}).may());
}

TEST(InPlace, OnAGpuOneThreadMustStore) {
  OneKernel one([](Graph& g, Var* x) { return map(g, Fn::exp, x); }, {64});
  Kernel kernel;
  kernel.block = 128;
  kernel.arguments = one.kernel.arguments;
  int result = kernel.arguments[0].written ? 0 : 1;
  kernel.next_axis = 2;
  kernel.root.loops = {{0, 64, LoopKind::parallel, {}}};
  LoopNode node;
  node.assigns.push_back({result, axis(0), load(1 - result, DType::f32, {axis(0)}), {}});
  kernel.root.children = {node};
  EXPECT_FALSE(may_overwrite(kernel, result, 1 - result, one.g.symbols));  // all 128 threads of a block
  kernel.root.children[0].loops = {{1, 1, LoopKind::thread, {}}};
  EXPECT_TRUE(may_overwrite(kernel, result, 1 - result, one.g.symbols));
  kernel.root.children[0].loops.clear();
  kernel.root.loops[0].kind = LoopKind::grid;
  EXPECT_TRUE(may_overwrite(kernel, result, 1 - result, one.g.symbols));
}

TEST(PlanMemory, ReachesTheBoundWhereOneOrderDoesNot) {
  std::vector<ArenaBlock> blocks = {{300, 0, 1}, {500, 1, 2}, {300, 2, 5}, {200, 0, 4}, {700, 5, 6}};
  int64_t total = plan_memory(blocks);
  EXPECT_EQ(total, live_set_bytes(blocks));
  for (size_t a = 0; a < blocks.size(); ++a)
    for (size_t b = a + 1; b < blocks.size(); ++b) {
      bool together = blocks[a].first <= blocks[b].last && blocks[b].first <= blocks[a].last;
      bool apart =
          blocks[a].offset + blocks[a].bytes <= blocks[b].offset || blocks[b].offset + blocks[b].bytes <= blocks[a].offset;
      EXPECT_TRUE(!together || apart) << a << " and " << b;
    }
}

}  // namespace
}  // namespace metac::in_place_test
