// What is read at one index is computed there alone, and the numbers stay.
#include "compiler/passes/narrow_reads.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/ir/builders.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/passes/remove_dead_ops.h"
#include "tests/unit/ramp.h"
#include "tests/unit/random_graph.h"
#include "tests/unit/same_bytes.h"

namespace metac::narrow_reads_test {
namespace {

constexpr int64_t batch = 2, steps = 6, width = 8;

Var* layer(Graph& g, Var* x, int seed) {
  const int64_t from = x->shape().back().as_int();
  Var* const weights = g.add_constant(ramp({from, from}, seed), "", true);
  return map(g, Fn::tanh, map(g, Fn::add, matmul(g, x, weights), x));
}

Var* at_index(Graph& g, Var* x, int axis, Expr index) { return slice(g, x, {axis}, {index}, {Expr(1)}, {Expr(1)}); }

// How many of the products make all steps.
int64_t wide_products(const Graph& g) {
  return std::count_if(g.ops.begin(), g.ops.end(), [](const Op* op) {
    return op->kind == OpKind::reindex_reduce && op->outputs[0]->rank() == 3 && !op->outputs[0]->shape()[1].is_int(1);
  });
}

void expect_same(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (size_t t = 0; t < found.size(); ++t) EXPECT_TRUE(same_bytes(found[t], expected[t])) << "output " << t;
}

int narrow(Graph& g) {
  const int narrowed = narrow_reads(g);
  remove_dead_ops(g);
  verify(g);
  return narrowed;
}

struct Case {
  Graph g;
  Var* const x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {Expr(batch), Expr(steps), Expr(width)}});
  std::vector<Tensor> answers() const { return evaluate(g, {ramp({batch, steps, width}, 5)}); }
};

Expr open_steps(Graph& g, int64_t least) {
  Symbol length;
  length.name = "steps";
  length.min = least, length.from_input = true;
  return symbol(g.add_symbol(length));
}

// Of two wide products so many are left, and the answers stay.
void expect_wide_products(Case& c, int64_t left) {
  const std::vector<Tensor> expected = c.answers();
  EXPECT_EQ(wide_products(c.g), 2);
  EXPECT_GT(narrow(c.g), 0);
  EXPECT_EQ(wide_products(c.g), left);
  expect_same(c.answers(), expected);
}

TEST(NarrowReads, LayersBeforeASliceMakeOneStep) {
  Case c;
  c.g.outputs = {at_index(c.g, layer(c.g, layer(c.g, c.x, 3), 4), 1, Expr(2))};
  expect_wide_products(c, 0);
}

TEST(NarrowReads, WhatIsReadElsewhereToStaysWhole) {
  Case c;
  Var* const first = layer(c.g, c.x, 3);
  c.g.outputs = {at_index(c.g, layer(c.g, first, 4), 1, Expr(steps - 1)), reduce(c.g, first, {1}, Reduce::max, false)};
  expect_wide_products(c, 1);
}

TEST(NarrowReads, TwoIndicesOfOneValueKeepItWhole) {
  Case c;
  Var* const made = layer(c.g, c.x, 3);
  c.g.outputs = {at_index(c.g, made, 1, Expr(0)), at_index(c.g, made, 1, Expr(1))};
  EXPECT_EQ(narrow(c.g), 0);
}

// A decoder's logits: all of them for who asks, and the last step for the library, which makes no others for it.
TEST(NarrowReads, LastStepStandsBesideTheWholeOutput) {
  Graph g;
  const Expr open = open_steps(g, 1);
  Var* const x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {Expr(batch), open, Expr(width)}});
  Var* const first = layer(g, x, 3);
  Var* const second = layer(g, first, 4);
  Var* const logits = layer(g, second, 5);
  g.outputs = {logits, at_index(g, logits, 1, open - Expr(1)), reduce(g, first, {1}, Reduce::add, false)};
  const std::vector<Tensor> given = {ramp({batch, steps, width}, 5)};
  const std::vector<Tensor> expected = evaluate(g, given);
  EXPECT_EQ(narrow(g), 0) << "the whole output is wanted as any other";
  g.last_step_of = 0;
  EXPECT_GT(narrow(g), 0);
  EXPECT_EQ(wide_products(g), 3);
  expect_same(evaluate(g, given), expected);
  g.outputs.erase(g.outputs.begin());
  g.last_step_of = -1;
  remove_dead_ops(g);
  EXPECT_EQ(wide_products(g), 2) << "one product is narrow, which reads what is wide";
}

// An index that need not be there is none that may be computed ahead of its condition.
TEST(NarrowReads, StepsThatMayBeNoneAreNotRead) {
  Graph g;
  const Expr open = open_steps(g, 0);
  Var* const x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {Expr(batch), open, Expr(width)}});
  Var* const made = layer(g, x, 3);
  g.outputs = {g.reindex({made}, {Expr(batch), Expr(1), Expr(width)}, {axis(0), open - Expr(1), axis(2)}, {Expr(0) < open},
                         float_constant(0, DType::f32))};
  EXPECT_EQ(narrow(g), 0);
}

TEST(NarrowReads, RandomGraphsAnswerTheSame) {
  int64_t narrowed = 0;
  for (unsigned seed = 0; seed < 400; ++seed) {
    RandomGraph random(seed, {.ops = 10, .sums = true, .dims = {4, 6}});
    Graph& g = *random.graph;
    for (size_t k = 0; k < g.outputs.size(); ++k)
      for (int axis : {0, 1}) {
        Var*& out = g.outputs[k];
        const bool slices =
            !out->shape()[static_cast<size_t>(axis)].is_int(1) && (seed + k + static_cast<unsigned>(axis)) % 3;
        if (slices) out = at_index(g, out, axis, Expr(static_cast<int64_t>(seed / 3 % 4)));
      }
    const std::vector<Tensor> inputs = random.inputs();
    const std::vector<Tensor> expected = evaluate(g, inputs);
    narrowed += narrow(g);
    expect_same(evaluate(g, inputs), expected);
  }
  EXPECT_GT(narrowed, 1000);
}

}  // namespace
}  // namespace metac::narrow_reads_test
