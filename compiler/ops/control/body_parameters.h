// Parameters that stand in the bodies of If, Loop and Scan, moved to the model's own: there they can be trained,
// differentiated by and given new values like all others, and the bodies read them from outside, as ONNX lets bodies do.
#pragma once
#include "compiler/ops/model.h"

namespace metac {

// The model with every floating-point initialiser of a body at the top, under its own name or, where another value has that,
// under "name.2", "name.3", ... One that is itself an output or a default of an input of its body stays. Bodies are copied,
// tensors are not.
Model with_body_parameters(const Model& model);

}  // namespace metac
