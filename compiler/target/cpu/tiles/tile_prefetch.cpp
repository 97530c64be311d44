#include "compiler/target/cpu/tiles/tile_prefetch.h"

#include <algorithm>

#include "compiler/ir/hints.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/support/checked.h"

namespace metac {

int64_t panel_elements(const TiledSum& sum) {
  int64_t elements = static_cast<int64_t>(sum.vectors) * sum.lanes;
  for (const Loop& l : sum.reduced) elements = saturating_mul(elements, l.extent.if_int() ? l.extent.as_int() : 64);
  return elements;
}

namespace {

// A step of the sum asks for a piece of this many elements where `tiles` share a panel.
struct Pieces {
  Expr tile, tiles, step;                  // which tile asks, of how many; which step
  int64_t tile_count = 1, step_count = 1;  // typically
};

// None where the first tile's wait for its panel is lost among the others, or steps are not counted.
std::optional<Pieces> count_pieces(const std::vector<Loop>& tiles, const std::vector<Loop>& steps,
                                   const std::vector<Symbol>& symbols) {
  constexpr int64_t many_tiles = 64;
  Pieces p{0, 1, 0};
  for (const Loop& l : tiles) {
    p.tile = p.tile * l.extent + axis(l.axis);
    p.tiles = p.tiles * l.extent;
    p.tile_count = saturating_mul(p.tile_count, hinted_value(l.extent, symbols));
  }
  for (const Loop& l : steps) {
    if (!l.extent.if_int()) return std::nullopt;
    p.step = p.step * l.extent + axis(l.axis);
    p.step_count = saturating_mul(p.step_count, l.extent.as_int());
  }
  if (p.tile_count == 0 || p.step_count == 0 || p.tile_count > many_tiles) return std::nullopt;
  return p;
}

}  // namespace

std::vector<LoopNode> prefetch_panel(const TiledSum& sum, const std::vector<Loop>& tiles, const std::vector<Loop>& steps,
                                     Expr first_lane, const Bounds& bounds, const std::vector<Symbol>& symbols) {
  const int64_t elements = panel_elements(sum);
  if (steps.empty() || saturating_mul(elements, 4) > sum.prefetch_bytes) return {};
  const auto p = count_pieces(tiles, steps, symbols);
  if (!p) return {};
  Expr load = sum.body->args[1];
  Expr next = rewrite(load->args[0], [&](Expr n) -> Expr {
    if (n->kind != ExprKind::axis) return {};
    if (n->id == sum.lane_axis) return first_lane;
    return std::any_of(sum.reduced.begin(), sum.reduced.end(), [&](const Loop& l) { return l.axis == n->id; }) ? Expr(0)
                                                                                                               : Expr();
  });
  constexpr int64_t line = cpu_costs.line_bytes / 4;
  const bool counted = p->tiles.if_int();
  const Expr of_step((elements + p->step_count - 1) / p->step_count);  // by all tiles
  const int64_t parts = saturating_mul(p->tile_count, p->step_count);
  const Expr piece = counted ? Expr(std::max<int64_t>(1, elements / parts + (elements % parts != 0)))
                             : ceil_div(of_step, max(p->tiles, Expr(1)));
  const int64_t longest = (counted ? piece : of_step).as_int();
  // Of an open number of tiles each asks for its share; a lone one for all. Two branches decide how many lines that is.
  const auto ask = [&](int64_t first_line, int64_t lines, Expr guard) {
    LoopNode node;
    node.guard = guard;
    for (int64_t k = first_line; k < lines; ++k)
      node.prefetches.push_back(
          {load->id,
           simplify(next + Expr(elements) + (p->tile * Expr(p->step_count) + p->step) * piece + Expr(k * line), bounds)});
    return node;
  };
  const int64_t lines = (longest + line - 1) / line;
  if (counted || lines == 1) return {ask(0, lines, {})};
  const int64_t half = (lines + 1) / 2;
  std::vector<LoopNode> all = {ask(0, 1, {})};
  if (half > 1) all.push_back(ask(1, half, Expr(line) < piece));
  all.push_back(ask(half, lines, Expr(half * line) < piece));
  return all;
}

}  // namespace metac
