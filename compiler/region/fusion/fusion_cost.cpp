#include "compiler/region/fusion/fusion_cost.h"

#include <algorithm>

#include "compiler/ir/hints.h"
#include "compiler/ir/reads.h"

namespace metac {

int64_t add_costs(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

int64_t fusion_cost(const FusedRegion& region, const std::vector<Symbol>& symbols,
                    const std::function<const Var*(int)>& var) {
  std::map<int, size_t> makers;
  for (size_t k = 0; k < region.items.size(); ++k) {
    const Item& item = region.items[k];
    for (const Definition& d : item.group.stages) makers[d.out->id] = k;
    if (item.op)
      for (const Var* out : item.op->outputs) makers[out->id] = k;
  }
  int64_t cost = 0;
  for (size_t k = 0; k < region.items.size(); ++k) {
    std::set<int> read;
    auto note = [&](int id) {
      auto view = region.views.find(id);
      int source = view == region.views.end() ? id : view->second->id;
      auto maker = makers.find(source);
      if (maker != makers.end() && maker->second != k) read.insert(source);
    };
    const Item& item = region.items[k];
    for (const Definition& d : item.group.stages) visit_loads(d, [&](Expr n) { note(n->id); });
    if (item.op)
      for (const Var* in : reads_of(*item.op).vars) note(in->id);
    for (int id : read) cost = add_costs(cost, hinted_bytes(var(id), symbols));
  }
  return cost;
}

int64_t unfused_cost(const std::vector<Op*>& ops, const std::vector<Symbol>& symbols,
                     const std::function<bool(const Var*)>& is_constant) {
  std::set<const Var*> made;
  std::set<const Var*> prepared;
  int64_t cost = 0;
  for (const Op* op : ops) {
    bool host = op->kind != OpKind::elementwise && op->kind != OpKind::reindex && op->kind != OpKind::reindex_reduce;
    std::set<const Var*> read;
    bool constant = !host && !op->inputs.empty();
    for (const Var* in : reads_of(*op).vars) {
      bool known = is_constant(in) || prepared.count(in);
      constant = constant && known;
      if (!known && made.count(in)) read.insert(in);
    }
    for (const Var* out : op->outputs) constant = constant && is_static(out->shape());
    for (const Var* out : op->outputs) (constant ? prepared : made).insert(out);
    for (const Var* in : read) cost = add_costs(cost, hinted_bytes(in, symbols));
  }
  return cost;
}

}  // namespace metac
