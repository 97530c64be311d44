#include "compiler/target/cpu/strategies/lower_group.h"

#include <algorithm>
#include <functional>

#include "compiler/ir/hints.h"
#include "compiler/loops/guard_steps.h"
#include "compiler/loops/index_set_splitting.h"
#include "compiler/loops/join_nests.h"
#include "compiler/loops/loop_transforms.h"
#include "compiler/loops/partial_sums.h"
#include "compiler/loops/separate_window.h"
#include "compiler/loops/stage_lowering.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/support/checked.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"
#include "compiler/target/cpu/strategies/hoist_tables.h"
#include "compiler/target/cpu/strategies/parallel_loops.h"
#include "compiler/target/cpu/strategies/side_by_side.h"
#include "compiler/target/cpu/strategies/sum_by_points.h"
#include "compiler/target/cpu/strategies/transposed_nest.h"
#include "compiler/target/cpu/strategies/without_broadcast.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

// Elements of internal arrays that lanes across rows may take for all rows of a block together: 4 MiB of float32 for each
// worker.
constexpr int64_t most_internal = 1 << 20;

// Elements from lane to lane that loads may step by: a shuffle of two vectors, or elements put together.
constexpr int64_t most_step = 4;

// Elements of a row of all values that never leave the kernel; open dims are as long as they typically are.
int64_t internal_elements(const Group& group, const std::vector<Symbol>& symbols) {
  int64_t sum = 0;
  for (const Definition& d : group.stages) {
    if (!group.internal.count(d.out->id)) continue;
    int64_t of_row = 1;
    for (int k = group.shared; k < d.kept(); ++k)
      of_row = saturating_mul(of_row, hinted_value(d.domain[static_cast<size_t>(k)], symbols));
    sum = saturating_add(sum, of_row);
  }
  return sum;
}

class GroupLowering : private StageLowering {
 public:
  // `lanes_across`: lanes run along the last shared loop, so many rows at a time.
  GroupLowering(const Group& group, const LoweringContext& context, Kernel begun, bool lanes_across = false)
      : StageLowering(group, context), lanes_across_(lanes_across), by_points_(strategy_as<SumsByPoints>(group) != nullptr) {
    kernel_ = std::move(begun);
    if (lanes_across_) plan_block();
  }

  // Would lanes across the rows fill vectors in a stage that has none? Known after run().
  bool prefers_lanes_across() const { return prefers_lanes_across_; }

  Kernel run() {
    for (int k = 0; k < group_.shared; ++k) {
      kernel_.root.loops.push_back({kernel_.next_axis++, group_.stages[0].domain[k], LoopKind::parallel});
    }
    for (const Definition& d : group_.stages) {
      merge_nodes(kernel_.nodes, d.nodes);
      kernel_.root.children.push_back(d.scatter ? lower_scatter(d) : lower_stage(d));
    }
    if (!lanes_across_) join_reductions(kernel_.root.children);
    if (group_.shared == 0 && group_.stages.size() == 1 && !group_.stages[0].scatter)
      parallelise_outer_loops(kernel_, *context_.symbols);
    if (lanes_across_) spread_rows();
    if (group_.shared > 0) kernel_.cost = cost_of_rows(kernel_, *context_.symbols);
    return std::move(kernel_);
  }

 private:
  int64_t lanes() const { return context_.vector_bytes / 4; }
  // The shared loop whose neighbouring rows may be together in a block.
  const Loop& rows() const { return kernel_.root.loops[static_cast<size_t>(group_.shared) - 1]; }

  // Rows whose elements lie apart while neighbouring rows lie side by side: statistics of channels that are stored last.
  bool may_go_across(const Stage& s) const {
    const int64_t internal = internal_elements(group_, *context_.symbols);
    if (group_.shared == 0 || saturating_mul(internal, lanes()) > most_internal) return false;
    Loop row = rows();
    if (!row.extent.if_int() || row.extent.as_int() < lanes()) return false;
    row.kind = LoopKind::serial;
    return can_vectorise(row, {s.body, s.epilogue}, s.target >= first_local ? Expr() : s.offset);
  }

