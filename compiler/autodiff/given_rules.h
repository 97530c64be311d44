// Derivatives of element-wise ops whose user gave them (compiler/ops/defined/given_gradient.h), for both modes.
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "compiler/ops/defined/given_gradient.h"

namespace metac {

// As adjoints_of_loads() of scalar_rules.h: for every float operand, which the op reads at its own place, the adjoint for
// that of the result, `dy`. Where none is given it is that of the rules. The result stands in it as the op's body.
std::vector<std::pair<Expr, Expr>> given_adjoints(const Op& op, const GivenGradient& given, Expr dy);

// The tangent of the result given those of the operands (empty: zero). Empty if it is zero.
Expr given_tangent(const Op& op, const GivenGradient& given, const std::function<Expr(size_t operand)>& tangent_of_operand);

}  // namespace metac
