// The loops of sums for channels that lie side by side, in the order of memory: all channels of a few points, then the next
// points. The sums are an array that stays in the first-level cache; memory is read in one run.
//
//   sums[c] = 0;  for groups of points { for c { t = sums[c]; t += x[point 0][c]; ... t += x[point 7][c]; sums[c] = t } }
//   for c out[c] = f(sums[c])
#pragma once
#include "compiler/loops/loop_tree.h"

namespace metac {

struct PointSums {
  Loop channels;             // lanes run along it
  std::vector<Loop> points;  // innermost last; of known extent
  Expr body;
  int sums = 0;  // a local array of as many elements as there are channels
  DType accumulator = DType::f32;
  int target = 0;  // where the epilogue is stored, which reads the local as a scalar
  Expr offset, epilogue;
};

LoopNode sum_by_points(Kernel& kernel, const PointSums& sum);

}  // namespace metac
