#include "compiler/loops/guard_steps.h"

#include <algorithm>

#include "compiler/ir/walks.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

// How many of the loops have to run around a condition.
size_t loops_around(Expr condition, const std::vector<Loop>& loops) {
  size_t count = 0;
  for (size_t k = 0; k < loops.size(); ++k)
    if (uses_axis(condition, loops[k].axis)) count = k + 1;
  return count;
}

}  // namespace

LoopNode guard_steps(LoopNode steps, Expr identity) {
  const Expr body = steps.assigns.at(0).value;
  if (steps.assigns.size() != 1 || body->kind != ExprKind::call || body->fn != Fn::select || body->args[2] != identity)
    return steps;
  std::vector<Expr> factors;
  conjuncts(body->args[0], factors);
  size_t around = 0;
  Expr guard, rest = bool_constant(true);
  for (Expr f : factors) {
    const size_t loops = loops_around(f, steps.loops);
    if (loops == steps.loops.size()) {
      rest = logical_and(rest, f);
      continue;
    }
    guard = guard ? logical_and(guard, f) : f;
    around = std::max(around, loops);
  }
  if (!guard) return steps;
  const auto inner = steps.loops.begin() + static_cast<int64_t>(around);
  LoopNode outer, guarded;
  outer.loops.assign(steps.loops.begin(), inner);
  guarded.guard = guard;
  guarded.loops.assign(inner, steps.loops.end());
  guarded.assigns = std::move(steps.assigns);
  guarded.assigns[0].value = select(rest, body->args[1], identity);
  outer.children.push_back(std::move(guarded));
  return outer;
}

}  // namespace metac
