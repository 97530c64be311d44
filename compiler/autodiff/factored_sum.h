// Sums of adjoints over the axes that a value was repeated along. What is constant along the sum leaves it:
//
//   y = (x - m) * a, m and a one value of each channel:  dm = sum(-(dy * a)) = -a * sum(dy)   the sum is the shift's
//   derivative too v = mean((x - m)^2), m the mean of the same x:       dm = sum(-2 dv/n * (x - m)) = 0      with all its
//   derivatives
//
// So the gradient of a normalisation takes two sums over its data, not one for each of its values. Internal to
// compiler/autodiff.
#pragma once
#include <optional>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

struct FactoredSum {
  std::vector<Var*> operands;  // that factor and rest load
  Expr factor;                 // of the shape that was repeated
  Expr rest;                   // of the repeated shape: sum(adjoint) = factor * sum(rest)
  bool zero = false;           // the sum is 0 whatever the values are
};

// The sum of `adjoint`, of the result of `repeat` (a Reindex), into the shape of its operand. Nothing where it would stay as
// it is.
std::optional<FactoredSum> factor_sum(const Var& adjoint, const Op& repeat);

}  // namespace metac
