#include "compiler/target/cpu/tiles/sum_chunks.h"

#include "compiler/machine/cpu_costs.h"
#include "compiler/support/checked.h"

namespace metac {

std::optional<SumChunks> plan_sum_chunks(const TiledSum& sum, int64_t panel_bytes) {
  // Tile registers take a panel faster than it comes from the second-level cache; what others take passes the first-level
  // cache anyway, tile by tile.
  const int64_t chunk_bytes = sum.matrix ? cpu_costs.panel_bytes_kept : sum.cache_bytes / 32 * 3;
  if (sum.cache_bytes == 0 || sum.lanes_in_both || (sum.unrolled > 0 && !sum.widened) || sum.run_axes > 0 ||
      sum.reduced.empty() || panel_bytes <= (sum.matrix ? chunk_bytes * 3 / 2 : sum.cache_bytes / 3))
    return std::nullopt;
  std::vector<int64_t> extents;
  for (const Loop& l : sum.reduced) {
    if (!l.extent.if_int()) return std::nullopt;
    extents.push_back(l.extent.as_int());
  }
  const int64_t together = sum.matrix ? sum.matrix->words : 1;  // steps that are not parted
  extents.back() /= together;
  int64_t inner_bytes = panel_bytes, outside = 1;
  for (size_t level = 0; level < extents.size(); ++level) {
    inner_bytes /= extents[level];
    const int64_t steps =
        std::max<int64_t>(1, largest_divisor(extents[level], chunk_bytes / std::max<int64_t>(1, inner_bytes)));
    const int64_t count = saturating_mul(outside, extents[level] / steps);
    if (count >= 2 && steps * inner_bytes <= sum.cache_bytes / 4)
      return SumChunks{level, count, level + 1 == extents.size() ? steps * together : steps, steps * inner_bytes};
    outside = saturating_mul(outside, extents[level]);
  }
  return std::nullopt;
}

}  // namespace metac