  // How many vectors of rows a block has. One may be half a cache line, of which the rest would be fetched again, and its
  // sums wait for each other; but there must be blocks for threads.
  void plan_block() {
    const std::vector<Expr>& domain = group_.stages[0].domain;
    const int64_t rows = domain[static_cast<size_t>(group_.shared) - 1].as_int();
    int64_t outer = 1;
    for (int k = 0; k < group_.shared - 1; ++k)
      outer = saturating_mul(outer, domain[static_cast<size_t>(k)].if_int() ? domain[static_cast<size_t>(k)].as_int() : 1);
    for (int64_t vectors : {4, 2}) {
      const int64_t block = vectors * lanes();
      if (vectors_ == 1 && rows % block == 0 && saturating_mul(outer, rows / block) >= 2 * vectors &&
          saturating_mul(internal_elements(group_, *context_.symbols), block) <= most_internal / 4)
        vectors_ = vectors;
    }
    block_axis_ = kernel_.next_axis++;
    vector_axis_ = kernel_.next_axis++;
    lane_axis_ = kernel_.next_axis++;
    const Expr lane = axis(lane_axis_);
    rows_together_ = {vectors_ * lanes(), vectors_ == 1 ? lane : axis(vector_axis_) * Expr(lanes()) + lane};
  }

  // The rows of a block as loops: what one iteration does stands together, vector beside vector.
  std::vector<Loop> rows_of_block(LoopKind vectors, LoopKind lane, int lane_axis) const {
    const Expr rows = group_.stages[0].domain[static_cast<size_t>(group_.shared) - 1];
    if (vectors_ > 1)
      return {{lane_axis, Expr(lanes()), lane},
              {vector_axis_, Expr(vectors_), vectors}};  // as printers want vectors side by side
    const bool whole = rows.as_int() % lanes() == 0;
    return {{lane_axis, whole ? Expr(lanes()) : min(Expr(lanes()), rows - axis(block_axis_) * Expr(lanes())), lane}};
  }

  // The last shared loop becomes blocks of rows in parallel, and the rows of a block the innermost loops of each stage:
  // lanes where they can be.
  void spread_rows() {
    const Loop row = rows();
    const Expr block = axis(block_axis_) * rows_together_.count + rows_together_.index;
    for (size_t k = 0; k < kernel_.root.children.size(); ++k) {
      LoopNode& stage = kernel_.root.children[k];
      substitute_axis(stage, row.axis, block);
      if (spread_[k]) continue;
      const int lane_axis = kernel_.next_axis++;  // each stage's own: a rest goes on where its vectors end
      substitute_axis(stage, lane_axis_, axis(lane_axis));
      const std::vector<Loop> rows = across_[k] ? rows_of_block(LoopKind::unrolled, LoopKind::vector, lane_axis)
                                                : rows_of_block(LoopKind::serial, LoopKind::serial, lane_axis);
      stage.loops.insert(across_[k] ? stage.loops.end() : stage.loops.begin(), rows.begin(), rows.end());
    }
    kernel_.root.loops[static_cast<size_t>(group_.shared) - 1] = {block_axis_, ceil_div(row.extent, rows_together_.count),
                                                                  LoopKind::parallel};
    kernel_.schedule.push_back(concat("lanes across ", vectors_ * lanes(), " rows"));
  }

  // A stage with lanes across several vectors of rows: what one iteration does stands together, vector beside vector. The
  // sums of all vectors are in registers, and one pass adds to them all.
  LoopNode nest_across(const Definition& d, const Stage& s, int accumulator) {
    const std::vector<Loop> rows = rows_of_block(LoopKind::unrolled, LoopKind::vector, lane_axis_);
    const auto tile = [&](Assign assign) {
      LoopNode node;
      node.loops = rows;
      node.assigns = {std::move(assign)};
      return node;
    };
    LoopNode node;
    node.comment = concat("v", d.out->id);
    node.loops = s.kept;
    if (!d.reduce) {
      node.prefetches = rows_ahead(s, s.kept);
      node.children = {tile({s.target, s.offset, s.body, {}})};
      return node;
    }
    const Expr own = rows_together_.index;
    const int sum_of_rows = first_local + accumulator;
    node.locals.push_back({accumulator, d.accumulator, Expr(vectors_ * lanes()), static_cast<int>(lanes())});
    LoopNode sum;
    sum.loops = s.reduced;
    sum.prefetches = rows_ahead(s, s.reduced);
    sum.children = {tile({sum_of_rows, own, s.body, d.reduce})};
    const Expr result = rewrite(s.epilogue, [&](Expr n) {
      return n->kind == ExprKind::load && n->id == sum_of_rows ? load(n->id, n->dtype, {own}) : Expr();
    });
    node.children = {tile({sum_of_rows, own, identity_of(*d.reduce, d.accumulator), {}}), std::move(sum),
                     tile({s.target, s.offset, result, {}})};
    return node;
  }

