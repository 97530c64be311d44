// What a strategy says of a group that is not, or no longer, what it was chosen for. The groups are those that the targets'
// own passes make; every pass is then played one that changed the group and forgot the strategy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/autodiff/gradient.h"
#include "compiler/ir/builders.h"
#include "compiler/ir/walks.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/lower_model.h"
#include "compiler/ops/sums/softmax.h"
#include "compiler/program/compile.h"
#include "compiler/region/verify_region.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"
#include "compiler/target/gpu/strategies/gpu_strategies.h"
#include "compiler/target/target.h"
#include "compiler/tensor/contraction.h"
#include "frontends/json/json.h"

namespace metac::strategy_misfit_test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

Var* input(Graph& g, const char* name, Shape shape) {
  return g.add_input(name, Type{TypeKind::tensor, DType::f32, std::move(shape)});
}

// The first group with strategy S that fusion and the passes of a target make of a graph.
template <typename S>
Group group_with(Graph& g, const char* target) {
  CompileOptions options;
  options.cpu = cpu_target("x86-64-v3");
  options.target = &target_named(target);
  options.external = {true, true, false};
  Needed needed;
  needed.in_memory.insert(g.outputs.begin(), g.outputs.end());
  needed.own_memory = needed.in_memory;
  const auto is_constant = [](const Var*) { return false; };
  FusedRegion region = fuse(g.ops, needed, is_constant, g.symbols, Fusion::best, options.target->widens_freely()), prepare;
  Layouts layouts;
  RegionState state{g, region, prepare, layouts, needed, is_constant, options, true};
  options.target->fuse_further(state, g.ops);
  for (const TargetPass& pass : options.target->passes()) pass.run(state);
  verify_region(region, g, "the test");
  for (const Item& item : region.items)
    if (strategy_as<S>(item.group)) return item.group;
  ADD_FAILURE() << "no such strategy in " << to_string(region);
  return {};
}

// What the strategy says once `change` has been made to a copy of its group.
template <typename Change>
std::string misfit(const Group& group, Change change) {
  EXPECT_THAT(group.strategy->misfit(group), IsEmpty());
  Group changed = group;
  change(changed);
  return group.strategy->misfit(changed);
}

// What it says once `change` has been made to a copy of the strategy itself.
template <typename S, typename Change>
std::string misfit_of(const Group& group, Change change) {
  S changed = *strategy_as<S>(group);
  EXPECT_THAT(changed.misfit(group), IsEmpty());
  change(changed);
  return changed.misfit(group);
}

void attend(Graph& g) {
  Var *q = input(g, "q", {4, 96, 32}), *k = input(g, "k", {4, 32, 96}), *v = input(g, "v", {4, 96, 32});
  g.outputs = {matmul(g, softmax(g, matmul(g, q, k), {2}), v)};
}

const auto first_is_read_elsewhere = [](Group& group) { group.internal.erase(group.stages[0].out->id); };
const auto nothing_is_shared = [](Group& group) { group.shared = 0; };
const auto last_is_gone = [](Group& group) { group.stages.pop_back(); };
const auto first_is_gone = [](Group& group) { group.stages.erase(group.stages.begin()); };
const auto scores_are_a_maximum = [](Group& group) { group.stages[0].reduce = Reduce::max; };
// out = sum over k of weight[row, k] * weight[row, k]
const auto weights_are_squared = [](Group& group) {
  Definition& last = group.stages.back();
  int made = -1;
  visit_loads(last, [&](Expr e) { made = group.internal.count(e->id) && e->args.back() == axis(3) ? e->id : made; });
  ASSERT_GE(made, 0);
  const Expr weight = load(made, DType::f32, {axis(0), axis(1), axis(3)});
  last.body = weight * weight;
};

