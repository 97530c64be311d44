#include "compiler/region/store_into_parts.h"

#include <algorithm>

#include "compiler/region/region_uses.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

class PartStorer {
 public:
  PartStorer(std::vector<Item>& items, const Layouts& layouts, const std::function<bool(const Var*)>& may_move)
      : items_(items), layouts_(layouts), may_move_(may_move), uses_(items) {}

  void run() {
    for (size_t k = 0; k < items_.size(); ++k)
      if (const Var* value = copied_by(items_[k])) move(k, value);
    std::erase_if(items_, [](const Item& item) { return !item.op && item.group.stages.empty(); });
  }

 private:
  // The value, if the item copies all of it to one place of something larger.
  const Var* copied_by(const Item& item) const {
    if (item.op || item.group.stages.size() != 1) return nullptr;
    const Definition& d = item.group.stages[0];
    if (!d.is_plain() || d.body->kind != ExprKind::load || d.body->dtype != d.out->dtype()) return nullptr;
    const std::vector<size_t>& makers = uses_.makers(d.body->id);
    if (uses_.makers(d.out->id).size() < 2 || makers.size() != 1 || uses_.readers(d.body->id).size() != 1) return nullptr;
    const Group& group = items_[makers[0]].group;
    if (group.stages.size() != 1 || group.stages[0].scatter) return nullptr;
    const Var* value = group.stages[0].out;
    if (!may_move_(value) || value->shape() != d.domain || d.body->args != identity_indices(value->rank())) return nullptr;
    if (order_of(value) != order_of(d.out) || binds_for(d, makers[0], static_cast<size_t>(&item - items_.data())))
      return nullptr;
    for (size_t k = 0; k < d.out_index.size(); ++k)
      if (!(d.out_index[k] - axis(static_cast<int>(k))).is_constant()) return nullptr;
    return value;
  }

  // Does a host step between two items bind what the definition names? The larger value's size may be known only behind some
  // of its parts.
  bool binds_for(const Definition& d, size_t first, size_t last) const {
    std::set<int> named;
    visit_symbols(d, [&](int id) { named.insert(id); });
    for (size_t k = first; k < last && !named.empty(); ++k)
      if (items_[k].op && std::any_of(items_[k].op->symbols.begin(), items_[k].op->symbols.end(),
                                      [&](int id) { return named.count(id) > 0; }))
        return true;
    return false;
  }

  std::vector<int> order_of(const Var* v) const {
    auto found = layouts_.find(v->id);
    return found == layouts_.end() ? std::vector<int>{} : found->second.order;
  }

  void move(size_t k, const Var* value) {
    Definition& part = items_[k].group.stages[0];
    const size_t at = uses_.makers(value->id)[0];
    Definition& maker = items_[at].group.stages[0];
    std::vector<Expr> index;
    for (Expr e : part.out_index) index.push_back(substitute_axes(e, maker.out_index));
    maker.out_index = std::move(index);
    maker.out = part.out;
    merge_nodes(maker.nodes, part.nodes);
    uses_.move_maker(part.out->id, k, at);
    items_[k].group.stages.clear();
  }

  std::vector<Item>& items_;
  const Layouts& layouts_;
  const std::function<bool(const Var*)>& may_move_;
  RegionUses uses_;
};

}  // namespace

void store_into_parts(std::vector<Item>& items, const Layouts& layouts, const std::function<bool(const Var*)>& may_move) {
  PartStorer(items, layouts, may_move).run();
}

}  // namespace metac
