// Element-wise work with operands that lie across the result (transposes): on a GPU a tile of 32 by 32 elements goes through
// shared memory, so that neighbouring threads read neighbours and write neighbours.
#pragma once
#include "compiler/loops/loop_tree.h"
#include "compiler/loops/stage_lowering.h"

namespace metac {

// False, and nothing is changed: no operand lies across, or one is read under a condition, at an address out of memory, or
// along a third direction. `stage.kept` has the loops, `kernel` the arguments.
bool lower_gpu_move(Kernel& kernel, const Stage& stage, const std::vector<Symbol>& symbols);

}  // namespace metac
