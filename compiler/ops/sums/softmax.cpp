// Softmax, LogSoftmax, Hardmax. Before opset 13 the operand counts as a matrix: axes before `axis` are its rows, all
// others its columns; from 13 on `axis` alone is normalised.
#include "compiler/ops/sums/softmax.h"

#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/sums/reductions.h"

namespace metac {

namespace {

// The result is the same whatever is subtracted, so the derivative does not go by the maximum.
Var* maximum_of_rows(Graph& g, Var* x, const std::vector<int>& axes) {
  Var* top = reduce(g, x, axes, Reduce::max, true);
  if (top != x) top->stop_grad = true;
  return top;
}

}  // namespace

Var* softmax(Graph& g, Var* x, const std::vector<int>& axes) {
  Var* top = maximum_of_rows(g, x, axes);
  Var* powers = elementwise(g, {x, top}, [](const std::vector<Expr>& v) { return call(Fn::exp, {v[0] - v[1]}); });
  Var* total = reduce(g, powers, axes, Reduce::add, true);
  return elementwise(g, {powers, total}, [](const std::vector<Expr>& v) { return v[0] / v[1]; });
}

Var* log_softmax(Graph& g, Var* x, const std::vector<int>& axes) {
  Var* top = maximum_of_rows(g, x, axes);
  Var* shifted = elementwise(g, {x, top}, [](const std::vector<Expr>& v) { return v[0] - v[1]; });
  Var* total = reduce(g, map(g, Fn::exp, shifted), axes, Reduce::add, true);
  return elementwise(g, {shifted, total}, [](const std::vector<Expr>& v) { return v[0] - call(Fn::log, {v[1]}); });
}

namespace {

using Kind = Attribute::Kind;

std::vector<int> normalised_axes(Lowering& n) {
  int rank = n.input(0)->rank();
  require_float(n.input(0));
  bool as_matrix = n.opset() < 13;
  int64_t axis = n.integer("axis", as_matrix ? 1 : -1);
  if (as_matrix && axis == rank) return {};  // rows of one column
  if (rank == 0) return {};
  int first = check_axis(axis, rank);
  return as_matrix ? axes_from(first, rank) : std::vector<int>{first};
}

LowerFunction normalising(Var* (*function)(Graph&, Var*, const std::vector<int>&)) {
  return [function](Lowering& n) {
    Graph& g = n.graph();
    std::vector<int> axes = normalised_axes(n);
    n.set_output(0, cast(g, function(g, widen(g, n.input(0)), axes), n.input(0)->dtype()));
  };
}

// 1 at the first maximum of each row, 0 elsewhere: the least position among those that hold the maximum.
Var* hardmax(Graph& g, Var* x, const std::vector<int>& axes) {
  Var* top = reduce(g, x, axes, Reduce::max, true);
  Expr position = int_constant(0), count = int_constant(1);
  for (size_t k = axes.size(); k-- > 0;) {
    position = position + axis(axes[k]) * count;
    count = count * x->shape()[axes[k]];
  }
  Var* candidates =
      elementwise(g, {x, top}, [&](const std::vector<Expr>& v) { return select(equal(v[0], v[1]), position, count); });
  Var* first = reduce(g, candidates, axes, Reduce::min, true);
  first = broadcast_to(g, first, x->shape());
  DType dtype = x->dtype();
  return elementwise(g, {first}, [&](const std::vector<Expr>& v) {
    return select(equal(v[0], position), constant_of(dtype, 1), constant_of(dtype, 0));
  });
}

METAC_OPERATOR("Softmax")
    .since({1, 11, 13})
    .inputs(1)
    .outputs(1)
    .attribute("axis", Kind::integer)
    .lower(normalising(softmax));
METAC_OPERATOR("LogSoftmax")
    .since({1, 11, 13})
    .inputs(1)
    .outputs(1)
    .attribute("axis", Kind::integer)
    .lower(normalising(log_softmax));
METAC_OPERATOR("Hardmax")
    .since({1, 11, 13})
    .inputs(1)
    .outputs(1)
    .attribute("axis", Kind::integer)
    .lower(normalising(hardmax));

}  // namespace
}  // namespace metac
