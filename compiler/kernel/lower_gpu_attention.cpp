// Attention in one kernel on a GPU: softmax(q k) v with a running maximum and sum (Milakov and Gimelshein; Dao et al.), so
// that no score reaches memory however long the rows are.
//
// A block of 16 by 16 threads has a tile of rows. Its part of q stays in shared memory; tiles of k and v pass through it.
// A thread has every 16th row and every 16th column of a tile of scores in registers, and of its rows the sums so far: every
// 16th element of v's width, the maximum and its own share of the sum of weights. The 16 threads of a row are neighbours in a
// warp and tell each other the maximum; weights go through shared memory once, to be multiplied by v.
//
// Where q, k and v are float16 or bfloat16 (float32 that may be rounded to TF32) tensor cores multiply. Each warp has 16 rows then, and
// an instruction says which elements a thread has: two rows that are eight apart, two neighbours of every eight columns. So four
// neighbouring threads share a row, and their weights are the left side of the second product as they stand in registers; v lies
// across in shared memory. Weights are rounded as q, k and v are; their sum is of what they were before.
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
int64_t rounded_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// A factor as tensor cores take it: what a conversion makes wide.
Expr narrowed(Expr factor) {
  const bool half = factor->kind == ExprKind::cast && (factor->args[0]->dtype == DType::f16 || factor->args[0]->dtype == DType::bf16);
  return half ? factor->args[0] : factor;
}

// The kind of its products (TensorProduct::kind); empty: fused multiply-adds; nothing: operands of several types.
std::optional<std::string> tensor_kind(const StreamedSoftmax& s, bool tf32) {
  const DType type = narrowed(s.row_factor)->dtype;
  if (narrowed(s.column_factor)->dtype != type || narrowed(s.values)->dtype != type || s.weights != type) return std::nullopt;
  if (type == DType::f32) return tf32 ? "tf32" : "";
  return type == DType::f16 ? "f16" : "bf16";
}

class GpuAttention : private StageLowering {
 public:
  GpuAttention(const Group& group, const LoweringContext& context) : StageLowering(group, context), s_(*match_streamed_softmax(group)), tensor_(*tensor_kind(s_, context.tf32)) {
    if (tensor_.empty()) return;
    for (Expr* factor : {&s_.row_factor, &s_.column_factor, &s_.values}) *factor = narrowed(*factor);
    type_ = s_.row_factor->dtype;
  }

  Kernel run() {
    const int shared = group_.shared;
    const Definition &scores = *s_.scores, &last = *s_.last;
    for (const Definition& d : group_.stages) kernel_.nodes.insert(kernel_.nodes.end(), d.nodes.begin(), d.nodes.end());
    std::sort(kernel_.nodes.begin(), kernel_.nodes.end());
    kernel_.nodes.erase(std::unique(kernel_.nodes.begin(), kernel_.nodes.end()), kernel_.nodes.end());
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
    kernel_.block = static_cast<int>(tensor_.empty() ? edge * edge : tile_rows_ * 2);
    const Loop block = fresh(ceil_div(row_count_, tile_rows_), LoopKind::parallel);
    kernel_.root.loops.push_back(block);
    first_row_ = axis(block.axis) * Expr(tile_rows_);
    kernel_.schedule.push_back(concat("softmax streamed: ", tile_rows_, " rows a block, ", tile_columns_, " columns at a time, running maximum and sum"));
    if (!tensor_.empty()) kernel_.schedule.push_back("products on tensor cores: " + tensor_);
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
    const std::vector<std::pair<int64_t, int64_t>> plain = {{64, 32}, {64, 16}, {32, 32}, {32, 16}, {16, 16}}, warps = {{128, 64}, {64, 64}, {64, 32}, {32, 32}, {16, 32}};
    for (auto [rows, columns] : tensor_.empty() ? plain : warps) {
      tile_rows_ = rows;
      tile_columns_ = columns;
      const int64_t blocks = batch * ((known(row_count_) + rows - 1) / rows);
      if (shared_bytes() <= most_shared_bytes && (rows == edge || (rows < 2 * known(row_count_) && blocks >= enough_blocks))) break;
    }
  }
  int64_t padded_width() const { return rounded_up(width_, edge); }
  // Elements from row to row in shared memory. Tensor cores read whole instructions of 8 words; with 4 more the eight rows that a warp reads lie in different banks.
  int64_t per_word() const { return 4 / static_cast<int64_t>(size_of(type_)); }
  int64_t padded_depth() const { return tensor_.empty() ? depth_ : rounded_up(depth_, 8 * per_word()); }
  int64_t depth_stride() const { return tensor_.empty() ? depth_ + 1 : padded_depth() + 4 * per_word(); }
  int64_t column_stride() const { return tile_columns_ + 4 * per_word(); }
  int64_t shared_bytes() const {
    if (!tensor_.empty()) return ((tile_rows_ + tile_columns_) * depth_stride() + padded_width() * column_stride()) * static_cast<int64_t>(size_of(type_));
    return 4 * (tile_rows_ * (depth_ + 1) + tile_columns_ * (depth_ + 1) + tile_columns_ * padded_width() + tile_rows_ * (tile_columns_ + 1));
  }

