// Dims, byte counts and conditions over symbols as code for the executor (runtime/extent.h).
#pragma once
#include <vector>

#include "compiler/ir/expr.h"
#include "runtime/extent.h"

namespace metac {

namespace rt = metac_runtime;

// Appends the code; returns how many values it has on its stack at most. A large value that is used several times is worked
// out once and kept. Throws where the expression is not integer arithmetic over symbols.
int emit_extent(Expr e, std::vector<rt::Instruction>& code);

}  // namespace metac
