#include "compiler/target/cpu/tiles/tile_body.h"

#include <algorithm>
#include <utility>

#include "compiler/loops/loop_transforms.h"
#include "compiler/support/checked.h"
#include "compiler/target/cpu/tiles/register_tile.h"
#include "compiler/target/cpu/tiles/tile_prefetch.h"
#include "compiler/tensor/axes.h"

namespace metac {

int64_t TileBody::tiles_inside() const {
  constexpr int64_t most = 1 << 20;
  int64_t tiles = 1;
  const Bounds b(symbols_);
  for (const Loop& l : points_loops_) tiles = saturating_mul(tiles, b.interval(l.extent).high.clamped());
  return tiles <= most ? tiles : 0;
}

Expr TileBody::waiting_place(Expr in_tile) const {
  Expr tile = 0;
  for (const Loop& l : points_loops_) tile = tile * l.extent + axis(l.axis);
  return tile * Expr(static_cast<int64_t>(points_) * s_.vectors * s_.lanes) + in_tile;
}

Expr TileBody::tile_index(const Variant& v, Expr point) const {
  const Expr first = tile_block_index_ * Expr(points_) + v.first;
  if (!has_points_twice(v)) return first + point;
  if (v.sure == 0) return first + min(point, points_left() - Expr(1));
  const Expr back = min(points_left() - Expr(v.points), Expr(0));
  return first + point + select(point < Expr(v.sure), Expr(0), back);
}

Expr TileBody::is_stored(const Variant& v, Expr point) const {
  if (!v.reaches) return s_.stored_points ? tile_index(v, point) < s_.stored_points : Expr();
  if (s_.matrix || v.sure == 0) return point < points_left();
  return logical_or(point < Expr(v.sure), Expr(v.points + v.sure) <= point + points_left());
}

std::vector<Loop> TileBody::tiles_that_ask(const Variant& v) const {
  return v.reaches && v.points < points_ ? std::vector<Loop>() : points_loops_;
}

std::optional<LoopNode> TileBody::prefetch_epilogue(const Variant& v, int vectors) const {
  constexpr int64_t least_steps = 64;
  int64_t steps = 1;
  for (const Loop& l : s_.reduced) steps = saturating_mul(steps, l.extent.if_int() ? l.extent.as_int() : 1);
  if (s_.cache_bytes == 0 || steps < least_steps) return std::nullopt;
  LoopNode node;
  visit(s_.epilogue, [&](Expr read) {
    if (read->kind != ExprKind::load || read->id >= first_local || read->id == reduced_value ||
        !uses_axis(read->args[0], s_.tile_axis))
      return;
    Expr step = stride_of(read->args[0], s_.lane_axis);
    if (!step || !step.is_int(1)) return;
    for (int point = 0; point < v.points; ++point) {
      for (int vector = 0; vector < vectors; ++vector) {
        Expr at = rewrite(read->args[0], [&](Expr n) -> Expr {
          if (n->kind != ExprKind::axis) return {};
          if (n->id == s_.lane_axis)
            return lane_block_index_ * Expr(static_cast<int64_t>(s_.vectors) * s_.lanes) + Expr(int64_t{vector} * s_.lanes);
          return n->id == s_.tile_axis ? tile_index(v, Expr(point)) : Expr();
        });
        node.prefetches.push_back({read->id, simplify(at, bounds())});
      }
    }
  });
  if (node.prefetches.empty()) return std::nullopt;
  if (chunk_) node.guard = axis(chunk_->axis) + Expr(1) >= chunk_->extent;
  return node;
}

LoopNode TileBody::tile_body(const Variant& v) {
  int vectors = s_.vectors;
  if (v.partial && lane_extent_.if_int()) {
    int64_t left = lane_extent_.as_int() % (static_cast<int64_t>(vectors) * s_.lanes);
    vectors = static_cast<int>((left + s_.lanes - 1) / s_.lanes);
  }
  LoopNode node;
  int accumulator = kernel_.next_local++;
  node.locals.push_back(
      {accumulator, s_.total(), Expr(static_cast<int64_t>(v.points) * vectors * s_.lanes), s_.matrix ? 0 : s_.lanes});
  // A part of the sum has registers of its own; what the parts before came to waits in memory and is added behind it.
  LoopNode part;
  part.loops.assign(s_.reduced.begin(), s_.reduced.begin() + s_.parts);
  if (s_.matrix) {
    if (auto ask = prefetch_epilogue(v, vectors)) part.children.push_back(std::move(*ask));
    part.children.push_back(matrix_sum(v, vectors, accumulator));
    part.children.push_back(store_from_memory(v, vectors, accumulator));
    if (chunk_) part.children.back().guard = logical_not(axis(chunk_->axis) + Expr(1) < chunk_->extent);
    node.children.push_back(std::move(part));
    return node;
  }
  part.children.push_back(tile_nest(v, vectors, accumulator, Phase::clear));
  if (auto ask = prefetch_epilogue(v, vectors)) part.children.push_back(std::move(*ask));
  LoopNode sum;
  sum.loops.assign(s_.reduced.begin() + s_.parts, s_.reduced.end());
  int unroll = s_.unrolled;
  for (size_t k = sum.loops.size(); k-- > 0 && unroll > 0; --unroll)
    if (sum.loops[k].extent.if_int()) sum.loops[k].kind = LoopKind::unrolled;
  // Unrolled reduced loops stand with the tile, so that loads shared between them are shared.
  std::vector<Loop> printed_out;
  while (!sum.loops.empty() && sum.loops.back().kind == LoopKind::unrolled) {
    printed_out.insert(printed_out.begin(), sum.loops.back());
    sum.loops.pop_back();
  }
  of_run_ = s_.of_run ? kernel_.next_local++ : -1;
  const int of_run = s_.of_run ? of_run_ : accumulator;
  if (s_.of_run) {
    node.locals.push_back(node.locals.back());
    node.locals.back().id = of_run;
    node.locals.back().dtype = s_.body->dtype;
  }
  LoopNode inner = tile_nest(v, vectors, of_run, Phase::add);
  inner.loops.insert(inner.loops.begin() + 1, printed_out.begin(), printed_out.end());
  const int in_run = s_.run_axes - static_cast<int>(printed_out.size());  // loops; where runs are summed by themselves
  const int several = bool(s_.of_run) && in_run == 0 ? 1 : steps_at_once(sum.loops, printed_out, v.points * vectors);
  if (several > 1) inner = take_steps(sum.loops.back(), std::move(inner), several);
  std::vector<Loop> steps = part.loops;
  steps.insert(steps.end(), sum.loops.begin(), sum.loops.end());
  if (auto next = prefetch_panel(s_, tiles_that_ask(v), steps,
                                 lane_block_index_ * Expr(static_cast<int64_t>(s_.vectors) * s_.lanes), bounds(), symbols_))
    sum.children.push_back(std::move(*next));
  if (s_.of_run) {
    LoopNode run;
    run.loops.assign(sum.loops.end() - in_run, sum.loops.end());
    sum.loops.erase(sum.loops.end() - in_run, sum.loops.end());
    run.children.push_back(std::move(inner));
    sum.children.push_back(tile_nest(v, vectors, of_run, Phase::clear));
    sum.children.push_back(std::move(run));
    sum.children.push_back(tile_nest(v, vectors, accumulator, Phase::scale));
  } else {
    sum.children.push_back(std::move(inner));
  }
  for (const WindowTaps& taps : s_.taps) leave_out_border(sum, taps, v);
  part.children.push_back(std::move(sum));
  add_result(part, v, vectors, accumulator);
  node.children.push_back(std::move(part));
  return node;
}

void TileBody::add_result(LoopNode& part, const Variant& v, int vectors, int accumulator) {
  const auto add_where = [&](Expr guard, LoopNode one) {
    one.guard = guard;
    part.children.push_back(std::move(one));
  };
  const auto nest = [&](Phase phase) { return tile_nest(v, vectors, accumulator, phase); };
  Expr earlier = chunk_ ? axis(chunk_->axis) : Expr(0);
  for (const Loop& l : part.loops) earlier = earlier + axis(l.axis);
  if (!earlier.is_int(0)) add_where(earlier > Expr(0), nest(Phase::join));
  LoopNode store = store_tile(v, vectors, accumulator);
  if (chunk_) {
    Expr more = axis(chunk_->axis) + Expr(1) < chunk_->extent;
    add_where(more, nest(Phase::wait));
    add_where(logical_not(more), std::move(store));
  } else {
    part.children.push_back(std::move(store));
  }
}

LoopNode TileBody::matrix_sum(const Variant& v, int vectors, int sums) {
  const auto [words, data_step, packed_step] = *s_.matrix;
  const auto tile = [&](MatrixTile::Does does) {
    LoopNode node;
    node.matrix = {does, v.points, vectors, words, sums, data_step, packed_step};
    return node;
  };
  LoopNode all, steps, product = tile(MatrixTile::Does::multiply);
  LoopNode clear = tile(MatrixTile::Does::clear), take = tile(MatrixTile::Does::take);
  steps.loops = s_.reduced;
  const int word = steps.loops.back().axis;
  steps.loops.back() = {kernel_.next_axis++, Expr(steps.loops.back().extent.as_int() / words), LoopKind::serial, {}};
  if (auto next = prefetch_panel(s_, tiles_that_ask(v), steps.loops,
                                 lane_block_index_ * Expr(static_cast<int64_t>(s_.vectors) * s_.lanes), bounds(), symbols_))
    steps.children.push_back(std::move(*next));
  const Expr first = simplify(rewrite(s_.body,
                                      [&](Expr n) -> Expr {
                                        if (n->kind != ExprKind::axis) return {};
                                        if (n->id == s_.lane_axis)
                                          return lane_block_index_ * Expr(static_cast<int64_t>(s_.vectors) * s_.lanes);
                                        if (n->id == word) return axis(steps.loops.back().axis) * Expr(words);
                                        return n->id == s_.tile_axis ? tile_index(v, Expr(0)) : Expr();
                                      }),
                              bounds_of_panels());
  product.assigns.push_back({first_local + sums, Expr(0), first, Reduce::add});
  steps.children.push_back(std::move(product));
  for (const WindowTaps& taps : s_.taps) leave_out_border(steps, taps, v);
  if (!chunk_) {
    all.children = {std::move(clear), std::move(steps), std::move(take)};
    return all;
  }
  LoopNode resume = tile(MatrixTile::Does::resume), wait = take;
  for (LoopNode* node : {&resume, &wait}) {
    node->matrix->sums = waiting_;
    node->matrix->sums_at = waiting_place(v.first * Expr(static_cast<int64_t>(vectors) * s_.lanes));
  }
  resume.guard = axis(chunk_->axis) > Expr(0);
  clear.guard = logical_not(resume.guard);
  wait.guard = axis(chunk_->axis) + Expr(1) < chunk_->extent;
  take.guard = logical_not(wait.guard);
  all.children = {std::move(clear), std::move(resume), std::move(steps), std::move(wait), std::move(take)};
  return all;
}

void TileBody::leave_out_border(LoopNode& node, const WindowTaps& taps, const Variant& v) const {
  for (LoopNode& child : node.children) leave_out_border(child, taps, v);
  const auto loop = std::find_if(node.loops.begin(), node.loops.end(),
                                 [&](const Loop& l) { return l.axis == taps.axis && l.kind == LoopKind::serial; });
  if (loop == node.loops.end()) return;
  const Expr step = stride_of(taps.place, taps.axis), none = 0;
  const auto at_first_tap = [&](int point) {
    return rewrite(taps.place, [&](Expr n) -> Expr {
      if (n->kind != ExprKind::axis) return {};
      return n->id == taps.axis ? none : n->id == s_.tile_axis ? tile_index(v, Expr(point)) : Expr();
    });
  };
  const Expr first = simplify(max(none, ceil_div(none - at_first_tap(v.points - 1), step)), bounds());
  const Expr end = simplify(min(loop->extent, ceil_div(taps.extent - at_first_tap(0), step)), bounds());
  loop->axis = kernel_.next_axis++;
  loop->extent = max(none, end - first);
  substitute_axis(node, taps.axis, axis(loop->axis) + first);
}

int TileBody::steps_at_once(const std::vector<Loop>& loops, const std::vector<Loop>& printed_out, int products) {
  constexpr int most_steps = 8, most_products = 64;
  if (loops.empty() || !loops.back().extent.if_int()) return 1;
  for (const Loop& l : printed_out) products *= static_cast<int>(l.extent.as_int());
  int steps = 1;
  for (int n = 2; n <= most_steps && n * products <= most_products; ++n)
    if (loops.back().extent.as_int() % n == 0) steps = n;
  return steps;
}

LoopNode TileBody::take_steps(Loop& loop, LoopNode inner, int steps) {
  const int whole = loop.axis;
  Loop few{kernel_.next_axis++, Expr(steps), LoopKind::unroll_hint, {}};
  loop = {kernel_.next_axis++, Expr(loop.extent.as_int() / steps), LoopKind::serial, {}};
  substitute_axis(inner, whole, axis(loop.axis) * Expr(steps) + axis(few.axis));
  LoopNode repeated;
  repeated.loops.push_back(few);
  repeated.children.push_back(std::move(inner));
  return repeated;
}

LoopNode TileBody::store_one_by_one(const Variant& v, int vectors, int accumulator) {
  const int aside = kernel_.next_local++;
  LoopNode both, put = tile_nest(v, vectors, accumulator, Phase::add);
  put.loops[0].active = {};  // all lanes: whole vectors are read again
  both.locals.push_back({aside, s_.total(), Expr(static_cast<int64_t>(v.points) * vectors * s_.lanes)});
  Assign& sum = put.assigns[0];
  sum = {first_local + aside, sum.offset, load(sum.target, s_.total(), {sum.offset}), {}};
  both.children = {std::move(put), store_from_memory(v, vectors, aside)};
  return both;
}

LoopNode TileBody::store_from_memory(const Variant& v, int vectors, int sums) {
  LoopNode point = point_by_point(tile_nest(v, vectors, sums, Phase::store));
  if (const Expr stored = is_stored(v, axis(point.loops[0].axis))) point.children[0].guard = stored;
  return point;
}

LoopNode TileBody::point_by_point(LoopNode nest) {
  LoopNode point;
  point.loops.push_back(nest.loops[1]);
  nest.loops = {nest.loops[2], nest.loops[0]};
  point.loops[0].kind = nest.loops[0].kind = LoopKind::serial;
  point.children.push_back(std::move(nest));
  return point;
}

LoopNode TileBody::store_tile(const Variant& v, int vectors, int accumulator) {
  if (needs_registers(s_.epilogue)) return store_one_by_one(v, vectors, accumulator);
  LoopNode store = tile_nest(v, vectors, accumulator, Phase::store);
  if (!is_stored(v, Expr(0))) return store;
  // Most tiles have all their points, which is asked once for them: a window of few steps takes as long as asking for each.
  const bool mostly_whole = v.reaches && v.points == points_ && v.points > 1;
  const Expr last_exists = Expr(v.points) <= points_left();
  LoopNode all, some, whole = tile_nest({v.points, v.first, v.partial}, vectors, accumulator, Phase::store);
  Loop point = store.loops[1];
  store.loops.erase(store.loops.begin() + 1);
  const bool last_is_missing = mostly_whole && (!has_points_twice(v) || v.sure == 0);
  for (int p = 0; p < v.points - (last_is_missing ? 1 : 0); ++p) {
    LoopNode one = store;
    substitute_axis(one, point.axis, p);
    one.guard = is_stored(v, Expr(p));
    some.children.push_back(std::move(one));
  }
  if (!mostly_whole) return some;
  whole.guard = last_exists;
  some.guard = logical_not(last_exists);
  all.children = {std::move(whole), std::move(some)};
  return all;
}

LoopNode TileBody::tile_nest(const Variant& v, int vectors, int accumulator, Phase phase) {
  LoopNode nest;
  Loop lane{kernel_.next_axis++, Expr(s_.lanes), LoopKind::vector, {}};
  Loop point{kernel_.next_axis++, Expr(v.points), LoopKind::unrolled, {}};
  Loop vector{kernel_.next_axis++, Expr(vectors), LoopKind::unrolled, {}};
  Expr first = lane_block_index_ * Expr(static_cast<int64_t>(s_.vectors) * s_.lanes) + axis(vector.axis) * Expr(s_.lanes);
  if (v.partial) lane.active = max(min(lane_extent_ - first, Expr(s_.lanes)), Expr(0));
  nest.loops = {lane, point, vector};
  Expr lane_index = first + axis(lane.axis);
  Expr at_point = tile_index(v, axis(point.axis));
  Bounds b = bounds_of_panels();
  b.set_axis(lane.axis, s_.lanes);
  b.set_axis(point.axis, Expr(v.points));
  b.set_axis(vector.axis, Expr(vectors));
  auto place = [&](Expr e) {
    return simplify(rewrite(e,
                            [&](Expr n) -> Expr {
                              if (n->kind != ExprKind::axis) return {};
                              if (n->id == s_.lane_axis) return lane_index;
                              return n->id == s_.tile_axis ? at_point : Expr();
                            }),
                    b);
  };
  Expr reg = (axis(point.axis) * Expr(vectors) + axis(vector.axis)) * Expr(s_.lanes) + axis(lane.axis);
  const DType dtype = accumulator == of_run_ ? s_.body->dtype : s_.total();
  // With the sums in registers `local` in place of load(reduced_value).
  const auto with_sums = [&](Expr e, int local, DType of_sum) {
    return rewrite(place(e), [&](Expr n) -> Expr {
      return n->kind == ExprKind::load && n->id == reduced_value ? load(first_local + local, of_sum, {reg}) : Expr();
    });
  };
  Expr value_waits = waiting_place(v.first * Expr(static_cast<int64_t>(vectors) * s_.lanes) + reg);
  if (phase == Phase::clear) {
    nest.assigns.push_back({first_local + accumulator, reg, constant_of(dtype, 0), {}});
  } else if (phase == Phase::join) {
    Expr sums = chunk_ ? load(first_local + waiting_, dtype, {value_waits}) : load(s_.target, dtype, {place(s_.offset)});
    nest.assigns.push_back({first_local + accumulator, reg, sums, Reduce::add});
  } else if (phase == Phase::scale) {
    const Expr of_run = with_sums(s_.of_run, of_run_, s_.body->dtype);
    nest.assigns.push_back({first_local + accumulator, reg, of_run, Reduce::add});
  } else if (phase == Phase::wait) {
    nest.assigns.push_back({first_local + waiting_, value_waits, load(first_local + accumulator, dtype, {reg}), {}});
  } else if (phase == Phase::add) {
    nest.assigns.push_back({first_local + accumulator, reg, place(s_.in_step ? s_.in_step : s_.body), Reduce::add});
  } else {
    nest.assigns.push_back({s_.target, place(s_.offset), with_sums(s_.epilogue, accumulator, dtype), {}});
  }
  return nest;
}

Bounds TileBody::bounds_of_panels() const {
  Bounds b = bounds();
  const Expr panels = ceil_div(lane_extent_, static_cast<int64_t>(s_.vectors) * s_.lanes);
  b.set_axis(lane_block_, groups_ ? floor_div(panels, groups_->extent) : panels);
  if (groups_) b.set_axis(groups_->axis, groups_->extent);
  return b;
}

Bounds TileBody::bounds() const {
  Bounds b(symbols_);
  for (const std::vector<Loop>* loops : {&std::as_const(kernel_.root.loops), &s_.kept, &s_.reduced})
    for (const Loop& l : *loops) b.set_axis(l.axis, l.extent);
  return b;
}
}  // namespace metac
