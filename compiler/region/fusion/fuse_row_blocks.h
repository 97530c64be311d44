// A row kernel (fuse_rows.h) takes in the contraction that makes its rows and the one that sums over them, where nobody
// else reads what passes between the three: softmax(q k) v becomes one kernel
// (compiler/target/cpu/strategies/lower_row_block.h).
//
// Conditions: the first contraction's rows are the last shared axis of the row kernel, in one operand alone; it keeps one
// axis beside the shared ones; the last contraction sums over that axis and keeps one other, contiguous in its second
// operand and in its result. The rows are at least as many as a vector has lanes, or unknown.
// Neither contraction's other operand is a parameter: each block of rows would read it whole, and unpacked.
// A division of what is summed by a value of the row moves behind the sum.
#pragma once
#include <functional>

#include "compiler/region/fusion/fuse.h"

namespace metac {

// strategy: of the groups that come of it. is_parameter: of a Var's id, does it depend on parameters alone? lanes: float32
// elements of a vector. is_known: for a GPU, can such a group be lowered (target/gpu/strategies/lower_gpu.h)? Rows may be of
// any length there, and what makes the rows' operand stays a kernel of its own.
void fuse_row_blocks(FusedRegion& region, const std::set<const Var*>& needed, const std::function<bool(int)>& is_parameter,
                     int lanes, const std::vector<Symbol>& symbols, std::shared_ptr<const Strategy> strategy,
                     const std::function<bool(const Group&)>& is_known = {});

}  // namespace metac
