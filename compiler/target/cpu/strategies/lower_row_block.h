// A row kernel between two contractions, all in one: attention's scores, softmax and weighted sum.
//
//   for a block of R rows:
//     b = the rows' operand of the first contraction, transposed to [sum, R], with element-wise work on it
//     s[k, R] = sum b * a[k]               a register tile: R rows along the lanes, points along k
//     ... reductions and element-wise stages over k, all R rows at once along the lanes ...
//     out[R, d] = sum over k of p[k, R] * v[k, d]    a register tile: d along the lanes, points along the rows
//
// By words both sums multiply two bfloat16 at a time: b, s, v and, where its neighbours along the sum do not lie side by side
// in bfloat16, a are rounded into words once for each block of rows.
//
// R is two vectors. No reduction crosses lanes, nothing of size rows x k reaches memory, and neither a nor v is packed.
// Where R does not divide the rows, the last block computes its last row again in the lanes that are left over and does
// not store these.
#pragma once
#include "compiler/loops/loop_tree.h"
#include "compiler/target/cpu/strategies/lower_group.h"

namespace metac {

// The group has the strategy RowBlocks: region/fusion/fuse_row_blocks.h has the conditions.
Kernel lower_row_block(const Group& group, bool by_words, const LoweringContext& context);

}  // namespace metac