TEST(StrategyMisfit, RowBlocks) {
  Graph g;
  attend(g);
  const Group group = group_with<RowBlocks>(g, "cpu");
  EXPECT_THAT(misfit(group, nothing_is_shared), HasSubstr("no rows"));
  EXPECT_THAT(misfit(group, [](Group& changed) { changed.stages.resize(2); }), HasSubstr("no rows"));
  EXPECT_THAT(misfit(group, first_is_read_elsewhere), HasSubstr("read by others"));
  EXPECT_THAT(misfit(group, last_is_gone), HasSubstr("no contraction"));
  EXPECT_THAT(misfit(group, first_is_gone), HasSubstr("no contraction"));
  EXPECT_THAT(misfit(group, scores_are_a_maximum), HasSubstr("no contraction"));
  EXPECT_THAT(misfit(group, weights_are_squared), HasSubstr("last sum"));
  EXPECT_THAT(misfit(group, [](Group& changed) { changed.stages[0].out_index = {axis(0), axis(2), axis(1)}; }),
              HasSubstr("one axis beside the shared ones"));
  // Both operands of the scores read at the row: q * q.
  EXPECT_THAT(misfit(group,
                     [](Group& changed) {
                       Definition& d = changed.stages[0];
                       const Expr product = d.body;
                       std::vector<Expr> at = identity_indices(static_cast<int>(d.domain.size()));
                       at[2] = axis(1);
                       const auto c = float_contraction_of(d);
                       const Expr rows = uses_axis(c->a.load, 1) ? c->a.load : c->b.load;
                       d.body = rows * substitute_axes(product->args[0] == rows ? product->args[1] : product->args[0], at);
                     }),
              HasSubstr("one operand each"));
}

TEST(StrategyMisfit, Attention) {
  Graph g;
  attend(g);
  const Group group = group_with<Attention>(g, "cuda");
  EXPECT_THAT(misfit(group, nothing_is_shared), HasSubstr("no rows"));
  EXPECT_THAT(misfit(group, first_is_read_elsewhere), HasSubstr("read by others"));
  EXPECT_THAT(misfit(group, last_is_gone), HasSubstr("no softmax"));
  EXPECT_THAT(misfit(group, first_is_gone), HasSubstr("no softmax"));
  EXPECT_THAT(misfit(group, scores_are_a_maximum), HasSubstr("no softmax"));
  EXPECT_THAT(misfit(group, weights_are_squared), HasSubstr("no softmax"));
  // A softmax by 2 ** x is none.
  EXPECT_THAT(misfit(group,
                     [](Group& changed) {
                       for (Definition& d : changed.stages)
                         d.body = rewrite(d.body, [](Expr e) {
                           return e->kind == ExprKind::call && e->fn == Fn::exp ? call(Fn::tanh, {e->args[0]}) : Expr();
                         });
                     }),
              HasSubstr("no softmax"));
  EXPECT_THAT(misfit(group, [](Group& changed) { changed.stages.back().domain[2] = Expr(4096); }), HasSubstr("too wide"));
}

TEST(StrategyMisfit, Beside) {
  Graph g;
  Var *x = input(g, "x", {64, 40}), *gradient = input(g, "gradient", {64, 56});
  g.outputs = {matmul(g, transpose(g, x, {1, 0}), gradient), reduce(g, gradient, {0}, Reduce::add, false)};
  const Group group = group_with<Beside>(g, "cuda");
  EXPECT_THAT(misfit(group, last_is_gone), HasSubstr("two definitions"));
  EXPECT_THAT(misfit(group, [](Group& changed) { changed.shared = 1; }), HasSubstr("two definitions"));
  EXPECT_THAT(misfit(group, [](Group& changed) { changed.internal.insert(changed.stages[1].out->id); }),
              HasSubstr("for others to read"));
  EXPECT_THAT(misfit(group, [](Group& changed) { std::swap(changed.stages[0], changed.stages[1]); }),
              HasSubstr("nothing that a library does"));
  EXPECT_THAT(misfit(group, [](Group& changed) { changed.stages[1].reduce = Reduce::max; }),
              HasSubstr("nothing that a library does"));
  EXPECT_THAT(misfit(group, [](Group& changed) { changed.stages[1].body = changed.stages[1].body * changed.stages[1].body; }),
              HasSubstr("nothing that a library does"));
}

