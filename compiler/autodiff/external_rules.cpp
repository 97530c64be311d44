#include "compiler/autodiff/external_rules.h"

#include <map>

#include "compiler/ir/builders.h"

namespace metac {
namespace {

// (values, indices) = routine(x, ...): values[..., i, ...] = x[..., indices[..., i, ...], ...] along the attribute "axis";
// whole slices of x where indices have one axis: values[..., i, ...] = x[..., indices[i], ...].
std::vector<Expr> picked_indices(const Op& op, int index_operand) {
  const Var *x = op.inputs[0], *at = op.outputs[1];
  int64_t place = -1;
  if (auto found = op.attributes.find("axis"); found != op.attributes.end()) place = std::get<int64_t>(found->second);
  const int along = check_axis(place, x->rank());
  std::vector<Expr> indices = identity_indices(x->rank());
  const std::vector<Expr> place_of_index =
      at->rank() == x->rank() ? identity_indices(x->rank()) : std::vector<Expr>{axis(along)};
  indices[along] = cast(load(index_operand, at->dtype(), place_of_index), DType::i64);
  return indices;
}

ExternalGradient selection() {
  return {[](Graph& g, const Op& op, const std::vector<Var*>& adjoints) {
            std::vector<Var*> out(op.inputs.size(), nullptr);
            if (adjoints[0])
              out[0] =
                  g.reindex_reduce({adjoints[0], op.outputs[1]}, op.inputs[0]->shape(), picked_indices(op, 1), Reduce::add);
            return out;
          },
          [](Graph& g, const Op& op, const std::vector<Var*>& tangents) {
            std::vector<Var*> out(op.outputs.size(), nullptr);
            if (tangents[0]) out[0] = g.reindex({tangents[0], op.outputs[1]}, op.outputs[0]->shape(), picked_indices(op, 1));
            return out;
          }};
}

}  // namespace

const ExternalGradient* find_external_gradient(const std::string& routine) {
  static const std::map<std::string, ExternalGradient> table = {
      {"top_k", selection()}, {"sort", selection()}, {"unique", selection()}};
  auto found = table.find(routine);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace metac
