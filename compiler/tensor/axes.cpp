#include "compiler/tensor/axes.h"

#include <algorithm>
#include <limits>
#include <set>

#include "compiler/ir/walks.h"

namespace metac {

static constexpr int all = std::numeric_limits<int>::max();

std::vector<int> axes_used(Expr e, int from, int to) {
  std::set<int> axes;
  visit(e, [&](Expr n) {
    if (n->kind == ExprKind::axis && n->id >= from && n->id < to) axes.insert(n->id);
  });
  return {axes.begin(), axes.end()};
}

bool covers(Expr load, Expr condition) {
  const std::vector<int> own = axes_used(load, 0, all), wanted = axes_used(condition, 0, all);
  return std::includes(own.begin(), own.end(), wanted.begin(), wanted.end());
}

bool reads_position(Expr e) {
  return answer_once<bool>(e, [](Expr n, const auto& of) {
    return n->kind == ExprKind::axis ||
           (n->kind != ExprKind::load && std::any_of(n->args.begin(), n->args.end(), [&](Expr a) { return of(a); }));
  });
}

// The step of sums and of products by constants that are not in canonical form, because they were computed from data.
static Expr step_of_terms(Expr e, int axis_id) {
  return answer_once<Expr>(e, [axis_id](Expr n, const auto& of) -> Expr {
    if (!uses_axis(n, axis_id)) return 0;
    if (n->kind == ExprKind::axis) return 1;
    if (n->kind != ExprKind::call) return {};
    if (n->fn == Fn::add) {
      Expr left = of(n->args[0]), right = of(n->args[1]);
      return bool(left) && bool(right) ? left + right : Expr();
    }
    if (n->fn != Fn::mul || !n->args[1].if_int()) return {};
    Expr step = of(n->args[0]);
    return bool(step) ? step * n->args[1] : Expr();
  });
}

Expr byte_looked_up(Expr load) {
  if (load->args.size() != 1 || size_of(load->dtype) != 1 || is_bool(load->dtype)) return {};
  const Expr at = load->args[0];
  return at->kind == ExprKind::cast && at->args[0]->dtype == DType::u8 ? at->args[0] : Expr();
}

Expr stride_of(Expr offset, int axis_id) {
  if (!uses_axis(offset, axis_id)) return 0;
  if (offset->has_load) {
    // A gather: only terms outside the loaded part may advance.
    Linear form = linear_form(offset);
    if (form.terms.size() == 1 && form.terms[0].first == offset) return step_of_terms(offset, axis_id);
  }
  const Expr next = axis(axis_id) + Expr(1);
  const Expr step =
      rewrite(offset, [&](Expr n) { return n->kind == ExprKind::axis && n->id == axis_id ? next : Expr(); }) - offset;
  return uses_axis(step, axis_id) || step->has_load ? Expr() : step;
}

IndexForm index_form(Expr index) {
  IndexForm form;
  for (int k : axes_used(index, 0, all)) form.steps.push_back({k, stride_of(index, k)});
  form.offset = rewrite(index, [](Expr n) { return n->kind == ExprKind::axis ? Expr(0) : Expr(); });
  return form;
}

}  // namespace metac
