// Checkpoints: parts of the forward computation that derivatives compute a second time instead of keeping their values
// (Chen and others, "Training deep nets with sublinear memory cost", 2016). The user says where, by the operator
// `checkpoint` around what was computed; compiler/region/recompute.h finds such places by itself under a budget.
//
// What lies in a checkpoint are the meta-operators between its operands and its results. The walk backwards, when it first
// comes to one of them, appends copies of all of them, and goes on with the copies: their values live from there to the last
// derivative that reads them, and those of the first computation end with their last reader in the forward part. Copies are
// marked, so that nothing merges them with the first computation again. What routines and loops make is kept: they may draw
// random numbers, and cost much.
#pragma once
#include <unordered_map>
#include <vector>

#include "compiler/autodiff/clone_region.h"
#include "compiler/ir/graph.h"

namespace metac {

// Everything that the open ops compute of `operands` on the way to `results` is one checkpoint, but for what is in another
// already.
void mark_checkpoint(Graph& graph, const std::vector<Var*>& operands, const std::vector<Var*>& results);

// For one walk backwards over ops.
class Recomputation {
 public:
  // `ops`: the list that is walked over; copies are appended to the graph's open ops.
  Recomputation(Graph& graph, const std::vector<Op*>& ops) : graph_(graph), ops_(ops.begin(), ops.end()), clone_(graph) {}

  // The op that derivatives read the values of: the op itself, or its copy.
  Op& read_by_derivatives(Op& op);
  // The Var that a Var of a copy stands for, else the Var itself.
  const Var* original(const Var* var) const;

 private:
  void compute_again(int checkpoint);

  Graph& graph_;
  const std::vector<Op*> ops_;
  Cloner clone_;
  std::unordered_map<const Op*, Op*> copies_;
  std::unordered_map<const Var*, const Var*> originals_;
};

}  // namespace metac
