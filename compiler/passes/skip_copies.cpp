#include "compiler/passes/skip_copies.h"

#include <algorithm>
#include <map>

#include "compiler/ir/bounds.h"
#include "compiler/ir/reads.h"
#include "compiler/passes/replace_vars.h"

namespace metac {
namespace {

bool is_identity(const std::vector<Expr>& indices, const Shape& shape, const Bounds& bounds) {
  for (size_t k = 0; k < indices.size(); ++k)
    if (!shape[k].is_int(1) && simplify(indices[k], bounds) != axis(static_cast<int>(k))) return false;
  return true;
}

// A Reindex that is nothing but indices into one operand.
bool is_plain_reindex(const Op* op) {
  return op && op->kind == OpKind::reindex && op->inputs.size() == 1 && op->conditions.empty();
}

// The Var that the op merely hands on, or null.
Var* handed_on(const Graph& graph, const Op& op) {
  if (op.outputs.size() != 1) return nullptr;
  const Var* out = op.outputs[0];
  auto source = [&](Var* in, const std::vector<Expr>& at) {
    if (in->shape() != out->shape()) return static_cast<Var*>(nullptr);
    return is_identity(at, in->shape(), Bounds(graph.symbols, out->shape())) ? in : nullptr;
  };
  if (op.kind == OpKind::elementwise && op.bodies[0]->kind == ExprKind::load)
    return source(op.inputs[static_cast<size_t>(op.bodies[0]->id)], op.bodies[0]->args);
  if (!is_plain_reindex(&op)) return nullptr;
  if (Var* in = source(op.inputs[0], op.indices)) return in;
  const Op* first = op.inputs[0]->producer;
  if (!is_plain_reindex(first) || op.inputs[0]->stop_fuse || first->inputs[0]->shape() != out->shape()) return nullptr;
  std::vector<Expr> through;
  for (Expr e : first->indices) through.push_back(substitute_axes(e, op.indices));
  return source(first->inputs[0], through);
}

int skip_in(Graph& graph, std::vector<Op*>& ops, Replacements& by) {
  int skipped = 0;
  for (Op* op : ops) {
    replace_operands(*op, by);
    for (Region& region : op->regions) skipped += skip_in(graph, region.ops, by);
    replace_results(*op, by);
    Var* source = handed_on(graph, *op);
    if (!source || !may_be_replaced(graph, op->outputs[0], source)) continue;
    by[op->outputs[0]] = source;
    ++skipped;
  }
  return skipped;
}

// A copy that processes exchange is no kernel of its own where nobody else reads what is copied.
int exchange_in_place(Graph& graph) {
  std::map<const Var*, int> readers;
  for (const Op* op : graph.ops)
    for (const Var* in : reads_of(*op).vars) ++readers[in];
  for (const Var* out : graph.outputs) ++readers[out];
  Replacements by;
  for (Op* op : graph.ops) {
    replace_operands(*op, by);
    Var* const out = op->outputs.empty() ? nullptr : op->outputs[0];
    if (!out || out->exchanged < 0 || op->kind != OpKind::elementwise || op->inputs.size() != 1) continue;
    Var* const in = op->inputs[0];
    const bool ours = readers[in] == 1 && in->producer && in->producer->regions.empty() && in->exchanged < 0 &&
                      handed_on(graph, *op) == in;
    if (!ours || std::count(graph.outputs.begin(), graph.outputs.end(), out) > 0) continue;
    in->exchanged = out->exchanged;
    in->stop_fuse = true;
    out->exchanged = -1;
    by[out] = in;
  }
  for (Op* op : graph.ops) replace_operands(*op, by);
  return static_cast<int>(by.size());
}

}  // namespace

int skip_copies(Graph& graph) {
  Replacements by;
  const int skipped = skip_in(graph, graph.ops, by);
  return skipped + exchange_in_place(graph);
}

}  // namespace metac
