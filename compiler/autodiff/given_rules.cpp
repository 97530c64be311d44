#include "compiler/autodiff/given_rules.h"

#include "compiler/autodiff/scalar_rules.h"

namespace metac {
namespace {

std::vector<Expr> elements_of(const Op& op) {
  std::vector<Expr> elements;
  for (size_t k = 0; k < op.inputs.size(); ++k)
    elements.push_back(load(static_cast<int>(k), op.inputs[k]->dtype(), identity_indices(op.inputs[k]->rank())));
  return elements;
}

}  // namespace

std::vector<std::pair<Expr, Expr>> given_adjoints(const Op& op, const GivenGradient& given, Expr dy) {
  std::vector<std::pair<Expr, Expr>> out;
  const std::vector<Expr> elements = elements_of(op);
  for (auto& adjoint : adjoints_of_loads(op.bodies, {dy}))
    if (!given.has(static_cast<size_t>(adjoint.first->id))) out.push_back(std::move(adjoint));
  for (size_t k = 0; k < elements.size(); ++k)
    if (given.has(k) && is_float(elements[k]->dtype))
      out.emplace_back(elements[k], given.value(k, elements, op.bodies[0], dy));
  return out;
}

Expr given_tangent(const Op& op, const GivenGradient& given, const std::function<Expr(size_t)>& tangent_of_operand) {
  const std::vector<Expr> elements = elements_of(op);
  Expr total = tangent_of(op.bodies[0], [&](Expr place) -> Expr {
    const size_t k = static_cast<size_t>(place->id);
    return given.has(k) ? Expr() : tangent_of_operand(k);
  });
  for (size_t k = 0; k < elements.size(); ++k) {
    if (!given.has(k) || !is_float(elements[k]->dtype)) continue;
    const Expr tangent = tangent_of_operand(k);
    if (!tangent) continue;
    const DType dtype = op.bodies[0]->dtype;
    Expr term = given.value(k, elements, op.bodies[0], tangent->dtype == dtype ? tangent : cast(tangent, dtype));
    if (term->dtype != dtype) term = cast(term, dtype);
    total = total ? total + term : term;
  }
  return total;
}

}  // namespace metac
