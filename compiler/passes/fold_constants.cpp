#include "compiler/passes/fold_constants.h"

#include <algorithm>

#include "compiler/oracle/evaluate_graph.h"

namespace metac {
namespace {

class Folding {
 public:
  Folding(Graph& graph, const FoldLimits& limits)
      : graph_(graph), most_(limits.most_elements), budget_{limits.operations, limits.bytes} {}

  int fold_in(std::vector<Op*>& ops) {
    int folded = 0;
    std::vector<Op*> kept;
    for (Op* op : ops) {
      for (Region& region : op->regions) folded += fold_in(region.ops);
      if (is_candidate(*op) && fold(*op))
        ++folded;
      else
        kept.push_back(op);
    }
    ops = std::move(kept);
    return folded;
  }

 private:
  // Decided by dtypes and extents, before anything is evaluated or any memory taken.
  bool is_candidate(const Op& op) const {
    if (op.kind != OpKind::elementwise && op.kind != OpKind::reindex && op.kind != OpKind::reindex_reduce) return false;
    if (op.inputs.empty()) return false;  // a fill: its kernel is cheaper than its bytes
    for (const Var* in : op.inputs)
      if (!in || !in->constant || in->is_parameter || in->stop_fuse) return false;
    for (const Var* out : op.outputs) {
      if (out->stop_fuse || std::find(graph_.outputs.begin(), graph_.outputs.end(), out) != graph_.outputs.end())
        return false;
      if (!is_static(out->shape())) return false;
      int64_t count = 1;
      for (int64_t d : static_shape(out->shape()))
        if (__builtin_mul_overflow(count, d, &count)) return false;
      if (count > most_) return false;
    }
    return true;
  }

  bool fold(Op& op) {
    std::vector<const Tensor*> inputs;
    for (const Var* in : op.inputs) inputs.push_back(&*in->constant);
    auto values = evaluate_op(graph_, op, inputs, budget_);
    if (!values) return false;
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      op.outputs[k]->constant = std::move((*values)[k]);
      op.outputs[k]->producer = nullptr;
      op.outputs[k]->name.clear();  // constants with a name are initialisers
    }
    return true;
  }

  Graph& graph_;
  int64_t most_;
  Budget budget_;
};

}  // namespace

int fold_constants(Graph& graph, const FoldLimits& limits) { return Folding(graph, limits).fold_in(graph.ops); }

}  // namespace metac
