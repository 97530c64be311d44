// Chooses how Vars lie in memory and which operands of contractions are packed.
#pragma once
#include "compiler/target/target.h"

namespace metac {

// May add copies and packing kernels to the region (run-time operands) and `prepare` (parameters); returns the Vars that
// prepare computes in addition.
std::vector<Var*> choose_layouts(RegionState& state);

}  // namespace metac
