#include "compiler/target/gpu/join_beside.h"

#include <algorithm>

#include "compiler/region/region_uses.h"
#include "compiler/target/gpu/strategies/gpu_strategies.h"
#include "compiler/target/gpu/strategies/lower_gpu.h"
#include "compiler/target/gpu/vendor/library_beside.h"

namespace metac {
namespace {

class Joining {
 public:
  Joining(FusedRegion region, const LoweringContext& context)
      : region_(std::move(region)), context_(context), uses_(region_.items) {}

  FusedRegion run() {
    for (size_t other = 0; other < region_.items.size(); ++other) {
      if (!is_alone(other)) continue;
      for (size_t product = 0; product < region_.items.size(); ++product)
        if (is_alone(product) && may_be_beside(definition(product), definition(other)) && join(product, other)) break;
    }
    std::erase_if(region_.items, [](const Item& item) { return !item.op && item.group.stages.empty(); });
    return std::move(region_);
  }

 private:
  const Definition& definition(size_t item) const { return region_.items[item].group.stages[0]; }

  bool is_alone(size_t item) const {
    const Item& i = region_.items[item];
    return !i.op && i.group.stages.size() == 1 && i.group.shared == 0 && !i.group.strategy &&
           uses_.stores(i.group.stages[0].out->id) == 1;
  }

  int owner_of(int id) const {
    for (auto view = region_.views.find(id); view != region_.views.end(); view = region_.views.find(id))
      id = view->second->id;
    return id;
  }

  bool reads(const Definition& d, int id) const {
    bool found = false;
    visit_loads(d, [&](Expr n) { found = found || owner_of(n->id) == owner_of(id); });
    return found;
  }

  // May the later of two items run where the earlier stands (`up`), or the earlier where the later does?
  bool may_move(size_t first, size_t last, bool up) const {
    const Definition& moved = definition(up ? last : first);
    for (size_t k = first + 1; k < last; ++k) {
      const Item& item = region_.items[k];
      if (item.op) return false;  // a host step may read anything
      for (const Definition& d : item.group.stages)
        if (up ? reads(moved, d.out->id) : reads(d, moved.out->id)) return false;
    }
    return true;
  }

  bool join(size_t product, size_t other) {
    const size_t first = std::min(product, other), last = std::max(product, other);
    const bool up = may_move(first, last, true);
    if (!up && !may_move(first, last, false)) return false;
    if (reads(definition(product), definition(other).out->id)) return false;
    if (!lower_gpu_beside(definition(product), definition(other), context_)) return false;
    Item joined;
    joined.group.stages = {definition(product), definition(other)};
    joined.group.strategy = std::make_shared<Beside>();
    region_.items[up ? first : last] = std::move(joined);
    region_.items[up ? last : first] = Item();
    return true;
  }

  FusedRegion region_;
  const LoweringContext& context_;
  RegionUses uses_;
};

}  // namespace

FusedRegion join_beside(FusedRegion region, const LoweringContext& context) {
  return region.repeats.empty() ? Joining(std::move(region), context).run() : region;
}

}  // namespace metac
