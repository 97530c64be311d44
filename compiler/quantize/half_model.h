// A float32 model that stores and computes in float16 or bfloat16. Its inputs and outputs stay as they are, by Casts.
#pragma once
#include "compiler/quantize/quantization_plan.h"

namespace metac {

struct HalfModel {
  Model model;
  std::map<std::string, std::string> halves;  // a value of the float32 model: its name in this one, of the half type
  int64_t converted = 0, kept = 0;            // nodes with float32 operands or results
  int64_t clipped = 0;                        // elements of weights beyond what the type holds
};

HalfModel half_model(const Model& model, const std::map<std::string, KnownType>& types, DType half,
                     const NodePatterns& keep);

}  // namespace metac
