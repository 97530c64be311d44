#include "compiler/target/layout_pass.h"

#include <algorithm>

#include "compiler/ir/walks.h"

namespace metac {

void LayoutPass::note_makers() {
  for (size_t k = 0; k < region_.items.size(); ++k)
    for (const Definition& d : region_.items[k].group.stages) makers_[d.out->id] = k;
}

bool LayoutPass::must_be_plain(const Var* v) const {
  if (v->is_input || v->constant || needed_.in_memory.count(v) || !makers_.count(v->id)) return true;
  return std::any_of(region_.views.begin(), region_.views.end(), [&](const auto& view) { return view.second == v; });
}

const Definition* LayoutPass::made_by_prepare(int var) const {
  for (const Item& item : prepare_.items)
    if (!item.op && item.group.stages.size() == 1 && item.group.stages[0].out->id == var) return &item.group.stages[0];
  return nullptr;
}

Var* LayoutPass::prepare(Definition d) {
  const auto is_alike = [&](const Item& item) {
    if (item.op || item.group.stages.size() != 1 || !d.is_plain()) return false;
    const Definition& made = item.group.stages[0];
    return made.body == d.body && made.is_plain() && made.domain == d.domain && made.out_index == d.out_index &&
           made.out->dtype() == d.out->dtype() && made.out->shape() == d.out->shape();
  };
  // Values that others made may lie otherwise.
  for (Item& item : prepare_.items)
    if (is_alike(item) && std::find(prepared_.begin(), prepared_.end(), item.group.stages[0].out) != prepared_.end()) {
      merge_nodes(item.group.stages[0].nodes, d.nodes);
      return item.group.stages[0].out;
    }
  prepared_.push_back(d.out);
  prepare_.items.push_back(item_of(d));
  return d.out;
}

Expr LayoutPass::with_loads_of(Expr e, const Var* from, const Var* to) {
  if (from == to) return e;
  return rewrite_loads(e, [&](Expr node, const std::vector<Expr>& args) {
    return node->kind == ExprKind::load && node->id == from->id ? load(to->id, node->dtype, args) : Expr();
  });
}

void LayoutPass::insert_items(const std::function<void(size_t k, std::vector<Item>& all)>& place) {
  std::vector<Item> all;
  for (size_t k = 0; k < region_.items.size(); ++k) {
    for (Item& item : before_[k]) all.push_back(std::move(item));
    place(k, all);
    for (Item& item : after_[k]) all.push_back(std::move(item));
  }
  region_.items = std::move(all);
}

}  // namespace metac
