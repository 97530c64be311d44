// Normalisations behind convolutions, taken into their weights: what is quantised then is what an inference engine computes.
#pragma once
#include "compiler/ops/model.h"

namespace metac {

// How many were folded.
int fold_batch_norm(Model& model);

}  // namespace metac
