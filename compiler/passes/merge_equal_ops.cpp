#include "compiler/passes/merge_equal_ops.h"

#include <tuple>

#include "compiler/passes/replace_vars.h"

namespace metac {
namespace {

// Everything that decides what a meta-operator computes; Exprs are equal where their nodes are.
using Key = std::tuple<int, std::vector<int>, std::vector<uint64_t>, int, int, int>;

Key key_of(const Op& op) {
  std::vector<int> operands;
  for (const Var* in : op.inputs) operands.push_back(in ? in->id : -1);
  std::vector<uint64_t> expressions;
  auto add = [&](const std::vector<Expr>& es) {
    expressions.push_back(es.size());
    for (Expr e : es) expressions.push_back(e->serial);
  };
  add(op.bodies);
  add(op.indices);
  add(op.conditions);
  expressions.push_back(op.fill ? op.fill->serial + 1 : 0);
  for (const Var* out : op.outputs) {
    expressions.push_back(static_cast<uint64_t>(out->dtype()));
    add(out->shape());
  }
  bool reduces = op.kind == OpKind::reindex_reduce;
  return {static_cast<int>(op.kind), operands, expressions, reduces ? static_cast<int>(op.reduce) : 0,
          reduces ? static_cast<int>(op.accumulator) : 0, op.copied_for};
}

int merge_in(Graph& graph, std::vector<Op*>& ops, Replacements& by) {
  int merged = 0;
  std::map<Key, Op*> known;
  for (Op* op : ops) {
    replace_operands(*op, by);
    for (Region& region : op->regions) merged += merge_in(graph, region.ops, by);
    replace_results(*op, by);
    if (op->kind != OpKind::elementwise && op->kind != OpKind::reindex && op->kind != OpKind::reindex_reduce) continue;
    auto [first, fresh] = known.emplace(key_of(*op), op);
    if (fresh) continue;
    bool all = true;
    for (size_t k = 0; k < op->outputs.size(); ++k)
      all = all && may_be_replaced(graph, op->outputs[k], first->second->outputs[k]);
    if (!all) continue;
    for (size_t k = 0; k < op->outputs.size(); ++k) by[op->outputs[k]] = first->second->outputs[k];
    ++merged;
  }
  return merged;
}

}  // namespace

int merge_equal_ops(Graph& graph) {
  Replacements by;
  return merge_in(graph, graph.ops, by);
}

}  // namespace metac
