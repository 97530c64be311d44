// A float32 network as a recipe with "quantization" trains it.
#pragma once
#include <string>

#include "compiler/session/session.h"
#include "compiler/train/recipe/recipe.h"

namespace metac {

// Ranges are seen on samples of the recipe's training data, evenly spaced, as the training program would feed them but for
// augmentation. `folder`: where the recipe's paths begin. Throws CompileError where the data does not fit the model or where
// there is nothing to quantise.
QuantizedNetwork quantize_for_training(const Model& model, const Recipe& recipe, const std::string& folder,
                                       const SessionOptions& session);

}  // namespace metac
