// Reductions to few results, for a GPU, in two passes: one block for each result (or one thread) would leave most of the
// card idle. The reduced axes are cut into parts that are reduced side by side; a second kernel combines the parts, in
// order, and has the epilogue.
//
//   y = f(sum of x[0..n))      parts[p] = sum of x[p*m .. (p+1)*m)      y = f(sum of parts[0..n/m))
//
// Long rows (a normalisation over whole images) that are too few, or whose elements lie apart in memory (channels last),
// come apart first: what reduces them, what is one value of a row, and the rest. Sums of products get more tiles so, where
// no library computes them. The number of parts depends on shapes alone: the bits are the same from run to run.
#pragma once
#include "compiler/region/fusion/fuse.h"

namespace metac {

void split_reductions(Graph& graph, FusedRegion& region, const LoweringContext& context);

}  // namespace metac
