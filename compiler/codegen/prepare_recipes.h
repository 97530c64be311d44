// How a program's prepared weights come about, as text: what two programs compute in the same way is the same for all
// parameters.
#pragma once
#include <string>
#include <vector>

#include "compiler/program/program.h"

namespace metac {

// Per output of model.prepare; empty where the tables do not say it (steps other than launches, sizes that are not known).
// parameters[k]: the number by which the library knows input k of prepare. Equal texts mean equal bytes on one CPU.
std::vector<std::string> prepare_recipes(const CompiledModel& model, const std::vector<int>& parameters);

}  // namespace metac
