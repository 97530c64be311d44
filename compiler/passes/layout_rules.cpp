#include "compiler/passes/layout_rules.h"

#include <algorithm>

namespace metac {

Layout last(int rank, int the_axis) {
  Layout layout;
  for (int k = 0; k < rank; ++k)
    if (k != the_axis) layout.order.push_back(k);
  layout.order.push_back(the_axis);
  return layout;
}

int64_t gap_for(Expr extent) { return extent.if_int() && extent.as_int() % 1024 == 0 ? 16 : 0; }

std::optional<Layout> order_of_loops(const Definition& d) {
  int rank = d.out->rank();
  std::vector<std::pair<int, int>> axes;  // of the loops, of the result
  for (int k = 0; k < rank; ++k) {
    Expr e = d.out_index[static_cast<size_t>(k)];
    if (e->kind == ExprKind::axis) axes.push_back({e->id, k});
    else if (!e.is_int(0)) return std::nullopt;
    else axes.push_back({-1, k});
  }
  std::sort(axes.begin(), axes.end());
  if (rank == 0 || axes.back().second == rank - 1) return std::nullopt;
  Layout layout;
  for (auto& [loop, k] : axes) layout.order.push_back(k);
  layout.gap = gap_for(d.out->shape()[static_cast<size_t>(layout.order.back())]);
  return layout;
}

bool runs_along_sum(Expr index, int kept) {
  int reduced = 0, slides = 0;
  for (auto& [term, step] : linear_form(index).terms) {
    if (term->kind != ExprKind::axis) return false;
    reduced += term->id >= kept && step == 1;
    slides += step > -8 && step < 8;
  }
  return reduced == 1 && slides == 1;
}

}  // namespace metac
