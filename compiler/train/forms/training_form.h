// A model exported for inference, put back into the form that is trained: BatchNormalization by the statistics of the batch
// with running averages as states, Dropout with random numbers.
#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "compiler/train/losses.h"
#include "compiler/train/recipe/recipe.h"

namespace metac {

// A running mean or variance of the model and its value after the step.
struct RunningStatistic {
  int initializer = -1;
  std::string next;  // value of the step's model
};

struct TrainingForm {
  std::vector<RunningStatistic> statistics;
  bool random = false;             // does it use the seed and the number of the call?
  std::vector<std::string> notes;  // for people
};

// The types of values of the model as it is.
using TypesOf = std::function<std::vector<TypedShape>(const std::vector<std::string>&)>;

// Rewrites the nodes of `model`, which is in inference form (inference_form.h), in place. `read`: values that the loss
// depends on. ONNX's random operators draw by the seed and the number of the call, as Dropout does. Throws CompileError with
// the node where one cannot train.
TrainingForm put_into_training_form(Model& model, const Recipe& recipe, const std::set<std::string>& read,
                                    const std::string& seed, const std::string& call, const TypesOf& types_of);

// Makes the random operators of a model draw the same in every run, so that two evaluations of the same parameters are
// equal.
void settle_random_nodes(Model& model, const TypesOf& types_of);

}  // namespace metac
