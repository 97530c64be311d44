// Single-precision functions that compute in double lanes: what inverse, hyperbolic and remainder functions cancel, the
// wider type has to spare, so each rounds once and stays within 1 ULP over all floats. As in math_f32.h one text serves a
// scalar and a vector, and both give the same bits. Coefficients: weighted least squares with Lawson's iteration, in
// double; their error is below 3e-11 of the result.
#pragma once
#include "math_f32.h"

namespace METAC_RUNTIME_NAMESPACE {
namespace detail {

// tan, 1 ULP up to 2^28; libm's beyond.
template <class V>
METAC_INLINE V tan_f32(V x) {
  typedef Wide64<V> W;
  const auto huge = lt(constant<V>(268435456.0f), abs(x));
  if (__builtin_expect(any(huge), 0)) {
    if constexpr (is_vector<V>) {
      V r{};
      for (int i = 0; i < lane_count<V>; ++i) r[i] = tan_f32(static_cast<float>(x[i]));
      return r;
    } else {
      return static_cast<float>(__builtin_tan(static_cast<double>(x)));
    }
  }
  W sine, cosine;
  const Int32<V> k = reduce_quarters(x, &sine, &cosine);
  const auto odd = ne(k & 1, Int32<V>{});
  const V value = convert<V>(select(odd, -cosine, sine) / select(odd, sine, cosine));
  return select(eq(x, constant<V>(0.0f)), x, value);
}

// atan(n / d) for n, d >= 0, not both 0 and not both infinite, NaN passing through: |t| <= tan(pi/8) after taking off pi/4
// or pi/2.
template <class W>
METAC_INLINE W atan_of_ratio(W n, W d) {
  const auto steep = lt(d * constant<W>(2.4142135623730949), n), middle = lt(d * constant<W>(0.41421356237309503), n);
  const W top = select(steep, -d, select(middle, n - d, n)), bottom = select(steep, n, select(middle, n + d, d));
  const W base =
      select(steep, constant<W>(1.5707963267948966), select(middle, constant<W>(0.78539816339744828), constant<W>(0.0)));
  const W t = top / bottom, z = t * t;
  return fma(t,
             polynomial(z, 0.99999999997970179, -0.33333332150967765, 0.1999988740202705, -0.14281674990735418,
                        0.11041437238725781, -0.084609978015908985, 0.047164802129815268),
             base);
}

// atan, 1 ULP.
template <class V>
METAC_INLINE V atan_f32(V x) {
  typedef Wide64<V> W;
  return copy_sign(convert<V>(atan_of_ratio(convert<W>(abs(x)), constant<W>(1.0))), x);
}
// asin and acos, 1 ULP: the angle of (sqrt(1 - x^2), x). NaN outside of [-1, 1].
template <class V>
METAC_INLINE V asin_f32(V x) {
  typedef Wide64<V> W;
  const W a = convert<W>(abs(x)), one = constant<W>(1.0);
  return copy_sign(convert<V>(atan_of_ratio(a, sqrt((one - a) * (one + a)))), x);
}
template <class V>
METAC_INLINE V acos_f32(V x) {
  typedef Wide64<V> W;
  const W a = convert<W>(abs(x)), one = constant<W>(1.0);
  const W angle = atan_of_ratio(sqrt((one - a) * (one + a)), a);
  return convert<V>(select(lt(x, constant<V>(0.0f)), constant<W>(3.1415926535897931) - angle, angle));
}
// atan2, 1 ULP; zeros and infinities as in C.
template <class V>
METAC_INLINE V atan2_f32(V y, V x) {
  typedef Wide64<V> W;
  const V one = constant<V>(1.0f), zero = constant<V>(0.0f), a = abs(y), b = abs(x);
  const auto both_infinite = logical_and(is_inf(y), is_inf(x)), both_zero = logical_and(eq(y, zero), eq(x, zero));
  const W angle = atan_of_ratio(convert<W>(select(both_infinite, one, a)),
                                convert<W>(select(logical_or(both_infinite, both_zero), one, b)));
  const auto left = lt(copy_sign(one, x), zero);
  const V result = convert<V>(select(left, constant<W>(3.1415926535897931) - angle, angle));
  return select(is_nan(x), x, copy_sign(result, y));
}

// cosh and sinh, 1 ULP.
template <class V>
METAC_INLINE V cosh_f32(V x) {
  typedef Wide64<V> W;
  const W e = exp2_wide(min(constant<W>(200.0), convert<W>(abs(x)) * constant<W>(1.4426950408889634)));
  return convert<V>(constant<W>(0.5) * (e + constant<W>(1.0) / e));
}
template <class V>
METAC_INLINE V sinh_f32(V x) {
  typedef Wide64<V> W;
  const W a = convert<W>(abs(x)), z = a * a, one = constant<W>(1.0);
  const W e = exp2_wide(min(constant<W>(200.0), a * constant<W>(1.4426950408889634)));
  const W small = a * polynomial(z, 1.0000000000498792, 0.16666666417587939, 0.0083333532310098518, 0.00019835709796429957,
                                 2.8190391888546773e-06);
  return copy_sign(convert<V>(select(lt(a, one), small, constant<W>(0.5) * (e - one / e))), x);
}

// log(1 + f) in double for finite f > -1, f no less accurate than 1 + f where it is small.
template <class V>
METAC_INLINE Wide64<V> log1p_wide(Wide64<V> f) {
  typedef Wide64<V> W;
  typedef typename Real32<V>::WideInt I;
  const W one = constant<W>(1.0), magic = constant<W>(6755399441055744.0);
  constexpr int64_t half_root = 0x3fe6a09e667f3bcd;  // sqrt(1/2)
  const I bits = bit_cast<I>(one + f) - half_root, exponent = bits >> 52;
  const W m = bit_cast<W>((bits & 0x000fffffffffffff) + half_root), e = bit_cast<W>(exponent + bit_cast<I>(magic)) - magic;
  const auto plain = eq(e, constant<W>(0.0));  // 1 + f is near 1: f itself has the digits
  const W s = select(plain, f, m - one) / (select(plain, f, m - one) + constant<W>(2.0)), z = s * s;
  return fma(s,
             polynomial(z, 1.9999999999999443, 0.66666666680058828, 0.39999994745951711, 0.28572181541297614,
                        0.22173593659047858, 0.19617804433749625),
             e * constant<W>(0.69314718055994529));
}
// asinh, acosh and atanh, 1 ULP.
template <class V>
METAC_INLINE V asinh_f32(V x) {
  typedef Wide64<V> W;
  const V size = abs(x);
  const W a = convert<W>(size), one = constant<W>(1.0), square = a * a;
  const V result = convert<V>(log1p_wide<V>(a + square / (one + sqrt(one + square))));
  return copy_sign(select(lt(size, constant<V>(__builtin_inff())), result, size), x);
}
template <class V>
METAC_INLINE V acosh_f32(V x) {
  typedef Wide64<V> W;
  const W t = convert<W>(x) - constant<W>(1.0);
  const V result = convert<V>(log1p_wide<V>(t + sqrt(t * (t + constant<W>(2.0)))));
  return select(lt(x, constant<V>(1.0f)), constant<V>(__builtin_nanf("")),
                select(lt(x, constant<V>(__builtin_inff())), result, x));
}
template <class V>
METAC_INLINE V atanh_f32(V x) {
  typedef Wide64<V> W;
  const V size = abs(x), one = constant<V>(1.0f);
  const W a = convert<W>(size);
  const V result = convert<V>(constant<W>(0.5) * log1p_wide<V>((a + a) / (constant<W>(1.0) - a)));
  const V beyond = select(eq(size, one), constant<V>(__builtin_inff()), constant<V>(__builtin_nanf("")));
  return copy_sign(select(lt(size, one), result, beyond), x);
}

// C's fmod, exact: the quotient in double is exact or one off while it is below 2^28; libm's beyond.
template <class V>
METAC_INLINE V trunc_mod_f32(V a, V b) {
  typedef Wide64<V> W;
  const W x = convert<W>(abs(a)), y = convert<W>(abs(b)), q = trunc(x / y);
  const V infinity = constant<V>(__builtin_inff());
  const auto regular = logical_and(lt(abs(a), infinity), lt(constant<V>(0.0f), abs(b)));
  const auto far = logical_and(regular, lt(constant<V>(268435456.0f), convert<V>(q)));
  if (__builtin_expect(any(far), 0)) {
    if constexpr (is_vector<V>) {
      V r{};
      for (int i = 0; i < lane_count<V>; ++i) r[i] = trunc_mod_f32(static_cast<float>(a[i]), static_cast<float>(b[i]));
      return r;
    } else {
      return __builtin_fmodf(a, b);
    }
  }
  W r = x - q * y;
  r = select(lt(r, constant<W>(0.0)), r + y, select(lt(r, y), r, r - y));
  const V size = select(lt(abs(b), infinity), convert<V>(r), abs(a));
  return copy_sign(select(regular, size, constant<V>(__builtin_nanf(""))), a);
}
// Python's %.
template <class V>
METAC_INLINE V floor_mod_f32(V a, V b) {
  const V rest = trunc_mod_f32(a, b), zero = constant<V>(0.0f);
  const V with_sign = select(ne(lt(rest, zero), lt(b, zero)), rest + b, rest);
  return select(eq(rest, zero), copy_sign(zero, b), with_sign);
}

}  // namespace detail

METAC_F32_FUNCTION_WIDE(tan, tan_f32)
METAC_F32_FUNCTION_WIDE(asin, asin_f32)
METAC_F32_FUNCTION_WIDE(acos, acos_f32)
METAC_F32_FUNCTION_WIDE(atan, atan_f32)
METAC_F32_FUNCTION_WIDE(sinh, sinh_f32)
METAC_F32_FUNCTION_WIDE(cosh, cosh_f32)
METAC_F32_FUNCTION_WIDE(asinh, asinh_f32)
METAC_F32_FUNCTION_WIDE(acosh, acosh_f32)
METAC_F32_FUNCTION_WIDE(atanh, atanh_f32)
METAC_F32_FUNCTION_WIDE_2(atan2, atan2_f32)
METAC_F32_FUNCTION_WIDE_2(trunc_mod, trunc_mod_f32)
METAC_F32_FUNCTION_WIDE_2(floor_mod, floor_mod_f32)
#undef METAC_F32_FUNCTION_WIDE
#undef METAC_F32_FUNCTION_WIDE_2
#undef METAC_WIDER_THAN_A_REGISTER

}  // namespace METAC_RUNTIME_NAMESPACE
