#include "compiler/ir/stride.h"

#include "compiler/ir/walks.h"

namespace metac {

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

Expr stride_of(Expr offset, int axis_id) {
  if (!uses_axis(offset, axis_id)) return 0;
  if (offset->has_load) {
    // A gather: only terms outside the loaded part may advance.
    Linear form = linear_form(offset);
    if (form.terms.size() == 1 && form.terms[0].first == offset) return step_of_terms(offset, axis_id);
  }
  Expr step =
      rewrite(offset,
              [&](Expr n) { return n->kind == ExprKind::axis && n->id == axis_id ? axis(axis_id) + Expr(1) : Expr(); }) -
      offset;
  return uses_axis(step, axis_id) || step->has_load ? Expr() : step;
}

}  // namespace metac
