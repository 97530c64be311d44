#include "compiler/passes/transform_weights.h"

#include "compiler/kernel/cook_toom.h"

namespace metac {

PackedOperand transform_weights(Graph& graph, const Definition& d, Expr packed_load, const WinogradPlan& plan) {
  int size = plan.outputs + 2;
  Var* packed = graph.vars()[static_cast<size_t>(packed_load->id)].get();
  Var* table = graph.make_var(Type{TypeKind::tensor, DType::f32, {size, 3}});
  std::vector<float> values;
  for (const std::vector<double>& row : cook_toom(plan.outputs, 3).g)
    for (double v : row) values.push_back(static_cast<float>(v));
  table->constant = make_tensor(DType::f32, {size, 3}, values);
  // The packed weights' axes after the outer ones: lane block, the reduced axes in order, lane.
  size_t rank = packed->shape().size(), outer = rank - 5;
  Definition u;
  std::vector<Expr> from(rank), at(packed_load->args.begin(), packed_load->args.begin() + static_cast<int64_t>(outer) + 1);
  Shape shape;
  auto kept = [&](Expr extent) {
    u.domain.push_back(extent);
    return axis(static_cast<int>(u.domain.size()) - 1);
  };
  for (size_t k = 0; k <= outer; ++k) {
    from[k] = kept(packed->shape()[k]);
    u.out_index.push_back(from[k]);
    shape.push_back(packed->shape()[k]);
  }
  Expr i = kept(size), j = kept(size);
  u.out_index.push_back(i * Expr(size) + j);
  shape.push_back(int64_t{size} * size);
  at.push_back(0);
  int channel = -1;
  for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k)
    if (k != plan.window_y && k != plan.window_x) channel = k;
  Expr c = kept(d.domain[static_cast<size_t>(channel)]), lane = kept(packed->shape().back());
  u.out_index.push_back(c);
  u.out_index.push_back(lane);
  shape.push_back(d.domain[static_cast<size_t>(channel)]);
  shape.push_back(packed->shape().back());
  at.push_back(axis(channel));
  at.push_back(packed_load->args.back());
  Expr ky = kept(3), kx = kept(3);
  for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k)
    from[outer + 1 + static_cast<size_t>(k - d.kept())] = k == channel ? c : k == plan.window_y ? ky : kx;
  from[rank - 1] = lane;
  u.reduced = 2;
  u.reduce = Reduce::add;
  u.body = load(table->id, DType::f32, {i, ky}) * load(table->id, DType::f32, {j, kx}) * load(packed->id, DType::f32, from);
  u.epilogue = load(reduced_value, DType::f32, {});
  u.out = graph.make_var(Type{TypeKind::tensor, DType::f32, shape});
  u.nodes = d.nodes;
  simplify(u, graph.symbols);
  return {u, load(u.out->id, DType::f32, at)};
}

}  // namespace metac
