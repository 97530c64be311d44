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

std::optional<LoopNode> prefetch_panel(const TiledSum& sum, const std::vector<Loop>& tiles, const std::vector<Loop>& steps,
                                       Expr first_lane, const Bounds& bounds, const std::vector<Symbol>& symbols) {
  const int64_t elements = panel_elements(sum);
  if (steps.empty() || saturating_mul(elements, 4) > sum.prefetch_bytes) return std::nullopt;
  Expr tile = 0, step = 0;
  int64_t tile_count = 1, step_count = 1;
  for (const Loop& l : tiles) {
    tile = tile * l.extent + axis(l.axis);
    tile_count = saturating_mul(tile_count, hinted_value(l.extent, symbols));
  }
  for (const Loop& l : steps) {
    if (!l.extent.if_int()) return std::nullopt;
    step = step * l.extent + axis(l.axis);
    step_count = saturating_mul(step_count, l.extent.as_int());
  }
  constexpr int64_t line = cpu_costs.line_bytes / 4, many_tiles = 64;
  if (tile_count == 0 || step_count == 0 || tile_count > many_tiles)
    return std::nullopt;  // the first tile's wait for its panel is lost among the others
  // Of an open number of tiles as many as there typically are ask for all of it, others once more for the last part.
  Bounds of_tiles = bounds;
  for (const Loop& l : tiles) of_tiles.set_axis(l.axis, l.extent);
  if (!of_tiles.proves_less(tile, tile_count)) tile = min(tile, Expr(tile_count - 1));
  Expr load = sum.body->args[1];
  Expr next = rewrite(load->args[0], [&](Expr n) -> Expr {
    if (n->kind != ExprKind::axis) return {};
    if (n->id == sum.lane_axis) return first_lane;
    return std::any_of(sum.reduced.begin(), sum.reduced.end(), [&](const Loop& l) { return l.axis == n->id; }) ? Expr(0)
                                                                                                               : Expr();
  });
  const int64_t parts = saturating_mul(tile_count, step_count);
  int64_t piece = std::max<int64_t>(1, elements / parts + (elements % parts != 0));
  LoopNode node;
  for (int64_t first = 0; first < piece; first += line)
    node.prefetches.push_back(
        {load->id, simplify(next + Expr(elements) + (tile * Expr(step_count) + step) * Expr(piece) + Expr(first), bounds)});
  return node;
}

}  // namespace metac
