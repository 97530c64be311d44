// Chains of kernels run over slices of the batch, one slice after the other, where the values between them would outgrow the
// cache: what a slice makes is still there when it is read. The slices of a chain are a loop of the program; inside it, axes
// that follow the batch are as long as a slice, values that stay inside are as large as a slice, and others are addressed
// from the slice's first row on.
//
// Where dims are open, a chain is decided for typical sizes (compiler/ir/hints.h), as how many of the input's elements a
// slice has; a run takes as many images of its own size as have that many, in slices of which only the last may be shorter,
// and half of the batch at once where all that it makes fits into the cache.
#pragma once
#include "compiler/target/target.h"

namespace metac {

// Cuts the region (the top level, layouts chosen) into chains so that the least traffic passes beyond the last-level cache,
// and rewrites their definitions. Does nothing where the inputs have no common first dim.
void slice_batches(RegionState& state);

}  // namespace metac
