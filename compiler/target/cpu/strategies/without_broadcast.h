// Dims that are equal or 1: where it cannot be known which of two open dims is 1, an operand is read at min(i, extent - 1)
// (broadcast_dims in ir/builders.cpp), an index without a step. In nearly every run nothing is broadcast, and a nest of
// loops of its own serves that.
#pragma once
#include <vector>

#include "compiler/loops/loop_tree.h"

namespace metac {

struct WithoutBroadcast {
  Expr condition;  // over symbols: no operand is broadcast along these loops; empty: none may be
  Expr value;      // the same where the condition holds
};

// `loops`: of the axes that `value` is over.
WithoutBroadcast without_broadcast(Expr value, const std::vector<Loop>& loops);

}  // namespace metac
