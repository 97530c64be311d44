#include "compiler/passes/split_parts.h"

namespace metac {

// A concatenation is one kernel per part: out[i] = select(i_k < c, a, b) splits into i_k < c and i_k >= c.
void split_parts(Item item, const std::vector<Symbol>& symbols, std::vector<Item>& all) {
  bool single = !item.op && item.group.stages.size() == 1 && !item.group.contraction && item.group.stages[0].is_plain();
  Expr condition;
  if (single) {
    Expr body = item.group.stages[0].body;
    if (body->kind == ExprKind::call && body->fn == Fn::select) condition = body->args[0];
  }
  bool splits = bool(condition) && condition->kind == ExprKind::call && condition->fn == Fn::lt && condition->args[0]->kind == ExprKind::axis && !condition->args[1]->has_load;
  if (splits) splits = !any_of(condition->args[1], [](Expr n) { return n->kind == ExprKind::axis; });
  if (!splits) {
    all.push_back(std::move(item));
    return;
  }
  int k = condition->args[0]->id;
  Expr at = condition->args[1];
  for (bool low : {true, false}) {
    Item part = item;
    Definition& d = part.group.stages[0];
    std::vector<Expr> renamed = identity_indices(static_cast<int>(d.domain.size()));
    if (!low) renamed[static_cast<size_t>(k)] = axis(k) + at;
    d.domain[static_cast<size_t>(k)] = low ? at : d.domain[static_cast<size_t>(k)] - at;
    d.body = substitute_axes(d.body->args[low ? 1 : 2], renamed);
    for (Expr& e : d.out_index) e = substitute_axes(e, renamed);
    simplify(d, symbols);
    split_parts(std::move(part), symbols, all);
  }
}

}  // namespace metac