  // What the innermost of these loops will touch some iterations later: a block is a small piece of each iteration's memory,
  // and processors fetch little ahead where pieces lie apart.
  std::vector<Prefetch> rows_ahead(const Stage& s, const std::vector<Loop>& loops) const {
    constexpr int64_t ahead = 16, line = cpu_costs.line_bytes;
    std::vector<Prefetch> out;
    if (loops.empty() || !loops.back().extent.if_int() || loops.back().extent.as_int() < 4 * ahead) return out;
    const int row = rows().axis;
    std::set<std::pair<int, const ExprNode*>> seen;
    const auto add = [&](int argument, Expr offset, DType dtype) {
      const Expr step = stride_of(offset, loops.back().axis);
      const int64_t size = static_cast<int64_t>(size_of(dtype));
      if (argument >= first_local || !uses_axis(offset, row) || !step || !step.if_int() || step.as_int() * size <= line ||
          !seen.insert({argument, offset.node()}).second)
        return;
      for (int64_t at = 0; at < vectors_ * lanes(); at += line / size) {
        const Expr first = rewrite(offset, [&](Expr n) {
          return n->kind == ExprKind::axis && n->id == row ? axis(block_axis_) * rows_together_.count + Expr(at) : Expr();
        });
        out.push_back({argument, first + step * Expr(ahead)});
      }
    };
    visit(s.body, [&](Expr n) {
      if (n->kind == ExprKind::load && n->args.size() == 1) add(n->id, n->args[0], n->dtype);
    });
    if (loops.back().axis == (s.kept.empty() ? -1 : s.kept.back().axis) && bool(s.offset))
      add(s.target, s.offset, s.body->dtype);
    return out;
  }

  // Small arrays of known size go on the stack, others into the worker's scratch.
  void place_local(const Local& local) override {
    constexpr int64_t stack_limit = cpu_costs.stack_bytes;
    int64_t bytes = !local.count           ? 0
                    : local.count.if_int() ? local.count.as_int() * static_cast<int64_t>(size_of(local.dtype))
                                           : stack_limit + 1;
    if (stack_bytes_ + bytes <= stack_limit) {
      stack_bytes_ += bytes;
      kernel_.root.locals.push_back(local);
    } else {
      kernel_.scratch.push_back(local);
    }
  }

