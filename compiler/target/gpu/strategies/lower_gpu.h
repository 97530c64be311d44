// From a fusion group to a loop tree for a GPU. Every choice depends on shapes alone, so the order of each sum does too.
//
//   element-wise                      one thread per 16 bytes of neighbouring elements where accesses are contiguous,
//   aligned transposes                        tiles of 32 by 32 elements through shared memory (lower_gpu_move.h) others,
//   short reductions          one thread per element of the result, neighbours in memory by neighbouring threads long
//   reductions, rows             one block per row: threads share each stage's elements, reductions end in a tree in
//                                     each warp and go through shared memory once, row locals live in shared memory (in
//                                     global scratch where too large)
//   contractions                      a tile of the result per block, operands through shared memory, a register tile per
//                                     thread (lower_gpu_contraction.cpp)
//   attention                         a tile of rows per block, tiles of columns through shared memory, a running maximum
//                                     and sum in registers (lower_gpu_attention.cpp)
//   products and what is beside them  a kernel each, that a library may do in one call (library_beside.h)
//   scatters                          each thread owns elements of the result and applies, in order, what falls on them
//                                     (lower_gpu_scatter.cpp)
#pragma once
#include "compiler/loops/loop_tree.h"
#include "compiler/tensor/group.h"

namespace metac {

Kernel lower_gpu(const Group& group, const LoweringContext& context);

// Nothing where the group is no sum of products, or one too small in some direction to fill tiles.
std::optional<Kernel> lower_gpu_contraction(const Group& group, const LoweringContext& context);
// Its loops shared out among blocks and threads, without tiles or vendor libraries.
Kernel lower_gpu_plainly(const Group& group, const LoweringContext& context);
// Attention in one kernel: groups that is_gpu_attention takes (region/fusion/fuse_row_blocks.h makes them).
bool is_gpu_attention(const Group& group, bool tf32);
Kernel lower_gpu_attention(const Group& group, const LoweringContext& context);
// A product and what a library may do beside it (library_beside.h); nothing where it is not that.
std::optional<Kernel> lower_gpu_beside(const Definition& product, const Definition& other, const LoweringContext& context);
Kernel lower_gpu_scatter(const Group& group, const LoweringContext& context);

}  // namespace metac
