// Statistics of channels: sums over all points of all images with a result for each channel, as normalisations and their
// gradients have them (and gradients of biases). Where channels lie last, the points are walked in the order of memory, all
// channels of each: in parts that fit into the second-level cache, side by side, with sums of their own; a second kernel
// adds those up. What else stood in the kernel follows as kernels of its own.
//
//   sum, variance of x, then y = (x - mean) * a:
//     parts: { sums of x; sums of (x - mean of the part)^2 }    channels: mean, variance, a    y
//
// A variance is that of the parts and of their means (Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for
// computing sample variances", 1979), so that the data passes through memory once for both. The number of parts depends on
// shapes and the cache alone: the bits do not depend on threads.
#pragma once
#include "compiler/region/fusion/fuse.h"

namespace metac {

void split_statistics(Graph& graph, FusedRegion& region, const Layouts& layouts, int64_t cache_bytes);

}  // namespace metac
