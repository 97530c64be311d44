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

constexpr int64_t many_tiles = 64;  // the first one's wait for its panel is lost among them

// Who asks: the tiles that share a panel ask for a piece of it in each step of their sums.
struct Pieces {
  Expr tile, tiles, step;                  // which tile asks, of how many; which step
  int64_t tile_count = 1, step_count = 1;  // typically
};

// None where tiles are many, or steps are not counted.
std::optional<Pieces> count_pieces(const std::vector<Loop>& tiles, const std::vector<Loop>& steps,
                                   const std::vector<Symbol>& symbols) {
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

int64_t piece_of(int64_t elements, int64_t parts) { return elements / parts + (elements % parts != 0); }

}  // namespace

std::optional<LoopNode> prefetch_panel(const TiledSum& sum, const std::vector<Loop>& tiles, const std::vector<Loop>& steps,
                                       Expr first_lane, const Bounds& bounds, const std::vector<Symbol>& symbols) {
  if (steps.empty() || sum.prefetch_bytes == 0) return std::nullopt;
  const int64_t elements = panel_elements(sum);
  const bool is_long = saturating_mul(elements, 4) > sum.prefetch_bytes;
  const auto p = count_pieces(is_long ? std::vector<Loop>() : tiles, steps, symbols);
  if (!p) return std::nullopt;
  Expr load = sum.body->args[1];
  Expr next = rewrite(load->args[0], [&](Expr n) -> Expr {
    if (n->kind != ExprKind::axis) return {};
    if (n->id == sum.lane_axis) return first_lane;
    return std::any_of(sum.reduced.begin(), sum.reduced.end(), [&](const Loop& l) { return l.axis == n->id; }) ? Expr(0)
                                                                                                               : Expr();
  });
  constexpr int64_t line = cpu_costs.line_bytes / 4;
  constexpr int64_t some_lines = 32;  // how far ahead of itself a tile asks in a panel that no cache holds
  const int64_t ahead = is_long ? some_lines * line : elements;
  const bool counted = p->tiles.if_int();
  const int64_t sharing = counted ? p->tile_count : 1;
  const int64_t longest = std::max<int64_t>(1, piece_of(elements, saturating_mul(sharing, p->step_count)));
  const Expr piece = counted ? Expr(longest) : ceil_div(Expr(longest), max(p->tiles, Expr(1)));
  const auto ask = [&](int64_t first_line, int64_t end_line, Expr guard) {
    LoopNode node;
    node.guard = guard;
    for (int64_t k = first_line; k < end_line; ++k)
      node.prefetches.push_back(
          {load->id,
           simplify(next + Expr(ahead) + (p->tile * Expr(p->step_count) + p->step) * piece + Expr(k * line), bounds)});
    return node;
  };
  const int64_t lines = (longest + line - 1) / line;
  if (counted) return ask(0, lines, {});
  // Of an open number of tiles each asks for its share, a lone one for all: two branches decide how many lines that is. Of
  // very many none needs to.
  const int64_t half = (lines + 1) / 2;
  LoopNode node = ask(0, 1, p->tiles <= Expr(many_tiles));
  const auto asks_more = [&](int64_t than) { return p->tiles * Expr(than * line) < Expr(longest); };
  LoopNode rest = ask(half, lines, asks_more(half));
  if (half > 1) {
    node.children.push_back(ask(1, half, asks_more(1)));
    node.children.back().children.push_back(std::move(rest));
  } else if (lines > half) {
    node.children.push_back(std::move(rest));
  }
  return node;
}

}  // namespace metac
