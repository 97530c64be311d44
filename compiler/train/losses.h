// Losses and metrics as nodes. Each loss is a tensor of values, [batch, ...], which is reduced to a scalar for a step and to
// one number a sample for an evaluation.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "compiler/train/node_writer.h"
#include "compiler/train/recipe/recipe.h"

namespace metac {

struct TypedShape {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;  // with the batch
};

// What a loss may ask of its surroundings.
struct LossContext {
  NodeWriter& write;
  int64_t batch;
  std::string first_output;  // the network's
  // Type and shape of an output, input or other value of the network; throws with `place` where there is none.
  std::function<TypedShape(const std::string& name, const Place& place)> value;
  // The field of that name; declared with this type where it is not yet there. Throws where it is something else already.
  std::function<TypedShape(const std::string& name, const TypedShape& type, const Place& place)> field;
};

struct LossValues {
  std::string values;   // [batch, ...]
  std::string weights;  // of the values, same shape: the mean divides by their sum; "": 1 each
  int rank = 1;         // of both
};

// Values of one loss. Throws CompileError at the recipe's place where shapes do not fit.
LossValues write_loss(const LossContext& context, const LossRecipe& loss);
// [] of all values; [batch] of each sample's.
std::string write_total(NodeWriter& write, const LossValues& loss, Reduction reduction, int64_t batch,
                        const std::string& hint);
std::string write_per_sample(NodeWriter& write, const LossValues& loss, Reduction reduction, const std::string& hint);

// One number a sample, [batch], float32. `loss`: whose output and target it looks at.
std::string write_metric(const LossContext& context, const MetricRecipe& metric, const LossRecipe& loss,
                         const std::string& loss_per_sample);
train::Aggregate aggregate_of(const MetricRecipe& metric);
bool greater_is_better(const MetricRecipe& metric);

}  // namespace metac
