// A sum of products for a GPU. Kept axes that only one factor reads are that factor's side of the result, axes that both
// read (or none) are a batch. Each side's axes are one index, and so are the reduced axes: a matrix product, whatever the
// factors are: loads at any address, under any condition, with whatever element-wise work was fused into them.
//
// A block of 16 by 16 threads computes a tile of up to 128 by 128 elements: a few steps of the sum at a time come through
// shared memory, zero where a side or the sum ends, and each thread keeps up to 8 by 8 sums in registers, of up to four
// neighbours in each direction: an element read from shared memory serves eight of them. Tiles are smaller where a side is
// short or the blocks would be too few to keep a GPU busy. Sums run in the order of the reduced axes, one fused multiply-add
// each.
//
// Where a side is only moved, its tiles are copied while the ones before are multiplied: there are two of each, in turn.
//
// Where both factors are float16, bfloat16 or bytes at heart (float32 where it may be rounded to TF32), the tiles stay so
// narrow and tensor cores multiply them, and so they do with float64: a warp has a part of the tile, 16 by 8 elements an
// instruction (TensorProduct), and the instruction says which elements a thread has. A side whose elements lie together
// along itself, not along the sum, stays so in shared memory (bytes do not).
#include <algorithm>
#include <utility>

#include "compiler/loops/loop_transforms.h"
#include "compiler/loops/stage_lowering.h"
#include "compiler/machine/gpu_costs.h"
#include "compiler/support/diagnostic.h"
#include "compiler/target/gpu/strategies/lower_gpu.h"
#include "compiler/target/gpu/strategies/tile_load.h"
#include "compiler/target/gpu/strategies/tile_sizes.h"
#include "compiler/target/gpu/strategies/wide_store.h"
#include "compiler/target/gpu/vendor/library_product.h"
#include "compiler/tensor/axes.h"
#include "compiler/tensor/contraction.h"

namespace metac {
namespace {

constexpr int64_t edge = gpu_costs.edge;

struct Side {
  Expr factor;
  std::vector<Loop> loops;                  // outermost first
  int64_t tile = 0;                         // elements of it in a block's tile
  Expr narrow;                              // the factor as tensor cores take it; empty: they do not
  Expr block, size;                         // the loop over tiles; how many elements there are
  bool along_sum = false;                   // neighbours in memory are steps of the sum, not elements of this side
  int shared = 0;                           // local: the tile's part of the factor
  int64_t own_stride = 0, step_stride = 0;  // in it, from element to element and from step to step
  int64_t elements = 0;                     // of it

  // Neighbours that a thread has (not with tensor cores).
  int64_t group() const { return std::min(gpu_costs.neighbours_of_thread, tile / edge); }
  bool across() const { return own_stride == 1; }
};

class GpuContraction : private StageLowering {
 public:
  using StageLowering::StageLowering;

  std::optional<Kernel> run() {
    if (group_.stages.size() != 1 || group_.shared != 0) return std::nullopt;
    const Definition& d = group_.stages[0];
    product_ = sum_of_products(d);
    if (d.scatter || !product_ || product_->of_words() || !product_->conversions.empty()) return std::nullopt;
    kernel_.nodes = d.nodes;
    kernel_.block = edge * edge;
    std::vector<Expr> renamed = make_axes(d, stage_);
    accumulator_ = kernel_.next_local++;
    stage_.body = addressed(substitute_axes(d.body, renamed), accumulator_);
    stage_.epilogue = addressed(substitute_axes(d.epilogue, renamed), accumulator_);
    address_factors(renamed);
    set_target(d, stage_, renamed);
    simplify_stage(stage_);
    drop_unit_loops(stage_);
    order_loops(stage_);
    if (!find_factors() || !find_sides()) return std::nullopt;
    choose_tensor();
    collapse_sides();
    if (context_.library_products)
      kernel_.products =
          match_library_product({batch_, rows_.loops, columns_.loops, stage_.reduced, rows_.factor, columns_.factor,
                                 stage_.epilogue, stage_.offset, stage_.target, accumulator_},
                                kernel_.arguments);
    build(d);
    return std::move(kernel_);
  }

