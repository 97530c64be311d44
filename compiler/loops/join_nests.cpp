#include "compiler/loops/join_nests.h"

#include "compiler/loops/loop_transforms.h"

namespace metac {
namespace {

bool is_one_vector_loop(const LoopNode& node) {
  return !bool(node.guard) && node.loops.size() == 1 && node.loops[0].kind == LoopKind::vector &&
         !bool(node.loops[0].active) && node.locals.empty() && node.prefetches.empty() && node.assigns.size() == 1 &&
         node.children.empty();
}

// The reduction's steps, if they may follow the store of each vector.
LoopNode* steps_behind(const LoopNode& stored, LoopNode& next) {
  if (!is_one_vector_loop(stored) || stored.lane_reduced >= 0 || stored.assigns[0].update || !bool(stored.assigns[0].offset))
    return nullptr;
  if (bool(next.guard) || !next.loops.empty() || next.children.empty()) return nullptr;
  LoopNode& steps = next.children[0];
  if (!is_one_vector_loop(steps) || steps.lane_reduced < 0 || steps.loops[0].extent != stored.loops[0].extent)
    return nullptr;
  const int target = stored.assigns[0].target;
  const Expr offset = rewrite(stored.assigns[0].offset,
                              [&](Expr n) { return n == axis(stored.loops[0].axis) ? axis(steps.loops[0].axis) : Expr(); });
  bool read = false, elsewhere = false;
  visit(steps.assigns[0].value, [&](Expr n) {
    if (n->kind != ExprKind::load || n->id != target) return;
    (n->args.size() == 1 && n->args[0] == offset ? read : elsewhere) = true;
  });
  for (const Assign& a : next.assigns)
    elsewhere |= bool(a.offset) || any_of(a.value, [&](Expr n) { return n->kind == ExprKind::load && n->id == target; });
  return read && !elsewhere ? &steps : nullptr;
}

}  // namespace

void join_reductions(std::vector<LoopNode>& nests) {
  for (size_t k = 0; k + 1 < nests.size();) {
    LoopNode* steps = steps_behind(nests[k], nests[k + 1]);
    if (!steps) {
      ++k;
      continue;
    }
    substitute_axis(nests[k], nests[k].loops[0].axis, axis(steps->loops[0].axis));
    steps->assigns.insert(steps->assigns.begin(), nests[k].assigns[0]);
    nests[k + 1].comment = nests[k].comment + ", " + nests[k + 1].comment;
    nests.erase(nests.begin() + static_cast<int64_t>(k));
  }
}

}  // namespace metac
