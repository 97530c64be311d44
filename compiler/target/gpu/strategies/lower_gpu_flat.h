// Element-wise work on values that lie in one piece, as a kernel of one loop over places: whatever their dims are, each
// thread reads and writes element i, or element 0 of what all share. Kernels that do the same with other values and other
// counts become one, of several members: the updates of a network's parameters are a start or a few instead of one for each
// parameter.
#pragma once
#include "compiler/loops/loop_tree.h"
#include "compiler/tensor/group.h"

namespace metac {

struct FlatKernel {
  Kernel kernel;     // one grid loop, axis 0; an assignment per stage
  int64_t pack = 1;  // neighbouring elements that a thread does
  int64_t count() const { return kernel.root.loops[0].extent.as_int(); }
  int64_t blocks() const { return (count() + kernel.block * pack - 1) / (kernel.block * pack); }
};

// Nothing where the group is something else.
std::optional<FlatKernel> lower_gpu_flat(const Group& group, const LoweringContext& context);
// Do two such kernels differ in values and counts alone?
bool do_the_same(const FlatKernel& a, const FlatKernel& b);
// What the program knows of members in one start: a kernel whose arguments are all of theirs, in order, and whose tree is
// one loop of blocks.
Kernel join_members(const std::vector<FlatKernel>& members);
// Bytes of what a started kernel of so many members, with so many arguments each, is told (Members of
// runtime/cuda/members.h).
int64_t bytes_of_members(size_t members, size_t arguments);

}  // namespace metac
