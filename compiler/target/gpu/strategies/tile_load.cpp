#include "compiler/target/gpu/strategies/tile_load.h"

#include <optional>

#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/gpu_machine.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

Expr below(Expr index, const TileDirection& d) {
  return floor_mod(d.size, d.count).is_int(0) ? bool_constant(true) : index < d.size;
}
bool is_zero(Expr e) { return e.is_constant() && e->float_value == 0 && e->int_value == 0; }

class TileLoader {
 public:
  TileLoader(Kernel& kernel, Bounds& bounds, const TileLoad& load)
      : kernel_(kernel), bounds_(bounds), load_(load), thread_(kernel.next_axis++) {}

  LoopNode run() {
    lane_ = kernel_.next_axis++;
    for (int64_t bytes = gpu_machine.access_bytes; bytes >= gpu_machine.copy_bytes_least; bytes /= 2) {
      const int64_t size = static_cast<int64_t>(size_of(load_.dtype));
      if (bytes < size) break;
      if (std::optional<LoopNode> copy = copies(bytes / size)) return *copy;
    }
    kernel_.next_axis = lane_;  // of elements there are no lanes
    lane_ = -1;
    return elements();
  }

 private:
  // The loop over packs of `width` elements, and the two indices within the tile of a pack's first element.
  Loop packs(int64_t width, Expr& row, Expr& along) {
    const int64_t of_row = load_.along.count / width;
    const Loop all{thread_, Expr(load_.rows.count * of_row), LoopKind::thread, {}};
    bounds_.set_axis(thread_, all.extent);
    row = floor_div(axis(thread_), of_row);
    along = floor_mod(axis(thread_), of_row) * Expr(width);
    return all;
  }
  Expr inside(Expr row, Expr along) const {
    return logical_and(below(load_.rows.first + row, load_.rows), below(load_.along.first + along, load_.along));
  }
  Expr place(Expr row, Expr along) const {
    return simplify(load_.place + row * Expr(load_.rows.stride) + along * Expr(load_.along.stride), bounds_);
  }
  bool is_multiple(Expr e, int64_t width) const { return simplify(floor_mod(e, width), bounds_).is_int(0); }
  static LoopNode node(const Loop& loop, Assign assign) {
    LoopNode n;
    n.loops = {loop};
    n.assigns = {std::move(assign)};
    return n;
  }

  LoopNode elements() {
    Expr row, along;
    const Loop all = packs(1, row, along);
    Expr value = load_.value_at(load_.rows.first + row, load_.along.first + along);
    const Expr guard = inside(row, along);
    if (!guard.is_int(1)) value = select(guard, value, constant_of(value->dtype, 0));
    return node(all, {first_local + load_.local, place(row, along), value, {}});
  }

  std::optional<LoopNode> copies(int64_t width) {
    if (width > 1 && (load_.along.stride != 1 || load_.along.count % width != 0 || load_.rows.stride % width != 0))
      return std::nullopt;
    Expr row, along;
    const Loop all = packs(width, row, along);
    bounds_.set_axis(lane_, Expr(width));
    Expr value = load_.value_at(load_.rows.first + row, load_.along.first + along + axis(lane_)),
         guard = bool_constant(true);
    while (value->kind == ExprKind::call && value->fn == Fn::select && is_zero(value->args[2])) {
      guard = logical_and(guard, value->args[0]);
      value = value->args[1];
    }
    if (value->kind != ExprKind::load || value->id >= first_local || value->dtype != load_.dtype || value->args.size() != 1)
      return std::nullopt;
    const Expr from = value->args[0];
    if (kernel_.arguments[static_cast<size_t>(value->id)].var->dtype() != load_.dtype || from->has_load || guard->has_load)
      return std::nullopt;
    if (width > 1) {
      const Expr step = stride_of(from, lane_);
      const bool all_inside = below(along, load_.along).is_int(1) || floor_mod(load_.along.size, width).is_int(0);
      if (!step || !step.is_int(1) || uses_axis(guard, lane_) || !all_inside) return std::nullopt;
    }
    auto first = [&](Expr e) {
      return simplify(rewrite(e, [&](Expr n) { return n->kind == ExprKind::axis && n->id == lane_ ? Expr(0) : Expr(); }),
                      bounds_);
    };
    if (width > 1 && (!is_multiple(first(from), width) || !is_multiple(place(row, along), width))) return std::nullopt;
    guard = simplify(logical_and(inside(row, along), first(guard)), bounds_);
    if (guard.is_int(0)) return std::nullopt;  // there is no such tile
    Expr element = load(value->id, value->dtype, {first(from)});
    if (!guard.is_int(1)) element = select(guard, element, constant_of(element->dtype, 0));
    Assign copy{first_local + load_.local, place(row, along), element, {}};
    copy.copied = static_cast<int>(width);
    return node(all, copy);
  }

  Kernel& kernel_;
  Bounds& bounds_;
  const TileLoad& load_;
  int thread_, lane_ = -1;
};

}  // namespace

LoopNode load_tile(Kernel& kernel, Bounds& bounds, const TileLoad& load) { return TileLoader(kernel, bounds, load).run(); }

bool is_copied(const LoopNode& loaded) { return loaded.assigns.size() == 1 && loaded.assigns[0].copied > 0; }

}  // namespace metac
