// CTC: a loss over sequences whose labels have no places.
#pragma once
#include "compiler/train/losses.h"

namespace metac {

// Scores [batch, steps, classes], or [steps, batch, classes] with `time_first`; labels [batch, S]. Throws CompileError at
// the recipe's place where shapes do not fit.
LossValues write_ctc(const LossContext& context, const LossRecipe& loss);

}  // namespace metac
