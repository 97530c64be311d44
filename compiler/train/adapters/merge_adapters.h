// Adapters added into the weights that they belong to: W + alpha / rank * A B, and the model is as large as before.
#pragma once
#include <string>

#include "compiler/ops/model.h"

namespace metac {

// `path`: a safetensors file (adapter_file.h). The sum is taken in float64 and rounded to the weight's type once. `model`:
// compilable. Throws CompileError as read_adapter_file does, where a weight is quantised, and where something else than
// products reads it, which would change too.
void merge_adapters(Model& model, const std::string& path);

}  // namespace metac
