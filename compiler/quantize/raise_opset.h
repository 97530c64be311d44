// Models of one opset as models of a later one, where few operators changed: scales along an axis came with opset 13,
// bfloat16 in convolutions and pools with 22.
#pragma once
#include "compiler/quantize/measure/observed_model.h"

namespace metac {

constexpr int64_t opset_of_axis_scales = 13, opset_of_bfloat16 = 22;

// To `wanted`, one of these. Throws CompileError where the model is too old, or has a node that this opset cannot say.
void raise_opset(Model& model, const std::map<std::string, KnownType>& types, int64_t wanted);

}  // namespace metac