  LoopNode lower_stage(const Definition& d) {
    Stage s;
    std::vector<Expr> renamed = make_axes(d, s);
    int accumulator = d.reduce ? kernel_.next_local++ : -1;
    s.body = addressed(substitute_axes(d.body, renamed), accumulator);
    if (d.epilogue) s.epilogue = addressed(substitute_axes(d.epilogue, renamed), accumulator);
    set_target(d, s, renamed);
    drop_unit_loops(s);
    simplify_stage(s);
    for (Expr* e : {&s.body, &s.epilogue}) *e = masks_chosen(*e);
    order_loops(s);
    collapse(s, s.kept);
    collapse(s, s.reduced);

    std::string refusal;
    const bool across = may_go_across(s);
    across_.push_back(across && lanes_across_);
    spread_.push_back(across_.back() && vectors_ > 1);
    if (spread_.back()) return nest_across(d, s, accumulator);
    if (across_.back()) return nest(d, s, accumulator, false);
    if (by_points_ && d.reduce) return nest_by_points(d, s, accumulator);
    if (d.reduce && *d.reduce != Reduce::mul)
      if (auto windows = separate_window(kernel_, s, accumulator, d.accumulator);
          windows && (windows->around > 0 || group_.shared > 0))
        return nest_of_windows(d, s, *windows, accumulator);
    bool lanes_kept = !s.kept.empty() && can_vectorise(s.kept.back(), {s.body, s.epilogue}, s.offset, &refusal);
    bool lanes_reduced =
        !lanes_kept && d.reduce && !s.reduced.empty() && can_reduce_lanes(s.reduced.back(), s.body, *d.reduce, lanes());
    if (!lanes_kept && !d.reduce) {
      auto blocks = in_transposed_blocks(s);
      if (!blocks) blocks = by_digits(s, lanes_kept);
      if (blocks) {
        blocks->comment = concat("v", d.out->id);
        kernel_.schedule.push_back("vectorise in square blocks, transposed in registers");
        return std::move(*blocks);
      }
    }
    if (!lanes_kept && !lanes_reduced && (s.kept.size() > 1 || group_.shared > 0))
      if (auto pieces = in_pieces(d, s, accumulator)) {
        kernel_.schedule.push_back("index set split along the output, vectorise");
        return std::move(*pieces);
      }
    if (!lanes_kept && !lanes_reduced && !s.kept.empty())
      lanes_kept = can_vectorise(s.kept.back(), {s.body, s.epilogue}, s.offset, &refusal, most_step);
    if (!lanes_kept && !d.reduce)
      if (auto tables = hoist_tables(kernel_, s, stage_bounds(s)); tables && (!tables->around.empty() || group_.shared > 0))
        return nest_of_tables(d, *tables);
    if (lanes_kept && group_.shared > 0 && d.reduce == Reduce::add && d.accumulator == DType::f32)
      if (const int64_t vectors = vectors_together(s.kept.back(), s.body, lanes()); vectors > 1) {
        kernel_.schedule.push_back(concat(vectors, " vectors of sums side by side"));
        return side_by_side(kernel_, nest(d, s, accumulator, false, false), vectors, lanes());
      }
    if (lanes_kept) s.kept.back().kind = LoopKind::vector;
    if (lanes_kept || lanes_reduced)
      kernel_.schedule.push_back(concat("vectorise along ", lanes_kept ? "the output" : "the reduction"));
    else if (!refusal.empty())
      kernel_.schedule.push_back("not vectorised along the output: " + refusal);
    // A stage without inner loops costs the same either way.
    prefers_lanes_across_ |= across && !lanes_kept && !lanes_reduced && !(s.kept.empty() && s.reduced.empty());
    return nest(d, s, accumulator, lanes_reduced);
  }

  // With a loop for each digit that it reads lanes may run along one, or blocks may be transposed, which are returned.
  std::optional<LoopNode> by_digits(Stage& s, bool& lanes_kept) {
    Stage apart = s;
    if (!split_digits(apart)) return std::nullopt;
    const std::vector<std::string> schedule = kernel_.schedule;
    kernel_.schedule.push_back("a loop for each digit of a flattened index");
    order_loops(apart);
    collapse(apart, apart.kept);
    if (auto blocks = in_transposed_blocks(apart)) return blocks;
    const int64_t* extent = apart.kept.back().extent.if_int();
    lanes_kept = extent && *extent >= lanes() && can_vectorise(apart.kept.back(), {apart.body}, apart.offset);
    if (lanes_kept)
      s = std::move(apart);
    else
      kernel_.schedule = schedule;
    return std::nullopt;
  }

  // The innermost loop in pieces, in some of which lanes may run along it: a window's inside has no conditions, its borders
  // are short.
  std::optional<LoopNode> in_pieces(const Definition& d, const Stage& s, int accumulator) {
    if (s.kept.empty()) return std::nullopt;
    const Loop loop = s.kept.back();
    std::vector<Expr> expressions = {s.body, s.epilogue, s.offset};
    LoopNode node;
    node.comment = concat("v", d.out->id);
    node.loops.assign(s.kept.begin(), s.kept.end() - 1);
    bool vectors = false;
    for (const IndexPiece& piece : split_index_set(loop, expressions, s.reduced, stage_bounds(s), lanes())) {
      Stage part = s;
      part.kept.back() = {kernel_.next_axis++, piece.extent, LoopKind::serial, {}};
      part.body = piece.expressions[0], part.epilogue = piece.expressions[1], part.offset = piece.expressions[2];
      const Expr at = piece.start + axis(part.kept.back().axis);
      for (Expr* e : part.expressions()) *e = rewrite(*e, [&](Expr n) { return n == axis(loop.axis) ? at : Expr(); });
      simplify_stage(part);
      if (piece.decided && can_vectorise(part.kept.back(), {part.body, part.epilogue}, part.offset, nullptr, most_step)) {
        part.kept.back().kind = LoopKind::vector;
        vectors = true;
      }
      part.kept.erase(part.kept.begin(), part.kept.end() - 1);
      node.children.push_back(nest(d, part, accumulator, false));
      node.children.back().comment.clear();
    }
    if (!vectors) return std::nullopt;
    return node;
  }

