#include "compiler/target/cpu/layouts/plan_winograd.h"

#include <algorithm>

#include "compiler/ir/hints.h"
#include "compiler/support/checked.h"
#include "compiler/target/cpu/layouts/filter_estimate.h"
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

// vectors 0: of any number; tile 0: the best.
void choose_register_tile(const Definition& d, WinogradPlan& plan, const CpuTarget& cpu, const std::vector<Symbol>& symbols,
                          int vectors = 0, int points = 0) {
  int lanes = cpu.vector_bytes / 4;
  int64_t channels = d.domain[static_cast<size_t>(plan.channel)].as_int();
  for (int k : plan.taps) channels = saturating_mul(channels, d.domain[static_cast<size_t>(k)].as_int());
  int64_t tiles_x = (hinted_value(d.domain[static_cast<size_t>(plan.x)], symbols) + plan.outputs - 1) / plan.outputs;
  SumShape sum;
  sum.points = plan.by_size.empty() || plan.whole_images ? plan.rows * tiles_x : many_points;
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

// Sets the blocks of open sides, of a plan whose filter is chosen, and of an open batch whose images are a block each.
void choose_open_blocks(const Definition& d, WinogradPlan& plan, const FilterEstimate& estimate) {
  plan.by_size.clear();
  plan.whole_images = false;
  for (int k : {plan.y, plan.x})
    if (!d.domain[static_cast<size_t>(k)].if_int()) {
      plan.rows = 1;
      plan.by_size = estimate.blocks_by_size(plan.outputs);
      plan.lane_groups = plan.by_size.back().lane_groups;
      return;
    }
  const Expr height = d.domain[static_cast<size_t>(plan.y)];
  if (plan.image < 0 || d.domain[static_cast<size_t>(plan.image)].if_int() ||
      !ceil_div(height, plan.outputs).is_int(plan.rows))
    return;
  std::vector<FilterBlocks> blocks = estimate.blocks_by_size(plan.outputs);
  const int64_t of_image = plan.rows * ceil_div(d.domain[static_cast<size_t>(plan.x)], plan.outputs).as_int();
  if (blocks.back().tiles <= of_image) return;
  plan.by_size = std::move(blocks);
  plan.whole_images = true;
  plan.lane_groups = plan.by_size.back().lane_groups;
}

}  // namespace

std::optional<WinogradPlan> plan_winograd(const Definition& d, const Contraction& c, int lanes_axis, const CpuTarget& cpu,
                                          const std::vector<Symbol>& symbols, int largest, bool prepared,
                                          const FilterWish& wish, double direct_time) {
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
  // Sides of 14 fill tiles of two and no tiles of four; where they are open, longer and shorter ones count as well.
  std::vector<FilterEstimate> estimates = {{d, plan, cpu, symbols}};
  if (!d.domain[static_cast<size_t>(plan.y)].if_int() || !d.domain[static_cast<size_t>(plan.x)].if_int())
    for (double times : {1.4, 0.7}) estimates.push_back({d, plan, cpu, symbols, times});
  WinogradPlan best;
  double least = 0.9 * direct_time * static_cast<double>(estimates.size());
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
  const FilterEstimate estimate(d, plan, cpu, symbols);
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
