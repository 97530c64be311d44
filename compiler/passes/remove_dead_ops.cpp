#include "compiler/passes/remove_dead_ops.h"

#include <algorithm>

namespace metac {
namespace {

// Backwards, so that the readers of a value come before its maker.
int remove_from(std::vector<Op*>& ops, std::set<const Var*>& live) {
  int removed = 0;
  std::vector<Op*> kept;
  for (size_t k = ops.size(); k-- > 0;) {
    Op* op = ops[k];
    if (is_meta(op->kind) &&
        std::none_of(op->outputs.begin(), op->outputs.end(), [&](const Var* out) { return live.count(out) > 0; })) {
      ++removed;
      continue;
    }
    for (Region& region : op->regions) {
      live.insert(region.results.begin(), region.results.end());
      removed += remove_from(region.ops, live);
    }
    live.insert(op->inputs.begin(), op->inputs.end());
    kept.push_back(op);
  }
  std::reverse(kept.begin(), kept.end());
  ops = std::move(kept);
  return removed;
}

}  // namespace

int remove_dead_ops(Graph& graph) {
  std::set<const Var*> live(graph.outputs.begin(), graph.outputs.end());
  return remove_from(graph.ops, live);
}

}  // namespace metac