  LoopNode nest_of_tables(const Definition& d, HoistedTables& hoisted) {
    kernel_.schedule.push_back(concat(hoisted.tables.size(), " tables for a block of points, then all channels of it"));
    LoopNode node, tables;
    node.comment = concat("v", d.out->id);
    node.loops = hoisted.around;
    tables.loops = hoisted.points;
    for (size_t k = 0; k < hoisted.tables.size(); ++k) {
      place_local(hoisted.tables[k]);
      tables.assigns.push_back({first_local + hoisted.tables[k].id, hoisted.place, hoisted.entries[k], {}});
    }
    collapse(hoisted.channels, hoisted.channels.kept);
    node.children = {std::move(tables), nest(d, hoisted.channels, -1, false)};
    node.children.back().comment.clear();
    return node;
  }

  LoopNode nest_of_windows(const Definition& d, const Stage& s, SeparatedWindow& windows, int accumulator) {
    place_local(windows.row);
    kernel_.schedule.push_back(concat("windows one axis after the other, by rows of ", to_string(windows.row.count)));
    LoopNode node;
    node.comment = concat("v", d.out->id);
    node.loops.assign(s.kept.begin(), s.kept.begin() + static_cast<int64_t>(windows.around));
    for (Stage* part : {&windows.above, &windows.beside}) {
      const auto in_lanes = [&](int64_t step) {
        return can_vectorise(part->kept.back(), {part->body, part->epilogue}, part->offset, nullptr, step);
      };
      std::optional<LoopNode> pieces = in_lanes(1) ? std::nullopt : in_pieces(d, *part, accumulator);
      if (!pieces && in_lanes(most_step)) part->kept.back().kind = LoopKind::vector;
      node.children.push_back(pieces ? std::move(*pieces) : nest(d, *part, accumulator, false));
      node.children.back().comment.clear();
    }
    return node;
  }

  LoopNode nest(const Definition& d, const Stage& s, int accumulator, bool lanes_reduced, bool alone = true) {
    LoopNode node;
    node.comment = concat("v", d.out->id);
    node.loops = s.kept;
    Assign store{s.target, s.offset, s.body, {}};
    if (!d.reduce) {
      node.assigns = {store};
      return node;
    }
    node.locals.push_back({accumulator, d.accumulator, {}});
    node.assigns.push_back({first_local + accumulator, {}, identity_of(*d.reduce, d.accumulator), {}});
    std::vector<Loop> loops = s.reduced;
    if (lanes_reduced) loops.back().kind = LoopKind::vector;
    if (*d.reduce == Reduce::add && d.accumulator == DType::f32) {
      node.children.push_back(lower_sum(kernel_, {loops, s.body, accumulator, d.accumulator, lanes_reduced, alone}));
    } else {
      LoopNode steps;
      steps.loops = std::move(loops);
      if (lanes_reduced) steps.lane_reduced = accumulator;
      steps.assigns.push_back({first_local + accumulator, {}, s.body, d.reduce});
      node.children.push_back(lanes_reduced ? std::move(steps)
                                            : guard_steps(std::move(steps), identity_of(*d.reduce, d.accumulator)));
    }
    LoopNode last;
    store.value = s.epilogue;
    last.assigns = {store};
    node.children.push_back(std::move(last));
    return node;
  }

  LoopNode nest_by_points(const Definition& d, const Stage& s, int accumulator) {
    METAC_ASSERT(s.kept.size() == 1 && !s.reduced.empty());
    place_local({accumulator, d.accumulator, s.kept[0].extent});
    kernel_.schedule.push_back("points in the order of memory, all channels of each");
    LoopNode node =
        sum_by_points(kernel_, {s.kept[0], s.reduced, s.body, accumulator, d.accumulator, s.target, s.offset, s.epilogue});
    node.comment = concat("v", d.out->id);
    return node;
  }

