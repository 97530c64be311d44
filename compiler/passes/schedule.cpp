#include "compiler/passes/schedule.h"

#include "compiler/kernel/contraction.h"

namespace metac {

Kernel schedule(const Group& group, const LoweringContext& context, const CompileOptions&) {
  return group.contraction ? lower_contraction(group, context) : lower_group(group, context);
}

}  // namespace metac
