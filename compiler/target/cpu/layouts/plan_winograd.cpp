#include "compiler/target/cpu/layouts/plan_winograd.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ir/hints.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/support/checked.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"
#include "compiler/target/cpu/tiles/register_tile.h"

namespace metac {
namespace {

// A kept axis and a reduced axis that slide along one index of the data: index = point + window + constant.
struct Window {
  int point = 0, window = 0, index = 0;
};

std::optional<Window> window_at(const Definition& d, Expr index, int position) {
  Linear form = linear_form(index);
  if (form.terms.size() != 2) return std::nullopt;
  Window w{-1, -1, position};
  for (auto& [term, factor] : form.terms) {
    if (term->kind != ExprKind::axis || factor != 1) return std::nullopt;
    (term->id < d.kept() ? w.point : w.window) = term->id;
  }
  if (w.point < 0 || w.window < 0 || !d.domain[static_cast<size_t>(w.window)].is_int(3)) return std::nullopt;
  return w;
}

int uses_of(Expr load, int axis_id) {
  int uses = 0;
  for (Expr e : load->args) uses += uses_axis(e, axis_id);
  return uses;
}

struct Windows {
  Window y, x;
  int channel = -1, image = -1;
  std::vector<int> taps;
};

std::optional<Windows> match_windows(const Definition& d, const Contraction& c, int lanes_axis) {
  if (d.reduced < 3 || !c.a.conditions.empty() || !c.b.conditions.empty()) return std::nullopt;
  std::vector<Window> found;
  std::vector<int> plain;
  for (size_t k = 0; k < c.a.load->args.size(); ++k) {
    Expr e = c.a.load->args[k];
    if (e->has_load) return std::nullopt;
    if (auto w = window_at(d, e, static_cast<int>(k)))
      found.push_back(*w);
    else if (e->kind == ExprKind::axis)
      plain.push_back(e->id);
  }
  if (found.size() < 2) return std::nullopt;
  found.erase(found.begin(), found.end() - 2);  // a third dimension is summed tap by tap
  if (found[0].window == found[1].window || found[0].point == found[1].point) return std::nullopt;
  Windows w{found[0], found[1], -1, -1, {}};
  for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) {
    if (k == w.y.window || k == w.x.window) continue;
    if (uses_of(c.a.load, k) != 1 || uses_of(c.b.load, k) != 1 || !d.domain[static_cast<size_t>(k)].if_int())
      return std::nullopt;
    w.taps.push_back(k);
  }
  // The channel has an index to itself, or, in groups, is the first that is summed.
  auto channel =
      std::find_if(w.taps.begin(), w.taps.end(), [&](int k) { return std::count(plain.begin(), plain.end(), k) > 0; });
  if (channel == w.taps.end()) channel = w.taps.begin();
  w.channel = *channel;
  w.taps.erase(channel);
  for (const Window& one : found) {
    if (uses_of(c.a.load, one.point) != 1 || uses_of(c.a.load, one.window) != 1) return std::nullopt;
    if (uses_of(c.b.load, one.point) != 0 || uses_of(c.b.load, one.window) != 1) return std::nullopt;
  }
  if (uses_of(c.a.load, lanes_axis) != 0 || !d.domain[static_cast<size_t>(lanes_axis)].if_int()) return std::nullopt;
  for (int k : plain)
    if (k < d.kept() && uses_of(c.b.load, k) == 0 && w.image < 0) w.image = k;
  return w;
}

// Core cycles, summed reach the cores that share the work.
class Estimate {
 public:
  // `larger`: open sides are so many times as long as they typically are.
  Estimate(const Definition& d, const WinogradPlan& w, const CpuTarget& cpu, const std::vector<Symbol>& symbols,
           double larger = 1)
      : cpu_(cpu), lanes_(cpu.vector_bytes / 4), registers_(cpu.vector_registers) {
    auto extent = [&](int k) { return static_cast<double>(hinted_value(d.domain[static_cast<size_t>(k)], symbols)); };
    auto side = [&](int k) {
      return d.domain[static_cast<size_t>(k)].if_int() ? extent(k) : std::round(extent(k) * larger);
    };
    open_ = !d.domain[static_cast<size_t>(w.y)].if_int() || !d.domain[static_cast<size_t>(w.x)].if_int();
    height_ = side(w.y);
    width_ = side(w.x);
    channels_ = extent(w.channel);
    for (int k : w.taps) channels_ *= extent(k);
    filters_ = extent(w.lanes_axis);
    images_ = w.image < 0 ? 1 : extent(w.image);
    for (int k = 0; k < d.kept(); ++k)
      if (k != w.y && k != w.x && k != w.image && k != w.lanes_axis) repeats_ *= extent(k);
  }

