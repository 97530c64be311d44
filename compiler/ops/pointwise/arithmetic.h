// How operators compute: half-precision operands are widened to float32 and rounded once at the end; and the checks of
// operand dtypes that many families share.
#pragma once
#include <initializer_list>
#include <optional>

#include "compiler/ops/registry.h"
#include "compiler/support/diagnostic.h"

namespace metac {

// float16 and bfloat16 compute in float32, everything else in its own dtype.
DType arithmetic_dtype(DType dtype);
// The same values in arithmetic_dtype.
Var* widen(Graph& g, Var* x);
// body over the widened operands, broadcast to one shape; a float result is rounded to the dtype of operands[0].
Var* compute(Graph& g, const std::vector<Var*>& operands, const std::function<Expr(const std::vector<Expr>&)>& body);
// A constant of the dtype that `e` has.
inline Expr constant_like(Expr e, double value) { return constant_of(e->dtype, value); }
// sqrt of a sum of squares, written so that its derivative at 0 is 0 (a norm has none there) instead of infinity times 0.
inline Expr root_of_squares(Expr sum) {
  return select(equal(sum, constant_like(sum, 0)), constant_like(sum, 0), call(Fn::sqrt, {sum}));
}

// The value of a one-element Var that the compiler knows; empty: not known.
std::optional<double> known_scalar(const Var* x);

// Each throws naming the operands and what was found.
void require_same_dtype(const Var* a, const Var* b, std::string_view a_name = "A", std::string_view b_name = "B");
// Of one of several operands that may be absent (null).
void require_same_dtypes(const Var* a, std::initializer_list<const Var*> others, std::string_view what);
void require_dtype(const Var* x, DType dtype, std::string_view what);
void require_float(const Var* x, std::string_view what = "the input");
void require_numeric(const Var* x, std::string_view what = "the input");
void require_integer(const Var* x, std::string_view what = "the input");
void require_bool(const Var* x, std::string_view what = "the input");
void require_rank(const Var* x, int rank, std::string_view what);
void require_rank_at_least(const Var* x, int rank, std::string_view what);
// Equal dims, at once where both are known, else when the symbols are bound; the message shows both.
void require_equal(Graph& g, Expr a, Expr b, std::string_view what);

}  // namespace metac
