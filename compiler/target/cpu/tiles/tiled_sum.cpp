#include "compiler/target/cpu/tiles/tiled_sum.h"

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/ir/hints.h"
#include "compiler/loops/loop_transforms.h"
#include "compiler/support/checked.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/cpu/tiles/cache_blocks.h"
#include "compiler/target/cpu/tiles/long_sum.h"
#include "compiler/target/cpu/tiles/register_tile.h"
#include "compiler/target/cpu/tiles/sum_chunks.h"
#include "compiler/target/cpu/tiles/tile_body.h"
#include "compiler/target/cpu/tiles/tile_prefetch.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

class TileNest : private TileBody {
 public:
  using TileBody::TileBody;

  AddedTiles build(LoopNode& nest, LoopKind kind) {
    const Loop* lane_loop = nullptr;
    const Loop* tile_loop = nullptr;
    for (const Loop& l : s_.kept) {
      if (l.axis == s_.lane_axis) lane_loop = &l;
      if (l.axis == s_.tile_axis) tile_loop = &l;
    }
    lane_extent_ = lane_loop->extent;
    const Expr tile_extent = tile_extent_ = tile_loop ? tile_loop->extent : Expr(1);
    int64_t block = static_cast<int64_t>(s_.vectors) * s_.lanes;
    if (tile_loop && tile_extent.if_int() && s_.points > tile_extent.as_int())
      points_ = static_cast<int>(tile_extent.as_int());
    else
      points_ = tile_loop ? s_.points : 1;
    if (tile_loop && tile_extent.if_int()) {  // even tiles: 4 of 13 rather than 3 of 14 and one of 7
      int64_t n = tile_extent.as_int(), tiles = (n + points_ - 1) / points_;
      int64_t even = (n + tiles - 1) / tiles;
      if (n % points_ != 0 && n % even == 0) points_ = static_cast<int>(even);
    }
    lane_block_ = kernel_.next_axis++;
    tile_block_ = kernel_.next_axis++;
    for (const Loop& l : s_.kept) {
      if (l.axis == s_.lane_axis || l.axis == s_.tile_axis) continue;
      bool with_lanes = uses_axis(s_.body->args[1], l.axis);
      (!with_lanes            ? points_loops_
       : is_within_a_point(l) ? groups_of_a_point_
                              : nest.loops)
          .push_back({l.axis, l.extent, kind, {}});
    }
    points_loops_.push_back({tile_block_, ceil_div(tile_extent, points_), kind, {}});
    tile_block_index_ = axis(tile_block_);
    lane_block_index_ = axis(lane_block_);
    if (!take_long_sum(nest, kind, block)) take_panels(nest, kind, block);
    const int64_t row = take_rows_of_cheap_tiles(nest);
    LoopNode tiles;
    LoopNode& holder = s_.widened ? tiles : nest;
    if (s_.widened) {
      nest.children.push_back(widen_panel(block));
      for (Loop& l : points_loops_) l.kind = LoopKind::serial;
      tiles.loops = points_loops_;
      tiles.empties_registers = true;  // of the constants that widen the panel, which the tile has no room for
    }
    kernel_.schedule.push_back(concat("tile: ", points_, " points by ", s_.vectors, " vectors of ", s_.lanes, " lanes in ",
                                      s_.matrix ? "tile registers, words by " : "registers",
                                      s_.matrix ? std::to_string(s_.matrix->words) : std::string()));

    const bool reaches = s_.reaches && !tile_extent.if_int() && points_ > 1;
    if (reaches)
      kernel_.schedule.push_back(s_.matrix ? "tiles reach beyond the last point" : "the last tile has points twice");
    for (bool partial : {false, true}) {
      if (partial ? floor_mod(lane_extent_, block).is_int(0) : lane_extent_.if_int() && lane_extent_.as_int() < block)
        continue;
      for (Body& body : reaches ? reaching_tiles(partial) : exact_tiles(partial)) {
        Expr guard = logical_and(where_lanes(partial, block), body.where);
        if (in_block_) guard = logical_and(guard, in_block_);
        if (!guard.is_int(1)) body.node.guard = guard;
        body.node.comment = concat(body.comment, partial ? ", last lanes" : "");
        holder.children.push_back(std::move(body.node));
      }
    }
    if (s_.widened) nest.children.push_back(std::move(tiles));
    return {points_, static_cast<double>(chunk_ || s_.widened ? typical_tiles_inside() : row)};
  }

