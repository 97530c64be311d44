#include "compiler/target/cpu/tiles/matrix_sum.h"

#include <algorithm>
#include <optional>

#include "compiler/ir/walks.h"
#include "compiler/loops/loop_transforms.h"
#include "compiler/support/checked.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

constexpr int most_words = 16;  // of a step
// A step takes as long for few words or points as for 16 [guess: vectors multiply less than that as fast].
constexpr int fewest_words = 4, fewest_points = 4;

class MatrixForm {
 public:
  MatrixForm(Kernel& kernel, const TiledSum& sum, const std::vector<Symbol>& symbols)
      : kernel_(kernel), sum_(sum), symbols_(symbols) {}

  std::optional<TiledSum> run() {
    if (!is_plain()) return std::nullopt;
    collapse_short_steps();
    if (!sum_.reduced.back().extent.if_int()) return std::nullopt;
    const int64_t words = largest_divisor(sum_.reduced.back().extent.as_int(), most_words);
    const std::optional<int64_t> point = data_step(), step = packed_step();
    if (words < fewest_words || !point || !step || !has_enough_points()) return std::nullopt;
    sum_.matrix = {static_cast<int>(words), *point, *step};
    sum_.points = most_matrix_points;
    return sum_;
  }

 private:
  bool is_plain() const {
    if (sum_.lanes != matrix_lanes || sum_.vectors > most_matrix_vectors || sum_.tile_axis < 0 || sum_.lanes_in_both ||
        bool(sum_.of_run) || bool(sum_.in_step) || sum_.widened || sum_.parts > 0 || sum_.unrolled > 0 ||
        sum_.reduced.empty())
      return false;
    const Expr body = sum_.body;
    return body->kind == ExprKind::call && has_matrix_product(body->fn) &&
           std::all_of(body->args.begin(), body->args.end(), [](Expr factor) {
             return factor->kind == ExprKind::load && factor->id < first_local && factor->dtype == DType::i32 &&
                    factor->args.size() == 1 && !factor->args[0]->has_load;
           });
  }

  // The taps of a window and the few channels at each: one run of words.
  void collapse_short_steps() {
    while (sum_.reduced.size() > 1) {
      const Loop outer = *(sum_.reduced.end() - 2), inner = sum_.reduced.back();
      if (!inner.extent.if_int() || inner.extent.as_int() >= most_words || !outer.extent.if_int() ||
          !can_collapse(sum_.body, outer, inner))
        return;
      const Loop merged{kernel_.next_axis++, outer.extent * inner.extent, LoopKind::serial, {}};
      sum_.body = collapse_axes(sum_.body, outer, inner, merged);
      std::erase_if(sum_.taps, [&](const WindowTaps& t) { return t.axis == outer.axis || t.axis == inner.axis; });
      sum_.reduced.resize(sum_.reduced.size() - 2);
      sum_.reduced.push_back(merged);
    }
  }

  const Loop* kept(int axis) const {
    const auto loop = std::find_if(sum_.kept.begin(), sum_.kept.end(), [&](const Loop& l) { return l.axis == axis; });
    return &*loop;
  }

  Bounds bounds() const {
    Bounds b(symbols_);
    for (const std::vector<Loop>* loops : {&sum_.kept, &sum_.reduced})
      for (const Loop& l : *loops) b.set_axis(l.axis, l.extent);
    return b;
  }

  bool has_enough_points() const {
    const int64_t* points = kept(sum_.tile_axis)->extent.if_int();
    return !points || *points >= fewest_points;
  }

  static std::optional<int64_t> constant_step(Expr offset, int axis) {
    const Expr step = stride_of(offset, axis);
    if (!step || !step.if_int()) return std::nullopt;
    return step.as_int();
  }

  // Bytes from point to point.
  std::optional<int64_t> data_step() const {
    const Expr data = sum_.body->args[0];
    const auto element = static_cast<int64_t>(size_of(kernel_.arguments[static_cast<size_t>(data->id)].var->dtype()));
    const Expr offset = simplify(data->args[0], bounds());
    const auto word = constant_step(offset, sum_.reduced.back().axis), point = constant_step(offset, sum_.tile_axis);
    if (uses_axis(offset, sum_.lane_axis) || !word || *word * element != 4 || !point) return std::nullopt;
    return *point * element;
  }

  // Bytes from step to step of the words of one block of lanes, which must be neighbours.
  std::optional<int64_t> packed_step() const {
    const Expr packed = sum_.body->args[1], lanes = kept(sum_.lane_axis)->extent;
    const KernelArgument& argument = kernel_.arguments[static_cast<size_t>(packed->id)];
    if (size_of(argument.var->dtype()) != 4 || uses_axis(packed->args[0], sum_.tile_axis)) return std::nullopt;
    if (!argument.padded && !floor_mod(lanes, sum_.lanes).is_int(0)) return std::nullopt;
    const int block = kernel_.next_axis++, vector = kernel_.next_axis++, lane = kernel_.next_axis++;
    const int64_t together = static_cast<int64_t>(sum_.vectors) * sum_.lanes;
    const Expr place = axis(block) * Expr(together) + axis(vector) * Expr(sum_.lanes) + axis(lane);
    Bounds b = bounds();
    b.set_axis(block, ceil_div(lanes, together));
    b.set_axis(vector, sum_.vectors);
    b.set_axis(lane, sum_.lanes);
    const Expr offset =
        simplify(rewrite(packed->args[0], [&](Expr n) { return n == axis(sum_.lane_axis) ? place : Expr(); }), b);
    const auto of_lane = constant_step(offset, lane), of_vector = constant_step(offset, vector),
               of_step = constant_step(offset, sum_.reduced.back().axis);
    if (of_lane != 1 || (sum_.vectors > 1 && of_vector != sum_.lanes) || !of_step || *of_step <= 0) return std::nullopt;
    return *of_step * 4;
  }

  Kernel& kernel_;
  TiledSum sum_;
  const std::vector<Symbol>& symbols_;
};

}  // namespace

bool has_matrix_product(Fn product) { return product == Fn::dot_u8s8 || product == Fn::dot_s8u8 || product == Fn::dot_bf16; }

// A product takes a cycle for each point, a load of 16 rows 13 where nothing else waits (measured: 2 x 2 tiles 64 cycles
// with 32 points, 55 with 16 or fewer).
double matrix_cycles(int points, int vectors) {
  const int tiles = (points + 15) / 16;
  return std::max(points * vectors, 13 * (tiles + vectors));
}

void take_matrix(Kernel& kernel, TiledSum& sum, const std::vector<Symbol>& symbols) {
  if (std::optional<TiledSum> matrix = MatrixForm(kernel, sum, symbols).run()) sum = std::move(*matrix);
}

}  // namespace metac