  // How much of a tile a thread has.
  int64_t own_rows() const { return tensor_.empty() ? tile_rows_ / edge : 2; }
  int64_t own_columns(int64_t columns) const { return tensor_.empty() ? columns / edge : columns / 4; }
  // Where it has an element of its own rows and columns.
  Expr own(Expr row, Expr column, int64_t columns) const {
    return tensor_.empty() ? row * Expr(columns) + column : floor_div(column, 2) * Expr(4) + row * Expr(2) + floor_mod(column, 2);
  }
  int64_t row_threads() const { return tensor_.empty() ? edge : 4; }   // that share a row, neighbours

  int declare_local(int64_t count, bool shared, DType type = DType::f32) {
    kernel_.root.locals.push_back({kernel_.next_local++, type, Expr(count), 0, shared});
    return kernel_.root.locals.back().id;
  }
  void declare() {
    const int64_t rows = own_rows();
    q_ = declare_local(tile_rows_ * depth_stride(), true, type_);
    k_ = declare_local(tile_columns_ * depth_stride(), true, type_);
    v_ = declare_local(tensor_.empty() ? tile_columns_ * padded_width() : padded_width() * column_stride(), true, type_);
    if (tensor_.empty()) weight_ = declare_local(tile_rows_ * (tile_columns_ + 1), true);
    score_ = declare_local(rows * own_columns(tile_columns_), false);
    out_ = declare_local(rows * own_columns(padded_width()), false);
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

  // A part of q, k or v into shared memory, zero beyond its ends; neighbouring threads follow `along`. Strides: from place to place of both directions.
  LoopNode load_tile(int local, int64_t count, int64_t along, int64_t stride, int64_t along_stride, Expr first, Expr size, int64_t step, Expr along_size, const std::function<Expr(Expr, Expr)>& value_at) {
    const Loop all = fresh(Expr(count * along), LoopKind::thread);
    const Expr own = floor_div(axis(all.axis), along), inner = floor_mod(axis(all.axis), along), index = first + own;
    Expr value = value_at(index, inner);
    const Expr inside = logical_and(below(index, size, step), below(inner, along_size, along));
    if (!inside.is_int(1)) value = select(inside, value, constant_of(type_, 0));
    return node({all}, {set(local, simplify(own * Expr(stride) + inner * Expr(along_stride), bounds_), value)});
  }

  void build() {
    const Loop tile = fresh(ceil_div(column_count_, tile_columns_), LoopKind::serial);
    const Expr first_column = axis(tile.axis) * Expr(tile_columns_), lowest = float_constant(-HUGE_VAL, DType::f32), zero = constant_of(DType::f32, 0);
    const int64_t rows = own_rows(), columns = own_columns(tile_columns_), widths = own_columns(padded_width());
    const bool tensor = !tensor_.empty();
    auto every = [&](int64_t count) { return fresh(Expr(count), LoopKind::unrolled); };

    kernel_.root.children.push_back(load_tile(q_, tile_rows_, padded_depth(), depth_stride(), 1, first_row_, row_count_, tile_rows_, Expr(depth_), [&](Expr row, Expr d) { return placed(s_.row_factor, row, Expr(0), d); }));
    {
      const Loop i = every(rows), w = every(widths);
      LoopNode start = node({i}, {set(largest_, axis(i.axis), lowest), set(sum_, axis(i.axis), zero)});
      start.children = {node({w}, {set(out_, own(axis(i.axis), axis(w.axis), widths), zero)})};
      kernel_.root.children.push_back(std::move(start));
    }
    LoopNode tiles = node({tile});
    tiles.children.push_back(load_tile(k_, tile_columns_, padded_depth(), depth_stride(), 1, first_column, column_count_, tile_columns_, Expr(depth_), [&](Expr column, Expr d) { return placed(s_.column_factor, Expr(0), column, d); }));
    tiles.children.push_back(load_tile(v_, tile_columns_, padded_width(), tensor ? 1 : padded_width(), tensor ? column_stride() : 1, first_column, column_count_, tile_columns_, Expr(width_), [&](Expr column, Expr w) { return placed(s_.values, Expr(0), w, column); }));
    tiles.children.back().barrier = true;
    tiles.children.push_back(clear_scores(rows, columns));
    tiles.children.push_back(multiply(rows, columns));
    tiles.children.push_back(finish_scores(rows, columns, first_column, lowest));
    tiles.children.push_back(weigh(rows, columns, widths, lowest));
    if (!tensor) {
      tiles.children.push_back(share_weights(rows, columns));
      tiles.children.back().barrier = true;
    }
    tiles.children.push_back(add_values(rows, widths));
    tiles.children.back().barrier = true;
    kernel_.root.children.push_back(std::move(tiles));
    const Loop i = every(rows);
    Assign all = set(sum_, axis(i.axis), element(sum_, axis(i.axis)), Reduce::add);
    all.neighbours = static_cast<int>(row_threads());
    kernel_.root.children.push_back(node({i}, {all}));
    kernel_.root.children.push_back(store(rows, widths));
  }

  struct Place {       // of a thread: its rows and what it has of the other direction
    std::vector<Loop> threads;
    Loop i, j;
    Expr row, column, at;   // in the tile; in the thread's registers
    std::vector<Loop> loops() const {
      std::vector<Loop> all = threads;
      all.insert(all.end(), {i, j});
      return all;
    }
  };
  Place place(int64_t rows, int64_t others) {
    Place p;
    if (tensor_.empty()) p.threads = {fresh(edge, LoopKind::thread), fresh(edge, LoopKind::thread)};
    else p.threads = {fresh(Expr(kernel_.block), LoopKind::thread)};
    p.i = fresh(Expr(rows), LoopKind::unrolled);
    p.j = fresh(Expr(others), LoopKind::unrolled);
    const Expr i = axis(p.i.axis), j = axis(p.j.axis), thread = axis(p.threads[0].axis);
    if (tensor_.empty()) {
      p.row = thread + i * Expr(edge);
      p.column = axis(p.threads[1].axis) + j * Expr(edge);
    } else {
      p.row = floor_div(thread, 32) * Expr(16) + i * Expr(8) + floor_div(floor_mod(thread, 32), 4);
      p.column = floor_div(j, 2) * Expr(8) + floor_mod(thread, 4) * Expr(2) + floor_mod(j, 2);
    }
    p.at = own(i, j, others);
    return p;
  }

  LoopNode clear_scores(int64_t rows, int64_t columns) {
    const Loop all = fresh(Expr(rows * columns), LoopKind::unrolled);
    return node({all}, {set(score_, axis(all.axis), constant_of(DType::f32, 0))});
  }

  LoopNode multiply(int64_t rows, int64_t columns) {
    if (!tensor_.empty()) {
      LoopNode n;
      n.tensor = TensorProduct{tensor_, score_, q_, k_, 1, 1, tile_columns_ / 8, padded_depth() / per_word(), depth_stride() / per_word()};
      return n;
    }
    const Place p = place(rows, columns);
    const Loop d = fresh(Expr(depth_), LoopKind::serial);
    const Expr stride = Expr(depth_ + 1);
    return node({p.threads[0], p.threads[1], d, p.i, p.j}, {set(score_, p.at, element(q_, p.row * stride + axis(d.axis)) * element(k_, p.column * stride + axis(d.axis)), Reduce::add)});
  }

  LoopNode finish_scores(int64_t rows, int64_t columns, Expr first_column, Expr lowest) {
    const Place p = place(rows, columns);
    const Expr row = first_row_ + p.row, column = first_column + p.column;
    Expr value = placed(s_.score, row, column, Expr(0), score_, p.at);
    const Expr inside = logical_and(below(row, row_count_, tile_rows_), below(column, column_count_, tile_columns_));
    if (!inside.is_int(1)) value = select(inside, value, lowest);
    return node(p.loops(), {set(score_, p.at, value)});
  }

  // Scores become weights; what was summed before is scaled to the new maximum.
  LoopNode weigh(int64_t rows, int64_t columns, int64_t widths, Expr lowest) {
    const Loop i = fresh(Expr(rows), LoopKind::unrolled), j = fresh(Expr(columns), LoopKind::unrolled), l = fresh(Expr(columns), LoopKind::unrolled), w = fresh(Expr(widths), LoopKind::unrolled);
    const Expr row = axis(i.axis), score = own(row, axis(j.axis), columns), weight = own(row, axis(l.axis), columns), out = own(row, axis(w.axis), widths);
    Assign all = set(largest_, row, element(largest_, row), Reduce::max);
    all.neighbours = static_cast<int>(row_threads());
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
    return node(p.loops(), {set(weight_, p.row * Expr(tile_columns_ + 1) + p.column, element(score_, p.at))});
  }

  LoopNode add_values(int64_t rows, int64_t widths) {
    if (!tensor_.empty()) {
      LoopNode n;
      n.tensor = TensorProduct{tensor_, out_, score_, v_, 1, 1, padded_width() / 8, tile_columns_ / per_word(), column_stride() / per_word(), true};
      return n;
    }
    const Place p = place(rows, widths);
    const Loop column = fresh(Expr(tile_columns_), LoopKind::serial);
    const Expr c = axis(column.axis);
    return node({p.threads[0], p.threads[1], column, p.i, p.j}, {set(out_, p.at, element(weight_, p.row * Expr(tile_columns_ + 1) + c) * element(v_, c * Expr(padded_width()) + p.column), Reduce::add)});
  }

  LoopNode store(int64_t rows, int64_t widths) {
    const Place p = place(rows, widths);
    const Definition& d = *s_.last;
    const Expr row = first_row_ + p.row, w = p.column;
    row_in_thread_ = axis(p.i.axis);
    const Expr value = placed(d.epilogue, row, w, Expr(0), out_, p.at);
    std::vector<Expr> axes = outer_, index;
    for (Expr a : {row, w, Expr(0)}) axes.push_back(a);
    for (Expr e : d.out_index) index.push_back(substitute_axes(e, axes));
    const int target = kernel_.argument(d.out, layout_of(d.out->id), true);
    LoopNode inside = node({}, {{target, simplify(storage_address(d.out->shape(), layout_of(d.out->id), index), bounds_), value, {}}});
    const Expr guard = logical_and(below(row, row_count_, tile_rows_), below(w, Expr(width_), edge));
    if (!guard.is_int(1)) inside.guard = guard;
    LoopNode n = node(p.loops());
    n.children.push_back(std::move(inside));
    return n;
  }

  void place_local(const Local&) override { METAC_ASSERT(false, "a streamed softmax has no other locals"); }

  StreamedSoftmax s_;
  std::string tensor_;          // the kind of instruction; empty: none
  DType type_ = DType::f32;     // of q, k and v in shared memory
  Bounds bounds_;
  std::vector<Expr> outer_;
  Expr row_count_, column_count_, first_row_, row_in_thread_;
  int64_t depth_ = 0, width_ = 0, tile_rows_ = 0, tile_columns_ = 0;
  int q_ = 0, k_ = 0, v_ = 0, weight_ = 0;                                                        // shared by the block
  int score_ = 0, out_ = 0, largest_ = 0, before_ = 0, from_ = 0, scale_ = 0, sum_ = 0;           // of a thread
};

}  // namespace

bool is_gpu_attention(const Group& group, bool tf32) {
  const auto s = match_streamed_softmax(group);
  if (!s || !tensor_kind(*s, tf32)) return false;
  const Expr rows = s->scores->domain[static_cast<size_t>(group.shared - 1)], columns = s->scores->domain[static_cast<size_t>(group.shared)];
  const Expr depth = s->scores->domain.back(), width = s->last->domain[static_cast<size_t>(group.shared)];
  return depth.if_int() && depth.as_int() <= most_depth && width.if_int() && width.as_int() <= most_depth && known(rows) >= edge && known(columns) >= edge;
}

Kernel lower_gpu_attention(const Group& group, const LoweringContext& context) { return GpuAttention(group, context).run(); }

}  // namespace metac
