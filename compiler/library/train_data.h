// What stands behind metac_data* and metac_loader*.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "compiler/train/field_sources.h"
#include "metac/train.h"
#include "runtime/train/data/batch_loader.h"

namespace metac::library {

// The part of a training program's tables that its loaders look at, made of a recipe's data.
class SampleTables {
 public:
  // Throws CompileError, and refuses fields that loaders do not take.
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

}  // namespace metac::library

struct metac_data {
  metac_data(metac::DataRecipe recipe, const std::vector<metac::TrainingField>& fields) : own(std::move(recipe), fields) {}
  metac::library::SampleTables own;
  metac::train::OpenedData parts;
  int64_t seed = 0;
  bool compared = false;  // with those of the other processes
};

struct metac_loader {
  metac::train::TrainTables tables{};
  std::unique_ptr<metac::train::BatchLoader> batches;
};
