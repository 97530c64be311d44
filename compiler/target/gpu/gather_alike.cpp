#include "compiler/target/gpu/gather_alike.h"

#include <algorithm>

#include "compiler/machine/gpu_costs.h"
#include "compiler/region/region_uses.h"

namespace metac {
namespace {

class Gathering {
 public:
  Gathering(const FusedRegion& region, const LoweringContext& context)
      : region_(region), context_(context), uses_(region.items) {}

  GatheredRegion run() {
    out_.views = region_.views;
    for (const Item& item : region_.items) {
      close_read_by(item);
      std::optional<FlatKernel> flat = candidate(item);
      if (!flat)
        out_.items.push_back(item);
      else
        add(item, std::move(*flat));
    }
    while (!open_.empty()) close(0);
    return {std::move(out_), std::move(members_)};
  }

 private:
  struct Batch {
    FlatKernel first;
    std::vector<Item> items;
    std::set<int> made;  // Var ids
    int64_t bytes = 0;
  };

  static int64_t bytes_of(const FlatKernel& flat) {
    int64_t bytes = 0;
    for (const KernelArgument& a : flat.kernel.arguments)
      bytes += element_count(a.var->shape()).as_int() * static_cast<int64_t>(size_of(a.var->dtype()));
    return bytes;
  }

  // What others wait for, processes or several items that make it together, is not put off.
  std::optional<FlatKernel> candidate(const Item& item) const {
    if (item.op) return std::nullopt;
    for (const Definition& d : item.group.stages)
      if (d.out->exchanged >= 0 || uses_.makers(d.out->id).size() > 1 || !is_static(d.domain)) return std::nullopt;
    std::optional<FlatKernel> flat = lower_gpu_flat(item.group, context_);
    if (flat)
      for (const KernelArgument& a : flat->kernel.arguments)
        if (!is_static(a.var->shape())) return std::nullopt;
    return flat && bytes_of(*flat) <= gpu_costs.member_bytes ? std::move(flat) : std::nullopt;
  }

  void add(const Item& item, FlatKernel flat) {
    const int64_t bytes = bytes_of(flat);
    auto same = [&](const Batch& b) { return do_the_same(b.first, flat); };
    auto found = std::find_if(open_.begin(), open_.end(), same);
    if (found != open_.end() &&
        (found->bytes + bytes > gpu_costs.put_off_bytes ||
         bytes_of_members(found->items.size() + 1, flat.kernel.arguments.size()) > gpu_costs.told_bytes)) {
      close(static_cast<size_t>(found - open_.begin()));
      found = open_.end();
    }
    if (found == open_.end()) found = open_.insert(open_.end(), {std::move(flat), {}, {}, 0});
    found->items.push_back(item);
    for (const Definition& d : item.group.stages) found->made.insert(d.out->id);
    found->bytes += bytes;
  }

  // Host steps may read anything: all is done before them.
  void close_read_by(const Item& item) {
    if (item.op) {
      while (!open_.empty()) close(0);
      return;
    }
    for (const Definition& d : item.group.stages)
      visit_loads(d, [&](Expr n) {
        const int id = owner_of(n->id);
        for (size_t k = open_.size(); k-- > 0;)
          if (open_[k].made.count(id)) close(k);
      });
  }

  int owner_of(int id) const {
    for (auto view = region_.views.find(id); view != region_.views.end(); view = region_.views.find(id))
      id = view->second->id;
    return id;
  }

  void close(size_t k) {
    Batch batch = std::move(open_[k]);
    open_.erase(open_.begin() + static_cast<int64_t>(k));
    members_[out_.items.size()] = static_cast<int>(batch.items.size());
    for (Item& item : batch.items) out_.items.push_back(std::move(item));
  }

  const FusedRegion& region_;
  const LoweringContext& context_;
  FusedRegion out_;
  std::map<size_t, int> members_;
  std::vector<Batch> open_;
  RegionUses uses_;
};

}  // namespace

GatheredRegion gather_alike(const FusedRegion& region, const LoweringContext& context) {
  if (!region.repeats.empty()) return {region, {}};
  return Gathering(region, context).run();
}

std::vector<FlatKernel> lower_members(const std::vector<Item>& items, size_t first, int count,
                                      const LoweringContext& context, Group& all) {
  std::vector<FlatKernel> members;
  for (size_t k = first; k < first + static_cast<size_t>(count); ++k) {
    members.push_back(*lower_gpu_flat(items[k].group, context));
    all.stages.insert(all.stages.end(), items[k].group.stages.begin(), items[k].group.stages.end());
  }
  return members;
}

}  // namespace metac
