// Scalar formulas of interpolation, as Exprs over floats.
#pragma once
#include "compiler/ir/expr.h"

namespace metac {

inline Expr real_like(Expr e, double value) { return float_constant(value, e->dtype); }
inline Expr floor_of(Expr e) { return call(Fn::floor, {e}); }

// The tent max(0, 1 - |x|).
inline Expr linear_weight(Expr x) { return max(real_like(x, 1) - call(Fn::abs, {x}), real_like(x, 0)); }

// Cubic convolution (Keys 1981) with free parameter a; 0 from |x| = 2 on.
inline Expr cubic_weight(Expr x, double a) {
  Expr t = call(Fn::abs, {x});
  auto c = [&](double value) { return real_like(x, value); };
  Expr near = ((c(a + 2) * t - c(a + 3)) * t) * t + c(1);
  Expr far = ((c(a) * t - c(5 * a)) * t + c(8 * a)) * t - c(4 * a);
  return select(t <= c(1), near, select(t < c(2), far, c(0)));
}

}  // namespace metac
