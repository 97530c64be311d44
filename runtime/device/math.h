// What is left of the scalar functions: rare ones on vectors lane by lane, and all of them on half-precision scalars,
// which compute in float and round once.
#pragma once
#include "math_wide.h"

namespace METAC_RUNTIME_NAMESPACE {

METAC_LANES_1(tan, is_f64_vector<V>)
METAC_LANES_1(asin, is_f64_vector<V>)
METAC_LANES_1(acos, is_f64_vector<V>)
METAC_LANES_1(atan, is_f64_vector<V>)
METAC_LANES_1(sinh, is_f64_vector<V>)
METAC_LANES_1(cosh, is_f64_vector<V>)
METAC_LANES_1(asinh, is_f64_vector<V>)
METAC_LANES_1(acosh, is_f64_vector<V>)
METAC_LANES_1(atanh, is_f64_vector<V>)
METAC_LANES_1(exp, is_f64_vector<V>)
METAC_LANES_1(expm1, is_f64_vector<V>)
METAC_LANES_1(log, is_f64_vector<V>)
METAC_LANES_1(log1p, is_f64_vector<V>)
METAC_LANES_1(tanh, is_f64_vector<V>)
METAC_LANES_1(sigmoid, is_f64_vector<V>)
METAC_LANES_1(erf, is_f64_vector<V>)
METAC_LANES_1(sin, is_f64_vector<V>)
METAC_LANES_1(cos, is_f64_vector<V>)
METAC_LANES_2(atan2, is_f64_vector<V>)
METAC_LANES_2(floor_mod, is_f64_vector<V>)
METAC_LANES_2(trunc_mod, is_f64_vector<V>)

#define METAC_HALF_1(name)                       \
  template <class H, METAC_FOR(is_half_type<H>)> \
  METAC_INLINE H name(H a) {                     \
    return H(name(static_cast<float>(a)));       \
  }
METAC_HALF_1(neg)
METAC_HALF_1(abs)
METAC_HALF_1(sign) METAC_HALF_1(sqrt) METAC_HALF_1(exp) METAC_HALF_1(log) METAC_HALF_1(sin) METAC_HALF_1(cos)
    METAC_HALF_1(tan) METAC_HALF_1(asin) METAC_HALF_1(acos) METAC_HALF_1(atan) METAC_HALF_1(sinh) METAC_HALF_1(cosh)
        METAC_HALF_1(tanh) METAC_HALF_1(asinh) METAC_HALF_1(acosh) METAC_HALF_1(atanh) METAC_HALF_1(erf)
            METAC_HALF_1(sigmoid) METAC_HALF_1(expm1) METAC_HALF_1(log1p) METAC_HALF_1(floor) METAC_HALF_1(ceil)
                METAC_HALF_1(trunc) METAC_HALF_1(rint)
#undef METAC_HALF_1

#define METAC_HALF_2(name)                                        \
  template <class H, METAC_FOR(is_half_type<H>)>                  \
  METAC_INLINE H name(H a, H b) {                                 \
    return H(name(static_cast<float>(a), static_cast<float>(b))); \
  }
                    METAC_HALF_2(add) METAC_HALF_2(sub) METAC_HALF_2(mul) METAC_HALF_2(div) METAC_HALF_2(floor_div)
                        METAC_HALF_2(floor_mod) METAC_HALF_2(trunc_mod) METAC_HALF_2(pow) METAC_HALF_2(atan2)
                            METAC_HALF_2(min) METAC_HALF_2(max)
#undef METAC_HALF_2
                                template <class H, METAC_FOR(is_half_type<H>)>
                                METAC_INLINE bool is_nan(H a) {
  return is_nan(static_cast<float>(a));
}
template <class H, METAC_FOR(is_half_type<H>)>
METAC_INLINE bool is_inf(H a) {
  return is_inf(static_cast<float>(a));
}

}  // namespace METAC_RUNTIME_NAMESPACE
