// Neighbouring results that one thread has in registers, stored at once: 4 to 16 bytes where they lie together and are
// aligned, and what their values read there likewise (a residual, a bias). The printer does such a loop as one access each
// (LoopKind::vector on a GPU).
#pragma once
#include "compiler/loops/loop_tree.h"

namespace metac {

// `node` has one child, which stores what its innermost loop counts: that loop becomes the child's. False, and nothing
// changes, where an access steps otherwise, is not known to be aligned or is wider than 16 bytes, or where a guard may let
// in some of the neighbours.
bool store_wide(LoopNode& node, const std::vector<KernelArgument>& arguments, const Bounds& bounds);

// The column of a thread's sum in a row of parts that tensor cores compute (runtime/cuda/tensor_multiply.h): two neighbours
// of each part, or four of every second part when neighbouring threads have exchanged them. Its place is ((number of the
// part, or of the two) * 2 + half) * neighbours + neighbour.
Expr tensor_column(int64_t neighbours, Expr lane, Expr part, Expr neighbour);

}  // namespace metac
