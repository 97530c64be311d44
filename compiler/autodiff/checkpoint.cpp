#include "compiler/autodiff/checkpoint.h"

#include <algorithm>
#include <unordered_set>

#include "compiler/ir/reads.h"
#include "compiler/ops/registry.h"

namespace metac {
namespace {

bool is_repeatable(const Op& op) {
  return is_meta(op.kind) &&
         std::all_of(op.outputs.begin(), op.outputs.end(), [](const Var* v) { return v->exchanged < 0; });
}

template <class Known>
bool any_known(const std::vector<Var*>& vars, const Known& known) {
  return std::any_of(vars.begin(), vars.end(), [&](const Var* v) { return known.count(v) > 0; });
}

}  // namespace

void mark_checkpoint(Graph& graph, const std::vector<Var*>& operands, const std::vector<Var*>& results) {
  const std::vector<Op*>& ops = graph.open_ops();
  std::unordered_set<const Var*> depends(operands.begin(), operands.end());
  for (const Op* op : ops)
    if (any_known(reads_of(*op).vars, depends)) depends.insert(op->outputs.begin(), op->outputs.end());
  std::unordered_set<const Var*> wanted(results.begin(), results.end());
  for (const Var* operand : operands) wanted.erase(operand);
  const int number = graph.checkpoints++;
  for (size_t k = ops.size(); k-- > 0;) {
    Op& op = *ops[k];
    if (!any_known(op.outputs, wanted) || !any_known(op.outputs, depends)) continue;
    if (op.checkpoint < 0 && is_repeatable(op)) op.checkpoint = number;
    for (const Var* read : reads_of(op).vars)
      if (std::find(operands.begin(), operands.end(), read) == operands.end()) wanted.insert(read);
  }
}

Op& Recomputation::read_by_derivatives(Op& op) {
  if (op.checkpoint < 0) return op;
  if (!copies_.count(&op)) compute_again(op.checkpoint);
  return *copies_.at(&op);
}

const Var* Recomputation::original(const Var* var) const {
  const auto found = originals_.find(var);
  return found == originals_.end() ? var : found->second;
}

void Recomputation::compute_again(int checkpoint) {
  for (Op* op : ops_) {
    if (op->checkpoint != checkpoint) continue;
    clone_.clone({op});
    Op* const copy = graph_.open_ops().back();
    copy->copied_for = checkpoint;
    copies_.emplace(op, copy);
    for (size_t k = 0; k < op->outputs.size(); ++k) originals_.emplace(copy->outputs[k], op->outputs[k]);
  }
}

// The first `results` operands, made of the others, of which everything in between is computed again for derivatives.
METAC_OPERATOR("checkpoint", "metac")
    .since({1})
    .inputs(1, -1)
    .outputs(1, -1)
    .required("results", Attribute::Kind::integer)
    .lower([](Lowering& n) {
      const int64_t results = n.integer("results", 0);
      if (results < 1 || results > static_cast<int64_t>(n.input_count()))
        fail("attribute results is ", results, "; there are ", n.input_count(), " inputs");
      if (static_cast<int64_t>(n.output_count()) > results)
        fail("there are ", n.output_count(), " outputs of ", results, " results");
      std::vector<Var*> made, of;
      for (size_t k = 0; k < n.input_count(); ++k) (static_cast<int64_t>(k) < results ? made : of).push_back(n.input(k));
      mark_checkpoint(n.graph(), of, made);
      for (size_t k = 0; k < n.output_count(); ++k)
        if (n.wants_output(k)) n.set_output(k, made[k]);
    });

}  // namespace metac