  int64_t typical_tiles_inside() const {
    int64_t tiles = 1;
    for (const Loop& l : points_loops_) tiles = saturating_mul(tiles, hinted_value(l.extent, symbols_));
    return std::max<int64_t>(1, tiles);
  }

  // Where extents are open, finding a tile's addresses takes as long as a window of few steps: a worker takes the tiles of a
  // row one after the other. Returns how many these typically are.
  int64_t take_rows_of_cheap_tiles(LoopNode& nest) {
    constexpr double cheap = 256;             // vector operations of a tile
    constexpr int64_t least_iterations = 64;  // to be shared out
    if (tile_extent_.if_int() || nest.loops.back().kind != LoopKind::parallel || chunk_) return 1;
    double steps = 1;
    int64_t iterations = 1;
    for (const Loop& l : s_.reduced) steps *= l.extent.if_int() ? static_cast<double>(l.extent.as_int()) : cheap;
    for (size_t k = 0; k + 1 < nest.loops.size(); ++k)
      iterations = saturating_mul(iterations, std::max<int64_t>(1, hinted_value(nest.loops[k].extent, symbols_)));
    if (steps * points_ * s_.vectors > cheap || iterations < least_iterations) return 1;
    nest.loops.back().kind = LoopKind::serial;
    kernel_.schedule.push_back("tiles of a row one after the other");
    return std::max<int64_t>(1, hinted_value(nest.loops.back().extent, symbols_));
  }

  struct Body {
    LoopNode node;
    Expr where;
    std::string comment;
  };

  // Where a panel has all its lanes, or where it has not.
  Expr where_lanes(bool partial, int64_t block) const {
    if (floor_mod(lane_extent_, block).is_int(0) || (lane_extent_.if_int() && lane_extent_.as_int() < block))
      return bool_constant(true);
    const Expr whole = lane_block_index_ * Expr(block) + Expr(block) <= lane_extent_;
    return partial ? logical_not(whole) : whole;
  }

  // Tiles with as many points as are left, or more (tile_body.h), so that what is left is one pass over a panel: of all
  // points, of two thirds and of a third, of which sides of images, most often multiples of 4, leave the tiles of 6 and 12
  // points no lane empty; of what has no thirds of half as many and of a quarter.
  std::vector<Body> reaching_tiles(bool partial) {
    std::vector<int> sizes = {points_};
    if (points_ % 3 == 0)
      sizes.insert(sizes.end(), {points_ / 3 * 2, points_ / 3});
    else
      while (sizes.size() < 3 && sizes.back() > 1) sizes.push_back((sizes.back() + 1) / 2);
    const Expr left = points_left();
    std::vector<Body> bodies;
    for (size_t k = 0; k < sizes.size(); ++k) {
      const int points = sizes[k], smaller = k + 1 < sizes.size() ? sizes[k + 1] : 0;
      Expr where = smaller > 0 ? left > Expr(smaller) : bool_constant(true);
      if (k > 0) where = logical_and(where, left <= Expr(points));
      bodies.push_back(
          {tile_body({points, 0, partial, true, smaller}), where, concat("a tile of at most ", points, " points")});
    }
    return bodies;
  }

  std::vector<Body> exact_tiles(bool partial) {
    const bool whole = floor_mod(tile_extent_, points_).is_int(0);
    const Expr full = whole ? bool_constant(true) : tile_block_index_ * Expr(points_) + Expr(points_) <= tile_extent_;
    std::vector<Body> bodies;
    bodies.push_back({tile_body({points_, 0, partial}), full, "a full tile"});
    if (whole) return bodies;
    LoopNode rest = rest_of_tiles(floor_mod(tile_extent_, points_), partial);
    bodies.push_back({std::move(rest), logical_not(full), "the rest of the tiled axis"});
    return bodies;
  }

  // The points behind the last full tile: a tile of their number, or, where that is known to a run alone, tiles of powers of
  // two, each where so many are left.
  LoopNode rest_of_tiles(Expr left, bool partial) {
    if (left.if_int()) return tile_body({static_cast<int>(left.as_int()), 0, partial});
    LoopNode all;
    Expr first = 0;
    for (int most = points_; most > 1;) {  // fewer than `most` are left
      int points = 1;
      while (2 * points < most) points *= 2;
      const Expr taken = left - first >= Expr(points);
      LoopNode node = tile_body({points, first, partial});
      node.guard = taken;
      all.children.push_back(std::move(node));
      first = first + select(taken, Expr(points), Expr(0));
      most = points;
    }
    return all;
  }

