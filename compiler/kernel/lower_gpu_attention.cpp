// Attention in one kernel on a GPU: softmax(q k) v with a running maximum and sum (Milakov and Gimelshein; Dao et al.), so
// that no score reaches memory however long the rows are.
//
// A block of 16 by 16 threads has a tile of rows. Its part of q stays in shared memory; tiles of k and v pass through it.
// A thread has every 16th row and every 16th column of a tile of scores in registers, and of its rows the sums so far: every
// 16th element of v's width, the maximum and its own share of the sum of weights. The 16 threads of a row are neighbours in a
// warp and tell each other the maximum; weights go through shared memory once, to be multiplied by v.
// A row that has seen nothing but -infinity is scaled from 0, not from its maximum: 0 times what comes later is 0 and no NaN.
#include <algorithm>
#include <cmath>

#include "compiler/kernel/loop_transforms.h"
#include "compiler/kernel/lower_gpu.h"
#include "compiler/kernel/stage_lowering.h"
#include "compiler/kernel/streamed_softmax.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

constexpr int64_t edge = 16, most_depth = 128, enough_blocks = 128, most_shared_bytes = 46 << 10, unknown = 1024;

int64_t known(Expr e) { return e.if_int() ? e.as_int() : unknown; }

class GpuAttention : private StageLowering {
 public:
  GpuAttention(const Group& group, const LoweringContext& context) : StageLowering(group, context), s_(*match_streamed_softmax(group)) {}

  Kernel run() {
    const int shared = group_.shared;
    const Definition &scores = *s_.scores, &last = *s_.last;
    for (const Definition& d : group_.stages) kernel_.nodes.insert(kernel_.nodes.end(), d.nodes.begin(), d.nodes.end());
    std::sort(kernel_.nodes.begin(), kernel_.nodes.end());
    kernel_.nodes.erase(std::unique(kernel_.nodes.begin(), kernel_.nodes.end()), kernel_.nodes.end());
    kernel_.block = edge * edge;
    bounds_ = Bounds(*context_.symbols);
    for (int k = 0; k + 1 < shared; ++k) {
      kernel_.root.loops.push_back(fresh(scores.domain[static_cast<size_t>(k)], LoopKind::parallel));
      outer_.push_back(axis(kernel_.root.loops.back().axis));
    }
    row_count_ = scores.domain[static_cast<size_t>(shared - 1)];
    column_count_ = scores.domain[static_cast<size_t>(shared)];
    depth_ = scores.domain.back().as_int();
    width_ = last.domain[static_cast<size_t>(shared)].as_int();
    choose_tile();
    const Loop block = fresh(ceil_div(row_count_, tile_rows_), LoopKind::parallel);
    kernel_.root.loops.push_back(block);
    first_row_ = axis(block.axis) * Expr(tile_rows_);
    kernel_.schedule.push_back(concat("softmax streamed: ", tile_rows_, " rows a block, ", tile_columns_, " columns at a time, running maximum and sum"));
    declare();
    build();
    double work = 2.0 * static_cast<double>(depth_ + width_);
    for (int k = 0; k <= shared; ++k) work *= scores.domain[static_cast<size_t>(k)].if_int() ? static_cast<double>(scores.domain[static_cast<size_t>(k)].as_int()) : 0;
    kernel_.flops = work;
    return std::move(kernel_);
  }

 private:
  void choose_tile() {
    int64_t batch = 1;
    for (size_t k = 0; k < outer_.size(); ++k) batch *= known(s_.scores->domain[k]);
    const std::pair<int64_t, int64_t> tiles[] = {{64, 32}, {64, 16}, {32, 32}, {32, 16}, {16, 16}};
    for (auto [rows, columns] : tiles) {
      tile_rows_ = rows;
      tile_columns_ = columns;
      const int64_t blocks = batch * ((known(row_count_) + rows - 1) / rows);
      if (shared_bytes() <= most_shared_bytes && (rows == edge || (rows < 2 * known(row_count_) && blocks >= enough_blocks))) break;
    }
  }
  int64_t padded_width() const { return (width_ + edge - 1) / edge * edge; }
  int64_t shared_bytes() const { return 4 * (tile_rows_ * (depth_ + 1) + tile_columns_ * (depth_ + 1) + tile_columns_ * padded_width() + tile_rows_ * (tile_columns_ + 1)); }

