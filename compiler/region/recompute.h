// Making values of the forward computation a second time where keeping them would take more memory than there is.
//
// `kept_values` reads off a fused region which values live in memory for how long and what making each of them costs;
// compiler/region/choose_recomputed.h chooses among them. `recompute` then clones, in the graph, the ops that make a chosen
// value, in front of the first kernel that reads it late, and has the late readers read the clone. It must run after
// merge_equal_ops, which would undo it. What is cloned is fused again with what reads it: a clone of a cheap value often
// never reaches memory.
//
// No value changes but by the rounding of another fusion. Symbolic dims count as their hints; what host steps make is never
// made again.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "compiler/region/choose_recomputed.h"
#include "compiler/region/fusion/fuse.h"

namespace metac {

struct KeptRegion {
  std::vector<KeptValue> values;  // in the order in which they are made; steps are the region's items
  std::vector<Var*> vars;         // of the values
  int steps = 0;
};

// `is_constant`: parameters and what is made of them alone, which are not in the arena.
KeptRegion kept_values(const Graph& graph, const FusedRegion& region, const std::function<bool(const Var*)>& is_constant);

// `again`: as in RecomputePlan, of the values of `kept`, which was read off `region`, a fusion of graph.ops.
void recompute(Graph& graph, const FusedRegion& region, const KeptRegion& kept, const std::vector<int>& again);

}  // namespace metac
