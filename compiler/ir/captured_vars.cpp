#include "compiler/ir/captured_vars.h"

#include <set>

namespace metac {

static void collect(const Region& region, std::set<const Var*>& made, std::set<Var*, bool (*)(const Var*, const Var*)>& used) {
  made.insert(region.params.begin(), region.params.end());
  for (const Op* op : region.ops) {
    for (Var* v : op->inputs)
      if (v && !made.contains(v)) used.insert(v);
    for (const Region& inner : op->regions) collect(inner, made, used);
    made.insert(op->outputs.begin(), op->outputs.end());
  }
  for (Var* v : region.results)
    if (v && !made.contains(v)) used.insert(v);
}

std::vector<Var*> captured_vars(const Region& region) {
  std::set<const Var*> made;
  std::set<Var*, bool (*)(const Var*, const Var*)> used([](const Var* a, const Var* b) { return a->id < b->id; });
  collect(region, made, used);
  return {used.begin(), used.end()};
}

}  // namespace metac
