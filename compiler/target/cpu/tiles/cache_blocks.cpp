#include "compiler/target/cpu/tiles/cache_blocks.h"

#include <algorithm>
#include <cmath>

#include "compiler/machine/cpu_costs.h"

namespace metac {

std::optional<double> distinct_elements(Expr address, const std::map<int, int64_t>& ranges) {
  struct Run {
    int64_t step, count;
  };
  std::vector<Run> runs;
  for (auto& [term, step] : linear_form(address).terms) {
    if (term->kind != ExprKind::axis) {
      if (any_of(term, [&](Expr n) { return n->kind == ExprKind::axis && ranges.count(n->id) > 0; })) return std::nullopt;
      continue;
    }
    auto range = ranges.find(term->id);
    if (range != ranges.end() && range->second > 1) runs.push_back({std::abs(step), range->second});
  }
  std::sort(runs.begin(), runs.end(), [](const Run& x, const Run& y) { return x.step < y.step; });
  constexpr int64_t most_stride = 8;  // of a window
  double elements = 1;
  for (size_t k = 0; k < runs.size(); ++k) {
    Run run = runs[k];
    while (k + 1 < runs.size() && runs[k + 1].step % run.step == 0 &&
           runs[k + 1].step / run.step <= std::min(most_stride, run.count)) {
      run.count += (runs[k + 1].count - 1) * (runs[k + 1].step / run.step);  // the window slides over what it has seen
      ++k;
    }
    elements *= static_cast<double>(run.count);
  }
  return elements;
}

// How often data from beyond the cache is read, or takes as long as if it were: pieces shorter than a few lines come without
// the hardware's prefetching.
static double rereads(const PanelSizes& panel) {
  if (panel.piece == 0) return static_cast<double>(panel.panels);
  return panel.piece <= cpu_costs.short_piece ? 4 : panel.piece <= cpu_costs.middle_piece ? 2 : 1;
}

constexpr int64_t least_shared = 4;  // iterations

// Where all is in the cache, what matters is who has it in his own: workers that take blocks of points read what they have
// written in the kernel before, where panels would have each read what all have. The weights are read by all, so they are
// to be the smaller part. Is the loop `first` worth being cut for that? `data`: bytes of all its iterations.
static bool shares_points(const std::vector<PointsLoop>& loops, size_t first, const PanelSizes& panel, double data,
                          double cache) {
  const double weights = static_cast<double>(panel.panels) * static_cast<double>(panel.bytes);
  double made = static_cast<double>(panel.panels * panel.lanes) * 4;
  for (size_t k = first; k < loops.size(); ++k)
    made *= static_cast<double>(std::max<int64_t>(loops[k].extent, 1) * loops[k].step);
  const double block = loops[first].longest > 0 ? data / least_shared : data;  // a run may be shorter than it typically is
  return loops[first].extent >= least_shared && panel.panels > 1 && weights + block <= 0.75 * cache &&
         weights <= data + made;
}

BlockOfPoints choose_block_of_points(std::vector<PointsLoop> loops, Expr data, const PanelSizes& panel,
                                     int64_t cache_bytes) {
  constexpr int64_t unknown_extent = 8;  // an open batch
  auto extent = [&](size_t k) { return loops[k].extent > 0 ? loops[k].extent : unknown_extent; };
  auto bytes_inside = [&](size_t level, int64_t inner) -> std::optional<double> {
    std::map<int, int64_t> ranges = panel.ranges;
    for (size_t k = level; k < loops.size(); ++k) ranges[loops[k].axis] = (k == level ? inner : extent(k)) * loops[k].step;
    auto elements = distinct_elements(data, ranges);
    if (!elements) return std::nullopt;
    return *elements * 4;
  };
  BlockOfPoints best;
  if (loops.empty()) return best;
  auto all = bytes_inside(0, extent(0));
  size_t first = 0;  // loop that is long enough to be shared out
  while (first + 1 < loops.size() && loops[first].extent < least_shared) ++first;
  const bool shared =
      all && shares_points(loops, first, panel, *bytes_inside(first, extent(first)), static_cast<double>(cache_bytes));
  const int64_t rows = loops[first].extent;  // typically
  constexpr double long_run = 4;             // caches
  for (PointsLoop& l : loops)
    while (all && l.extent < l.longest && *all < long_run * static_cast<double>(cache_bytes)) {
      l.extent = std::min(std::max<int64_t>(2 * l.extent, 1), l.longest);
      all = bytes_inside(0, extent(0));
    }
  if (!all) return best;
  double weights = static_cast<double>(panel.panels) * static_cast<double>(panel.bytes),
         cache = static_cast<double>(cache_bytes);
  double least = -1, blocks_outside = 1;
  for (size_t level = 0; level < loops.size(); ++level) {
    auto cut_into = [&](int64_t count) {
      return (extent(level) + count - 1) / count;
    };  // as even as can be; the last block may have fewer
    // From one block to blocks of one, each size once.
    for (int64_t inner = extent(level); inner >= 1; inner = inner == 1 ? 0 : cut_into(cut_into(inner - 1))) {
      bool whole = inner == extent(level);
      if (whole ? level > 0 : loops[level].extent == 0 && inner != 1)
        continue;  // whole: the same as one iteration of the loop around it
      double block = *bytes_inside(level, inner), blocks = blocks_outside * static_cast<double>(cut_into(inner));
      bool data_stays = block + static_cast<double>(panel.resident) <= 0.75 * cache,
           weights_stay = weights + block <= 0.75 * cache;
      double traffic = (data_stays ? *all : *all * rereads(panel)) + (weights_stay ? weights : weights * blocks);
      if (least >= 0 && traffic >= least * 0.98) continue;
      least = traffic;
      best = {level, whole ? 0 : inner};
    }
    blocks_outside *= static_cast<double>(extent(level));
  }
  if (!shared || best.loop > first) return best;
  if (loops[first].longest > 0) {
    best.inner = best.loop == first && best.inner > 0 ? best.inner : (rows + 1) / 2;
  } else if (best.loop == first && best.inner > 0) {
    return best;
  } else {
    const int64_t blocks = rows % 8 == 0 ? 8 : rows % 4 == 0 ? 4 : 2;
    best.inner = (rows + blocks - 1) / blocks;
  }
  best.loop = first;
  best.shared = true;
  return best;
}

}  // namespace metac
