// What a region takes from around it.
#pragma once
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

// The Vars that the region uses and does not make, in the order of their ids.
std::vector<Var*> captured_vars(const Region& region);

}  // namespace metac
