// Fusion: from a list of ops to kernels-to-be (Groups), host steps and views.
//
// `paper` and `greedy` are the Jittor paper's algorithms: compiler/region/fusion/fuse_paper.h. `best` (here) goes beyond
// them; docs/decisions/fusion.md has what each step wins:
//   moves      a Reindex that only moves data is inlined into all its readers, costs nothing and never stands alone,
//              unless a host step needs it: a reshape is then a view of its operand's memory;
//   epilogue   element-wise ops follow a reduction in its kernel (against rule 2), reshapes and transposes of a
//              reduction's result become the way it is stored;
//   rows       reductions and what reads their results row by row share a kernel under the row loop (softmax, layer norm);
//   constants  what depends on parameters alone is never inlined into run kernels but computed by `prepare`.
#pragma once
#include <set>

#include "compiler/region/fused_region.h"

namespace metac {

enum class Fusion { paper, greedy, best };

struct Needed {
  std::set<const Var*> in_memory;   // results, operands of host steps and of nested regions
  std::set<const Var*> own_memory;  // those of them that may not be views: outputs of the graph, results of regions
};

// Made of indices alone and of functions that take long, as the cosines of a Fourier transform: stored, where its readers
// have more points, and made by `prepare`. A table that would take very much memory is not one: its elements are made where
// they are read.
bool is_costly_table(const Definition& d, const std::vector<Symbol>& symbols);

// `is_constant`: the Var is a parameter, a constant or prepared. `free_widening`: reading half types as float32 costs
// nothing (on a GPU), so the conversion is a move: operands of contractions stay in 16 bits.
FusedRegion fuse(const std::vector<Op*>& ops, const Needed& needed, const std::function<bool(const Var*)>& is_constant,
                 const std::vector<Symbol>& symbols, Fusion fusion, bool free_widening = false);

}  // namespace metac
