// Chooses the schedule of one kernel: contractions get the contraction schedule, everything else the default one.
#pragma once
#include "compiler/kernel/lower_group.h"
#include "compiler/passes/compile.h"

namespace metac {

Kernel schedule(const Group& group, const LoweringContext& context, const CompileOptions& options);

}  // namespace metac
