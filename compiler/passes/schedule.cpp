#include "compiler/passes/schedule.h"

#include "compiler/kernel/contraction.h"
#include "compiler/kernel/lower_gpu.h"
#include "compiler/kernel/lower_row_block.h"
#include "compiler/kernel/lower_winograd.h"

namespace metac {

Kernel schedule(const Group& group, const LoweringContext& context, Target target) {
  if (target == Target::cuda) return lower_gpu(group, context);
  if (group.winograd) return lower_winograd(group, context);
  if (group.row_blocks) return lower_row_block(group, context);
  return group.contraction ? lower_contraction(group, context) : lower_group(group, context);
}

}  // namespace metac
