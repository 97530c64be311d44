// Items of a region that do the same element by element, to other values of other sizes, come to stand together, to be one
// kernel of several members (target/gpu/strategies/lower_gpu_flat.h). An item is put off until the last that joins it, or
// until somebody reads what it makes. What is put off keeps what it reads alive, so that is bounded; and values that are
// large alone are left alone: starting their kernel is none of its time.
#pragma once
#include "compiler/region/fusion/fuse.h"
#include "compiler/target/gpu/strategies/lower_gpu_flat.h"

namespace metac {

GatheredRegion gather_alike(const FusedRegion& region, const LoweringContext& context);

// The kernels of items [first, first + count), and all their stages as one group.
std::vector<FlatKernel> lower_members(const std::vector<Item>& items, size_t first, int count,
                                      const LoweringContext& context, Group& all);

}  // namespace metac
