#include "compiler/passes/schedule.h"

namespace metac {

Kernel schedule(const Group& group, const LoweringContext& context, const CompileOptions&) { return lower_group(group, context); }

}  // namespace metac
