// What stands behind metac_data* and metac_loader*.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "compiler/train/sample_tables.h"
#include "metac/train.h"
#include "runtime/train/data/batch_loader.h"

struct metac_data {
  metac_data(metac::DataRecipe recipe, const std::vector<metac::TrainingField>& fields) : own(std::move(recipe), fields) {}
  metac::SampleTables own;
  metac::train::OpenedData parts;
  int64_t seed = 0;
  bool compared = false;  // with those of the other processes
};

struct metac_loader {
  metac::train::TrainTables tables{};
  std::unique_ptr<metac::train::BatchLoader> batches;
};
