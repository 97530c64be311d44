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
  struct Updated {
    metac_var* var;
    bool trains;
    std::vector<metac_var*> slots;  // none where it does not train
  };
  std::vector<Updated> parameters;
  std::vector<metac::SlotOfUpdate> about_slots;
  std::unique_ptr<metac::lazy::CalledModel> update;
  double rate = 0;
  int64_t accumulate = 1;
  metac::train::Processes* processes = nullptr;  // that its gradients are averaged over
  int64_t steps = 0;                             // calls; `accumulate` of them are an update
  // Where calls with gradients that are not finite change nothing: the number of the others, which is known when somebody
  // looks at it. Else null.
  metac_var* taken = nullptr;
};

namespace metac::library {

// Calls that changed something; looks at it. The caller is in the graph.
int64_t steps_taken(const metac_optimiser& optimiser);

}  // namespace metac::library