  double direct() const {
    double products = 9 * images_ * height_ * width_ * channels_ * rounded(filters_) / products_a_cycle(width_);
    return repeats_ * both(products, memory_cycles(9 * channels_ * filters_ * 4));
  }

  // Transforming the weights: nine products for each position, and what is packed and written to be read again.
  double transforming(int m) const {
    const double pairs = channels_ * rounded(filters_), size = (m + 2) * (m + 2);
    return repeats_ * (size * 9 * pairs / lanes_ + memory_cycles((9 + size) * pairs * 4));
  }

  // wanted: rows of a block, where there can be so many; 0: the best.
  double filtered(int m, WinogradPlan& plan, int64_t wanted = 0) const {
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
      const Blocks these = blocks_of(m, block_tiles, blocks);
      if (best >= 0 && r != wanted && (plan.rows == wanted || these.cycles >= best)) continue;
      best = these.cycles;
      plan.rows = r;
      plan.lane_groups = these.lane_groups;
    }
    return repeats_ * best;
  }

  // Of open sides: blocks for runs of ever more tiles, where those for more would take longer.
  std::vector<FilterBlocks> blocks_by_size(int m) const {
    constexpr int most_sizes = 8;
    constexpr double worth = 0.95;
    std::vector<FilterBlocks> sizes;
    double all = all_tiles(m);
    for (int k = 0; k < most_sizes && all >= 1; ++k, all = std::floor(all / 2)) {
      const Blocks best = best_blocks(m, all);
      if (!sizes.empty()) {
        const double count = std::ceil(all / static_cast<double>(sizes.back().tiles));
        const Blocks kept = blocks_of(m, std::ceil(all / count), count);
        if (kept.lane_groups == sizes.back().lane_groups && best.cycles > worth * kept.cycles) continue;
      }
      // What serves a size serves those around it, up to the middle between two.
      const auto up_to = k == 0 ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(all * 1.41);
      sizes.push_back({up_to, static_cast<int64_t>(best.tiles), best.lane_groups});
    }
    std::reverse(sizes.begin(), sizes.end());
    return sizes;
  }

 private:
  static constexpr double most_tiles = 128;    // of a block
  static constexpr int64_t many_points = 840;  // which tiles of any size divide

  struct Blocks {
    double tiles = 0, cycles = -1;
    int64_t lane_groups = 1;
  };

  double all_tiles(int m) const { return images_ * tiles(height_, m) * tiles(width_, m); }

  // Blocks of any number of tiles, as even as can be.
  Blocks best_blocks(int m, double all) const {
    Blocks best;
    for (double count = std::ceil(all / most_tiles), tried = 0;; count = std::ceil(count * (count < 8 ? 1.01 : 1.19))) {
      const double block = std::ceil(all / count);
      if (tried > 0 && block < 4) break;
      if (block == tried) continue;
      tried = block;
      const Blocks these = blocks_of(m, block, std::ceil(all / block));
      if (best.cycles < 0 || these.cycles < best.cycles) best = these;
      if (block <= 1) break;
    }
    return best;
  }

  // So many blocks of so many tiles.
  Blocks blocks_of(int m, double block_tiles, double blocks) const {
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
                      (open_ ? products_in_any_block(block_tiles) : products_a_cycle(block_tiles));
    // The rest of a last block is computed too.
    double into = blocks * block_tiles * std::ceil(channels_ / lanes_) * (m == 2 ? 45 : 5.0 * size);
    double back = blocks * block_tiles * std::ceil(filters_ / lanes_) * (m == 2 ? 35 : 4.5 * size);
    int64_t groups = lane_groups(blocks * repeats_, static_cast<int64_t>(lane_blocks), products / into);
    double cycles = both(products, stream) + into * static_cast<double>(groups) + back;
    cycles *= imbalance(blocks * repeats_ * static_cast<double>(groups));
    return {block_tiles, cycles, groups};
  }

  // Products and what streams beside them: the longer of the two hides the other, unless they are of one length.
  static double both(double products, double stream) {
    return std::cbrt(products * products * products + stream * stream * stream);
  }

