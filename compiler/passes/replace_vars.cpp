#include "compiler/passes/replace_vars.h"

#include <algorithm>

namespace metac {

static Var* replaced(const Replacements& by, Var* var) {
  for (auto found = by.find(var); found != by.end(); found = by.find(var)) var = found->second;
  return var;
}

void replace_operands(Op& op, const Replacements& by) {
  if (by.empty()) return;
  for (Var*& in : op.inputs)
    if (in) in = replaced(by, in);
}

void replace_results(Op& op, const Replacements& by) {
  if (by.empty()) return;
  for (Region& region : op.regions)
    for (Var*& result : region.results)
      if (result) result = replaced(by, result);
}

bool may_be_replaced(const Graph& graph, const Var* var, const Var* by) {
  if (var->stop_fuse != by->stop_fuse || var->exchanged != by->exchanged || var->dtype() != by->dtype() ||
      var->shape() != by->shape())
    return false;
  return std::find(graph.outputs.begin(), graph.outputs.end(), var) == graph.outputs.end();
}

}  // namespace metac
