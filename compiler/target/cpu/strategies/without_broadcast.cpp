#include "compiler/target/cpu/strategies/without_broadcast.h"

#include <algorithm>

namespace metac {
namespace {

bool is_over_symbols(Expr e) {
  return !any_of(e, [](Expr n) { return n->kind == ExprKind::axis || n->kind == ExprKind::load; });
}

// The loop whose index `e` is at most, min(axis, last), with the last element that there is; null: `e` is something else.
const Loop* broadcast_loop(Expr e, const std::vector<Loop>& loops, Expr& last) {
  if (e->kind != ExprKind::call || e->fn != Fn::min || e->dtype != DType::i64) return nullptr;
  for (size_t k = 0; k < 2; ++k) {
    const Expr index = e->args[k];
    if (index->kind != ExprKind::axis || !is_over_symbols(e->args[1 - k])) continue;
    const auto loop = std::find_if(loops.begin(), loops.end(), [&](const Loop& l) { return l.axis == index->id; });
    if (loop == loops.end()) return nullptr;
    last = e->args[1 - k];
    return &*loop;
  }
  return nullptr;
}

}  // namespace

WithoutBroadcast without_broadcast(Expr value, const std::vector<Loop>& loops) {
  WithoutBroadcast plain;
  plain.value = rewrite(value, [&](Expr e) -> Expr {
    Expr last;
    const Loop* loop = broadcast_loop(e, loops, last);
    if (!loop) return {};
    const Expr all = loop->extent <= last + Expr(1);
    plain.condition = plain.condition ? logical_and(plain.condition, all) : all;
    return axis(loop->axis);
  });
  return plain;
}

}  // namespace metac
