// Sums and products of counts that open dims decide. Empty: not known; so is what does not fit 64 bits.
#pragma once
#include "compiler/ir/expr.h"
#include "compiler/support/checked.h"

namespace metac {

template <typename F>
Expr count_of(Expr a, Expr b, std::optional<int64_t> (*numbers)(int64_t, int64_t), F expressions) {
  if (!a || !b) return {};
  if (a.if_int() && b.if_int()) {
    const std::optional<int64_t> value = numbers(a.as_int(), b.as_int());
    return value ? Expr(*value) : Expr();
  }
  try {
    return expressions(a, b);
  } catch (const CompileError&) {
    return {};
  }
}
inline Expr plus(Expr a, Expr b) {
  return count_of(a, b, checked_add, [](Expr x, Expr y) { return x + y; });
}
inline Expr times(Expr a, Expr b) {
  return count_of(a, b, checked_mul, [](Expr x, Expr y) { return x * y; });
}

}  // namespace metac
