// Where the fields of the samples come from.
#pragma once
#include <vector>

#include "compiler/train/recipe/recipe.h"
#include "compiler/train/training_model.h"

namespace metac {

// One for each field, in their order: as the recipe says, else as is usual for its format. Throws CompileError at the
// recipe's place where it names a field that the samples do not have, or normalises channels that a field does not have.
std::vector<FieldRecipe> field_sources(const DataRecipe& data, const std::vector<TrainingField>& fields);

}  // namespace metac
