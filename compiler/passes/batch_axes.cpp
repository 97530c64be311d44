#include "compiler/passes/batch_axes.h"

#include <algorithm>

namespace metac {
namespace {

const Var* var_of(const Graph& graph, int id) { return graph.vars()[static_cast<size_t>(id)].get(); }

int64_t known(Expr e) { return e.if_int() ? e.as_int() : 0; }

// index = axis, axis*r + rest with 0 <= rest < r, or floor_div(axis, r), for rows `rows` of a value and `extent` of the axis;
// returns the axis, -1: something else.
int followed_axis(Expr index, int64_t rows, const Definition& d, const Bounds& bounds) {
  auto extent = [&](int k) { return known(d.domain[static_cast<size_t>(k)]); };
  if (index->kind == ExprKind::axis) return index->id < d.kept() && extent(index->id) == rows ? index->id : -1;
  if (index->kind == ExprKind::call && index->fn == Fn::floor_div && index->args[0]->kind == ExprKind::axis && index->args[1].if_int()) {
    int id = index->args[0]->id;
    return id < d.kept() && extent(id) == rows * index->args[1].as_int() ? id : -1;
  }
  Linear form = linear_form(index);
  for (auto& [term, step] : form.terms) {
    if (term->kind != ExprKind::axis || term->id >= d.kept() || step < 2 || extent(term->id) * step != rows) continue;
    Expr rest = index - term * Expr(step);
    if (!uses_axis(rest, term->id) && bounds.proves_at_least(rest, 0) && bounds.proves_less(rest, Expr(step))) return term->id;
  }
  return -1;
}

// Where `e` reads a row of an image, floor_mod(axis, r) with r a divisor of the image's rows, it is the same for all images:
// 0 stands there then.
Expr without_rows(Expr e, int axis_id, int64_t rows_of_image) {
  return rewrite(e, [&](Expr n) -> Expr {
    if (n->kind != ExprKind::call || n->fn != Fn::floor_mod || n->args[0] != axis(axis_id) || !n->args[1].if_int()) return {};
    return rows_of_image % n->args[1].as_int() == 0 ? Expr(0) : Expr();
  });
}

}  // namespace

BatchAxes::BatchAxes(const Graph& graph, const FusedRegion& region, const std::function<bool(const Var*)>& is_constant)
    : graph_(graph), region_(region), is_constant_(is_constant), items_(region.items.size()) {
  for (const Var* in : graph.inputs) {
    int64_t rows = in->rank() > 0 ? known(in->shape()[0]) : 0;
    if (rows > 1 && (batch_ == 1 || rows == batch_)) {
      batch_ = rows;
      vars_[in->id] = 0;
    }
  }
  if (batch_ == 1) return;
  for (size_t k = 0; k < region.items.size(); ++k) {
    std::vector<int> axes;
    if (!region.items[k].op && follow(region.items[k].group, axes)) items_[k] = axes;
  }
}

std::optional<int> BatchAxes::axis_of(const Definition& d, const std::map<int, int>& vars) const {
  if (d.scatter) return std::nullopt;
  Bounds bounds(graph_.symbols, d.domain);
  int found = -1;
  bool good = true;
  auto agree = [&](int axis_id) {
    good = good && axis_id >= 0 && (found < 0 || found == axis_id);
    found = axis_id;
  };
  visit_loads(d, [&](Expr n) {
    auto at = vars.find(n->id);
    if (at != vars.end()) return agree(followed_axis(n->args[static_cast<size_t>(at->second)], known(var_of(graph_, n->id)->shape()[static_cast<size_t>(at->second)]), d, bounds));
    good = good && is_constant_(var_of(graph_, n->id));  // what everyone reads whole is no obstacle only if it never changes
  });
  // Whole images only: 8 rows read as 2 by 4 follow the batch, but not image by image.
  if (!good || found < 0 || known(d.domain[static_cast<size_t>(found)]) % batch_ != 0) return std::nullopt;
  // The axis occurs nowhere else: not in a condition, not as a value, in no other index.
  auto elsewhere = [&](Expr e) {
    if (!e) return false;
    Expr rest = rewrite(e, [&](Expr n) -> Expr {
      if (n->kind != ExprKind::load) return {};
      auto at = vars.find(n->id);
      if (at == vars.end()) return {};
      std::vector<Expr> args = n->args;
      args[static_cast<size_t>(at->second)] = 0;
      return load(n->id, n->dtype, args);
    });
    return uses_axis(without_rows(rest, found, known(d.domain[static_cast<size_t>(found)]) / batch_), found);
  };
  if (elsewhere(d.body) || elsewhere(d.epilogue)) return std::nullopt;
  return found;
}

bool BatchAxes::follow(const Group& group, std::vector<int>& axes) {
  std::map<int, int> vars = vars_;
  for (const Definition& d : group.stages) {
    auto axis_id = axis_of(d, vars);
    if (!axis_id) return false;
    int out_axis = -1;
    Bounds bounds(graph_.symbols, d.domain);
    for (int k = 0; k < d.out->rank(); ++k) {
      Expr e = d.out_index[static_cast<size_t>(k)];
      if (!uses_axis(without_rows(e, *axis_id, known(d.domain[static_cast<size_t>(*axis_id)]) / batch_), *axis_id)) continue;
      if (out_axis >= 0 || followed_axis(e, known(d.out->shape()[static_cast<size_t>(k)]), d, bounds) != *axis_id) return false;
      if (known(d.out->shape()[static_cast<size_t>(k)]) % batch_ != 0) return false;
      out_axis = k;
    }
    auto before = vars.find(d.out->id);
    if (out_axis < 0 || (before != vars.end() && before->second != out_axis)) return false;
    if (*axis_id < group.shared && !axes.empty() && axes[0] != *axis_id) return false;
    vars[d.out->id] = out_axis;
    axes.push_back(*axis_id);
  }
  vars_ = std::move(vars);  // what follows the item may be cut even where the item itself may not
  if (group.shared > 0 && axes[0] >= group.shared) return false;
  if (group.contraction && group.contraction->lanes_axis == axes[0]) return false;
  return !group.winograd || (group.winograd->lanes_axis != axes[0] && group.winograd->y != axes[0] && group.winograd->x != axes[0]);
}

}  // namespace metac
