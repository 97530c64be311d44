// Which loops of a kernel run in parallel, and what one iteration of them costs: in work of 8 elements, of which the runtime
// takes several together where they are cheap.
#pragma once
#include <vector>

#include "compiler/loops/loop_tree.h"

namespace metac {

// Of one iteration of the loops that a kernel's stages share: all of its stages.
double cost_of_rows(const Kernel& kernel, const std::vector<Symbol>& symbols);

// A kernel of one stage: its outer loops run in parallel, as many as leave enough work inside one iteration. Sets its cost.
void parallelise_outer_loops(Kernel& kernel, const std::vector<Symbol>& symbols);

}  // namespace metac
