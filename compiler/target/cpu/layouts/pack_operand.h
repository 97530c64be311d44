// The operand with the lanes, packed: [its other kept axes..., lane block, reduced axes in loop order, lanes of the block],
// zero beyond the lanes' extent, so that a register tile reads it in order.
#pragma once
#include "compiler/tensor/contraction.h"

namespace metac {

struct PackedOperand {
  Definition kernel;  // makes the packed Var, kernel.out
  Expr load;          // of it, in the contraction's axes
};

// What a value in the axes of `d` comes to, of its dtype, packed as above: along the axes that it uses.
PackedOperand pack_value(Graph& graph, const Definition& d, Expr value, int lanes_axis, int64_t block);

// Do steps of the sum fall into few sets of the first-level cache, being a multiple of 2 KiB apart, where many points use
// them again? Then packing pays for an operand whose lanes are neighbours already (the gradient of a 1 x 1 convolution to
// its input reads the filter's rows).
bool steps_collide(const Definition& d, Expr address, const Operand& other, int64_t element_bytes);

// block: lanes of a block. constant: the operand is made of parameters, so the shape must be known; else empty.
std::optional<PackedOperand> pack_operand(Graph& graph, const Definition& d, const Operand& operand, int lanes_axis,
                                          int64_t block, bool constant);

}  // namespace metac
