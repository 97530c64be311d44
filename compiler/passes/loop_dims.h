// The dims that a Loop decides while it runs.
#pragma once
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

struct LoopDims {
  struct Changing {
    int symbol;
    Expr initial, next;  // before the first iteration, and as an iteration leaves it: over the symbols of the body
  };
  std::vector<Changing> carried;  // of values that go from iteration to iteration
  std::vector<Changing> rows;     // of what each iteration adds to a stacked output
  int iterations = -1;            // symbol of the number of iterations done; -1: nobody asks
};

LoopDims loop_dims(const Op& op);

}  // namespace metac
