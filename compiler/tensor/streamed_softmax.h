// A row-block group (region/fusion/fuse_row_blocks.h) as a softmax that can be streamed: its rows are seen a tile of columns
// at a time, with a running maximum and sum, and what was summed so far is scaled when the maximum grows:
//
//   score[column]   = f( sum over depth of rows * columns, column )         any element-wise f: scales, masks, biases
//   weight[column]  = exp(score[column] - max of scores)                    or less 0, where that is -infinity
//   out[w]          = g( sum over column of weight * values[w], sum of weights )
#pragma once
#include <optional>

#include "compiler/tensor/group.h"

namespace metac {

// Expressions are over the axes of the stages: the shared ones first, the last of which is the row.
struct StreamedSoftmax {
  const Definition* scores = nullptr;  // [shared..., column], summed over depth
  Expr row_factor, column_factor;      // of it: axis(shared) is the column, axis(shared + 1) the depth
  Expr score;                          // over load(reduced_value), the sum
  int sum = -1;                        // Var id of the sum of weights
  DType weights = DType::f32;          // what weights are rounded to before they are multiplied
  const Definition* last = nullptr;    // [shared..., w], summed over columns; its epilogue may load `sum`
  Expr values;                         // axis(shared) is w, axis(shared + 1) the column
};

// Nothing where the group is no such softmax, or computes in other values than float32. Operands and the result may be
// narrower.
std::optional<StreamedSoftmax> match_streamed_softmax(const Group& group);

}  // namespace metac
