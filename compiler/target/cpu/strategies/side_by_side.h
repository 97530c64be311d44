// The sums of a few vectors of elements that lie side by side, each in a register, in one pass over what they are made of:
// memory is read in its order, once, and sums do not wait for each other.
//
//   for vectors { s = 0; for steps s += x[step][vector]; out[vector] = f(s) }
//   becomes   s0 = .. = s7 = 0; for steps { s0 += x[step][0]; ..; s7 += x[step][7] } out[0] = f(s0); ..; out[7] = f(s7)
#pragma once
#include "compiler/loops/loop_tree.h"

namespace metac {

// How many vectors of the loop are taken together; 1: it stays as it is, as its extent or the work of a term want it.
int64_t vectors_together(const Loop& along, Expr term, int64_t lanes);

// The nest of a sum, whose last loop is that along the elements and whose locals are its sums.
LoopNode side_by_side(Kernel& kernel, LoopNode nest, int64_t vectors, int64_t lanes);

}  // namespace metac
