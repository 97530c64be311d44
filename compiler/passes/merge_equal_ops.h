// Common subexpressions: of two meta-operators of one list with the same operands and the same expressions the second is
// not computed. Regions are looked at one by one; what a region computes is not replaced by what stands outside.
#pragma once
#include "compiler/ir/graph.h"

namespace metac {

// How many ops are not read any more (remove_dead_ops takes them away).
int merge_equal_ops(Graph& graph);

}  // namespace metac
