// Constants and index expressions as C++ text.
#pragma once
#include <functional>
#include <string>

#include "compiler/ir/bounds.h"

namespace metac {

// A constant with its exact value and type: 0.1f, int8_t(-3), true, __builtin_inff().
std::string constant_text(Expr e);
// An int64 expression over loops (i3) and symbols (n2); floor_div and floor_mod become / and % where the ranges allow.
// `named`: nodes that have names already.
using NodeNames = std::function<const std::string*(Expr)>;
std::string index_expression_text(Expr e, const Bounds& bounds, const NodeNames& named = {});
// "(a < b)" for an if of its own: "a < b". Compilers warn of the second pair of parentheses around an ==.
std::string without_parentheses(const std::string& condition);

}  // namespace metac
