// Scales along an axis came with opset 13: models of opsets 11 and 12 as models of 13.
#pragma once
#include "compiler/quantize/observed_model.h"

namespace metac {

// Throws CompileError where the model is older, or has a node that opset 13 cannot say.
void raise_opset(Model& model, const std::map<std::string, KnownType>& types);

}  // namespace metac
