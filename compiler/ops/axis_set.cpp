#include "compiler/ops/axis_set.h"

#include <algorithm>

#include "compiler/ops/shape_operands.h"

namespace metac {

AxisSet::AxisSet(const std::vector<int64_t>& axes, int rank, std::string_view what) : rank_(rank) {
  for (int axis : check_axes(axes, rank, what)) numbers_.push_back(axis);
}

AxisSet::AxisSet(Graph& g, Var* axes, int rank, std::string_view what) : rank_(rank) {
  if (rank == 0 && axes->rank() == 1 && !axes->shape()[0].if_int()) {
    g.require(equal(axes->shape()[0], Expr(0)), concat(what, " must be empty: a scalar has no axes"));
    return;
  }
  std::vector<Expr> given = index_elements(g, axes, what);
  if (std::all_of(given.begin(), given.end(), [](Expr e) { return e.if_int() != nullptr; })) {
    std::vector<int64_t> values;
    for (Expr e : given) values.push_back(e.as_int());
    *this = AxisSet(values, rank, what);
    return;
  }
  if (static_cast<int>(given.size()) > rank) fail(what, " has ", given.size(), " entries for a rank of ", rank);
  for (Expr e : given) {
    g.require(logical_and(Expr(-rank) <= e, e < Expr(rank)), concat(what, " must be in [", -rank, ", ", rank, ")"));
    numbers_.push_back(simplified(g, select(e < Expr(0), e + Expr(rank), e)));
  }
  for (size_t i = 0; i < numbers_.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      g.require(not_equal(numbers_[i], numbers_[j]), concat(what, " must not name an axis twice"));
}

bool AxisSet::known() const {
  return std::all_of(numbers_.begin(), numbers_.end(), [](Expr e) { return e.if_int() != nullptr; });
}

std::vector<int> AxisSet::values() const {
  std::vector<int> out;
  for (Expr e : numbers_) out.push_back(static_cast<int>(e.as_int()));
  return out;
}

Expr AxisSet::contains(int axis) const {
  Expr any = bool_constant(false);
  for (Expr number : numbers_) any = logical_or(any, equal(number, Expr(axis)));
  return any;
}

Expr AxisSet::entry(const std::vector<Expr>& entries, int axis, Expr otherwise) const {
  METAC_ASSERT(entries.size() == numbers_.size(), "entries of axes");
  for (size_t i = 0; i < entries.size(); ++i) otherwise = select(equal(numbers_[i], Expr(axis)), entries[i], otherwise);
  return otherwise;
}

Var* split_by_axes(Graph& g, Var* x, const AxisSet& axes, std::optional<bool> last_is_named) {
  int rank = x->rank();
  Shape kept, named;
  std::vector<Expr> indices;
  for (int k = 0; k < rank; ++k) {
    const bool known = last_is_named && k == rank - 1;
    Expr is_named = known ? bool_constant(*last_is_named) : axes.contains(k);
    kept.push_back(select(is_named, Expr(1), x->shape()[k]));
    named.push_back(select(is_named, x->shape()[k], Expr(1)));
    indices.push_back(axis(k) + axis(rank + k));
  }
  kept.insert(kept.end(), named.begin(), named.end());
  return g.reindex({x}, kept, indices);
}

Var* without_axes(Graph& g, Var* x, const AxisSet& axes) {
  if (axes.known()) return axes.size() == 0 ? x : squeeze(g, x, axes.values());
  // The dim that stands at `place` afterwards: the one before which so many are kept.
  Shape shape;
  for (int place = 0; place < x->rank() - static_cast<int>(axes.size()); ++place) {
    Expr dim = 1, before = 0;
    for (int k = 0; k < x->rank(); ++k) {
      Expr is_named = axes.contains(k);
      dim = select(logical_and(logical_not(is_named), equal(before, Expr(place))), x->shape()[k], dim);
      before = before + select(is_named, Expr(0), Expr(1));
    }
    shape.push_back(simplified(g, dim));
  }
  return reshape(g, x, shape);
}

Var* with_axes(Graph& g, Var* x, const AxisSet& axes) {
  if (axes.known()) return unsqueeze(g, x, axes.values());
  Shape shape;
  Expr before = 0;  // how many of x's dims stand before this place
  for (int place = 0; place < axes.rank(); ++place) {
    Expr dim = 1;
    for (int k = std::min(place, x->rank() - 1); k >= 0; --k) dim = select(equal(before, Expr(k)), x->shape()[k], dim);
    Expr is_named = axes.contains(place);
    shape.push_back(simplified(g, select(is_named, Expr(1), dim)));
    before = before + select(is_named, Expr(0), Expr(1));
  }
  return reshape(g, x, shape);
}

Var* axis_to_last(Graph& g, Var* x, const AxisSet& one) {
  int rank = x->rank();
  if (one.known()) {
    std::vector<int> order = all_axes(rank);
    std::rotate(order.begin() + one.values()[0], order.begin() + one.values()[0] + 1, order.end());
    return order == all_axes(rank) ? x : transpose(g, x, order);
  }
  Shape shape;
  std::vector<Expr> indices;
  Expr extent = 1;
  for (int k = 0; k < rank; ++k) {
    Expr here = one.contains(k);
    shape.push_back(select(here, Expr(1), x->shape()[k]));
    indices.push_back(select(here, axis(rank), axis(k)));
    extent = select(here, x->shape()[k], extent);
  }
  shape.push_back(extent);
  return g.reindex({x}, shape, indices);
}

Var* axis_from_last(Graph& g, Var* y, const AxisSet& one) {
  if (one.known()) {
    std::vector<int> order = all_axes(y->rank());
    std::rotate(order.begin() + one.values()[0], order.end() - 1, order.end());
    return order == all_axes(y->rank()) ? y : transpose(g, y, order);
  }
  Shape shape;
  std::vector<Expr> indices;
  Expr along = 0;
  for (int k = 0; k < one.rank(); ++k) {
    Expr here = one.contains(k);
    shape.push_back(select(here, y->shape().back(), y->shape()[k]));
    indices.push_back(select(here, Expr(0), axis(k)));
    along = select(here, axis(k), along);
  }
  indices.push_back(along);
  return g.reindex({y}, shape, indices);
}

}  // namespace metac
