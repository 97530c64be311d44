// The nodes of one step with the networks that it calls put in their places: every call of a network is a copy of its nodes
// that reads the network's parameters, which are there once however often it is called.
#pragma once
#include <map>
#include <set>
#include <string>

#include "compiler/ops/model.h"
#include "compiler/train/recipe/recipe.h"

namespace metac {

// The name of a network's parameter among all: that of the model itself keeps its own, "w"; others follow their network's,
// "D/w".
std::string parameter_name(const std::string& network, const std::string& parameter);

// `networks` by name, "model" among them. A value of a call is named after it: "D.2/conv1". The result has the initialisers
// of all networks that are called, no inputs and no outputs. Throws CompileError with the step's place where a call does not
// fit its network, and where networks are of different opsets.
Model join_networks(const StepRecipe& step, const std::map<std::string, const Model*>& networks, const std::string& path);

}  // namespace metac
