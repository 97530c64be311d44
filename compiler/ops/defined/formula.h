// A formula: what one element of a result is, as a text in the language of meta_expression.h. Names of steps may stand in
// front of the value: "t = exp(x); x * t / (1 + t)". Whose names it uses is for who evaluates it: no dtypes are known here,
// so that one formula serves all of them.
#pragma once
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ops/meta/meta_typing.h"

namespace metac {

class Formula {
 public:
  // Throws MetaExpressionError where the text is no formula, gives a name twice or reads elements and shapes of tensors.
  explicit Formula(std::string text);

  // What it uses and does not define, in order of appearance.
  const std::vector<std::string>& free_names() const { return free_names_; }

  // The value. Throws MetaExpressionError where a name is not among these, or dtypes do not fit. A value that is a literal
  // becomes one of `literals`.
  Expr value(const std::map<std::string, MetaValue>& names, DType literals) const;

 private:
  [[noreturn]] void refuse(size_t column, const std::string& message) const;

  std::string text_;
  std::vector<std::pair<std::string, MetaExpression>> steps_;  // the last has no name
  std::vector<std::string> free_names_;
};

}  // namespace metac