 private:
  static Expr count(const std::vector<Loop>& loops) {
    Expr n = 1;
    for (const Loop& l : loops) n = n * l.extent;
    return n;
  }

  // The factors, what tensor cores take of them and the conditions on the product, addressed: in this order behind the
  // stage's own expressions, and rewritten with them.
  void address_factors(const std::vector<Expr>& renamed) {
    const auto add = [&](Expr e) { stage_.conditions.push_back(addressed(substitute_axes(e, renamed), accumulator_)); };
    for (const Factor& f : product_->factors) add(f.value), add(f.narrow ? f.narrow : f.value);
    for (Expr e : product_->conditions) add(e);
  }

  // Each part of the condition outside of which the product is zero goes to the factors that it can be told from.
  bool find_factors() {
    const std::vector<Expr> found = std::exchange(stage_.conditions, {});
    rows_.factor = found[0], rows_.narrow = product_->factors[0].narrow ? found[1] : Expr();
    columns_.factor = found[2], columns_.narrow = product_->factors[1].narrow ? found[3] : Expr();
    const std::vector<Expr> conditions(found.begin() + 4, found.end());
    std::vector<char> held(conditions.size(), 0);
    for (Side* side : {&rows_, &columns_}) {
      Expr all = bool_constant(true);
      for (size_t k = 0; k < conditions.size(); ++k) {
        bool told = std::all_of(stage_.kept.begin(), stage_.kept.end(), [&](const Loop& l) {
          return !uses_axis(conditions[k], l.axis) || uses_axis(side->factor, l.axis);
        });
        if (told) all = logical_and(all, conditions[k]);
        held[k] |= told;
      }
      if (all.is_int(1)) continue;
      for (Expr* e : {&side->factor, &side->narrow})
        if (*e) *e = select(all, *e, constant_of((*e)->dtype, 0));
    }
    return std::all_of(held.begin(), held.end(), [](char h) { return h != 0; });
  }

  // Columns are the side that runs along the result's memory.
  bool find_sides() {
    bool last_in_rows = false;
    for (const Loop& l : stage_.kept) {
      bool in_rows = uses_axis(rows_.factor, l.axis), in_columns = uses_axis(columns_.factor, l.axis);
      (in_rows == in_columns ? batch_ : in_rows ? rows_.loops : columns_.loops).push_back(l);
      last_in_rows = in_rows && !in_columns;
    }
    if (last_in_rows) std::swap(rows_, columns_);
    sum_ = count(stage_.reduced);
    for (Side* side : {&rows_, &columns_}) side->size = count(side->loops);
    if (size_or_many(rows_.size) < gpu_costs.least_side || size_or_many(columns_.size) < gpu_costs.least_side ||
        size_or_many(sum_) < gpu_costs.least_sum)
      return false;
    const int64_t widest = size_of(group_.stages[0].accumulator) > 4 ? gpu_costs.tile_most_wide : gpu_costs.tile_most;
    for (int64_t most : {widest, gpu_costs.tile_middle, gpu_costs.tile_small}) {
      int64_t blocks = size_or_many(count(batch_));
      for (Side* side : {&rows_, &columns_}) {
        int64_t n = size_or_many(side->size);
        side->tile = edge;
        while (side->tile < most && side->tile * 2 <= n) side->tile *= 2;
        blocks *= (n + side->tile - 1) / side->tile;
      }
      if (blocks >= gpu_costs.blocks_of_tiles) break;
    }
    const bool large = std::max(rows_.tile, columns_.tile) > gpu_costs.tile_middle;
    steps_ = large ? gpu_costs.steps_of_large_tile : gpu_costs.steps_of_tile;
    return true;
  }

