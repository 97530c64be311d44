// Sums that are much longer than their result is large (the gradient of a filter, over all points of all images). Neither
// operand of one tile stays in the cache, so the sum is taken in chunks, and every sum of a share of the result adds a chunk
// before the next:
//
//   for shares of the result (blocks of points x groups of panels) { for chunks { for panels { for tiles { registers } } } }
//
// A chunk of both operands comes from memory once per share, and once only where the share has all panels or all points.
#pragma once
#include <optional>

#include "compiler/target/cpu/tiles/cache_blocks.h"

namespace metac {

struct LongSum {
  int64_t outside = 1;          // iterations of loops around all of it that threads can share
  std::vector<int64_t> points;  // iterations of the loops over points, outermost first; the last one is over tiles
  int64_t tile_points = 1;      // of a tile
  int64_t panels = 1, panel_row_bytes = 0;  // of one, per step of the sum
  std::vector<int64_t> steps;               // iterations of the reduced loops, outermost first
};

struct LongSumPlan {
  BlockOfPoints block;      // cut of the loops over points
  int64_t groups = 1;       // of panels; they divide the panels
  size_t level = 0;         // the reduced loop that chunks cut: loops outside of it belong to the chunks whole
  int64_t chunk_steps = 1;  // iterations of it that a chunk has; they divide it
  int64_t chunks = 1;
};

// Empty where an operand stays in a cache of `cache_bytes`, or the sums of a share do not, or threads would have too few
// shares.
std::optional<LongSumPlan> plan_long_sum(const LongSum& sum, int64_t cache_bytes);

}  // namespace metac
