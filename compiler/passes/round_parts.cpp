#include "compiler/passes/round_parts.h"

#include <map>

#include "compiler/ir/reads.h"

namespace metac {
namespace {

// A Concat is written (ir/builders.h) as each part spread over the whole, and a choice by the index along one axis.
bool is_spread(const Op* spread, int along, Expr start, Expr end) {
  if (!spread || spread->kind != OpKind::reindex || spread->inputs.size() != 1) return false;
  const Shape& part = spread->inputs[0]->shape();
  for (int k = 0; k < static_cast<int>(spread->indices.size()); ++k)
    if (spread->indices[static_cast<size_t>(k)] != (k == along ? axis(k) - start : axis(k))) return false;
  return static_cast<int>(part.size()) > along && part[static_cast<size_t>(along)] == end - start;
}

// Is the body nothing but choices by the index along one axis, each between parts that lie there?
bool chooses_parts(const Op& op) {
  struct Choice {
    Expr e, start, end;  // end: empty where no axis is known yet
  };
  std::vector<Choice> left = {{op.bodies[0], 0, {}}};
  size_t parts = 0;
  for (int along = -1; !left.empty();) {
    const Choice c = left.back();
    left.pop_back();
    if (c.e->kind == ExprKind::load) {
      if (along < 0 || ++parts > op.inputs.size() || c.e->args != identity_indices(op.outputs[0]->rank()) ||
          !is_spread(op.inputs[static_cast<size_t>(c.e->id)]->producer, along, c.start, c.end))
        return false;
      continue;
    }
    if (c.e->kind != ExprKind::call || c.e->fn != Fn::select) return false;
    const Expr before = c.e->args[0];
    if (before->kind != ExprKind::call || before->fn != Fn::lt || before->args[0]->kind != ExprKind::axis) return false;
    const int k = before->args[0]->id;
    if (along >= 0 && k != along) return false;
    const Expr end = along < 0 ? op.outputs[0]->shape()[static_cast<size_t>(k)] : c.end;
    along = k;
    left.push_back({c.e->args[1], c.start, before->args[1]});
    left.push_back({c.e->args[2], before->args[1], end});
  }
  return true;
}

bool is_concatenation(const Op* op) {
  return op && op->kind == OpKind::elementwise && op->outputs.size() == 1 && op->bodies[0]->kind == ExprKind::call &&
         chooses_parts(*op);
}

class RoundedParts {
 public:
  explicit RoundedParts(Graph& g) : g_(g) {
    for (const Op* op : g.ops)
      for (const Var* in : reads_of(*op).vars) ++readers_[in];
    for (const Var* out : g.outputs) ++readers_[out];
  }

  int run() {
    int count = 0;
    std::vector<Op*> ops;
    std::swap(ops, g_.ops);
    for (Op* op : ops) {
      if (const int whole = rounded_concatenation(*op); whole >= 0) {
        round_parts_of(*op, static_cast<size_t>(whole));
        ++count;
      }
      g_.ops.push_back(op);
    }
    return count;
  }

 private:
  // The operand that is a concatenation which nobody else reads and which the op rounds, everywhere in the same way; -1:
  // none.
  int rounded_concatenation(const Op& op) const {
    if (op.kind != OpKind::elementwise || op.outputs.size() != 1 || size_of(op.outputs[0]->dtype()) != 1 ||
        is_bool(op.outputs[0]->dtype()))
      return -1;
    // Indices of the element that is rounded are the one place where the position may be.
    int whole = -1;
    bool alike = true;
    const std::vector<Expr> here = identity_indices(op.outputs[0]->rank());
    const Expr without = rewrite(op.bodies[0], [&](Expr e) {
      if (e->kind != ExprKind::load || e->args != here || here.empty()) return Expr();
      alike = alike && (whole < 0 || whole == e->id);
      whole = e->id;
      return constant_of(e->dtype, 0);
    });
    if (!alike || any_of(without, [](Expr e) { return e->kind == ExprKind::axis; })) return -1;
    if (whole < 0) return -1;
    const Var* in = op.inputs[static_cast<size_t>(whole)];
    return in->shape() == op.outputs[0]->shape() && size_of(in->dtype()) > 1 && !in->stop_fuse && readers_.at(in) == 1 &&
                   is_concatenation(in->producer)
               ? whole
               : -1;
  }

  void round_parts_of(Op& op, size_t whole) {
    const Op& joined = *op.inputs[whole]->producer;
    const DType bytes = op.outputs[0]->dtype();
    std::vector<Var*> spreads;
    for (const Var* in : joined.inputs) {
      const Op& spread = *in->producer;
      std::vector<Var*> operands = op.inputs;
      operands[whole] = spread.inputs[0];
      Op* const rounded =
          g_.make_op(OpKind::elementwise, operands, {Type{TypeKind::tensor, bytes, spread.inputs[0]->shape()}});
      rounded->origin = op.origin;
      rounded->bodies = op.bodies;
      Op* const placed = g_.make_op(OpKind::reindex, {rounded->outputs[0]}, {Type{TypeKind::tensor, bytes, in->shape()}});
      placed->origin = joined.origin;
      placed->indices = spread.indices, placed->conditions = spread.conditions;
      placed->fill = constant_of(bytes, 0);
      spreads.push_back(placed->outputs[0]);
    }
    op.inputs = std::move(spreads);
    op.origin = joined.origin;
    op.bodies[0] =
        rewrite(joined.bodies[0], [&](Expr e) { return e->kind == ExprKind::load ? load(e->id, bytes, e->args) : Expr(); });
  }

  Graph& g_;
  std::map<const Var*, int> readers_;
};

}  // namespace

int round_parts(Graph& graph) { return RoundedParts(graph).run(); }

}  // namespace metac