  void choose_tensor() {
    const DType sum = group_.stages[0].accumulator;
    if (std::min(rows_.tile, columns_.tile) < gpu_costs.tensor_side) return;
    if (bool(rows_.narrow) && bool(columns_.narrow)) {
      const DType a = rows_.narrow->dtype, b = columns_.narrow->dtype;
      auto is_byte = [](DType t) { return t == DType::i8 || t == DType::u8; };
      if (sum == DType::f32 && a == b && (a == DType::f16 || a == DType::bf16))
        tensor_ = a == DType::f16 ? "f16" : "bf16";
      else if (sum == DType::i32 && is_byte(a) && is_byte(b))
        tensor_ = concat(a == DType::i8 ? "s8" : "u8", b == DType::i8 ? "s8" : "u8");
    } else if (context_.tf32 && sum == DType::f32 && rows_.factor->dtype == DType::f32 &&
               columns_.factor->dtype == DType::f32) {
      tensor_ = "tf32";
    } else if (sum == DType::f64 && rows_.factor->dtype == DType::f64 && columns_.factor->dtype == DType::f64) {
      tensor_ = "f64";
    }
    if (tensor_.empty()) return;
    for (Side* side : {&rows_, &columns_})
      if (tensor_ != "tf32" && tensor_ != "f64") side->factor = side->narrow;
    const int64_t size = static_cast<int64_t>(size_of(rows_.factor->dtype));
    steps_ = words * (std::max(gpu_machine.word_bytes, size) / size);
    warps_down_ = rows_.tile > columns_.tile ? gpu_costs.warps_down_tall : gpu_costs.warps_down;
  }

  // Within a side only: a residue that both factors read must not merge with what one of them does.
  void collapse_sides() {
    stage_.conditions = {rows_.factor, columns_.factor};
    for (std::vector<Loop>* loops : {&batch_, &rows_.loops, &columns_.loops, &stage_.reduced}) collapse(stage_, *loops);
    rows_.factor = stage_.conditions[0];
    columns_.factor = stage_.conditions[1];
    kernel_.schedule.clear();
    if (!tensor_.empty()) kernel_.schedule.push_back("products on tensor cores: " + tensor_);
  }

  Loop fresh(Expr extent, LoopKind kind) {
    Loop loop{kernel_.next_axis++, extent, kind, {}};
    bounds_.set_axis(loop.axis, extent);
    return loop;
  }

  // The loops' indices out of the one index that stands for all of them.
  static void decode(const std::vector<Loop>& loops, Expr index, std::map<int, Expr>& values) {
    for (size_t k = loops.size(); k-- > 0;) {
      values[loops[k].axis] = k == 0 ? index : floor_mod(index, loops[k].extent);
      index = floor_div(index, loops[k].extent);
    }
  }

  Expr placed(Expr e, const std::map<int, Expr>& values) const {
    return simplify(rewrite(e,
                            [&](Expr n) -> Expr {
                              if (n->kind != ExprKind::axis) return {};
                              auto found = values.find(n->id);
                              return found == values.end() ? Expr() : found->second;
                            }),
                    bounds_);
  }

  static Expr below(Expr index, Expr size, int64_t step) {
    return floor_mod(size, step).is_int(0) ? bool_constant(true) : index < size;
  }

  void build(const Definition& d) {
    bounds_ = Bounds(*context_.symbols);
    for (const Loop& l : batch_) {
      bounds_.set_axis(l.axis, l.extent);
      kernel_.root.loops.push_back({l.axis, l.extent, LoopKind::parallel, {}});
    }
    for (Side* side : {&rows_, &columns_}) {
      Loop block = fresh(ceil_div(side->size, side->tile), LoopKind::parallel);
      kernel_.root.loops.push_back(block);
      side->block = axis(block.axis);
    }
    kernel_.schedule.push_back(concat("tiles of ", rows_.tile, " by ", columns_.tile, " elements, ", rows_.tile / edge,
                                      " by ", columns_.tile / edge, " in each thread's registers"));
    kernel_.root.locals.push_back({accumulator_, d.accumulator, Expr(rows_.tile / edge * (columns_.tile / edge))});

    for (Side* side : {&rows_, &columns_}) lay_out(*side);
    kernel_.root.children = {clear(d)};
    sum_up();
    store();
  }

