// Averages over windows, for the pools of floats and of quantised values.
#pragma once
#include "compiler/ops/registry.h"

namespace metac {

// Of x [N, C, spatial...], which is of an arithmetic dtype, as the node's attributes say.
Var* average_windows(Lowering& n, Var* x);

}  // namespace metac
