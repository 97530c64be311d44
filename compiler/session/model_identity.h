// What of a model decides the program that it is compiled to.
#pragma once
#include "compiler/ops/model.h"

namespace metac {

// Bytes that differ wherever two models could be compiled to different programs: all but where the model was read from and
// the elements of what is_only_weights().
std::string model_identity(const Model& model);

// An initialiser of floats that is too large to be anything else for most operators.
bool is_only_weights(const Initializer& initializer);

}  // namespace metac
