// Operators that a user gives beside the models of this process: `metac run --ops`, metac_define(). Models that are read
// from then on and use one get it (frontends/read_model.h).
#pragma once
#include <vector>

#include "compiler/ops/model.h"

namespace metac {

// The later of two with one name and domain stays. Safe from several threads.
void give_operators(const std::vector<ModelFunction>& functions);
std::vector<ModelFunction> given_operators();

}  // namespace metac
