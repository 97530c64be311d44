#include "compiler/target/cpu/layouts/pack_operand.h"

#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/support/checked.h"
#include "compiler/tensor/axes.h"

namespace metac {

Expr all_of(const std::vector<Expr>& conditions) {
  Expr all = bool_constant(true);
  for (Expr c : conditions) all = logical_and(all, c);
  return all;
}

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

std::optional<PackedOperand> pack_operand(Graph& graph, const Definition& d, const Operand& operand, int lanes_axis,
                                          int64_t block, bool constant) {
  std::vector<int> others;
  for (int k : axes_used(operand.load, 0, d.kept()))
    if (k != lanes_axis) others.push_back(k);
  Expr lanes_extent = d.domain[static_cast<size_t>(lanes_axis)];
  Shape shape;
  std::vector<Expr> at, from(d.domain.size());
  for (int k : others) {
    from[static_cast<size_t>(k)] = axis(static_cast<int>(shape.size()));
    shape.push_back(d.domain[static_cast<size_t>(k)]);
    at.push_back(axis(k));
  }
  int lane_block = static_cast<int>(shape.size());
  shape.push_back(ceil_div(lanes_extent, block));
  at.push_back(floor_div(axis(lanes_axis), block));
  for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) {
    if (!uses_axis(operand.load, k)) continue;
    from[static_cast<size_t>(k)] = axis(static_cast<int>(shape.size()));
    shape.push_back(d.domain[static_cast<size_t>(k)]);
    at.push_back(axis(k));
  }
  int lane = static_cast<int>(shape.size());
  shape.push_back(block);
  at.push_back(floor_mod(axis(lanes_axis), block));
  if (constant && !is_static(shape)) return std::nullopt;
  Expr lane_index = axis(lane_block) * Expr(block) + axis(lane);
  from[static_cast<size_t>(lanes_axis)] = lane_index;
  for (size_t k = 0; k < from.size(); ++k)
    if (!from[k]) from[k] = axis(static_cast<int>(k) + 1000);  // not in b
  Var* packed = graph.make_var(Type{TypeKind::tensor, d.accumulator, shape});
  Definition p;
  p.out = packed;
  p.domain = shape;
  p.body = substitute_axes(operand.load, from);
  if (!operand.conditions.empty())
    p.body = select(substitute_axes(all_of(operand.conditions), from), p.body, constant_of(d.accumulator, 0));
  if (!floor_mod(lanes_extent, block).is_int(0))
    p.body = select(lane_index < lanes_extent, p.body, constant_of(d.accumulator, 0));
  p.out_index = identity_indices(static_cast<int>(shape.size()));
  p.nodes = d.nodes;
  simplify(p, graph.symbols);
  return PackedOperand{p, load(packed->id, d.accumulator, at)};
}

}  // namespace metac
