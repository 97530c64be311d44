// Axes of sums of products that are taken apart by a constant: gradients of strided convolutions, and transposed
// convolutions, by the residues of their output; columns of projections, which are stored head by head.
#pragma once
#include <functional>

#include "compiler/tensor/definition.h"

namespace metac {

// A kept axis o that operands read through floor_div or floor_mod by a constant s (a strided convolution's gradient in
// gather form) becomes q and r with o = s*q + r, so that only r is divided. `widen` gives the result's Var with another
// extent along one of its axes where s does not divide the extent; it returns null where that cannot be.
void split_residues(Definition& d, const std::vector<Symbol>& symbols,
                    const std::function<Var*(const Definition& d, int result_axis, Expr extent)>& widen);

// A kept axis of one factor alone that the result takes apart by a constant of at least `least` (the columns of a projection
// that are stored head by head) becomes two, so that vectors may run along the lower one.
void split_stored_digits(Definition& d, int64_t least, const std::vector<Symbol>& symbols);

}  // namespace metac