  // In a register tile of so many points, as the filters (narrow groups) and the points allow.
  double products_a_cycle(double points) const {
    return products_at(cost_of_point(static_cast<int64_t>(points), static_cast<int64_t>(filters_)));
  }
  double products_at(double cost) const {
    return 2 * lanes_ * 0.92 / std::max(1.0, cost / cost_of_point(many_points, static_cast<int64_t>(12 * lanes_)));
  }
  // Of a reduction step, for each vector of filters.
  double cost_of_point(int64_t tile_points, int64_t filters) const {
    double vectors = std::ceil(static_cast<double>(filters) / lanes_);
    return tile_of(tile_points, filters).cycles / (static_cast<double>(tile_points) * vectors);
  }
  Tile tile_of(int64_t points, int64_t filters) const {
    SumShape sum;
    sum.points = points;
    sum.lanes = filters;
    return choose_tile(sum, static_cast<int>(lanes_), registers_);
  }

  // In blocks whose length a run decides: in the tile for many points, and what is left by tiles of half as many, a quarter
  // and so on (tiled_sum.h).
  double products_in_any_block(double points) const {
    const Tile tile = tile_of(many_points, static_cast<int64_t>(filters_));
    const auto cycles = [&](int tile_points) {
      return tile_cycles({}, tile_points, tile.vectors, static_cast<int>(lanes_));
    };
    const int all = static_cast<int>(points);
    double sum = all / tile.points * cycles(tile.points);
    for (int left = all % tile.points, most = tile.points; left > 0;) {
      const int taken = most / 2;
      if (left >= taken) sum += cycles(taken), left -= taken;
      most -= taken;
    }
    return products_at(sum / (points * tile.vectors));
  }
  static double tiles(double extent, int m) { return std::ceil(extent / m); }
  double rounded(double filters) const { return std::ceil(filters / lanes_) * lanes_; }
  static double memory_cycles(double bytes) { return bytes / cpu_costs.memory_bytes; }

  // How much longer the busiest of two or of four threads works than were everything shared out evenly.
  static double imbalance(double iterations) {
    auto busiest = [&](double threads) { return std::ceil(iterations / threads) * threads / iterations; };
    return 0.75 * busiest(2) + 0.25 * busiest(4);
  }

  // Few blocks are shared out by lanes; each share transforms the data again.
  static int64_t lane_groups(double blocks, int64_t lane_blocks, double products_per_transform) {
    constexpr double wanted = 8;
    int64_t groups = 1;
    for (int64_t g = 2; g <= lane_blocks; ++g)
      if (lane_blocks % g == 0 && blocks * static_cast<double>(g) <= wanted &&
          static_cast<double>(g - 1) <= 0.12 * products_per_transform)
        groups = g;
    return groups;
  }

  const CpuTarget& cpu_;
  double lanes_;
  int registers_;
  bool open_ = false;  // a side is
  double height_ = 0, width_ = 0, channels_ = 0, filters_ = 0, images_ = 1, repeats_ = 1;
};

// vectors 0: of any number; tile 0: the best.
void choose_register_tile(const Definition& d, WinogradPlan& plan, const CpuTarget& cpu, const std::vector<Symbol>& symbols,
                          int vectors = 0, int points = 0) {
  int lanes = cpu.vector_bytes / 4;
  int64_t channels = d.domain[static_cast<size_t>(plan.channel)].as_int();
  for (int k : plan.taps) channels = saturating_mul(channels, d.domain[static_cast<size_t>(k)].as_int());
  int64_t tiles_x = (hinted_value(d.domain[static_cast<size_t>(plan.x)], symbols) + plan.outputs - 1) / plan.outputs;
  SumShape sum;
  constexpr int64_t many = 840;  // tiles of any size divide it
  sum.points = plan.by_size.empty() ? plan.rows * tiles_x : many;
  sum.lanes = d.domain[static_cast<size_t>(plan.lanes_axis)].as_int();
  sum.steps = channels;
  sum.whole_panels = true;  // groups of panels are shared out
  sum.point_bytes = channels * 4;
  if (points > 0 && misfit_of(sum, points, vectors, lanes, cpu.vector_registers).empty()) {
    plan.vectors = vectors;
    plan.tile = points;
  } else {
    sum.only_vectors = points > 0 ? 0 : vectors;
    const Tile tile = choose_tile(sum, lanes, cpu.vector_registers);
    plan.vectors = tile.vectors;
    plan.tile = tile.points;
  }
  int64_t lane_blocks =
      (d.domain[static_cast<size_t>(plan.lanes_axis)].as_int() + plan.vectors * lanes - 1) / (plan.vectors * lanes);
  while (lane_blocks % plan.lane_groups != 0) --plan.lane_groups;
  for (FilterBlocks& blocks : plan.by_size)
    while (lane_blocks % blocks.lane_groups != 0) --blocks.lane_groups;
}

