#include "compiler/region/region_uses.h"

#include <algorithm>

#include "compiler/ir/reads.h"

namespace metac {
namespace {

void add(std::vector<size_t>& items, size_t item) {
  if (items.empty() || items.back() != item) items.push_back(item);
}

}  // namespace

RegionUses::RegionUses(const std::vector<Item>& items) {
  for (size_t k = 0; k < items.size(); ++k) {
    for (const Definition& d : items[k].group.stages) {
      Uses& made = uses_[d.out->id];
      add(made.makers, k);
      ++made.stores;
      visit_loads(d, [&](Expr n) { add(uses_[n->id].readers, k); });
    }
    if (items[k].op)
      for (const Var* in : reads_of(*items[k].op).vars) add(uses_[in->id].readers, k);
  }
}

const RegionUses::Uses& RegionUses::of(int var) const {
  static const Uses none;
  const auto found = uses_.find(var);
  return found == uses_.end() ? none : found->second;
}

void RegionUses::move_maker(int var, size_t before, size_t now) {
  std::vector<size_t>& makers = uses_[var].makers;
  std::replace(makers.begin(), makers.end(), before, now);
}

}  // namespace metac