  // ---- the order of the loops ----
  // for blocks of points { for groups { for panels { for chunks of the sum, where a panel is large { for tiles { registers }
  // } } } }
  void take_panels(LoopNode& nest, LoopKind kind, int64_t block) {
    std::optional<SumChunks> chunks = plan_sum_chunks(s_, panel_elements(s_) * 4);
    const bool in_one_loop = chunks && keeps_taps(*chunks) && join_open_points(nest, kind, block);
    if (!in_one_loop) put_outside(nest, block_points(kind, chunks ? chunks->panel_bytes : panel_elements(s_) * 4));
    nest.loops.insert(nest.loops.end(), groups_of_a_point_.begin(), groups_of_a_point_.end());
    nest.loops.push_back({lane_block_, ceil_div(lane_extent_, block), kind, {}});
    if (in_one_loop || (chunks && worth_chunks(nest.loops))) take_chunks(nest, chunks->level, chunks->steps, chunks->count);
    if (!s_.widened) nest.loops.insert(nest.loops.end(), points_loops_.begin(), points_loops_.end());
  }

  // The panel's elements in the order in which tiles read them; what is summed reads these from now on, in one loop where
  // it can.
  LoopNode widen_panel(int64_t block) {
    const int panel = kernel_.next_local++;
    LoopNode node;
    node.comment = "the panel, widened";
    kernel_.schedule.push_back("panels widened in scratch memory, each for all tiles of a block");
    Expr step = 0, count = block, element = s_.body->args[1];
    std::vector<Loop> own;
    for (const Loop& l : s_.reduced) {
      step = step * l.extent + axis(l.axis);
      count = count * l.extent;
      own.push_back({kernel_.next_axis++, l.extent, LoopKind::serial, {}});
      element = rewrite(element, [&](Expr n) { return n == axis(l.axis) ? axis(own.back().axis) : Expr(); });
    }
    kernel_.scratch.push_back({panel, s_.body->dtype, count});
    const Loop lane{kernel_.next_axis++, Expr(s_.lanes), LoopKind::vector, {}};
    const Loop vector{kernel_.next_axis++, Expr(s_.vectors), LoopKind::unrolled, {}};
    const Expr in_block = axis(vector.axis) * Expr(s_.lanes) + axis(lane.axis);
    Expr own_step = 0;
    for (const Loop& l : own) own_step = own_step * l.extent + axis(l.axis);
    Bounds b = bounds();
    for (const Loop& l : own) b.set_axis(l.axis, l.extent);
    b.set_axis(lane_block_, ceil_div(lane_extent_, block));
    b.set_axis(lane.axis, lane.extent);
    b.set_axis(vector.axis, vector.extent);
    element = rewrite(element,
                      [&](Expr n) { return n == axis(s_.lane_axis) ? lane_block_index_ * Expr(block) + in_block : Expr(); });
    node.loops = {lane, vector};
    for (; s_.unrolled > 0; --s_.unrolled) {
      own.back().kind = LoopKind::unrolled;
      node.loops.insert(node.loops.begin() + 1, own.back());
      own.pop_back();
    }
    node.loops.insert(node.loops.begin(), own.begin(), own.end());
    node.assigns.push_back({first_local + panel, own_step * Expr(block) + in_block, simplify(element, b), {}});
    const Expr at = step * Expr(block) + floor_mod(axis(s_.lane_axis), block);
    s_.body = call(s_.body->fn, {s_.body->args[0], load(first_local + panel, s_.body->dtype, {at})});
    while (s_.reduced.size() > 1 && can_collapse(s_.body, *(s_.reduced.end() - 2), s_.reduced.back())) {
      const Loop inner = s_.reduced.back(), outer = *(s_.reduced.end() - 2);
      const Loop merged{kernel_.next_axis++, outer.extent * inner.extent, LoopKind::serial, {}};
      s_.body = collapse_axes(s_.body, outer, inner, merged);
      s_.reduced.resize(s_.reduced.size() - 2);
      s_.reduced.push_back(merged);
    }
    return node;
  }

