// A model exported for inference, put back into the form that is trained: BatchNormalization by the statistics of the batch with
// running averages as states, Dropout with random numbers.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "compiler/train/losses.h"
#include "compiler/train/recipe.h"

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

// Rewrites the nodes of `model` in place. `types_of` answers with the type of values of the model as it is.
TrainingForm put_into_training_form(Model& model, const Recipe& recipe, const std::string& seed, const std::string& call,
                                    const std::function<std::vector<TypedShape>(const std::vector<std::string>&)>& types_of);

}  // namespace metac
