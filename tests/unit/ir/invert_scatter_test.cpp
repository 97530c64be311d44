#include "compiler/tensor/invert_scatter.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

#include "compiler/ir/builders.h"
#include "compiler/oracle/evaluate_graph.h"

namespace metac::invert_scatter_test {
namespace {

// y[n, o...] += x[n, i..., c, k...] where o = i*stride + k*dilation - pad, for elements whose o exists.
struct Scatter {
  std::vector<int64_t> stride, dilation, pad, in, taps, out;
  std::string text;
};

Scatter random_scatter(std::mt19937& random) {
  auto pick = [&](int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random); };
  Scatter s;
  int rank = static_cast<int>(pick(1, 2));
  for (int k = 0; k < rank; ++k) {
    s.stride.push_back(pick(1, 4));
    s.dilation.push_back(pick(1, 4));
    s.taps.push_back(pick(1, 4));
    s.in.push_back(pick(1, 9));
    s.pad.push_back(pick(0, 2));
    int64_t full = (s.in.back() - 1) * s.stride.back() + (s.taps.back() - 1) * s.dilation.back() + 1;
    s.out.push_back(std::max<int64_t>(1, full - s.pad.back() - pick(-2, 2)));
    s.text += "in " + std::to_string(s.in.back()) + " taps " + std::to_string(s.taps.back()) + " stride " +
              std::to_string(s.stride.back()) + " dilation " + std::to_string(s.dilation.back()) + " pad " +
              std::to_string(s.pad.back()) + " out " + std::to_string(s.out.back()) + "; ";
  }
  return s;
}

Var* scatter(Graph& g, const Scatter& s) {
  int rank = static_cast<int>(s.in.size());
  Shape domain = {2}, result = {2};
  for (int64_t n : s.in) domain.push_back(n);
  domain.push_back(3);
  for (int64_t n : s.taps) domain.push_back(n);
  std::vector<Expr> index = {axis(0)}, inside;
  for (int k = 0; k < rank; ++k) {
    size_t at = static_cast<size_t>(k);
    Expr o = axis(1 + k) * Expr(s.stride[at]) + axis(2 + rank + k) * Expr(s.dilation[at]) - Expr(s.pad[at]);
    index.push_back(o);
    inside.push_back(Expr(0) <= o);
    inside.push_back(o < Expr(s.out[at]));
    result.push_back(s.out[at]);
  }
  Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f64, domain});
  return g.reindex_reduce({x}, result, index, Reduce::add, inside);
}

// The gather form as meta-operators of its own: a reindex and a sum over its last axes.
Var* gather(Graph& g, const Definition& d, Var* original) {
  Var* x = g.add_input("x", original->type);
  Expr body = d.body;
  if (!d.reduce && body->kind == ExprKind::cast) body = body->args[0];
  std::vector<Expr> conditions;
  while (body->kind == ExprKind::call && body->fn == Fn::select) {
    conditions.push_back(body->args[0]);
    body = body->args[1];
  }
  if (body.is_constant()) return g.elementwise({}, d.out->shape(), body);  // nothing reaches the result
  EXPECT_EQ(body->kind, ExprKind::load);
  Var* read = g.reindex({x}, d.domain, body->args, conditions, float_constant(0, DType::f64));
  if (!d.reduce) return read;
  std::vector<int> summed;
  for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) summed.push_back(k);
  return reduce(g, read, summed, Reduce::add, false);
}

// Was the scatter that is the graph's last op inverted? Then both forms must give the same.
bool inverted_alike(const Graph& forward) {
  std::vector<Definition> definitions = definitions_of(forward.ops.back(), forward.symbols);
  EXPECT_EQ(definitions.size(), 1u);
  if (definitions[0].scatter) return false;
  Graph backward;
  backward.outputs = {gather(backward, definitions[0], forward.inputs[0])};
  std::vector<double> values;
  std::vector<int64_t> shape;
  int64_t count = 1;
  for (Expr e : forward.inputs[0]->shape()) shape.push_back(e.as_int()), count *= e.as_int();
  for (int64_t k = 0; k < count; ++k) values.push_back(static_cast<double>(k % 1009 + 1));
  Tensor x = make_tensor<double>(DType::f64, shape, values);
  Tensor expected = evaluate(forward, std::vector<Tensor>{x})[0], found = evaluate(backward, std::vector<Tensor>{x})[0];
  EXPECT_EQ(expected.shape, found.shape);
  for (int64_t k = 0; k < expected.element_count(); ++k)
    EXPECT_EQ(number_at(expected, k), number_at(found, k)) << "element " << k;
  return true;
}

TEST(InvertScatter, GathersWhatTheScatterAdds) {
  std::mt19937 random(5);
  int inverted = 0;
  for (int round = 0; round < 400; ++round) {
    Scatter s = random_scatter(random);
    SCOPED_TRACE(s.text);
    Graph forward;
    forward.outputs = {scatter(forward, s)};
    inverted += inverted_alike(forward);
  }
  EXPECT_GT(inverted, 300);
}

// Gradients of images that were enlarged: neighbours of whole steps go to one element.
TEST(InvertScatter, GathersWhatStepsAdd) {
  for (auto [extent, step, offset] : {std::array<int64_t, 3>{8, 2, 0}, {9, 3, 0}, {7, 2, 0}, {10, 4, 1}, {2, 5, 0}}) {
    SCOPED_TRACE(std::to_string(extent) + " by " + std::to_string(step));
    Graph g;
    Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f64, {2, extent, 6, 3}});
    const std::vector<Expr> index = {axis(0), floor_div(axis(1), step) + Expr(offset), floor_div(axis(2), 2), axis(3)};
    g.outputs = {g.reindex_reduce({x}, {2, (extent - 1) / step + 1 + offset, 3, 3}, index, Reduce::add)};
    EXPECT_TRUE(inverted_alike(g));
  }
}

// Gradients of convolutions with groups: group and channel are one axis of the result. Nothing is summed over groups,
// however many there are.
TEST(InvertScatter, CutsWhatCountsAxesOut) {
  for (auto [groups, channels, sub] : {std::array<int64_t, 3>{32, 4, 1}, {2, 3, 5}, {7, 1, 1}, {1, 6, 2}}) {
    SCOPED_TRACE(std::to_string(groups) + " groups of " + std::to_string(channels));
    Graph g;
    Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f64, {groups, 3, channels, 5, sub}});
    const std::vector<Expr> index = {axis(0) * Expr(channels * sub) + axis(2) * Expr(sub) + axis(4), axis(3)};
    g.outputs = {g.reindex_reduce({x}, {groups * channels * sub, 5}, index, Reduce::add)};
    int64_t points = 1;
    const std::vector<Definition> found = definitions_of(g.ops.back(), g.symbols);
    for (Expr extent : found[0].domain) points *= extent.as_int();
    EXPECT_EQ(points, groups * channels * sub * 5 * 3);
    EXPECT_TRUE(inverted_alike(g));
  }
}

TEST(InvertScatter, LeavesWhatDependsOnData) {
  Graph g;
  Var* x = g.add_input("x", Type{TypeKind::tensor, DType::f32, {6}});
  Var* at = g.add_input("at", Type{TypeKind::tensor, DType::i64, {6}});
  g.outputs = {g.reindex_reduce({x, at}, {9}, {load(1, DType::i64, {axis(0)})}, Reduce::add)};
  EXPECT_TRUE(definitions_of(g.ops.back(), g.symbols)[0].scatter);
}

}  // namespace
}  // namespace metac::invert_scatter_test
