// Chooses how Vars lie in memory and which operands of contractions are packed.
//
// For every contraction: along which axis of the result vectors run, how that makes the result lie in memory, which
// operand is packed for it and which operand gets a halo. Then layouts spread to element-wise and pooling neighbours.
//
//   - The lanes run along an axis of the result that steps by one in memory. Where the result's last axis belongs to the
//     weights' operand (matmul), row-major serves; where it does not (convolution: W), the result is stored with the
//     axis that does (channels) last.
//   - The operand with the lanes is packed: [its other axes..., lane block, reduced axes in loop order, lanes]. If it is
//     made of parameters, `prepare` packs it.
//   - A padded convolution reads its other operand under conditions; a halo of zeros around that operand makes them true.
#pragma once
#include "compiler/target/target.h"

namespace metac {

// May add copies and packing kernels to the region (run-time operands) and `prepare` (parameters); returns the Vars that
// prepare computes in addition.
std::vector<Var*> choose_layouts(RegionState& state);

}  // namespace metac
