#include "compiler/loops/lane_reduction.h"

#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/cpu_costs.h"

namespace metac {

std::optional<LoopNode> lane_reduction(Kernel& kernel, const LaneReduction& r, const Bounds& bounds) {
  constexpr int chains = static_cast<int>(cpu_costs.chains), most_registers = 16;
  const int64_t* rows = r.lane.extent.if_int();
  if (!rows || *rows % r.lanes != 0 || r.reduced.empty() || size_of(r.accumulator) != 4) return std::nullopt;
  const int vectors = static_cast<int>(*rows / r.lanes);
  if (vectors * chains > most_registers) return std::nullopt;
  Expr finished = rewrite(r.epilogue, [&](Expr n) {  // the sum is no scalar here
    return n->kind == ExprKind::load && n->id == first_local + r.local
               ? load(first_local + r.local, n->dtype, {axis(r.lane.axis)})
               : Expr();
  });
  if (!can_vectorise(r.lane, {r.body}, {}) || !can_vectorise(r.lane, {finished}, r.offset)) return std::nullopt;

  const int sums = kernel.next_local++;
  const Loop& last = r.reduced.back();
  Loop lane{kernel.next_axis++, Expr(r.lanes), LoopKind::vector, {}},
      vector{kernel.next_axis++, Expr(vectors), LoopKind::unrolled, {}};
  Loop chain{kernel.next_axis++, Expr(chains), LoopKind::unrolled, {}};
  Expr row = axis(vector.axis) * Expr(r.lanes) + axis(lane.axis);
  auto place = [&](Expr e, Expr step) {
    Bounds b = bounds;
    for (const Loop& l : {lane, vector, chain}) b.set_axis(l.axis, l.extent);
    return simplify(rewrite(e,
                            [&](Expr n) -> Expr {
                              if (n->kind != ExprKind::axis) return {};
                              return n->id == r.lane.axis ? row : n->id == last.axis && bool(step) ? step : Expr();
                            }),
                    b);
  };
  auto sum_at = [&](Expr which) { return (axis(vector.axis) * Expr(chains) + which) * Expr(r.lanes) + axis(lane.axis); };
  auto sum = [&](Expr which) { return load(first_local + sums, r.accumulator, {sum_at(which)}); };
  auto node = [&](std::vector<Loop> loops, Assign assign) {
    LoopNode one;
    one.loops = std::move(loops);
    one.assigns = {std::move(assign)};
    return one;
  };
  auto inside = [](std::vector<Loop> loops, LoopNode child) {
    LoopNode one;
    one.loops = std::move(loops);
    one.children.push_back(std::move(child));
    return one;
  };

  LoopNode all;
  all.loops = r.kept;
  all.locals.push_back({sums, r.accumulator, Expr(static_cast<int64_t>(vectors) * chains * r.lanes), r.lanes});
  all.children.push_back(
      node({lane, vector, chain}, {first_local + sums, sum_at(axis(chain.axis)), identity_of(r.reduce, r.accumulator), {}}));
  Loop steps{kernel.next_axis++, floor_div(last.extent, chains), LoopKind::serial, {}},
      left{kernel.next_axis++, floor_mod(last.extent, chains), LoopKind::serial, {}};
  LoopNode over;
  over.loops.assign(r.reduced.begin(), r.reduced.end() - 1);
  Expr in_chain = axis(steps.axis) * Expr(chains) + axis(chain.axis),
       behind = floor_div(last.extent, chains) * Expr(chains) + axis(left.axis);
  over.children.push_back(inside({steps}, node({lane, vector, chain}, {first_local + sums, sum_at(axis(chain.axis)),
                                                                       place(r.body, in_chain), r.reduce})));
  if (!left.extent.is_int(0))
    over.children.push_back(
        inside({left}, node({lane, vector}, {first_local + sums, sum_at(0), place(r.body, behind), r.reduce})));
  all.children.push_back(std::move(over));
  for (int half = chains / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k)
      all.children.push_back(node({lane, vector}, {first_local + sums, sum_at(k), sum(k + half), r.reduce}));
  Expr value = rewrite(
      r.epilogue, [&](Expr n) { return n->kind == ExprKind::load && n->id == first_local + r.local ? sum(0) : Expr(); });
  all.children.push_back(node({lane, vector}, {r.target, place(r.offset, {}), place(value, {}), {}}));
  return all;
}

}  // namespace metac
