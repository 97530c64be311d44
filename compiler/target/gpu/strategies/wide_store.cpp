#include "compiler/target/gpu/strategies/wide_store.h"

#include "compiler/ir/walks.h"
#include "compiler/machine/gpu_machine.h"
#include "compiler/tensor/axes.h"

namespace metac {
namespace {

class Widening {
 public:
  Widening(const Loop& loop, const std::vector<KernelArgument>& arguments, const Bounds& bounds)
      : axis_(loop.axis), count_(loop.extent.as_int()), arguments_(arguments), bounds_(bounds) {}

  // The place of the first of `count` neighbours plus the loop's index; the place alone where all read one element; empty:
  // neither, or not aligned.
  Expr place(Expr offset, DType dtype) const {
    if (offset->has_load) return {};
    const Expr first = at(offset, 0), step = simplify(at(offset, 1) - first, bounds_);
    for (int64_t k = 2; k < count_; ++k)
      if (simplify(at(offset, k) - first, bounds_) != simplify(step * Expr(k), bounds_)) return {};
    if (step.is_int(0)) return first;
    const bool wide = step.is_int(1) && count_ * static_cast<int64_t>(size_of(dtype)) <= gpu_machine.access_bytes &&
                      simplify(floor_mod(first, Expr(count_)), bounds_).is_int(0);
    return wide ? first + axis(axis_) : Expr();
  }

  Expr at(Expr e, int64_t k) const {
    return simplify(rewrite(e, [&](Expr n) { return n->kind == ExprKind::axis && n->id == axis_ ? Expr(k) : Expr(); }),
                    bounds_);
  }

  // Are all neighbours inside where the first one is?
  bool is_of_all(Expr guard) const {
    std::vector<Expr> parts;
    conjuncts(guard, parts);
    for (Expr part : parts) {
      if (!uses_axis(part, axis_)) continue;
      // first + k < size, both multiples of the number of neighbours
      if (part->kind != ExprKind::call || part->fn != Fn::lt || uses_axis(part->args[1], axis_)) return false;
      if (simplify(part->args[0] - at(part->args[0], 0), bounds_) != axis(axis_)) return false;
      for (Expr e : {at(part->args[0], 0), part->args[1]})
        if (!simplify(floor_mod(e, Expr(count_)), bounds_).is_int(0)) return false;
    }
    return true;
  }

  bool store(Assign& a) const {
    const Expr offset = place(a.offset, arguments_[static_cast<size_t>(a.target)].var->dtype());
    if (!offset || !uses_axis(offset, axis_)) return false;
    bool good = true;
    const Expr value = rewrite(a.value, [&](Expr n) -> Expr {
      if (n->kind == ExprKind::call && n->fn == Fn::select && (n->args[1]->has_load || n->args[2]->has_load))
        good = good && !reads_argument(n->args[1]) && !reads_argument(n->args[2]);
      if (n->kind != ExprKind::load || n->id >= first_local) return {};
      const Expr at = n->args.size() == 1 && n->dtype == arguments_[static_cast<size_t>(n->id)].var->dtype()
                          ? place(n->args[0], n->dtype)
                          : Expr();
      good = good && bool(at);
      return at ? load(n->id, n->dtype, {at}) : n;
    });
    if (!good) return false;
    a.offset = offset;
    a.value = value;
    return true;
  }

 private:
  static bool reads_argument(Expr e) {
    return any_of(e, [](Expr n) { return n->kind == ExprKind::load && n->id < first_local; });
  }

  const int axis_;
  const int64_t count_;
  const std::vector<KernelArgument>& arguments_;
  const Bounds& bounds_;
};

}  // namespace

bool store_wide(LoopNode& node, const std::vector<KernelArgument>& arguments, const Bounds& bounds) {
  if (node.loops.empty() || node.children.size() != 1 || !node.assigns.empty()) return false;
  LoopNode& inside = node.children[0];
  const Loop loop = node.loops.back();
  if (!loop.extent.if_int() || loop.extent.as_int() < 2 || !inside.loops.empty() || inside.assigns.size() != 1 ||
      inside.assigns[0].target >= first_local || inside.assigns[0].update)
    return false;
  const Widening widening(loop, arguments, bounds);
  if (bool(inside.guard) && !widening.is_of_all(inside.guard)) return false;
  if (!widening.store(inside.assigns[0])) return false;
  if (inside.guard) inside.guard = widening.at(inside.guard, 0);
  node.loops.pop_back();
  inside.loops.push_back({loop.axis, loop.extent, LoopKind::vector, {}});
  return true;
}

Expr tensor_column(int64_t neighbours, Expr lane, Expr part, Expr neighbour) {
  const TensorFragment& f = gpu_machine.fragment;
  const Expr thread = floor_mod(lane, f.threads_of_row);
  if (neighbours == f.neighbours) return part * Expr(f.columns) + thread * Expr(f.neighbours) + neighbour;
  return part * Expr(2 * f.columns) + floor_mod(lane, 2) * Expr(f.columns) + floor_div(thread, 2) * Expr(neighbours) +
         neighbour;
}

}  // namespace metac
