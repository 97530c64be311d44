#include "compiler/target/cpu/layouts/transform_weights.h"

#include "compiler/target/cpu/strategies/cook_toom.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"

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
  size_t rank = packed->shape().size(), outer = rank - 2 - static_cast<size_t>(d.reduced);
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
  auto source = [&](int k) -> Expr& { return from[outer + 1 + static_cast<size_t>(k - d.kept())]; };
  std::vector<int> summed = plan.taps;
  summed.push_back(plan.channel);
  for (int k : summed) {
    source(k) = kept(d.domain[static_cast<size_t>(k)]);
    u.out_index.push_back(source(k));
    shape.push_back(d.domain[static_cast<size_t>(k)]);
    at.push_back(axis(k));
  }
  from[rank - 1] = kept(packed->shape().back());
  u.out_index.push_back(from[rank - 1]);
  shape.push_back(packed->shape().back());
  at.push_back(packed_load->args.back());
  Expr ky = source(plan.window_y) = kept(3), kx = source(plan.window_x) = kept(3);
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