  static int64_t pad_bytes(int64_t size) {
    return size >= gpu_machine.word_bytes ? gpu_costs.tensor_pad_bytes_wide : gpu_costs.tensor_pad_bytes;
  }

  // How a side's part of a tile lies in shared memory, so that what threads read and write together is in different banks.
  void lay_out(Side& side) {
    visit(side.factor, [&](Expr n) {
      if (n->kind != ExprKind::load || n->args.size() != 1 || stage_.reduced.empty()) return;
      Expr step = stride_of(n->args[0], stage_.reduced.back().axis);
      side.along_sum |= bool(step) && step.is_int(1);
    });
    const int64_t size = static_cast<int64_t>(size_of(side.factor->dtype));
    const bool tensor = !tensor_.empty(), across = !tensor || (!side.along_sum && size > 1);
    if (across) {
      // Tensor cores read 8 rows of 16 bytes at once, or 4 of 32 bytes where an element has 4 or 8.
      side.own_stride = 1;
      side.step_stride = side.tile + (tensor ? pad_bytes(size) / size : side.along_sum ? side.group() : 0);
      side.elements = side.step_stride * steps_;
    } else {
      side.step_stride = 1;
      side.own_stride = gpu_costs.tensor_stride_words * (steps_ / words);
      side.elements = side.own_stride * side.tile;
    }
    side.shared = kernel_.next_local++;
  }

  LoopNode load_side(const Side& side, Expr first_step, Expr place) {
    const TileDirection own{side.tile, side.block * Expr(side.tile), side.size, side.own_stride},
        steps{steps_, first_step, sum_, side.step_stride};
    TileLoad load{side.shared, side.factor->dtype, place, side.along_sum ? own : steps, side.along_sum ? steps : own, {}};
    load.value_at = [&](Expr row, Expr along) {
      std::map<int, Expr> values;
      decode(side.loops, side.along_sum ? row : along, values);
      decode(stage_.reduced, side.along_sum ? along : row, values);
      return placed(side.factor, values);
    };
    return load_tile(kernel_, bounds_, load);
  }

  void sum_up() {
    const Loop step = fresh(ceil_div(sum_, steps_), LoopKind::serial);
    const Expr at = axis(step.axis);
    std::vector<LoopNode> first;
    for (const Side* side : {&rows_, &columns_}) first.push_back(load_side(*side, 0, 0));
    const bool in_turn = !step.extent.is_int(1) && (is_copied(first[0]) || is_copied(first[1]));
    for (const Side* side : {&rows_, &columns_})
      kernel_.root.locals.push_back({side->shared, side->factor->dtype, Expr(side->elements * (in_turn ? 2 : 1)), 0, true});
    LoopNode sum, arrived;
    sum.loops = {step};
    arrived.copies_done = is_copied(first[0]) || is_copied(first[1]);
    arrived.barrier = true;
    if (in_turn) {
      kernel_.schedule.push_back("tiles are copied while the ones before are multiplied");
      for (LoopNode& load : first) kernel_.root.children.push_back(std::move(load));
      LoopNode next;
      next.guard = at + 1 < step.extent;
      for (const Side* side : {&rows_, &columns_})
        next.children.push_back(load_side(*side, (at + 1) * Expr(steps_), floor_mod(at + 1, 2) * Expr(side->elements)));
      sum.children = {std::move(arrived), std::move(next), multiply(floor_mod(at, 2))};
    } else {
      for (const Side* side : {&rows_, &columns_}) sum.children.push_back(load_side(*side, at * Expr(steps_), 0));
      sum.children.push_back(std::move(arrived));
      sum.children.push_back(multiply(0));
      sum.children.back().barrier = true;
    }
    kernel_.root.children.push_back(std::move(sum));
  }

