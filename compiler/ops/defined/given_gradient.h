// Derivatives that the user gave with an operator's formula, kept with the element-wise op that it became: where the rules
// of compiler/autodiff would write one badly, this is taken. What is given is a formula that is linear in the adjoint `dy`
// of the result `y`, so that it serves reverse mode as it stands and forward mode with the operand's tangent for `dy`; being
// a formula, it has derivatives of every order itself.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/graph.h"
#include "compiler/ops/meta/meta_typing.h"

namespace metac {

struct GivenGradient {
  std::vector<std::string> parameters;  // the name of each operand in the formulas
  std::vector<std::string> formulas;    // by operand; "": by the rules
  std::vector<std::string> constants;   // names of numbers that the formulas use, and those numbers
  std::vector<double> numbers;

  // The k-th formula for these elements. Throws MetaExpressionError.
  Expr value(size_t k, const std::vector<Expr>& operands, Expr y, Expr dy) const;
  bool has(size_t k) const { return k < formulas.size() && !formulas[k].empty(); }
};

// A number that a model gives: real, so that half of 1 is 0.5; a whole one may meet integers too.
MetaValue literal_of(double number);

// For a graph whose floats have all become float64: the conversions of its formulas too.
GivenGradient with_wide_floats(GivenGradient given);

void set_given_gradient(Op& op, const GivenGradient& given);
std::optional<GivenGradient> given_gradient_of(const Op& op);

}  // namespace metac
