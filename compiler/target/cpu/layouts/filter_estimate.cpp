#include "compiler/target/cpu/layouts/filter_estimate.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ir/hints.h"
#include "compiler/machine/cpu_costs.h"

namespace metac {
namespace {

constexpr double most_tiles = 128;  // of a block

double tiles(double extent, int m) { return std::ceil(extent / m); }

double memory_cycles(double bytes) { return bytes / cpu_costs.memory_bytes; }

// Products and what streams beside them: the longer of the two hides the other, unless they are of one length.
double both(double products, double stream) { return std::cbrt(products * products * products + stream * stream * stream); }

// How much longer the busiest of two or of four threads works than were everything shared out evenly.
double imbalance(double iterations) {
  auto busiest = [&](double threads) { return std::ceil(iterations / threads) * threads / iterations; };
  return 0.75 * busiest(2) + 0.25 * busiest(4);
}

}  // namespace

FilterEstimate::FilterEstimate(const Definition& d, const WinogradPlan& w, const CpuTarget& cpu,
                               const std::vector<Symbol>& symbols, double times)
    : cpu_(cpu), lanes_(cpu.vector_bytes / 4), registers_(cpu.vector_registers) {
  auto extent = [&](int k) { return static_cast<double>(hinted_value(d.domain[static_cast<size_t>(k)], symbols)); };
  auto side = [&](int k) { return d.domain[static_cast<size_t>(k)].if_int() ? extent(k) : std::round(extent(k) * times); };
  open_ = !d.domain[static_cast<size_t>(w.y)].if_int() || !d.domain[static_cast<size_t>(w.x)].if_int();
  height_ = side(w.y);
  width_ = side(w.x);
  channels_ = extent(w.channel);
  for (int k : w.taps) channels_ *= extent(k);
  filters_ = extent(w.lanes_axis);
  images_ = w.image < 0 ? 1 : extent(w.image);
  open_batch_ = w.image >= 0 && !d.domain[static_cast<size_t>(w.image)].if_int();
  for (int k = 0; k < d.kept(); ++k)
    if (k != w.y && k != w.x && k != w.image && k != w.lanes_axis) repeats_ *= extent(k);
}

double FilterEstimate::direct() const {
  double products = 9 * images_ * height_ * width_ * channels_ * rounded(filters_) / products_a_cycle(width_);
  return repeats_ * both(products, memory_cycles(9 * channels_ * filters_ * 4));
}

double FilterEstimate::transforming(int m) const {
  const double pairs = channels_ * rounded(filters_), size = (m + 2) * (m + 2);
  return repeats_ * (size * 9 * pairs / lanes_ + memory_cycles((9 + size) * pairs * 4));
}

double FilterEstimate::filtered(int m, WinogradPlan& plan, int64_t wanted) const {
  if (open_) {
    const Blocks best = best_blocks(m, all_tiles(m));
    plan.lane_groups = best.lane_groups;
    return repeats_ * best.cycles;
  }
  const double tiles_x = tiles(width_, m), rows = images_ * tiles(height_, m);
  double best = -1;
  for (int64_t r = 1; static_cast<double>(r) < rows + 1; ++r) {
    double block_tiles = static_cast<double>(r) * tiles_x, blocks = std::ceil(rows / static_cast<double>(r));
    if (block_tiles > most_tiles && r > 1) break;
    const Blocks these = blocks_of(m, block_tiles, blocks, block_tiles);
    if (best >= 0 && r != wanted && (plan.rows == wanted || these.cycles >= best)) continue;
    best = these.cycles;
    plan.rows = r;
    plan.lane_groups = these.lane_groups;
  }
  return repeats_ * best;
}

std::vector<FilterBlocks> FilterEstimate::blocks_by_size(int m) const {
  constexpr int most_sizes = 8;
  constexpr double worth = 0.95, many_images = 8;
  std::vector<FilterBlocks> sizes;
  const double unit = together(m);
  double all = all_tiles(m) * (open_batch_ ? many_images : 1);
  for (int k = 0; k < most_sizes && all >= unit; ++k, all = std::floor(all / 2 / unit) * unit) {
    const Blocks best = best_blocks(m, all);
    if (!sizes.empty()) {
      const double count = std::ceil(all / static_cast<double>(sizes.back().tiles));
      const Blocks kept = blocks_of(m, std::ceil(all / count / unit) * unit, count, unit > 1 ? unit : 0);
      if (kept.lane_groups == sizes.back().lane_groups && best.cycles > worth * kept.cycles) continue;
    }
    // What serves a size serves those around it, up to the middle between two.
    const auto up_to = k == 0 ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(all * 1.41);
    sizes.push_back({up_to, static_cast<int64_t>(best.tiles), best.lane_groups});
  }
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

double FilterEstimate::together(int m) const { return open_ ? 1 : tiles(height_, m) * tiles(width_, m); }

double FilterEstimate::all_tiles(int m) const { return images_ * tiles(height_, m) * tiles(width_, m); }

FilterEstimate::Blocks FilterEstimate::best_blocks(int m, double all) const {
  Blocks best;
  const double unit = together(m);
  for (double count = std::ceil(all / most_tiles), tried = 0;; count = std::ceil(count * (count < 8 ? 1.01 : 1.19))) {
    const double block = std::ceil(all / count / unit) * unit;
    if (tried > 0 && block < 4) break;
    if (block == tried && block > unit) continue;
    if (block != tried) {
      const Blocks these = blocks_of(m, block, std::ceil(all / block), unit > 1 ? unit : 0);
      if (best.cycles < 0 || these.cycles < best.cycles) best = these;
    }
    tried = block;
    if (block <= unit) break;
  }
  return best;
}

FilterEstimate::Blocks FilterEstimate::blocks_of(int m, double block_tiles, double blocks, double at_once) const {
  const double size = (m + 2) * (m + 2);
  const double weight_bytes = size * channels_ * rounded(filters_) * 4, l2 = static_cast<double>(cpu_.l2_bytes);
  const double lane_blocks = std::ceil(filters_ / (2.0 * lanes_));
  // What streams beside the products: the weights, from memory and for further blocks from a cache, and the part of a
  // block's data and products that does not stay in the second level, for each block of lanes.
  double data_bytes = size * block_tiles * channels_ * 4, product_bytes = size * block_tiles * 2 * lanes_ * 4;
  double beyond = std::clamp((data_bytes + product_bytes) / l2 - 0.6, 0.0, 1.0);
  double stream = memory_cycles(weight_bytes) +
                  (blocks - 1) * weight_bytes / (weight_bytes > 0.4 * l2 ? cpu_costs.stream_far : cpu_costs.stream_near) +
                  blocks * lane_blocks * beyond * data_bytes / cpu_costs.data_beyond;
  double products = size * blocks * block_tiles * channels_ * rounded(filters_) /
                    (at_once == 0 ? products_in_any_block(block_tiles) : products_a_cycle(at_once));
  // The rest of a last block is computed too.
  double into = blocks * block_tiles * std::ceil(channels_ / lanes_) * (m == 2 ? 45 : 5.0 * size);
  double back = blocks * block_tiles * std::ceil(filters_ / lanes_) * (m == 2 ? 35 : 4.5 * size);
  int64_t groups = lane_groups(blocks * repeats_, static_cast<int64_t>(lane_blocks), products / into);
  double cycles = both(products, stream) + into * static_cast<double>(groups) + back;
  cycles *= imbalance(blocks * repeats_ * static_cast<double>(groups));
  return {block_tiles, cycles, groups};
}

double FilterEstimate::products_a_cycle(double points) const {
  return products_at(cost_of_point(static_cast<int64_t>(points), static_cast<int64_t>(filters_)));
}

double FilterEstimate::products_in_any_block(double points) const {
  const Tile tile = tile_of(many_points, static_cast<int64_t>(filters_));
  const auto cycles = [&](int tile_points) { return tile_cycles({}, tile_points, tile.vectors, static_cast<int>(lanes_)); };
  const int all = static_cast<int>(points);
  double sum = all / tile.points * cycles(tile.points);
  for (int left = all % tile.points, most = tile.points; left > 0;) {
    const int taken = most / 2;
    if (left >= taken) sum += cycles(taken), left -= taken;
    most -= taken;
  }
  return products_at(sum / (points * tile.vectors));
}

double FilterEstimate::products_at(double cost) const {
  return 2 * lanes_ * 0.92 / std::max(1.0, cost / cost_of_point(many_points, static_cast<int64_t>(12 * lanes_)));
}

double FilterEstimate::cost_of_point(int64_t tile_points, int64_t filters) const {
  double vectors = std::ceil(static_cast<double>(filters) / lanes_);
  return tile_of(tile_points, filters).cycles / (static_cast<double>(tile_points) * vectors);
}

Tile FilterEstimate::tile_of(int64_t points, int64_t filters) const {
  SumShape sum;
  sum.points = points;
  sum.lanes = filters;
  return choose_tile(sum, static_cast<int>(lanes_), registers_);
}

double FilterEstimate::rounded(double filters) const { return std::ceil(filters / lanes_) * lanes_; }

int64_t FilterEstimate::lane_groups(double blocks, int64_t lane_blocks, double products_per_transform) {
  constexpr double wanted = 8;
  int64_t groups = 1;
  for (int64_t g = 2; g <= lane_blocks; ++g)
    if (lane_blocks % g == 0 && blocks * static_cast<double>(g) <= wanted &&
        static_cast<double>(g - 1) <= 0.12 * products_per_transform)
      groups = g;
  return groups;
}

}  // namespace metac
