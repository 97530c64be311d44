// How the values of a scalar expression get their dtypes, whatever its names stand for: a literal takes the dtype of what it
// meets, two operands of different dtypes do not mix, functions say what they take. docs/json_ir.md documents the rules.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ops/meta/meta_expression.h"

namespace metac {

struct MetaValue {
  Expr e;
  bool literal = false;  // has no dtype of its own yet
};

class MetaTyping {
 public:
  // `is_body`: an element-wise body; else index arithmetic, which is int64 throughout and rounds down.
  MetaTyping(std::string_view source, bool is_body) : source_(source), is_body_(is_body) {}

  bool is_body() const { return is_body_; }
  [[noreturn]] void refuse(const MetaExpression& at, const std::string& message) const;
  // The literal as that dtype; what is none stays as it is.
  Expr adapt(const MetaValue& value, DType dtype, const MetaExpression& at) const;
  // fn(values...), all of one dtype that fn takes. `at` is where it stands: its text names fn in messages.
  MetaValue apply(Fn fn, std::vector<MetaValue> values, const MetaExpression& at) const;

 private:
  bool unify(MetaValue& a, MetaValue& b, const MetaExpression& at) const;  // one dtype; true if both are literals still
  void check_magnitude(Fn fn, Expr a, Expr b, const MetaExpression& at) const;

  std::string_view source_;
  bool is_body_;
};

// The value of an expression. `leaf` says what its names are: it gets every term of the kinds name, shape and dim, and calls
// of what is no function of the language (elements of operands).
using BindLeaf = std::function<MetaValue(const MetaExpression&)>;
MetaValue bind_expression(const MetaExpression& e, const MetaTyping& typing, const BindLeaf& leaf);

}  // namespace metac
