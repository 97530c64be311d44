// What stands behind a metac_optimiser*.
#pragma once
#include <memory>
#include <vector>

#include "compiler/lazy/called_model.h"
#include "compiler/library/vars.h"
#include "compiler/train/lone_functions.h"

namespace metac::train {
class Processes;
}

struct metac_optimiser {
  std::vector<metac_var*> parameters;
  std::vector<metac::SlotOfUpdate> about_slots;
  std::vector<metac_var*> slots;  // of the first parameter, of the second one, ...
  std::unique_ptr<metac::lazy::CalledModel> update;
  double rate = 0;
  int64_t accumulate = 1;
  metac::train::Processes* processes = nullptr;  // that its gradients are averaged over
  int64_t steps = 0;                             // calls; `accumulate` of them are an update
};
