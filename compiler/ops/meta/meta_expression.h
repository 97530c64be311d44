// The scalar expression language of the JSON IR's meta-operators: "i2-i5", "x.shape[0]/2", "a*b + 1", "@1(i0) < n ? i1 : 0".
// This file knows the syntax; meta_binding.h gives the names a meaning and makes Exprs. docs/json_ir.md documents both.
//
//   expression := or ('?' expression ':' expression)?
//   or := and ('||' and)*          and := comparison ('&&' comparison)*
//   comparison := sum (('<' | '<=' | '>' | '>=' | '==' | '!=') sum)?          comparisons do not chain
//   sum := product (('+' | '-') product)*
//   product := unary (('*' | '/' | '//' | '%') unary)*
//   unary := ('-' | '+' | '!')* primary
//   primary := number | '(' expression ')' | name '(' list ')' | operand '(' list ')' | operand '.shape' ('[' integer ']')?
//   | name operand := name | '@' integer
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/expr.h"
#include "compiler/support/diagnostic.h"

namespace metac {

struct MetaExpression {
  enum class Kind { integer, real, name, shape, dim, call, unary, binary, conditional };
  Kind kind = Kind::integer;
  std::string text;     // name; operator; callee; of shape and dim: the operand ("x", "@1")
  int64_t integer = 0;  // integer; dim: the axis, possibly negative
  double real = 0;
  size_t column = 0;  // 0-based offset in the source text
  std::vector<MetaExpression> arguments;
};

// "N,C,H,W = x.shape" or "K = 2*N".
struct MetaDefinition {
  std::vector<std::string> names;
  MetaExpression value;
};

// A mistake at a place in the expression; the message quotes the expression and states the column from 1.
class MetaExpressionError : public CompileError {
 public:
  MetaExpressionError(std::string_view source, size_t column, const std::string& message);
  size_t column;  // 0-based
};

MetaExpression parse_meta_expression(std::string_view source);
MetaDefinition parse_meta_definition(std::string_view source);

// Every name and every operand reference ("x", "@1") in the expression, in order of appearance; callees of functions not.
void visit_names(const MetaExpression& expression, const std::function<void(const std::string&)>& f);

std::optional<Fn> scalar_function(std::string_view name);  // "exp" -> Fn::exp
bool is_identifier(std::string_view text);
// The number of an axis name "i0".."i63", or -1.
int axis_of_name(std::string_view name);

}  // namespace metac