// Sets the blocks of open sides, of a plan whose filter is chosen.
void choose_open_blocks(const Definition& d, WinogradPlan& plan, const Estimate& estimate) {
  for (int k : {plan.y, plan.x})
    if (!d.domain[static_cast<size_t>(k)].if_int()) {
      plan.rows = 1;
      plan.by_size = estimate.blocks_by_size(plan.outputs);
      plan.lane_groups = plan.by_size.back().lane_groups;
      return;
    }
}

}  // namespace

std::optional<WinogradPlan> plan_winograd(const Definition& d, const Contraction& c, int lanes_axis, const CpuTarget& cpu,
                                          const std::vector<Symbol>& symbols, int largest, bool prepared,
                                          const FilterWish& wish) {
  auto windows = match_windows(d, c, lanes_axis);
  if (!windows) return std::nullopt;
  int lanes = cpu.vector_bytes / 4;
  if (d.domain[static_cast<size_t>(windows->channel)].as_int() < lanes) return std::nullopt;
  WinogradPlan plan;
  plan.y = windows->y.point;
  plan.x = windows->x.point;
  plan.window_y = windows->y.window;
  plan.window_x = windows->x.window;
  plan.channel = windows->channel;
  plan.taps = windows->taps;
  plan.image = windows->image;
  plan.lanes_axis = lanes_axis;
  // Sides of 14 fill tiles of two and no tiles of four; where they are open, other lengths count as well.
  std::vector<Estimate> estimates = {{d, plan, cpu, symbols}};
  for (int k : {plan.y, plan.x})
    if (!d.domain[static_cast<size_t>(k)].if_int() && estimates.size() == 1)
      estimates.push_back({d, plan, cpu, symbols, 1.4});
  WinogradPlan best;
  double least = 0.9 * static_cast<double>(estimates.size());
  bool found = false;
  for (int m = 2; m <= largest; m += 2) {
    plan.outputs = m;
    double cycles = 0;                           // of those of the direct sum
    for (size_t k = estimates.size(); k-- > 0;)  // the plan is for the typical length
      cycles += (estimates[k].filtered(m, plan, wish.rows) + (prepared ? 0 : estimates[k].transforming(m))) /
                estimates[k].direct();
    if (wish.outputs != 0 ? m != wish.outputs : cycles >= least) continue;
    least = cycles;
    best = plan;
    found = true;
  }
  if (!found) return std::nullopt;
  choose_open_blocks(d, best, estimates[0]);
  choose_register_tile(d, best, cpu, symbols, wish.vectors, wish.tile);
  return best;
}

void choose_tile_blocks(const Definition& d, WinogradPlan& plan, const CpuTarget& cpu, const std::vector<Symbol>& symbols) {
  const Estimate estimate(d, plan, cpu, symbols);
  estimate.filtered(plan.outputs, plan);
  choose_open_blocks(d, plan, estimate);
  choose_register_tile(d, plan, cpu, symbols, plan.vectors);  // the weights are packed: their blocks stay
}

std::optional<TileReach> reach_beyond_data(const Definition& d, const Contraction& c, const WinogradPlan& plan,
                                           const Shape& data) {
  TileReach reach;
  for (size_t k = 0; k < c.a.load->args.size(); ++k) {
    const Expr e = c.a.load->args[k];
    for (bool along_y : {true, false}) {
      if (!uses_axis(e, along_y ? plan.y : plan.x)) continue;
      const Expr points = d.domain[static_cast<size_t>(along_y ? plan.y : plan.x)];
      // Whole tiles: of a number that is known exactly, of another one that fills all but one point of its last tile.
      const Expr whole =
          points.if_int() ? ceil_div(points, plan.outputs) * Expr(plan.outputs) : points + Expr(plan.outputs - 1);
      const Expr beyond = whole + Expr(2 + linear_form(e).constant) - data[k];
      if (!beyond.if_int()) return std::nullopt;
      (along_y ? reach.y_index : reach.x_index) = static_cast<int>(k);
      (along_y ? reach.y : reach.x) = std::max<int64_t>(0, beyond.as_int());
    }
  }
  return reach;
}

}  // namespace metac
