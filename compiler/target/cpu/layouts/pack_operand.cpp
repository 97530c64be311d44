#include "compiler/target/cpu/layouts/pack_operand.h"

#include <algorithm>

#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/support/checked.h"
#include "compiler/tensor/axes.h"

namespace metac {

bool steps_collide(const Definition& d, Expr address, const Operand& other, int64_t element_bytes) {
  if (!is_static(d.domain)) return false;
  int64_t uses = 1;
  for (int k = 0; k < d.kept(); ++k)
    if (uses_axis(other.load, k) && !uses_axis(address, k))
      uses = saturating_mul(uses, d.domain[static_cast<size_t>(k)].as_int());
  int64_t steps = 1;
  for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) {
    if (d.domain[static_cast<size_t>(k)].is_int(1)) continue;
    const Expr step = stride_of(address, k);
    if (!step || !step.if_int() || saturating_mul(step.as_int(), element_bytes) % cpu_costs.colliding_bytes != 0)
      return false;
    steps = saturating_mul(steps, d.domain[static_cast<size_t>(k)].as_int());
  }
  return steps >= cpu_costs.colliding_steps && uses >= cpu_costs.colliding_uses;
}

PackedOperand pack_value(Graph& graph, const Definition& d, Expr value, int lanes_axis, int64_t block) {
  const std::vector<int> used = axes_used(value, 0, static_cast<int>(d.domain.size()));
  const Expr lanes_extent = d.domain[static_cast<size_t>(lanes_axis)];
  Shape shape;
  std::vector<Expr> at, from(d.domain.size());
  auto add_axis = [&](int k) {
    from[static_cast<size_t>(k)] = axis(static_cast<int>(shape.size()));
    shape.push_back(d.domain[static_cast<size_t>(k)]);
    at.push_back(axis(k));
  };
  for (int k : used)
    if (k < d.kept() && k != lanes_axis) add_axis(k);
  const int lane_block = static_cast<int>(shape.size());
  shape.push_back(ceil_div(lanes_extent, block));
  at.push_back(floor_div(axis(lanes_axis), block));
  for (int k : used)
    if (k >= d.kept()) add_axis(k);
  const int lane = static_cast<int>(shape.size());
  shape.push_back(block);
  at.push_back(floor_mod(axis(lanes_axis), block));
  const Expr lane_index = axis(lane_block) * Expr(block) + axis(lane);
  from[static_cast<size_t>(lanes_axis)] = lane_index;
  for (size_t k = 0; k < from.size(); ++k)
    if (!from[k]) from[k] = axis(static_cast<int>(k) + 1000);  // not in the value
  Var* packed = graph.make_var(Type{TypeKind::tensor, value->dtype, shape});
  Definition p;
  p.out = packed;
  p.domain = shape;
  p.body = substitute_axes(value, from);
  if (!floor_mod(lanes_extent, block).is_int(0))
    p.body = select(lane_index < lanes_extent, p.body, constant_of(value->dtype, 0));
  p.out_index = identity_indices(static_cast<int>(shape.size()));
  p.nodes = d.nodes;
  simplify(p, graph.symbols);
  return {p, load(packed->id, value->dtype, at)};
}

std::optional<PackedOperand> pack_operand(Graph& graph, const Definition& d, const Operand& operand, int lanes_axis,
                                          int64_t block, bool constant) {
  const std::vector<int> used = axes_used(operand.load, 0, static_cast<int>(d.domain.size()));
  if (constant && std::any_of(used.begin(), used.end(), [&](int k) { return !d.domain[static_cast<size_t>(k)].if_int(); }))
    return std::nullopt;
  Expr value = operand.load;
  if (!operand.conditions.empty()) value = select(all_of(operand.conditions), value, constant_of(value->dtype, 0));
  return pack_value(graph, d, value, lanes_axis, block);
}

}  // namespace metac
