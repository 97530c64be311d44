// The losses and optimisers of recipes as models of their own, for who writes training loops as code: the same formulas, of
// operands that are there and not of a step's.
#pragma once
#include <string>

#include "compiler/ops/model.h"
#include "compiler/train/losses.h"

namespace metac {

// Inputs "output" and "target", of these types with the batch first; one output, the loss, a scalar of output's dtype.
// `text`: a recipe's loss in JSON: "mse", or {"kind": "cross_entropy", ...}. Throws CompileError where it is none, or types
// do not fit.
Model loss_function(const std::string& text, const TypedShape& output, const TypedShape& target);

struct UpdateFunction {
  // Inputs: "rate" (float64) and "step" (int64, from 0), then of each parameter itself, its gradient and its slots. Outputs:
  // of each parameter its next value and its next slots.
  Model model;
  std::vector<std::string> slots;  // names: "momentum", ...
  double initial = 0;              // of a slot's elements
  double rate = 0;                 // learning_rate
};
// `text`: a recipe's optimizer in JSON. Throws CompileError where it is none.
UpdateFunction update_function(const std::string& text, const std::vector<TypedShape>& parameters);

}  // namespace metac