TEST(StrategyMisfit, LibraryGradient) {
  for (const int operand : {0, 1}) {  // by the data, by the weights
    const std::unique_ptr<Graph> graph = lower_model(read_json_model(R"json({"metac_ir": 1, "opset": 20,
      "inputs": [{"name": "x", "dtype": "float32", "shape": [2, 24, 12, 12]},
                 {"name": "w", "dtype": "float32", "shape": [16, 24, 3, 3]}],
      "nodes": [{"op": "Conv", "inputs": ["x", "w"], "outputs": ["y"],
                 "attributes": {"strides": [2, 2], "pads": [1, 1, 1, 1]}}], "outputs": ["y"]})json",
                                                                     "conv.json"),
                                                     {});
    Graph& g = *graph;
    Var *x = g.inputs[0], *seed = input(g, "seed", g.outputs[0]->shape());
    g.outputs = gradient(g, {g.outputs[0]}, {seed}, {g.inputs[static_cast<size_t>(operand)]});
    const Group group = group_with<LibraryGradient>(g, "cuda");
    using S = LibraryGradient;
    EXPECT_THAT(misfit(group, [](Group& changed) { changed.stages.push_back(changed.stages[0]); }),
                HasSubstr("one definition"));
    EXPECT_THAT(misfit(group, [&](Group& changed) { changed.stages[0].out = seed; }), HasSubstr("another value"));
    EXPECT_THAT(misfit(group, [](Group& changed) { changed.stages[0].reduce = Reduce::max; }), HasSubstr("no sum"));
    EXPECT_THAT(misfit(group,
                       [&](Group& changed) {
                         Definition& d = changed.stages[0];
                         d.body = rewrite_loads(d.body, [&](Expr e, const std::vector<Expr>& at) {
                           return load(e->id == seed->id ? x->id : e->id, e->dtype, at);
                         });
                       }),
                HasSubstr("is not read"));
    EXPECT_THAT(misfit_of<S>(group, [](S& s) { s.convolution.kind = ConvolutionKind::forward; }), HasSubstr("another value"));
    EXPECT_THAT(misfit_of<S>(group, [](S& s) { std::swap(s.convolution.data, s.convolution.weights); }),
                HasSubstr("another value"));
    EXPECT_THAT(misfit_of<S>(group, [&](S& s) { (operand == 0 ? s.convolution.weights : s.convolution.data) = 1000; }),
                HasSubstr("v1000, which the library would read"));
    EXPECT_THAT(misfit_of<S>(group, [](S& s) { s.convolution.dtype = DType::f16; }), HasSubstr("another dtype"));
    EXPECT_THAT(misfit_of<S>(group, [](S& s) { s.convolution.windows.pop_back(); }), HasSubstr("rank"));
    EXPECT_THAT(misfit_of<S>(group, [](S& s) { s.convolution.windows[1].stride = 0; }), HasSubstr("does not move"));
    EXPECT_THAT(misfit_of<S>(group, [](S& s) { s.convolution.channels = Expr(23); }), HasSubstr("another shape"));
    if (operand == 1) {
      EXPECT_THAT(misfit_of<S>(group, [](S& s) { s.convolution.groups = 2; }), HasSubstr("another shape"));
    }
    EXPECT_THAT(misfit_of<S>(group,
                             [&](S& s) {
                               LibraryWindow& of = s.convolution.windows[0];
                               (operand == 0 ? of.size : of.window) = Expr(7);
                             }),
                HasSubstr("another shape"));
  }
}

// What the passes are checked with: the message names the pass, the value and the strategy.
TEST(StrategyMisfitDeathTest, EndsTheCompilation) {
  Graph g;
  attend(g);
  FusedRegion region;
  region.items.resize(1);
  region.items[0].group = group_with<RowBlocks>(g, "cpu");
  verify_region(region, g, "a good pass");
  region.items[0].group.stages[0].reduce = Reduce::max;
  EXPECT_EXIT(verify_region(region, g, "a bad pass"), testing::ExitedWithCode(70),
              "after a bad pass.*the strategy row blocks.*does not go with the group: the first sum is no contraction");
}

}  // namespace
}  // namespace metac::strategy_misfit_test