  LoopNode clear(const Definition& d) {
    LoopNode node;
    Loop all = fresh(Expr(rows_.tile / edge * (columns_.tile / edge)), LoopKind::unrolled);
    node.loops = {all};
    node.assigns.push_back({first_local + accumulator_, axis(all.axis), constant_of(d.accumulator, 0), {}});
    return node;
  }

  // Of a warp, on tensor cores.
  int64_t parts_down() const { return rows_.tile / warps_down_ / fragment.rows; }
  int64_t parts_across() const { return columns_.tile / warps_across() / fragment.columns; }
  int64_t warps_across() const { return edge * edge / gpu_machine.warp / warps_down_; }

  // Where among a thread's elements of a side loops over groups and in them are; where in the tile.
  struct Own {
    Loop thread, group, inner;
    Expr number, place;
  };
  Own own_elements(const Side& side, const Loop& thread) {
    Own own{
        thread, fresh(side.tile / edge / side.group(), LoopKind::unrolled), fresh(side.group(), LoopKind::unrolled), {}, {}};
    own.number = axis(own.group.axis) * own.inner.extent + axis(own.inner.axis);
    own.place =
        axis(own.group.axis) * Expr(edge * side.group()) + axis(thread.axis) * own.inner.extent + axis(own.inner.axis);
    return own;
  }

  // Of the tiles that begin at `turn` times a tile's elements.
  LoopNode multiply(Expr turn) {
    LoopNode node;
    if (!tensor_.empty()) {
      auto tile = [&](const Side& side) {
        const int64_t stride = (side.across() ? side.step_stride : side.own_stride) *
                               static_cast<int64_t>(size_of(side.factor->dtype)) / gpu_machine.word_bytes;
        return TensorTile{side.shared, stride, side.across(), simplify(turn * Expr(side.elements), bounds_)};
      };
      node.tensor = TensorProduct{tensor_,        accumulator_, tile(rows_),    tile(columns_),
                                  warps_across(), parts_down(), parts_across(), words};
      return node;
    }
    const Loop down = fresh(edge, LoopKind::thread), across = fresh(edge, LoopKind::thread),
               step = fresh(steps_, LoopKind::unrolled);
    const Own row = own_elements(rows_, down), column = own_elements(columns_, across);
    node.loops = {down, across, step, row.group, row.inner, column.group, column.inner};
    auto element = [&](const Side& side, const Own& own) {
      return load(first_local + side.shared, side.factor->dtype,
                  {simplify(turn * Expr(side.elements) + axis(step.axis) * Expr(side.step_stride) + own.place, bounds_)});
    };
    node.assigns.push_back({first_local + accumulator_, row.number * Expr(columns_.tile / edge) + column.number,
                            element(rows_, row) * element(columns_, column), Reduce::add});
    return node;
  }

  // Which element of the tile a sum is: `thread` of the block has `down` times `across` parts of 16 by 8 elements, of each
  // neighbours in two rows that are eight apart.
  LoopNode store_tensor(int64_t neighbours) {
    LoopNode node;
    const int64_t width = parts_across() * fragment.neighbours / neighbours;
    Loop thread = fresh(edge * edge, LoopKind::thread), down = fresh(parts_down(), LoopKind::unrolled),
         across = fresh(width, LoopKind::unrolled);
    Loop half = fresh(fragment.rows_of_thread, LoopKind::unrolled), neighbour = fresh(neighbours, LoopKind::unrolled);
    node.loops = {thread, down, across, half, neighbour};
    const Expr t = axis(thread.axis), warp = floor_div(t, gpu_machine.warp), lane = floor_mod(t, gpu_machine.warp);
    const Expr row = floor_div(warp, warps_across()) * Expr(parts_down() * fragment.rows) +
                     axis(down.axis) * Expr(fragment.rows) + axis(half.axis) * Expr(fragment.rows_apart) +
                     floor_div(lane, fragment.threads_of_row);
    const Expr column = floor_mod(warp, warps_across()) * Expr(parts_across() * fragment.columns) +
                        tensor_column(neighbours, lane, axis(across.axis), axis(neighbour.axis));
    const Expr part = axis(down.axis) * Expr(width) + axis(across.axis);
    const Expr sum = (part * Expr(fragment.rows_of_thread) + axis(half.axis)) * Expr(neighbours) + axis(neighbour.axis);
    return store_at(std::move(node), rows_.block * Expr(rows_.tile) + row, columns_.block * Expr(columns_.tile) + column,
                    sum);
  }