  int declare_local(int64_t count, bool shared) {
    kernel_.root.locals.push_back({kernel_.next_local++, DType::f32, Expr(count), 0, shared});
    return kernel_.root.locals.back().id;
  }
  void declare() {
    const int64_t rows = tile_rows_ / edge;
    q_ = declare_local(tile_rows_ * (depth_ + 1), true);
    k_ = declare_local(tile_columns_ * (depth_ + 1), true);
    v_ = declare_local(tile_columns_ * padded_width(), true);
    weight_ = declare_local(tile_rows_ * (tile_columns_ + 1), true);
    score_ = declare_local(rows * (tile_columns_ / edge), false);
    out_ = declare_local(rows * (padded_width() / edge), false);
    largest_ = declare_local(rows, false);
    before_ = declare_local(rows, false);
    from_ = declare_local(rows, false);
    scale_ = declare_local(rows, false);
    sum_ = declare_local(rows, false);
    internals_[s_.sum] = InternalVar{sum_, {}, {}};
  }

  Loop fresh(Expr extent, LoopKind kind) {
    Loop loop{kernel_.next_axis++, extent, kind, {}};
    bounds_.set_axis(loop.axis, extent);
    return loop;
  }
  static Expr element(int local, Expr at) { return load(first_local + local, DType::f32, {at}); }
  static Assign set(int local, Expr at, Expr value, std::optional<Reduce> update = {}) { return {first_local + local, at, value, update}; }
  static LoopNode node(std::vector<Loop> loops, std::vector<Assign> assigns = {}) {
    LoopNode n;
    n.loops = std::move(loops);
    n.assigns = std::move(assigns);
    return n;
  }
  static Expr below(Expr index, Expr size, int64_t step) { return floor_mod(size, step).is_int(0) ? bool_constant(true) : index < size; }

  // An expression of a stage at a row and its two other axes; the sum that a stage has made is element `at` of a local.
  Expr placed(Expr e, Expr row, Expr second, Expr third, int local = -1, Expr at = {}) {
    std::vector<Expr> axes = outer_;
    for (Expr a : {row, second, third}) axes.push_back(a);
    e = addressed(substitute_axes(e, axes), local);
    e = rewrite(e, [&](Expr n) -> Expr {
      if (n->kind != ExprKind::load || !n->args.empty()) return {};
      if (n->id == first_local + local) return element(local, at);
      return n->id == first_local + sum_ ? element(sum_, row_in_thread_) : Expr();
    });
    return simplify(e, bounds_);
  }

  // A part of q, k or v into shared memory, zero beyond its ends; neighbouring threads follow `along`.
  LoopNode load_tile(int local, int64_t count, int64_t along, int64_t stride, Expr first, Expr size, int64_t step, Expr along_size, const std::function<Expr(Expr, Expr)>& value_at) {
    const Loop all = fresh(Expr(count * along), LoopKind::thread);
    const Expr own = floor_div(axis(all.axis), along), inner = floor_mod(axis(all.axis), along), index = first + own;
    Expr value = value_at(index, inner);
    const Expr inside = logical_and(below(index, size, step), below(inner, along_size, along));
    if (!inside.is_int(1)) value = select(inside, value, constant_of(DType::f32, 0));
    return node({all}, {set(local, simplify(own * Expr(stride) + inner, bounds_), value)});
  }

