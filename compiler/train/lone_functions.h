// The losses and optimisers of recipes as models of their own, for who writes training loops as code: the same formulas, of
// operands that are there and not of a step's.
#pragma once
#include <string>

#include "compiler/ops/model.h"
#include "compiler/train/losses.h"

namespace metac {

// Inputs "output" and "target", of these types with the batch first; one output, the loss, a scalar of output's dtype, or
// with `each` that of each sample, [batch].
// `text`: a recipe's loss in JSON: "mse", or {"kind": "cross_entropy", ...}. Throws CompileError where it is none, or types
// do not fit.
Model loss_function(const std::string& text, const TypedShape& output, const TypedShape& target, bool each = false);

// What an optimiser, or an update around it, keeps for each parameter.
struct SlotOfUpdate {
  std::string name;             // "momentum", "accumulated", "average"
  double initial = 0;           // of its elements
  bool from_parameter = false;  // it begins as the parameter instead
};
struct UpdateFunction {
  // Inputs: "rate" (float64) and "step" (int64: updates before, from 0), with accumulation "apply" (bool: whether this call
  // ends an update), then of each parameter that trains itself, its gradient and its slots. Outputs: of each of them its
  // next value and its next slots. Where calls with gradients that are not finite change nothing, the model counts the
  // others itself: the input "taken" (int64: those before, from 0) instead of "step" and "apply", and the first output is
  // what it becomes.
  Model model;
  std::vector<SlotOfUpdate> slots;
  std::vector<bool> trains;  // by parameter
  double rate = 0;           // learning_rate
  int64_t accumulate = 1;    // calls of an update
  bool skips_non_finite = false;
};
struct NamedType {
  std::string name;  // what patterns of groups are compared with
  TypedShape type;
};
// `text`: a recipe's optimizer in JSON, or an object of "optimizer" and the recipe's "accumulate", "clip", "average",
// "groups" and "non_finite". Throws CompileError where it is neither, where a pattern matches no parameter, and where
// nothing is left to train.
UpdateFunction update_function(const std::string& text, const std::vector<NamedType>& parameters);

}  // namespace metac