  // Groups, each with weights of its own, whose data lies side by side in each point (channels last).
  bool is_within_a_point(const Loop& group) const {
    if (s_.cache_bytes == 0 || s_.tile_axis < 0 || !group.extent.if_int()) return false;
    const Expr data = s_.body->args[0]->args[0], step = stride_of(data, group.axis), point = stride_of(data, s_.tile_axis);
    return bool(step) && bool(point) && step.if_int() && point.if_int() && step.as_int() > 0 &&
           step.as_int() * group.extent.as_int() <= point.as_int();
  }

  void put_outside(LoopNode& nest, size_t outside) {
    nest.loops.insert(nest.loops.end(), points_loops_.begin(), points_loops_.begin() + static_cast<int64_t>(outside));
    points_loops_.erase(points_loops_.begin(), points_loops_.begin() + static_cast<int64_t>(outside));
  }

  // for blocks of points { for groups of panels { for chunks { for panels { for tiles { registers } } } } }
  bool take_long_sum(LoopNode& nest, LoopKind kind, int64_t block) {
    if (s_.cache_bytes == 0 || s_.prefetch_bytes > 0 || s_.lanes_in_both || s_.unrolled > 0 || s_.run_axes > 0 ||
        s_.widened || s_.matrix || !groups_of_a_point_.empty() || !lane_extent_.if_int())
      return false;
    LongSum sum;
    for (const Loop& l : points_loops_) sum.points.push_back(l.extent.if_int() ? l.extent.as_int() : 0);
    for (const Loop& l : s_.reduced) sum.steps.push_back(l.extent.if_int() ? l.extent.as_int() : 0);
    for (const std::vector<int64_t>* extents : {&sum.points, &sum.steps})
      if (std::count(extents->begin(), extents->end(), 0) > 0) return false;
    for (const Loop& l : nest.loops) sum.outside = saturating_mul(sum.outside, l.extent.if_int() ? l.extent.as_int() : 1);
    sum.tile_points = points_;
    sum.panels = (lane_extent_.as_int() + block - 1) / block;
    sum.panel_row_bytes = block * 4;
    auto plan = plan_long_sum(sum, s_.cache_bytes);
    if (!plan) return false;
    put_outside(nest, cut_points(plan->block, kind));
    const int64_t inside = sum.panels / plan->groups;
    if (plan->groups > 1) {
      Loop group{kernel_.next_axis++, Expr(plan->groups), kind, {}};
      nest.loops.push_back(group);
      lane_block_index_ = axis(group.axis) * Expr(inside) + axis(lane_block_);
      groups_ = group;
    }
    points_loops_.insert(points_loops_.begin(), Loop{lane_block_, Expr(inside), LoopKind::serial, {}});
    take_chunks(nest, plan->level, plan->chunk_steps, plan->chunks);
    nest.loops.insert(nest.loops.end(), points_loops_.begin(), points_loops_.end());
    return true;
  }

  // ---- chunks of the sum ----
  // Tiles must share a chunk, their sums must stay in the cache, and enough iterations must remain to be shared out.
  bool worth_chunks(const std::vector<Loop>& parallel) const {
    constexpr int64_t least_iterations = 8;
    int64_t tiles = tiles_inside(), iterations = 1;
    for (const Loop& l : parallel)
      iterations = saturating_mul(iterations, l.extent.if_int() ? l.extent.as_int() : least_iterations);
    return tiles >= 2 && saturating_mul(tiles, int64_t{4} * points_ * s_.vectors * s_.lanes) <= s_.cache_bytes / 4 &&
           iterations >= least_iterations;
  }

  // Loops that leave out the border are not cut, and do not go with the chunks.
  bool keeps_taps(const SumChunks& chunks) const {
    for (size_t k = 0; k <= chunks.level; ++k)
      for (const WindowTaps& taps : s_.taps)
        if (taps.axis == s_.reduced[k].axis) return false;
    return true;
  }

