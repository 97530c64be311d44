// From a fusion group (definitions that become one kernel) to a loop tree with the default schedule: collapse axes that
// are one run of memory, vectorise along the contiguous axis or along a reduction, parallelise the outermost loops.
// Contractions get their own schedule (compiler/tensor/contraction.h).
#pragma once
#include "compiler/loops/loop_tree.h"
#include "compiler/tensor/group.h"

namespace metac {

// begun: arguments that the kernel has already, and the first axis and local of its own (few_rows.h).
Kernel lower_group(const Group& group, const LoweringContext& context, Kernel begun = {});

}  // namespace metac
