#include "compiler/passes/fill_empty.h"

#include <algorithm>

namespace metac {
namespace {

bool is_empty(const Var* var) { return metac::is_empty(var->shape()); }

void become_fill(Op& op, const std::vector<Expr>& values) {
  op.kind = OpKind::elementwise;
  op.inputs.clear();
  op.indices.clear();
  op.conditions.clear();
  op.fill = {};
  op.bodies = values;
}

// Zeros in place of what an expression would read from empty operands.
Expr without_empty_loads(Expr e, const Op& op) {
  return rewrite(e, [&](Expr n) -> Expr {
    return n->kind == ExprKind::load && is_empty(op.inputs[static_cast<size_t>(n->id)]) ? constant_of(n->dtype, 0) : Expr();
  });
}

bool fill(Op& op) {
  if (op.kind != OpKind::elementwise && op.kind != OpKind::reindex && op.kind != OpKind::reindex_reduce) return false;
  if (op.inputs.empty()) return false;
  const Var* const out = op.outputs[0];
  if (is_empty(out)) {
    std::vector<Expr> zeros;
    for (const Var* each : op.outputs) zeros.push_back(constant_of(each->dtype(), 0));
    become_fill(op, zeros);
    return true;
  }
  if (std::none_of(op.inputs.begin(), op.inputs.end(), is_empty)) return false;
  if (op.kind == OpKind::elementwise) {
    for (Expr& body : op.bodies) body = without_empty_loads(body, op);
    return false;
  }
  if (!is_empty(op.inputs[0])) return false;
  become_fill(op, {op.kind == OpKind::reindex_reduce ? cast(identity_of(op.reduce, op.accumulator), out->dtype())
                   : op.fill                         ? op.fill
                                                     : constant_of(out->dtype(), 0)});
  return true;
}

int fill_in(std::vector<Op*>& ops) {
  int filled = 0;
  for (Op* op : ops) {
    filled += fill(*op) ? 1 : 0;
    for (Region& region : op->regions) filled += fill_in(region.ops);
  }
  return filled;
}

}  // namespace

bool is_empty(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](Dim d) { return d.is_int(0); });
}

int fill_empty(Graph& graph) { return fill_in(graph.ops); }

}  // namespace metac