  void build() {
    const Loop tile = fresh(ceil_div(column_count_, tile_columns_), LoopKind::serial);
    const Expr first_column = axis(tile.axis) * Expr(tile_columns_), lowest = float_constant(-HUGE_VAL, DType::f32), zero = constant_of(DType::f32, 0);
    const int64_t rows = tile_rows_ / edge, columns = tile_columns_ / edge, widths = padded_width() / edge;
    auto every = [&](int64_t count) { return fresh(Expr(count), LoopKind::unrolled); };

    kernel_.root.children.push_back(load_tile(q_, tile_rows_, depth_, depth_ + 1, first_row_, row_count_, tile_rows_, Expr(depth_), [&](Expr row, Expr d) { return placed(s_.row_factor, row, Expr(0), d); }));
    {
      const Loop i = every(rows), w = every(widths);
      LoopNode start = node({i}, {set(largest_, axis(i.axis), lowest), set(sum_, axis(i.axis), zero)});
      start.children = {node({w}, {set(out_, axis(i.axis) * Expr(widths) + axis(w.axis), zero)})};
      kernel_.root.children.push_back(std::move(start));
    }
    LoopNode tiles = node({tile});
    tiles.children.push_back(load_tile(k_, tile_columns_, depth_, depth_ + 1, first_column, column_count_, tile_columns_, Expr(depth_), [&](Expr column, Expr d) { return placed(s_.column_factor, Expr(0), column, d); }));
    tiles.children.push_back(load_tile(v_, tile_columns_, padded_width(), padded_width(), first_column, column_count_, tile_columns_, Expr(width_), [&](Expr column, Expr w) { return placed(s_.values, Expr(0), w, column); }));
    tiles.children.back().barrier = true;
    tiles.children.push_back(clear_scores(rows, columns));
    tiles.children.push_back(multiply(rows, columns));
    tiles.children.push_back(finish_scores(rows, columns, first_column, lowest));
    tiles.children.push_back(weigh(rows, columns, widths, lowest));
    tiles.children.push_back(share_weights(rows, columns));
    tiles.children.back().barrier = true;
    tiles.children.push_back(add_values(rows, widths));
    tiles.children.back().barrier = true;
    kernel_.root.children.push_back(std::move(tiles));
    const Loop i = every(rows);
    Assign all = set(sum_, axis(i.axis), element(sum_, axis(i.axis)), Reduce::add);
    all.neighbours = edge;
    kernel_.root.children.push_back(node({i}, {all}));
    kernel_.root.children.push_back(store(rows, widths));
  }

  struct Place {       // of a thread: its rows and what it has of the other direction
    Loop down, across, i, j;
    Expr own_row() const { return axis(down.axis) + axis(i.axis) * Expr(edge); }
    Expr own_column() const { return axis(across.axis) + axis(j.axis) * Expr(edge); }
    Expr at() const { return axis(i.axis) * j.extent + axis(j.axis); }
  };
  Place place(int64_t rows, int64_t others) { return {fresh(edge, LoopKind::thread), fresh(edge, LoopKind::thread), fresh(Expr(rows), LoopKind::unrolled), fresh(Expr(others), LoopKind::unrolled)}; }

  LoopNode clear_scores(int64_t rows, int64_t columns) {
    const Loop all = fresh(Expr(rows * columns), LoopKind::unrolled);
    return node({all}, {set(score_, axis(all.axis), constant_of(DType::f32, 0))});
  }

  LoopNode multiply(int64_t rows, int64_t columns) {
    const Place p = place(rows, columns);
    const Loop d = fresh(Expr(depth_), LoopKind::serial);
    const Expr stride = Expr(depth_ + 1);
    return node({p.down, p.across, d, p.i, p.j}, {set(score_, p.at(), element(q_, p.own_row() * stride + axis(d.axis)) * element(k_, p.own_column() * stride + axis(d.axis)), Reduce::add)});
  }

  LoopNode finish_scores(int64_t rows, int64_t columns, Expr first_column, Expr lowest) {
    const Place p = place(rows, columns);
    const Expr row = first_row_ + p.own_row(), column = first_column + p.own_column();
    Expr value = placed(s_.score, row, column, Expr(0), score_, p.at());
    const Expr inside = logical_and(below(row, row_count_, tile_rows_), below(column, column_count_, tile_columns_));
    if (!inside.is_int(1)) value = select(inside, value, lowest);
    return node({p.down, p.across, p.i, p.j}, {set(score_, p.at(), value)});
  }

