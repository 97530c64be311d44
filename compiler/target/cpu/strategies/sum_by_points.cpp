#include "compiler/target/cpu/strategies/sum_by_points.h"

#include "compiler/loops/loop_transforms.h"

namespace metac {
namespace {

constexpr int64_t together = 8;  // points that a sum waits in a register for

class PointSumLowering {
 public:
  PointSumLowering(Kernel& kernel, const PointSums& sum) : kernel_(kernel), sum_(sum) {}

  LoopNode run() {
    LoopNode node;
    LoopNode clear;
    clear.loops = {sum_.channels};
    clear.assigns = {{local(), axis(sum_.channels.axis), identity_of(Reduce::add, sum_.accumulator), {}}};
    node.children.push_back(with_own_channels(std::move(clear)));
    const Loop& inner = sum_.points.back();
    const int64_t extent = inner.extent.as_int(), steps = extent % 7 == 0 && extent % together != 0 ? 7 : together;
    if (extent >= steps) {
      const Loop groups{kernel_.next_axis++, Expr(extent / steps), LoopKind::serial, {}};
      node.children.push_back(add(groups, steps, axis(groups.axis) * Expr(steps)));
    }
    if (extent % steps) node.children.push_back(add({}, extent % steps, Expr(extent - extent % steps)));
    LoopNode store;
    store.loops = {sum_.channels};
    const Expr result = rewrite(sum_.epilogue, [&](Expr n) {
      return n->kind == ExprKind::load && n->id == local() ? load(n->id, n->dtype, {axis(sum_.channels.axis)}) : Expr();
    });
    store.assigns = {{sum_.target, sum_.offset, result, {}}};
    node.children.push_back(with_own_channels(std::move(store)));
    return node;
  }

 private:
  int local() const { return first_local + sum_.sums; }

  // The points from `first` on, `steps` of them, in each iteration of the loops outside of the innermost and of `groups`.
  LoopNode add(std::optional<Loop> groups, int64_t steps, Expr first) {
    const Loop step{kernel_.next_axis++, Expr(steps), LoopKind::unrolled, {}};
    const int t = kernel_.next_local++;
    const Expr sum = load(local(), sum_.accumulator, {axis(sum_.channels.axis)});
    LoopNode node;
    node.loops.assign(sum_.points.begin(), sum_.points.end() - 1);
    if (groups) node.loops.push_back(*groups);
    node.loops.push_back(sum_.channels);
    node.locals = {{t, sum_.accumulator, {}}};
    node.assigns = {{first_local + t, {}, sum, {}}};
    LoopNode points;
    points.loops = {step};
    points.assigns = {{first_local + t, {}, sum_.body, Reduce::add}};
    substitute_axis(points, sum_.points.back().axis, first + axis(step.axis));
    LoopNode keep;
    keep.assigns = {{local(), axis(sum_.channels.axis), load(first_local + t, sum_.accumulator, {}), {}}};
    node.children = {std::move(points), std::move(keep)};
    return with_own_channels(std::move(node));
  }

  // Each nest's own: a rest goes on where its vectors end.
  LoopNode with_own_channels(LoopNode node) {
    const int own = kernel_.next_axis++;
    for (Loop& l : node.loops)
      if (l.axis == sum_.channels.axis) l.axis = own, l.kind = LoopKind::vector;
    substitute_axis(node, sum_.channels.axis, axis(own));
    return node;
  }

  Kernel& kernel_;
  const PointSums& sum_;
};

}  // namespace

LoopNode sum_by_points(Kernel& kernel, const PointSums& sum) { return PointSumLowering(kernel, sum).run(); }

}  // namespace metac
