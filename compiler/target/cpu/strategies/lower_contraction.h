// A contraction as one kernel: its axes sorted by how the result is stored, collapsed where they are one run of memory, and
// computed in register tiles (tiled_sum.h) as the plan says.
#pragma once
#include "compiler/loops/loop_tree.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"

namespace metac {

// few_rows: the few bits of an operand are widened in registers, not panel by panel. begun: whose axes, locals and arguments
// the kernel's go on behind.
Kernel lower_contraction(const Group& group, const ContractionPlan& plan, const LoweringContext& context,
                         bool few_rows = false, Kernel begun = {});

}  // namespace metac
