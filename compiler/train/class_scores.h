// Losses and metrics over classes: an axis of the output has one score a class, the target the number of the right one.
#pragma once
#include <string>

#include "compiler/ir/tensor.h"
#include "compiler/train/losses.h"

namespace metac {

std::string output_of(const LossContext& context, const LossRecipe& loss);  // its name
// Type of the output; refuses one without the batch in front or that is no float.
TypedShape scores_of(const LossContext& context, const LossRecipe& loss);
// The axis of the classes, counted from the front.
int class_axis(const LossRecipe& loss, const TypedShape& scores);
// The scores as logarithms of probabilities.
std::string log_probabilities(const LossContext& context, const LossRecipe& loss, const std::string& scores, int axis);
// One-dimensional float tensor; one value gives a scalar.
Tensor tensor_of(DType dtype, const std::vector<double>& values);

[[noreturn]] void refuse_loss(const Place& place, const std::string& message);

LossValues write_cross_entropy(const LossContext& context, const LossRecipe& loss);

}  // namespace metac
