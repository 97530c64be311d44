// The part of a training program's tables that its loaders look at (runtime/train/data), made of a recipe's data.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "compiler/train/field_sources.h"

namespace metac {

class SampleTables {
 public:
  // Throws CompileError, also where a field is of a rank that loaders do not take.
  SampleTables(DataRecipe recipe, const std::vector<TrainingField>& fields);
  SampleTables(SampleTables&&) = delete;

 private:
  const DataRecipe recipe_;
  const std::vector<FieldRecipe> sources_;
  std::vector<std::unique_ptr<std::string>> names_;
  std::vector<train::Field> fields_;
  std::vector<train::FieldSource> field_sources_;

 public:
  train::TrainTables tables{};
};

}  // namespace metac
