// Optimisers as element-wise nodes: the formulas of PyTorch's, and Lion's (Chen and others: "Symbolic discovery of
// optimization algorithms", 2023). The bodies of one parameter fuse into one kernel.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compiler/train/node_writer.h"
#include "compiler/train/recipe/recipe.h"

namespace metac {

// One parameter's update. All names are values of the step's model.
struct ParameterUpdate {
  std::string parameter, gradient;
  DType dtype = DType::f32;
  double weight_decay = 0, rate_scale = 1;
  std::vector<std::string> slots;  // in the order of slots_of
};
struct NextValues {
  std::string parameter;
  std::vector<std::string> slots;
};

// The states that this optimiser keeps per parameter: "momentum", "square". They start at `initial_slot`.
std::vector<std::string> slots_of(const OptimiserRecipe& optimiser);
double initial_slot(const OptimiserRecipe& optimiser);

// The gradients after the recipe's clipping; one dtype each.
void write_clip(NodeWriter& write, const Recipe& recipe, const std::vector<DType>& dtypes,
                std::vector<std::string>& gradients);
// Whether all gradients are numbers: a scalar truth.
std::string write_finite(NodeWriter& write, const std::vector<std::string>& gradients);
// What the state `old` becomes: `next` where the scalar truth `when` holds; always, where that is empty.
std::string write_applied(NodeWriter& write, const std::string& when, const std::string& old, const std::string& next);
// A gradient with those of the calls before it in the same update: `sum` is what they came to.
std::string write_accumulated(NodeWriter& write, const Recipe& recipe, const std::string& sum, const std::string& gradient,
                              const std::string& hint);
inline bool averages(const Recipe& recipe) { return recipe.average_decay > 0 || recipe.average_from; }

// Writes updates. Scalars that all parameters share (rates with their bias corrections) are computed once, in float64.
class OptimiserWriter {
 public:
  // `rate`, `step`: scalar inputs, float64 and int64; step counts from 0.
  OptimiserWriter(NodeWriter& write, const OptimiserRecipe& optimiser, std::string rate, std::string step)
      : write_(write), o_(optimiser), rate_(std::move(rate)), step_(std::move(step)) {}
  NextValues update(const ParameterUpdate& p);
  // The next moving average of a parameter whose next value is `next`.
  std::string average(const Recipe& recipe, const std::string& average, const std::string& next, DType dtype);

 private:
  // A float64 expression over @0 = rate and @1 = the number of this update, from 1, as a scalar of `dtype`.
  std::string scalar(const std::string& body, DType dtype);
  NextValues sgd(const ParameterUpdate& p, const std::string& g);
  NextValues adam(const ParameterUpdate& p, const std::string& g);
  NextValues adagrad(const ParameterUpdate& p, const std::string& g);
  NextValues rmsprop(const ParameterUpdate& p, const std::string& g);
  NextValues lion(const ParameterUpdate& p);
  std::string next(const ParameterUpdate& p, const std::vector<std::string>& operands, const std::string& body,
                   const char* what);

  NodeWriter& write_;
  const OptimiserRecipe& o_;
  std::string rate_, step_;
  std::map<std::pair<std::string, DType>, std::string> scalars_;
};

}  // namespace metac
