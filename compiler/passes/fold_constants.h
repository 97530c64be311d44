// Meta-operators whose operands are all constants of the model (not parameters, which may be refitted) become constants,
// computed by the reference evaluator. Only small ones: results of at most `most_elements`, all folds together within a
// budget of scalar operations and bytes; what exceeds it is left to `prepare`, which computes it with kernels.
#pragma once
#include "compiler/ir/graph.h"

namespace metac {

struct FoldLimits {
  int64_t most_elements = 4096;
  int64_t operations = 2'000'000, bytes = int64_t{8} << 20;  // of all folds together
};

// How many ops were folded away.
int fold_constants(Graph& graph, const FoldLimits& limits = {});

}  // namespace metac
