// Attention in one kernel on a GPU: softmax(q k) v with a running maximum and sum (Milakov and Gimelshein; Dao et al.), so
// that no score reaches memory however long the rows are.
//
// A block of threads has a tile of rows. Its part of q stays in shared memory; tiles of k and v pass through it, copied
// while the product before theirs is computed: v's beside the scores, the next of k beside the values. A thread has a part
// of a tile of scores in registers, and of its rows the sums so far: a part of v's width, the maximum and its own share of
// the sum of weights. The threads of a row are neighbours in a warp and tell each other the maximum. A row that has seen
// nothing but -infinity is scaled from 0, not from its maximum: 0 times what comes later is 0 and no NaN.
#include <algorithm>
#include <cmath>

#include "compiler/loops/loop_transforms.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/gpu/strategies/gpu_attention.h"
#include "compiler/target/gpu/strategies/tile_load.h"
#include "compiler/target/gpu/strategies/tile_sizes.h"
#include "compiler/target/gpu/strategies/wide_store.h"

namespace metac {
namespace {

Expr zero() { return constant_of(DType::f32, 0); }
Expr lowest() { return float_constant(-HUGE_VAL, DType::f32); }
Expr below(Expr index, Expr size, int64_t step) {
  return floor_mod(size, step).is_int(0) ? bool_constant(true) : index < size;
}

// A factor as tensor cores take it: what a conversion makes wide.
Expr narrowed(Expr factor) {
  const bool half =
      factor->kind == ExprKind::cast && (factor->args[0]->dtype == DType::f16 || factor->args[0]->dtype == DType::bf16);
  return half ? factor->args[0] : factor;
}

// The kind of its products (TensorProduct::kind); empty: fused multiply-adds; nothing: operands of several types.
std::optional<std::string> tensor_kind(const StreamedSoftmax& s, bool tf32) {
  const DType type = narrowed(s.row_factor)->dtype;
  if (narrowed(s.column_factor)->dtype != type || narrowed(s.values)->dtype != type || s.weights != type)
    return std::nullopt;
  if (type == DType::f32) return tf32 ? "tf32" : "";
  return type == DType::f16 ? "f16" : "bf16";
}

}  // namespace

std::vector<Loop> GpuAttention::Share::loops() const {
  std::vector<Loop> all = threads;
  all.insert(all.end(), {rows, others});
  if (neighbours.extent) all.push_back(neighbours);
  return all;
}

Loop GpuAttention::fresh(Expr extent, LoopKind kind) {
  Loop loop{kernel_.next_axis++, extent, kind, {}};
  bounds_.set_axis(loop.axis, extent);
  return loop;
}

int GpuAttention::declare_local(int64_t count, bool shared, DType type) {
  kernel_.root.locals.push_back({kernel_.next_local++, type, Expr(count), 0, shared});
  return kernel_.root.locals.back().id;
}

LoopNode GpuAttention::node(std::vector<Loop> loops, std::vector<Assign> assigns) {
  LoopNode n;
  n.loops = std::move(loops);
  n.assigns = std::move(assigns);
  return n;
}

void GpuAttention::place_local(const Local&) { METAC_ASSERT(false, "a streamed softmax has no other locals"); }

Kernel GpuAttention::run() {
  const size_t shared = static_cast<size_t>(group_.shared);
  const Definition &scores = *s_.scores, &last = *s_.last;
  for (const Definition& d : group_.stages) merge_nodes(kernel_.nodes, d.nodes);
  bounds_ = Bounds(*context_.symbols);
  for (size_t k = 0; k + 1 < shared; ++k) {
    kernel_.root.loops.push_back(fresh(scores.domain[k], LoopKind::parallel));
    outer_.push_back(axis(kernel_.root.loops.back().axis));
  }
  row_count_ = scores.domain[shared - 1];
  column_count_ = scores.domain[shared];
  depth_ = scores.domain.back().as_int();
  width_ = last.domain[shared].as_int();
  choose_tile();
  kernel_.block = threads();
  const Loop block = fresh(ceil_div(row_count_, tile_.rows), LoopKind::parallel);
  kernel_.root.loops.push_back(block);
  first_row_ = axis(block.axis) * Expr(tile_.rows);
  kernel_.schedule.push_back(concat("softmax streamed: ", tile_.rows, " rows a block, ", tile_.columns,
                                    " columns at a time, running maximum and sum"));
  if (!description().empty()) kernel_.schedule.push_back(description());
  declare();
  build();
  return std::move(kernel_);
}

void GpuAttention::choose_tile() {
  int64_t batch = 1;
  for (size_t k = 0; k < outer_.size(); ++k) batch *= size_or_many(s_.scores->domain[k]);
  for (const AttentionTile& size : tile_sizes()) {
    tile_ = size;
    const int64_t blocks = batch * ((size_or_many(row_count_) + size.rows - 1) / size.rows);
    if (shared_bytes() <= gpu_costs.attention_shared_bytes &&
        (size.rows == edge || (size.rows < 2 * size_or_many(row_count_) && blocks >= gpu_costs.blocks_of_tiles)))
      break;
  }
}

int64_t GpuAttention::shared_bytes() const {
  return ((tile_.rows + tile_.columns) * factor_tile().stride + tile_.columns * value_tile().stride) *
             static_cast<int64_t>(size_of(type_)) +
         weight_bytes();
}

void GpuAttention::declare() {
  const int64_t rows = rows_of_thread();
  q_ = declare_local(tile_.rows * factor_tile().stride, true, type_);
  k_ = declare_local(tile_.columns * factor_tile().stride, true, type_);
  v_ = declare_local(tile_.columns * value_tile().stride, true, type_);
  declare_weights();
  score_ = declare_local(rows * columns_of_thread(tile_.columns), false);
  out_ = declare_local(rows * columns_of_thread(padded_width()), false);
  for (int* local : {&largest_, &before_, &from_, &scale_, &sum_}) *local = declare_local(rows, false);
  internals_[s_.sum] = InternalVar{sum_, {}, {}};
}

// An expression of a stage at a row and its two other axes; the sum that a stage has made is element `at` of a local.
Expr GpuAttention::placed(Expr e, Expr row, Expr second, Expr third, int local, Expr at) {
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

// `rows` of q, k or v from the first on into shared memory, zero beyond their ends.
LoopNode GpuAttention::load_part(int local, const SharedTile& tile, int64_t rows, Expr first, Expr size, int64_t row_size,
                                 const std::function<Expr(Expr, Expr)>& value_at) {
  return load_tile(kernel_, bounds_,
                   {local, type_, 0, {rows, first, size, tile.stride}, {tile.row_size, 0, Expr(row_size), 1}, value_at});
}

// A tile of k.
LoopNode GpuAttention::load_columns(Expr first_column) {
  return load_part(k_, factor_tile(), tile_.columns, first_column, column_count_, depth_,
                   [&](Expr column, Expr d) { return placed(s_.column_factor, Expr(0), column, d); });
}

void GpuAttention::build() {
  const Loop tile = fresh(ceil_div(column_count_, tile_.columns), LoopKind::serial);
  const Expr first_column = axis(tile.axis) * Expr(tile_.columns);
  LoopNode arrived;
  arrived.copies_done = arrived.barrier = true;
  std::vector<LoopNode>& children = kernel_.root.children;
  children.push_back(load_part(q_, factor_tile(), tile_.rows, first_row_, row_count_, depth_,
                               [&](Expr row, Expr d) { return placed(s_.row_factor, row, Expr(0), d); }));
  children.push_back(load_columns(0));
  children.push_back(begin());
  LoopNode tiles = node({tile});
  tiles.children.push_back(arrived);
  tiles.children.push_back(load_part(v_, value_tile(), tile_.columns, first_column, column_count_, width_,
                                     [&](Expr column, Expr w) { return placed(s_.values, Expr(0), w, column); }));
  tiles.children.push_back(clear_scores());
  tiles.children.push_back(multiply_scores());
  tiles.children.push_back(finish_scores(first_column));
  tiles.children.push_back(weigh());
  for (LoopNode& weights : share_weights()) tiles.children.push_back(std::move(weights));
  tiles.children.push_back(arrived);
  if (!tile.extent.is_int(1)) {
    LoopNode next;
    next.guard = axis(tile.axis) + 1 < tile.extent;
    next.children = {load_columns(first_column + Expr(tile_.columns))};
    tiles.children.push_back(std::move(next));
  }
  tiles.children.push_back(multiply_values());
  children.push_back(std::move(tiles));
  const Loop i = fresh(Expr(rows_of_thread()), LoopKind::unrolled);
  Assign all = set(sum_, axis(i.axis), element(sum_, axis(i.axis)), Reduce::add);
  all.neighbours = threads_of_row();
  children.push_back(node({i}, {all}));
  store();
}

// No column seen yet.
LoopNode GpuAttention::begin() {
  const int64_t widths = columns_of_thread(padded_width());
  const Loop i = fresh(Expr(rows_of_thread()), LoopKind::unrolled), w = fresh(Expr(widths), LoopKind::unrolled);
  LoopNode n = node({i}, {set(largest_, axis(i.axis), lowest()), set(sum_, axis(i.axis), zero())});
  n.children = {node({w}, {set(out_, register_of(axis(i.axis), axis(w.axis), widths), zero())})};
  return n;
}

LoopNode GpuAttention::clear_scores() {
  const Loop all = fresh(Expr(rows_of_thread() * columns_of_thread(tile_.columns)), LoopKind::unrolled);
  return node({all}, {set(score_, axis(all.axis), zero())});
}

LoopNode GpuAttention::finish_scores(Expr first_column) {
  const Share p = share(rows_of_thread(), columns_of_thread(tile_.columns));
  const Expr row = first_row_ + p.row, column = first_column + p.column;
  Expr value = placed(s_.score, row, column, Expr(0), score_, p.at);
  const Expr inside = logical_and(below(row, row_count_, tile_.rows), below(column, column_count_, tile_.columns));
  if (!inside.is_int(1)) value = select(inside, value, lowest());
  return node(p.loops(), {set(score_, p.at, value)});
}

// Scores become weights; what was summed before is scaled to the new maximum.
LoopNode GpuAttention::weigh() {
  const int64_t columns = columns_of_thread(tile_.columns), widths = columns_of_thread(padded_width());
  auto every = [&](int64_t count) { return fresh(Expr(count), LoopKind::unrolled); };
  const Loop i = every(rows_of_thread()), j = every(columns), l = every(columns), w = every(widths);
  const Expr row = axis(i.axis), score = register_of(row, axis(j.axis), columns),
             weight = register_of(row, axis(l.axis), columns), out = register_of(row, axis(w.axis), widths);
  Assign all = set(largest_, row, element(largest_, row), Reduce::max);
  all.neighbours = threads_of_row();
  const Expr found = element(largest_, row);
  LoopNode n = node({i}, {set(before_, row, found)});
  n.children.push_back(node({j}, {set(largest_, row, element(score_, score), Reduce::max)}));
  n.children.push_back(node({}, {all, set(from_, row, select(call(Fn::eq, {found, lowest()}), zero(), found)),
                                 set(scale_, row, call(Fn::exp, {element(before_, row) - element(from_, row)})),
                                 set(sum_, row, element(sum_, row) * element(scale_, row))}));
  n.children.push_back(node({l}, {set(score_, weight, call(Fn::exp, {element(score_, weight) - element(from_, row)})),
                                  set(sum_, row, element(score_, weight), Reduce::add)}));
  n.children.push_back(node({w}, {set(out_, out, element(out_, out) * element(scale_, row))}));
  return n;
}

void GpuAttention::store() {
  std::vector<LoopNode>& children = kernel_.root.children;
  for (const int64_t neighbours : {2 * gpu_machine.fragment.neighbours, gpu_machine.fragment.neighbours}) {
    const std::optional<Share> p = share_of_neighbours(neighbours);
    if (!p) break;
    LoopNode n = store_share(*p);
    if (!store_wide(n, kernel_.arguments, bounds_)) continue;
    if (neighbours > gpu_machine.fragment.neighbours)
      children.emplace_back().exchange = TensorExchange{out_, padded_width() / gpu_machine.fragment.columns};
    return children.push_back(std::move(n));
  }
  children.push_back(store_share(share(rows_of_thread(), columns_of_thread(padded_width()))));
}

LoopNode GpuAttention::store_share(const Share& p) {
  const Definition& d = *s_.last;
  const Expr row = first_row_ + p.row, w = p.column;
  row_in_thread_ = axis(p.rows.axis);
  const Expr value = placed(d.epilogue, row, w, Expr(0), out_, p.at);
  std::vector<Expr> axes = outer_, index;
  for (Expr a : {row, w, Expr(0)}) axes.push_back(a);
  for (Expr e : d.out_index) index.push_back(substitute_axes(e, axes));
  const int target = kernel_.argument(d.out, layout_of(d.out->id), true);
  LoopNode inside =
      node({}, {{target, simplify(storage_address(d.out->shape(), layout_of(d.out->id), index), bounds_), value, {}}});
  const Expr guard = logical_and(below(row, row_count_, tile_.rows), below(w, Expr(width_), edge));
  if (!guard.is_int(1)) inside.guard = guard;
  LoopNode n = node(p.loops());
  n.children.push_back(std::move(inside));
  return n;
}

bool is_gpu_attention(const Group& group, bool tf32) {
  const auto s = match_streamed_softmax(group);
  if (!s || !tensor_kind(*s, tf32)) return false;
  const Expr rows = s->scores->domain[static_cast<size_t>(group.shared - 1)],
             columns = s->scores->domain[static_cast<size_t>(group.shared)];
  const Expr depth = s->scores->domain.back(), width = s->last->domain[static_cast<size_t>(group.shared)];
  return depth.if_int() && depth.as_int() <= gpu_costs.attention_depth && width.if_int() &&
         width.as_int() <= gpu_costs.attention_depth && size_or_many(rows) >= gpu_costs.least_side &&
         size_or_many(columns) >= gpu_costs.least_side;
}

Kernel lower_gpu_attention(const Group& group, const LoweringContext& context) {
  StreamedSoftmax softmax = *match_streamed_softmax(group);
  const std::string kind = *tensor_kind(softmax, context.tf32);
  if (kind.empty()) return plain_gpu_attention(group, context, std::move(softmax))->run();
  for (Expr* factor : {&softmax.row_factor, &softmax.column_factor, &softmax.values}) *factor = narrowed(*factor);
  return tensor_gpu_attention(group, context, std::move(softmax), kind)->run();
}

}  // namespace metac
