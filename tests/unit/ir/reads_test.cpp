// What ops read, and that nothing is read before it is there: in graphs, in programs and in answers.
#include "compiler/ir/reads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/ir/builders.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "compiler/program/verify_program.h"

namespace metac::reads_test {
namespace {

using testing::ElementsAre;
using testing::ExitedWithCode;

Var* input(Graph& g, const char* name, DType dtype, Shape shape) {
  return g.add_input(name, Type{TypeKind::tensor, dtype, std::move(shape)});
}

// x[start], x[start - 1], ...: the result has three elements whatever the start is, and only indices name the symbol.
struct RunTimeSlice {
  Graph g;
  Var *x, *start, *slice;
  Expr n;

  RunTimeSlice() {
    x = input(g, "x", DType::f32, {8});
    start = input(g, "start", DType::i64, {1});
    n = g.element(start, 0, "start", 2, 7);
    slice = g.reindex({x}, {3}, {n - axis(0)});
  }
};

TEST(ReadsOf, FindsSymbolsWhereverTheyStand) {
  Graph g;
  Var* x = input(g, "x", DType::i64, {8});
  const auto fresh = [&] { return symbol(g.add_symbol(Symbol())); };
  const Expr a = fresh(), b = fresh(), c = fresh(), d = fresh();
  Var* const open = input(g, "open", DType::i64, {d});
  g.elementwise({}, Shape{2}, a);
  EXPECT_THAT(reads_of(*g.ops.back()).symbols, ElementsAre(a->id));
  g.reindex({x}, {2}, {axis(0) + a}, {axis(0) < b}, c);
  EXPECT_THAT(reads_of(*g.ops.back()).symbols, ElementsAre(a->id, b->id, c->id));
  EXPECT_THAT(reads_of(*g.ops.back()).vars, ElementsAre(x));
  g.reindex({open}, {1}, {0});
  EXPECT_THAT(reads_of(*g.ops.back()).symbols, ElementsAre(d->id));
  g.external("sort", {x}, {Type{TypeKind::tensor, DType::i64, {a, b}}}, {}, {a->id});
  EXPECT_THAT(reads_of(*g.ops.back()).symbols, ElementsAre(b->id));  // a is what it binds
}

TEST(ReadsOf, RegionsReadWhatTheyDoNotMake) {
  Graph g;
  Var *x = input(g, "x", DType::f32, {8}), *y = input(g, "y", DType::f32, {8}),
      *which = input(g, "which", DType::boolean, {});
  const Expr outside = symbol(g.add_symbol(Symbol()));
  Region then_region, else_region;
  g.open_region(&then_region);
  Var* const at = input(g, "at", DType::i64, {1});
  const Expr inside = g.element(at, 0);
  then_region.results = {g.reindex({x}, {2}, {axis(0) + inside + outside})};
  g.close_region();
  g.open_region(&else_region);
  else_region.results = {g.reindex({y}, {2}, {axis(0)})};
  g.close_region();
  const Op* op = g.if_(which, std::move(then_region), std::move(else_region));
  const Reads reads = reads_of(*op);
  EXPECT_THAT(reads.vars, ElementsAre(x, y, which, at));
  EXPECT_THAT(reads.symbols, ElementsAre(outside->id));
}

TEST(Verify, FindsAnOpBeforeWhatItReads) {
  RunTimeSlice s;
  s.g.outputs = {map(s.g, Fn::neg, s.slice)};
  verify(s.g);
  std::swap(s.g.ops[0], s.g.ops[1]);
  EXPECT_EXIT(verify(s.g), ExitedWithCode(70), "reads n0 before it is bound");
  std::swap(s.g.ops[0], s.g.ops[1]);
  std::swap(s.g.ops[1], s.g.ops[2]);
  EXPECT_EXIT(verify(s.g), ExitedWithCode(70), "before it is made");
}

TEST(Verify, FindsAStepBeforeWhatItReads) {
  RunTimeSlice s;
  Var* stored = map(s.g, Fn::exp, s.slice);
  stored->stop_fuse = true;
  s.g.outputs = {map(s.g, Fn::neg, stored)};
  CompileOptions options;
  options.cpu = cpu_target("x86-64-v3");
  CompiledProgram program = compile_graph(s.g, options).run;
  verify_program(program);
  ASSERT_EQ(program.steps.size(), 3u);  // bind, launch, launch
  ASSERT_EQ(program.steps[0].kind, rt::StepKind::bind);
  std::swap(program.steps[0], program.steps[1]);
  EXPECT_EXIT(verify_program(program), ExitedWithCode(70), "reads n0 before it is bound: its kernel does");
  std::swap(program.steps[0], program.steps[1]);
  std::swap(program.steps[1], program.steps[2]);
  EXPECT_EXIT(verify_program(program), ExitedWithCode(70), "before anything writes it");
}

// Updates of states are put behind what they read; one from a place that a run decides stays behind the step that finds the
// place.
TEST(OrderUpdates, APlaceThatARunDecidesIsKnownBeforeIt) {
  for (const bool state : {false, true}) {
    RunTimeSlice s;
    Var* w = input(s.g, "w", DType::f32, {3});
    s.g.outputs = {map(s.g, Fn::sub, w, s.slice), map(s.g, Fn::mul, s.slice, s.slice)};
    CompileOptions options;
    options.cpu = cpu_target("native");
    if (state) options.next_values = {{0, 2}};
    CompiledModel compiled = compile_graph(s.g, options);
    JitProgram program(std::make_shared<CompiledProgram>(compiled.run), run_prepare(compiled, options.cpu), options.cpu, 2);
    for (const int64_t start : {2, 7, 5, 2, 3}) {
      const std::vector<Tensor> inputs = {make_tensor<float>(DType::f32, {8}, {1, 2, 3, 4, 5, 6, 7, 8}),
                                          make_tensor<int64_t>(DType::i64, {1}, {start}),
                                          make_tensor<float>(DType::f32, {3}, {10, 20, 30})};
      const std::vector<Tensor> found = program.run(inputs);
      for (int k = 0; k < 3; ++k) {
        const double at = static_cast<double>(start - k + 1);
        EXPECT_EQ(number_at(found[0], k), 10.0 * (k + 1) - at) << start;
        EXPECT_EQ(number_at(found[1], k), at * at) << start;
      }
    }
  }
}

}  // namespace
}  // namespace metac::reads_test
