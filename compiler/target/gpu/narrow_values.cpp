#include "compiler/target/gpu/narrow_values.h"

#include <algorithm>

#include "compiler/region/region_uses.h"

namespace metac {
namespace {

// What is converted by an op that does nothing else; null: it is none.
Var* converted(const Op& op) {
  if (op.kind != OpKind::elementwise || op.outputs.size() != 1 || op.inputs.size() != 1) return nullptr;
  const Expr body = op.bodies[0];
  Var* from = op.inputs[0];
  if (body->kind != ExprKind::cast || body->dtype != DType::f32 || !is_half(from->dtype())) return nullptr;
  const bool same = body->args[0]->kind == ExprKind::load && body->args[0]->args == identity_indices(from->rank()) &&
                    op.outputs[0]->shape() == from->shape();
  return same ? from : nullptr;
}

class Narrowing {
 public:
  Narrowing(FusedRegion& region, const std::vector<Op*>& ops, const Needed& needed, const std::vector<Symbol>& symbols,
            Graph* graph)
      : region_(region), symbols_(symbols), graph_(graph), uses_(region.items) {
    for (const Op* op : ops)
      if (Var* from = converted(*op)) narrow_[op->outputs[0]->id] = from;
    for (const Var* var : needed.in_memory) kept_.insert(var->id);
    for (auto& [view, source] : region.views) kept_.insert({view, source->id});
  }

  void run() {
    for (Item& item : region_.items)
      for (Definition& d : item.group.stages)
        if (is_widened(d, item.group)) narrow(d);
  }

 private:
  static Expr& value_of(Definition& d) { return d.reduce ? d.epilogue : d.body; }

  bool is_widened(Definition& d, const Group& group) const {
    const Expr value = value_of(d);
    if (value->kind != ExprKind::cast || value->dtype != DType::f32 || d.out->dtype() != DType::f32 ||
        !is_half(value->args[0]->dtype))
      return false;
    if (d.scatter || group.internal.count(d.out->id) || d.out->exchanged >= 0 || kept_.count(d.out->id) ||
        uses_.stores(d.out->id) > 1)
      return false;
    const auto found = narrow_.find(d.out->id);
    if (found == narrow_.end()) return graph_ != nullptr;
    const Var* from = found->second;
    return from->dtype() == value->args[0]->dtype && !kept_.count(from->id) && uses_.stores(from->id) == 0;
  }

  // What is stored instead.
  Var* narrow_of(const Definition& d, DType dtype) {
    const auto found = narrow_.find(d.out->id);
    return found != narrow_.end()
               ? found->second
               : graph_->elementwise({d.out}, cast(load(0, DType::f32, identity_indices(d.out->rank())), dtype));
  }

  void narrow(Definition& d) {
    const int wide = d.out->id;
    Var* const from = narrow_of(d, value_of(d)->args[0]->dtype);
    value_of(d) = value_of(d)->args[0];
    d.out = from;
    uses_.add_store(from->id);
    for (Item& item : region_.items)
      for (Definition& reader : item.group.stages) {
        bool reads = false;
        visit_loads(reader, [&](Expr n) { reads |= n->id == wide; });
        if (!reads) continue;
        replace_loads(reader, wide,
                      [&](const std::vector<Expr>& at) { return cast(load(from->id, from->dtype(), at), DType::f32); });
        simplify(reader, symbols_);
      }
  }

  FusedRegion& region_;
  const std::vector<Symbol>& symbols_;
  Graph* const graph_;
  std::map<int, Var*> narrow_;  // Var id -> what it is converted from
  std::set<int> kept_;          // Var ids that have to be in memory, or share it
  RegionUses uses_;
};

}  // namespace

void narrow_values(FusedRegion& region, const std::vector<Op*>& ops, const Needed& needed,
                   const std::vector<Symbol>& symbols, Graph* graph) {
  Narrowing(region, ops, needed, symbols, graph).run();
}

}  // namespace metac