  // Scores become weights; what was summed before is scaled to the new maximum.
  LoopNode weigh(int64_t rows, int64_t columns, int64_t widths, Expr lowest) {
    const Loop i = fresh(Expr(rows), LoopKind::unrolled), j = fresh(Expr(columns), LoopKind::unrolled), l = fresh(Expr(columns), LoopKind::unrolled), w = fresh(Expr(widths), LoopKind::unrolled);
    const Expr row = axis(i.axis), score = row * j.extent + axis(j.axis), weight = row * l.extent + axis(l.axis), out = row * w.extent + axis(w.axis);
    Assign all = set(largest_, row, element(largest_, row), Reduce::max);
    all.neighbours = edge;
    const Expr found = element(largest_, row);
    LoopNode n = node({i}, {set(before_, row, found)});
    n.children.push_back(node({j}, {set(largest_, row, element(score_, score), Reduce::max)}));
    n.children.push_back(node({}, {all, set(from_, row, select(call(Fn::eq, {found, lowest}), constant_of(DType::f32, 0), found)), set(scale_, row, call(Fn::exp, {element(before_, row) - element(from_, row)})),
                                   set(sum_, row, element(sum_, row) * element(scale_, row))}));
    n.children.push_back(node({l}, {set(score_, weight, call(Fn::exp, {element(score_, weight) - element(from_, row)})), set(sum_, row, element(score_, weight), Reduce::add)}));
    n.children.push_back(node({w}, {set(out_, out, element(out_, out) * element(scale_, row))}));
    return n;
  }

  LoopNode share_weights(int64_t rows, int64_t columns) {
    const Place p = place(rows, columns);
    return node({p.down, p.across, p.i, p.j}, {set(weight_, p.own_row() * Expr(tile_columns_ + 1) + p.own_column(), element(score_, p.at()))});
  }

  LoopNode add_values(int64_t rows, int64_t widths) {
    const Place p = place(rows, widths);
    const Loop column = fresh(Expr(tile_columns_), LoopKind::serial);
    const Expr c = axis(column.axis);
    return node({p.down, p.across, column, p.i, p.j}, {set(out_, p.at(), element(weight_, p.own_row() * Expr(tile_columns_ + 1) + c) * element(v_, c * Expr(padded_width()) + p.own_column()), Reduce::add)});
  }

  LoopNode store(int64_t rows, int64_t widths) {
    const Place p = place(rows, widths);
    const Definition& d = *s_.last;
    const Expr row = first_row_ + p.own_row(), w = p.own_column();
    row_in_thread_ = axis(p.i.axis);
    const Expr value = placed(d.epilogue, row, w, Expr(0), out_, p.at());
    std::vector<Expr> axes = outer_, index;
    for (Expr a : {row, w, Expr(0)}) axes.push_back(a);
    for (Expr e : d.out_index) index.push_back(substitute_axes(e, axes));
    const int target = kernel_.argument(d.out, layout_of(d.out->id), true);
    LoopNode inside = node({}, {{target, simplify(storage_address(d.out->shape(), layout_of(d.out->id), index), bounds_), value, {}}});
    const Expr guard = logical_and(below(row, row_count_, tile_rows_), below(w, Expr(width_), edge));
    if (!guard.is_int(1)) inside.guard = guard;
    LoopNode n = node({p.down, p.across, p.i, p.j});
    n.children.push_back(std::move(inside));
    return n;
  }

  void place_local(const Local&) override { METAC_ASSERT(false, "a streamed softmax has no other locals"); }

  StreamedSoftmax s_;
  Bounds bounds_;
  std::vector<Expr> outer_;
  Expr row_count_, column_count_, first_row_, row_in_thread_;
  int64_t depth_ = 0, width_ = 0, tile_rows_ = 0, tile_columns_ = 0;
  int q_ = 0, k_ = 0, v_ = 0, weight_ = 0;                                                        // shared by the block
  int score_ = 0, out_ = 0, largest_ = 0, before_ = 0, from_ = 0, scale_ = 0, sum_ = 0;           // of a thread
};

}  // namespace

bool is_gpu_attention(const Group& group) {
  const auto s = match_streamed_softmax(group);
  if (!s) return false;
  const Expr rows = s->scores->domain[static_cast<size_t>(group.shared - 1)], columns = s->scores->domain[static_cast<size_t>(group.shared)];
  const Expr depth = s->scores->domain.back(), width = s->last->domain[static_cast<size_t>(group.shared)];
  return depth.if_int() && depth.as_int() <= most_depth && width.if_int() && width.as_int() <= most_depth && known(rows) >= edge && known(columns) >= edge;
}

Kernel lower_gpu_attention(const Group& group, const LoweringContext& context) { return GpuAttention(group, context).run(); }

}  // namespace metac
