// A reduction beside the lanes: every lane combines values of its own, several at once, so that no step waits for the one
// before.
#pragma once
#include <optional>

#include "compiler/loops/loop_tree.h"

namespace metac {

struct LaneReduction {
  std::vector<Loop> kept, reduced;  // around the lanes; kept ones outermost
  Loop lane;                        // its extent is a multiple of `lanes`
  Reduce reduce = Reduce::add;
  DType accumulator = DType::f32;
  Expr body, epilogue;  // the epilogue reads load(first_local + local)
  int local = 0;        // that stands for the reduced value
  int target = 0;       // argument or first_local + local
  Expr offset;
  int lanes = 16;
};

// Empty where body, epilogue or offset cannot be in lanes.
std::optional<LoopNode> lane_reduction(Kernel& kernel, const LaneReduction& r, const Bounds& bounds);

}  // namespace metac
