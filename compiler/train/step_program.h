// A recipe of several networks and steps as the models of its steps (docs/programs.md). Every step is a model of its own,
// compiled and called by itself; states are shared: what one step trains or keeps, the others read.
#pragma once
#include <map>
#include <string>

#include "compiler/train/training_model.h"

namespace metac {

// recipe.steps is not empty. `networks`: those that the recipe names, read. Throws CompileError that names the recipe's
// line.
TrainingModel training_model_of_steps(const Model& model, const std::map<std::string, Model>& networks, const Recipe& recipe,
                                      const LowerOptions& lower);

}  // namespace metac
