// Chooses the schedule of one kernel: on a GPU lower_gpu's; on the CPU contractions get the contraction schedule, everything
// else the default one.
#pragma once
#include "compiler/kernel/lower_group.h"
#include "compiler/passes/compile.h"

namespace metac {

LoweringContext lowering_context(const Graph& graph, const Layouts& layouts, const CompileOptions& options, Target target);

Kernel schedule(const Group& group, const LoweringContext& context, Target target);

}  // namespace metac