  std::optional<LoopNode> in_transposed_blocks(const Stage& s) {
    if (context_.vector_bytes < 16 || s.kept.size() < 2 || !s.offset) return std::nullopt;
    for (size_t k = s.kept.size() - 1; k-- > 0;) {
      TransposedNest nest{s.kept, s.kept.back(), s.kept[k], s.target, s.offset, s.body, context_.vector_bytes / 4};
      nest.outer.pop_back();
      nest.outer.erase(nest.outer.begin() + static_cast<int64_t>(k));
      if (auto blocks = transposed_nest(kernel_, nest, stage_bounds(s))) return blocks;
      const WithoutBroadcast plain = without_broadcast(s.body, s.kept);
      if (!plain.condition) continue;
      nest.value = plain.value;
      auto blocks = transposed_nest(kernel_, nest, stage_bounds(s));
      if (!blocks) continue;
      kernel_.schedule.push_back("where nothing is broadcast along an open dim:");
      LoopNode both, one_by_one;
      one_by_one.guard = logical_not(plain.condition);
      one_by_one.loops = {nest.across, nest.lane};
      one_by_one.assigns = {{s.target, s.offset, s.body, {}}};
      both.loops = nest.outer;
      blocks->guard = plain.condition;
      blocks->loops.erase(blocks->loops.begin(), blocks->loops.begin() + static_cast<int64_t>(nest.outer.size()));
      both.children = {std::move(*blocks), std::move(one_by_one)};
      return both;
    }
    return std::nullopt;
  }

  LoopNode lower_scatter(const Definition& d) {
    across_.push_back(false);
    spread_.push_back(false);
    Stage s;
    std::vector<Expr> renamed = make_axes(d, s);
    LoopNode node;
    node.comment = concat("v", d.out->id, ", scattered in order");
    LoopNode clear;
    Shape storage = storage_shape(d.out->shape(), layout_of(d.out->id));
    Loop all{kernel_.next_axis++, element_count(storage), LoopKind::serial};
    int target = kernel_.argument(d.out, layout_of(d.out->id), true);
    clear.loops = {all};
    clear.assigns.push_back({target, axis(all.axis), identity_of(*d.reduce, d.out->dtype()), {}});
    LoopNode walk;
    s.body = addressed(substitute_axes(d.body, renamed), -1);
    std::vector<Expr> index;
    for (Expr e : d.out_index) index.push_back(addressed(substitute_axes(e, renamed), -1));
    s.offset = storage_address(d.out->shape(), layout_of(d.out->id), index);
    Expr guard = bool_constant(true);
    for (Expr c : d.conditions) guard = logical_and(guard, addressed(substitute_axes(c, renamed), -1));
    s.conditions = {guard};
    s.kept.insert(s.kept.end(), s.reduced.begin(), s.reduced.end());
    s.reduced.clear();
    simplify_stage(s);
    walk.loops = s.kept;
    LoopNode inner;
    if (!s.conditions[0].is_int(1)) inner.guard = s.conditions[0];
    inner.assigns.push_back({target, s.offset, cast(s.body, d.out->dtype()), d.reduce});
    walk.children.push_back(std::move(inner));
    node.children.push_back(std::move(clear));
    node.children.push_back(std::move(walk));
    return node;
  }

  const bool lanes_across_;
  const bool by_points_;
  bool prefers_lanes_across_ = false;
  std::vector<bool> across_, spread_;  // by stage: its lanes run across the rows; its loops have the rows of a block already
  int64_t vectors_ = 1;                // of rows that a block has
  int block_axis_ = 0, vector_axis_ = 0, lane_axis_ = 0;
  int64_t stack_bytes_ = 0;
};

// The group with values of a row or two that never leave it stored for all rows: lanes across rows keep arrays for a block,
// not scalars.
Group with_rows_in_memory(const Group& group) {
  constexpr int64_t most_elements = 4;
  Group open = group;
  for (const Definition& d : group.stages) {
    if (!open.internal.count(d.out->id)) continue;
    Expr of_row = 1;
    for (int k = group.shared; k < d.kept(); ++k) of_row = of_row * d.domain[k];
    if (of_row.if_int() && of_row.as_int() <= most_elements) open.internal.erase(d.out->id);
  }
  return open;
}

}  // namespace

Kernel lower_group(const Group& group, const LoweringContext& context, Kernel begun) {
  if (Group open = with_rows_in_memory(group); open.shared > 0) {
    GroupLowering by_rows(open, context, begun);
    by_rows.run();
    if (by_rows.prefers_lanes_across()) return GroupLowering(open, context, std::move(begun), true).run();
  }
  return GroupLowering(group, context, std::move(begun)).run();
}

}  // namespace metac