  // Where a run decides how many points there are: the loops over them as one loop over tiles, in even blocks of as many
  // tiles at most as may add a chunk together. False, and nothing is changed: it is not worth chunks.
  bool join_open_points(LoopNode& nest, LoopKind kind, int64_t block) {
    constexpr int64_t most_tiles = 64, least_iterations = 8;
    const auto is_open = [](const Loop& l) { return !l.extent.if_int(); };
    if (std::none_of(points_loops_.begin(), points_loops_.end(), is_open) || !lane_extent_.if_int()) return false;
    const int64_t waiting = s_.cache_bytes / 4 / (int64_t{4} * points_ * s_.vectors * s_.lanes);
    const int64_t most = std::min(most_tiles, waiting);
    Expr all = 1;
    for (const Loop& l : points_loops_) all = all * l.extent;
    const int64_t typical = std::max<int64_t>(hinted_value(all, symbols_), 1);
    int64_t iterations = saturating_mul(ceil_div(lane_extent_, block).as_int(), (typical + most_tiles - 1) / most_tiles);
    for (const std::vector<Loop>* loops : {&nest.loops, &groups_of_a_point_})
      for (const Loop& l : *loops)
        iterations = saturating_mul(iterations, std::max<int64_t>(hinted_value(l.extent, symbols_), 1));
    if (most < 2 || typical < 2 || iterations < least_iterations) return false;
    const Expr blocks = ceil_div(all, Expr(most)), length = min(ceil_div(all, max(blocks, Expr(1))), Expr(most));
    const Loop outer{kernel_.next_axis++, blocks, kind, {}}, inner{kernel_.next_axis++, length, LoopKind::serial, {}};
    const Expr tile = axis(outer.axis) * length + axis(inner.axis);
    in_block_ = tile < all;
    Expr left = tile;
    std::map<int, Expr> index;  // of the loops that are one now
    for (size_t k = points_loops_.size(); k-- > 0;) {
      const Expr extent = points_loops_[k].extent;
      index[points_loops_[k].axis] = k > 0 ? floor_mod(left, extent) : left;
      left = floor_div(left, extent);
    }
    replace_points(index);
    kernel_.schedule.push_back(concat("points in even blocks of at most ", most, " tiles, for the cache"));
    nest.loops.push_back(outer);
    points_loops_ = {inner};
    return true;
  }

  // Puts other expressions in the place of loops over points.
  void replace_points(const std::map<int, Expr>& index) {
    if (auto tile = index.find(tile_block_); tile != index.end()) tile_block_index_ = tile->second;
    const auto replace = [&](Expr e) {
      return rewrite(e, [&](Expr n) -> Expr {
        const auto other = n->kind == ExprKind::axis ? index.find(n->id) : index.end();
        return other == index.end() ? Expr() : other->second;
      });
    };
    for (Expr* e : {&s_.body, &s_.epilogue, &s_.offset, &s_.of_run, &s_.in_step})
      if (*e) *e = replace(*e);
    for (WindowTaps& taps : s_.taps) taps.place = replace(taps.place);
  }

  // Adds the loop over `count` chunks, each of `steps` iterations of reduced loop `level`; loops outside of that one go with
  // the chunks.
  void take_chunks(LoopNode& nest, size_t level, int64_t steps, int64_t count) {
    chunk_ = Loop{kernel_.next_axis++, Expr(count), LoopKind::serial, {}};
    Expr rest = axis(chunk_->axis);
    auto put = [&](int whole, Expr place) {
      s_.body = rewrite(s_.body, [&](Expr n) { return n == axis(whole) ? place : Expr(); });
    };
    const Loop cut = s_.reduced[level];
    const Expr pieces = floor_div(cut.extent, steps);
    Expr piece = level > 0 ? floor_mod(rest, pieces) : rest;
    rest = floor_div(rest, pieces);
    if (steps > 1) {
      s_.reduced[level] = {kernel_.next_axis++, Expr(steps), LoopKind::serial, {}};
      piece = piece * Expr(steps) + axis(s_.reduced[level].axis);
    }
    put(cut.axis, piece);
    for (size_t k = level; k-- > 0;) {
      put(s_.reduced[k].axis, k > 0 ? floor_mod(rest, s_.reduced[k].extent) : rest);
      rest = floor_div(rest, s_.reduced[k].extent);
    }
    s_.reduced.erase(s_.reduced.begin(), s_.reduced.begin() + static_cast<int64_t>(steps > 1 ? level : level + 1));
    waiting_ = kernel_.next_local++;
    kernel_.scratch.push_back({waiting_, s_.total(), Expr(tiles_inside() * points_ * s_.vectors * s_.lanes)});
    kernel_.schedule.push_back(concat("the sum in ", count, " chunks, each added to all tiles of a block"));
    nest.loops.push_back(*chunk_);
    for (Loop& l : points_loops_) l.kind = LoopKind::serial;
  }

