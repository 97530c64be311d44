// A sum of products whose panel (what one block of lanes needs of the second factor) is too large for the cache is taken in
// chunks: all tiles of a block of points add a chunk before the next is read.
#pragma once
#include <optional>

#include "compiler/target/cpu/tiles/tiled_sum.h"

namespace metac {

struct SumChunks {
  size_t level = 0;              // the reduced loop that is cut: loops outside of it go with the chunks
  int64_t count = 1, steps = 1;  // of chunks; of iterations of that loop in each
  int64_t panel_bytes = 0;       // of one chunk
};

// Empty where the panel stays in the cache as it is, or cannot be cut.
std::optional<SumChunks> plan_sum_chunks(const TiledSum& sum, int64_t panel_bytes);

}  // namespace metac
