// The Jittor paper's cost of a partition (equation 9): the bytes on edges between groups. An edge is a Var that one group
// makes and another one reads; what several ops of one group read is one edge. Inputs, parameters and what `prepare`
// computes cost the same in every partition and are not counted. Host steps are groups of their own.
//
// Bytes are those of the Var's elements; a symbol counts as its hint, or as its least value (at least 1) without one.
#pragma once
#include <functional>
#include <vector>

#include "compiler/region/fusion/fuse.h"

namespace metac {

int64_t add_costs(int64_t a, int64_t b);  // saturates
// Of a partition. `var` by id.
int64_t fusion_cost(const FusedRegion& region, const std::vector<Symbol>& symbols,
                    const std::function<const Var*(int)>& var);
// Of the partition in which every op is a group: ops that depend on constants alone are left to `prepare`.
int64_t unfused_cost(const std::vector<Op*>& ops, const std::vector<Symbol>& symbols,
                     const std::function<bool(const Var*)>& is_constant);

}  // namespace metac
