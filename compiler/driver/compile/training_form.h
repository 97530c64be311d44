// Models that were exported for training.
#pragma once
#include "compiler/ops/model.h"

namespace metac {

// A library computes what the file says. Where that is what only training wants, it is said on standard error.
void warn_of_training_form(const Model& model);

}  // namespace metac
