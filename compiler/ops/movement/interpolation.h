// Scalar formulas of interpolation, as Exprs over floats.
#pragma once
#include "compiler/ir/expr.h"

namespace metac {

inline Expr real_like(Expr e, double value) { return float_constant(value, e->dtype); }
inline Expr floor_of(Expr e) { return call(Fn::floor, {e}); }

// The tent max(0, 1 - |x|).
inline Expr linear_weight(Expr x) { return max(real_like(x, 1) - call(Fn::abs, {x}), real_like(x, 0)); }

// Cubic convolution (Keys 1981) with free parameter a, at distance t >= 0: its piece up to 1 and its piece up to 2.
inline Expr cubic_near(Expr t, double a) {
  return ((real_like(t, a + 2) * t - real_like(t, a + 3)) * t) * t + real_like(t, 1);
}
inline Expr cubic_far(Expr t, double a) {
  return ((real_like(t, a) * t - real_like(t, 5 * a)) * t + real_like(t, 8 * a)) * t - real_like(t, 4 * a);
}
// 0 from |x| = 2 on.
inline Expr cubic_weight(Expr x, double a) {
  Expr t = call(Fn::abs, {x});
  return select(t <= real_like(x, 1), cubic_near(t, a), select(t < real_like(x, 2), cubic_far(t, a), real_like(x, 0)));
}

// The weight of the sample `offset` (linear: 0, 1; cubic: -1 .. 2) away from floor(position), `fraction` in [0, 1) being the
// rest of the position. The offset says which side and piece it is: cheaper, and its derivative is right on the samples
// too, where that of |x| is not.
inline Expr distance_to(Expr fraction, int offset) {
  return offset <= 0 ? fraction + real_like(fraction, -offset) : real_like(fraction, offset) - fraction;
}
inline Expr linear_tap(Expr fraction, int offset) { return real_like(fraction, 1) - distance_to(fraction, offset); }
inline Expr cubic_tap(Expr fraction, int offset, double a) {
  Expr t = distance_to(fraction, offset);
  return offset == 0 || offset == 1 ? cubic_near(t, a) : cubic_far(t, a);
}

}  // namespace metac
