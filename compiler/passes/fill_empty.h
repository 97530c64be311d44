// What has no elements, or is computed out of such, becomes a fill: an op whose results have an extent of 0 is nothing to
// do, a reduction over nothing is its identity, and what reads an empty Var elsewhere reads it behind a condition that never
// holds. Behind this pass no meta-operator with known extents reads an empty Var, so that no strategy, tile or schedule
// meets an axis of no points that has a known extent; what is empty only at run time is a loop that does nothing. Kernels
// all of whose results are empty leave with fusion.
#pragma once
#include "compiler/ir/graph.h"

namespace metac {

// Is an extent of it known to be 0?
bool is_empty(const Shape& shape);

// How many ops became fills, those in regions included.
int fill_empty(Graph& graph);

}  // namespace metac
