#include "compiler/target/cpu/tiles/long_sum.h"

#include <algorithm>
#include <numeric>

#include "compiler/machine/cpu_costs.h"
#include "compiler/support/checked.h"

namespace metac {
namespace {

int64_t product(const std::vector<int64_t>& factors, size_t from = 0) {
  return std::accumulate(factors.begin() + static_cast<int64_t>(from), factors.end(), int64_t{1}, saturating_mul);
}

// The longest chunk whose rows take no more than `bytes`; false: there is none, or one chunk is all.
bool cut_steps(LongSumPlan& plan, const std::vector<int64_t>& steps, int64_t row_bytes, int64_t bytes) {
  for (size_t level = 0; level < steps.size(); ++level) {
    const int64_t inner = saturating_mul(product(steps, level + 1), row_bytes);
    if (inner > bytes) continue;
    plan.level = level;
    plan.chunk_steps = largest_divisor(steps[level], bytes / inner);
    plan.chunks = product(steps) / saturating_mul(product(steps, level + 1), plan.chunk_steps);
    return plan.chunks > 1;
  }
  return false;
}

}  // namespace

std::optional<LongSumPlan> plan_long_sum(const LongSum& sum, int64_t cache_bytes) {
  constexpr int64_t least_shares = 8;  // to be shared out among threads
  constexpr int64_t line = cpu_costs.line_bytes;
  const int64_t steps = product(sum.steps), tiles = product(sum.points);
  const double panels = static_cast<double>(steps) * static_cast<double>(sum.panels * sum.panel_row_bytes);
  const double points = static_cast<double>(steps) * static_cast<double>(tiles) * static_cast<double>(sum.tile_points * 4);
  if (saturating_mul(saturating_mul(sum.outside, tiles), sum.panels) < least_shares ||
      std::min(panels, points) < 0.75 * static_cast<double>(cache_bytes))
    return std::nullopt;
  std::optional<LongSumPlan> best;
  double least = 0;
  int64_t outside = 1;
  for (size_t level = 0; level < sum.points.size(); outside = saturating_mul(outside, sum.points[level++])) {
    const int64_t extent = sum.points[level];
    auto even = [&](int64_t count) { return (extent + count - 1) / count; };
    for (int64_t inner = extent; inner >= 1; inner = inner == 1 ? 0 : even(even(inner - 1))) {  // blocks as even as can be
      if (inner == extent && level > 0) continue;  // the same as one iteration of the loop around it
      const int64_t blocks = saturating_mul(outside, (extent + inner - 1) / inner),
                    inside = saturating_mul(inner, product(sum.points, level + 1));
      for (int64_t groups = 1; groups <= sum.panels; ++groups) {
        const int64_t waiting =
            saturating_mul(saturating_mul(inside, sum.tile_points * (sum.panels / groups)), sum.panel_row_bytes);
        if (sum.panels % groups != 0 || saturating_mul(saturating_mul(sum.outside, blocks), groups) < least_shares ||
            waiting > cache_bytes / 4)
          continue;
        LongSumPlan plan;
        plan.block = {level, inner == extent ? 0 : inner};
        plan.groups = groups;
        const int64_t row =
            (sum.panels / groups) * sum.panel_row_bytes + std::max(saturating_mul(inside, sum.tile_points * 4), line);
        const double traffic = points * static_cast<double>(groups) + panels * static_cast<double>(blocks);
        if ((best && traffic >= least) || !cut_steps(plan, sum.steps, row, cache_bytes / 4)) continue;
        best = plan;
        least = traffic;
      }
    }
  }
  return best;
}

}  // namespace metac
