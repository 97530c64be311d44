// What stands behind metac_processes*.
#pragma once
#include <memory>

#include "compiler/library/vars.h"
#include "metac/train.h"
#include "runtime/train/processes/processes.h"

struct metac_processes {
  metac::train::Launch launch;
  std::unique_ptr<metac::train::Processes> all;  // null: this one is alone
  bool finished = false;
};

namespace metac::library {

// Means over all processes; one handle of each result. The caller is in the graph.
std::vector<lazy::Value*> averaged(train::Processes& all, const std::vector<lazy::Value*>& values, lazy::Site site);

}  // namespace metac::library
