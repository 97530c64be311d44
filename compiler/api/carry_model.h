// What a library made with --jit carries of its model.
#pragma once
#include "compiler/codegen/carried_model.h"
#include "compiler/ops/lower_model.h"

namespace metac {

// The model as `lower` takes it: inputs of the shapes, dims of the ranges that it states. Shares the model's elements.
// Throws CompileError where no input has an open dim: there would be nothing to specialise.
CarriedModel carry_model(const Model& model, const LowerOptions& lower);

}  // namespace metac