  // Blocks of points for the cache; returns how many of points_loops_ now stand outside of the panels.
  size_t block_points(LoopKind kind, int64_t resident_bytes) {
    if (s_.cache_bytes == 0) return 0;
    std::vector<PointsLoop> loops;
    bool open = false;
    for (const Loop& l : points_loops_) {
      if (l.axis != tile_block_)
        loops.push_back({l.axis, 1, typical_extent(l.extent, symbols_)});
      else  // few tiles may be many points
        loops.push_back({s_.tile_axis, points_, (typical_extent(tile_extent_, symbols_) + points_ - 1) / points_});
      if (open || l.extent.if_int() || loops.back().extent <= 1) continue;
      open = true;
      loops.back().longest = std::max<int64_t>(loops.back().extent, bounds().interval(l.extent).high.clamped());
    }
    PanelSizes panel;
    int64_t block = static_cast<int64_t>(s_.vectors) * s_.lanes;
    panel.panels = lane_extent_.if_int() ? (lane_extent_.as_int() + block - 1) / block : 8;
    panel.bytes = panel_elements(s_) * 4;
    panel.lanes = block;
    panel.resident = resident_bytes;
    for (const Loop& l : s_.reduced) panel.ranges[l.axis] = l.extent.if_int() ? l.extent.as_int() : 64;
    Expr data = at_hints(s_.body->args[0]->args[0], symbols_);
    if (s_.lanes_in_both) {
      panel.piece = block * 4;
      panel.ranges[s_.lane_axis] = panel.panels * block;
      data = rewrite(data, [&](Expr n) -> Expr {  // narrow groups: lane / channels
        if (n->kind != ExprKind::call || n->fn != Fn::floor_div || n->args[0] != axis(s_.lane_axis) || !n->args[1].if_int())
          return {};
        panel.ranges[kernel_.next_axis] = panel.panels * block / n->args[1].as_int();
        return axis(kernel_.next_axis++);
      });
    }
    for (const Loop& group : groups_of_a_point_) {
      panel.piece = stride_of(data, group.axis).as_int() * 4;
      panel.ranges[group.axis] = group.extent.as_int();
      panel.panels = saturating_mul(panel.panels, group.extent.as_int());
    }
    return cut_points(choose_block_of_points(loops, data, panel, s_.cache_bytes), kind);
  }

  // Cuts a loop over points; returns how many of points_loops_ stand outside of the cut.
  size_t cut_points(const BlockOfPoints& cut, LoopKind kind) {
    if (cut.inner == 0) return cut.loop;
    Loop& loop = points_loops_[cut.loop];
    if (cut.inner == 1) return cut.loop + 1;
    kernel_.schedule.push_back(concat("points in blocks of ", cut.inner, " of ", to_string(loop.extent), " iterations, ",
                                      cut.shared ? "for workers to share" : "for the cache"));
    // Of an open dim so many blocks of one length: a run whose dim is short has no block that is mostly empty.
    Expr blocks = ceil_div(loop.extent, cut.inner);
    if (cut.shared && !loop.extent.if_int()) {
      constexpr int64_t few = 16;  // iterations: blocks of them are two
      blocks = max(blocks, min(loop.extent, select(loop.extent < Expr(few), Expr(2), Expr(4))));
    }
    const Expr even = ceil_div(loop.extent, max(blocks, Expr(1)));
    const Expr length = loop.extent.if_int() ? Expr(cut.inner) : min(even, Expr(cut.inner));
    Loop outer{kernel_.next_axis++, blocks, kind, {}}, inner{kernel_.next_axis++, length, kind, {}};
    Expr whole = axis(outer.axis) * length + axis(inner.axis);
    if (!floor_mod(loop.extent, length).is_int(0)) in_block_ = whole < loop.extent;
    replace_points({{loop.axis, whole}});
    loop = inner;
    points_loops_.insert(points_loops_.begin() + static_cast<int64_t>(cut.loop), outer);
    return cut.loop + 1;
  }
};

}  // namespace

AddedTiles add_tiles(Kernel& kernel, LoopNode& nest, LoopKind kind, const TiledSum& sum,
                     const std::vector<Symbol>& symbols) {
  return TileNest(kernel, sum, symbols).build(nest, kind);
}

}  // namespace metac