  void store() {
    std::vector<LoopNode>& children = kernel_.root.children;
    if (tensor_.empty()) {
      LoopNode node;
      const Loop down = fresh(edge, LoopKind::thread), across = fresh(edge, LoopKind::thread);
      const Own row = own_elements(rows_, down), column = own_elements(columns_, across);
      node.loops = {down, across, row.group, row.inner, column.group, column.inner};
      node = store_at(std::move(node), rows_.block * Expr(rows_.tile) + row.place,
                      columns_.block * Expr(columns_.tile) + column.place,
                      row.number * Expr(columns_.tile / edge) + column.number);
      store_wide(node, kernel_.arguments, bounds_);
      return children.push_back(std::move(node));
    }
    const int64_t parts = rows_.tile * columns_.tile / (edge * edge) / fragment.elements_of_thread;  // of a thread
    for (const int64_t neighbours : {2 * fragment.neighbours, fragment.neighbours}) {
      if (parts_across() % (neighbours / fragment.neighbours) != 0) continue;
      LoopNode node = store_tensor(neighbours);
      if (!store_wide(node, kernel_.arguments, bounds_) && neighbours > fragment.neighbours) continue;
      if (neighbours > fragment.neighbours) children.emplace_back().exchange = TensorExchange{accumulator_, parts};
      return children.push_back(std::move(node));
    }
  }

  // The element at row r and column c, whose sum is the given one of the thread's.
  LoopNode store_at(LoopNode node, Expr r, Expr c, Expr place) {
    std::map<int, Expr> values;
    decode(rows_.loops, r, values);
    decode(columns_.loops, c, values);
    Expr sum = load(first_local + accumulator_, group_.stages[0].accumulator, {place});
    Expr value = rewrite(placed(stage_.epilogue, values), [&](Expr n) -> Expr {
      return n->kind == ExprKind::load && n->id == first_local + accumulator_ ? sum : Expr();
    });
    LoopNode inside;
    Expr guard = logical_and(below(r, rows_.size, rows_.tile), below(c, columns_.size, columns_.tile));
    if (!guard.is_int(1)) inside.guard = guard;
    inside.assigns.push_back({stage_.target, placed(stage_.offset, values), value, {}});
    node.children.push_back(std::move(inside));
    return node;
  }

  void place_local(const Local&) override { METAC_ASSERT(false, "a contraction's result is no local"); }

  std::shared_ptr<const SumOfProducts> product_;
  Stage stage_;
  Side rows_, columns_;
  std::vector<Loop> batch_;
  Expr sum_;
  Bounds bounds_;
  int accumulator_ = -1;
  int64_t steps_ = gpu_costs.steps_of_tile;  // of the sum, in shared memory at once
  static constexpr int64_t words = gpu_costs.tensor_words;
  static constexpr TensorFragment fragment = gpu_machine.fragment;
  std::string tensor_;  // the kind of instruction; empty: none
  int64_t warps_down_ = gpu_costs.warps_down;
};

}  // namespace

std::optional<Kernel> lower_gpu_contraction(const Group& group, const LoweringContext& context) {
  return GpuContraction(group, context).run();
}

}  // namespace metac
