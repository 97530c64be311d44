// Lanes along one axis of a result whose operands lie along another: square blocks of them are loaded as they lie and
// transposed in registers, instead of element by element.
#pragma once
#include <optional>

#include "compiler/loops/loop_tree.h"

namespace metac {

struct TransposedNest {
  std::vector<Loop> outer;  // around both
  Loop lane;                // the result steps by one along it
  Loop across;              // the operands to transpose step by one along it
  int target = 0;           // argument or first_local + local
  Expr offset, value;
  int lanes = 16;  // of a vector; elements have four bytes
};

// for outer, lane, across: target[offset] = value. Empty where no operand needs to be transposed or one cannot be.
std::optional<LoopNode> transposed_nest(Kernel& kernel, const TransposedNest& nest, const Bounds& bounds);

}  // namespace metac
