// The loops of a sum. Long ones are taken in parts that have accumulators of their own, so that rounding errors grow with
// the length of a part and with the number of parts instead of with their product, and so that neighbouring steps do not
// wait for each other:
//
//   t = 0; for parts { p0 = p1 = p2 = p3 = 0; for steps { p0 += ..; p1 += ..; p2 += ..; p3 += .. }  t += (p0 + p1) + (p2 +
//   p3) }
//
// Higham, "The accuracy of floating point summation" (1993), section 3: blocked sums.
#pragma once
#include "compiler/loops/loop_tree.h"

namespace metac {

struct SumLoops {
  std::vector<Loop> loops;  // innermost last
  Expr body;
  int local = 0;  // the sum, declared and 0 before
  DType accumulator = DType::f32;
  bool lanes = false;  // the innermost loop is in lanes that come together at its end
  bool alone = true;   // no other sums are worked out beside it, so that its own steps are
};

// May lanes run along the loop and come together at its end?
bool can_reduce_lanes(const Loop& loop, Expr body, Reduce reduce, int64_t lanes);

// Adds all of the loops' bodies to the local.
LoopNode lower_sum(Kernel& kernel, const SumLoops& sum);

}  // namespace metac
