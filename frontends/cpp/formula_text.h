// An expression over the parameters of a function as the text of a formula (compiler/ops/defined/formula.h).
#pragma once
#include <string>
#include <vector>

#include "compiler/ir/expr.h"

namespace metac {

// load(k, ...) is called names[k]; what is in `numbers` has no dtype of its own there. What is used twice becomes a step.
std::string formula_text(Expr value, const std::vector<std::string>& names, const std::vector<bool>& numbers);

}  // namespace metac
