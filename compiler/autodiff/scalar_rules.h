// The derivative of every scalar function, and the derivatives of whole expressions with respect to their loads.
//
// Conventions where a function has a kink or a jump:
//   abs at 0                    0
//   max, min of equal values    half to each; with a constant on one side (Relu, Clip) all to the constant: 0
//   sign, floor, ceil, trunc, rint, floor_div, comparisons     0 everywhere
//   floor_mod, trunc_mod        d/da = 1, d/db = -(the integer quotient)
//   pow at base 0               d/d(exponent) = 0; d/d(base) = 0 where the exponent is 0
//   select                      only the branch taken contributes: no NaN of the other one leaks through 0 * NaN
#pragma once
#include <functional>
#include <utility>
#include <vector>

#include "compiler/ir/expr.h"

namespace metac {

// adjoint * d fn(args) / d args[k], as an expression; empty where the derivative is zero everywhere. `value` is
// fn(args) itself. Being linear in `adjoint`, it carries tangents forward as well as adjoints backward.
Expr scale_by_derivative(Fn fn, const std::vector<Expr>& args, int k, Expr value, Expr adjoint);

// For every float load in the bodies: sum over the bodies of adjoints[b] * d bodies[b] / d load, as an expression of
// the load's dtype. Bodies whose adjoint is empty do not count; loads with a zero derivative are left out.
// The order is that of the loads' creation.
std::vector<std::pair<Expr, Expr>> adjoints_of_loads(const std::vector<Expr>& bodies, const std::vector<Expr>& adjoints);

// The tangent of `body` given the tangent of each load (empty: zero). Empty if it is zero.
Expr tangent_of(Expr body, const std::function<Expr(Expr load)>& tangent_of_load);

}  // namespace metac
