// Gradients of strided convolutions, and transposed convolutions, by the residues of their output.
#pragma once
#include <functional>

#include "compiler/tensor/definition.h"

namespace metac {

// A kept axis o that operands read through floor_div or floor_mod by a constant s (a strided convolution's gradient in
// gather form) becomes q and r with o = s*q + r, so that only r is divided. `widen` gives the result's Var with another
// extent along one of its axes where s does not divide the extent; it returns null where that cannot be.
void split_residues(Definition& d, const std::vector<Symbol>& symbols,
                    const std::function<Var*(const Definition& d, int result_axis, Expr extent)>& widen);

}  // namespace metac
