// Prefixes along an axis: CumSum, CumProd, and samples from a distribution.
#pragma once
#include "compiler/ir/graph.h"

namespace metac {

// Along `along`: out[i] reduces x[j] of all j <= i. exclusive: j < i. reverse: j >= i (j > i).
Var* running_reduction(Graph& g, Var* x, int along, Reduce reduction, bool exclusive, bool reverse);

}  // namespace metac
