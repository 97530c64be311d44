// The scalar functions of compiler/ir/scalar_functions.def on scalars, except those that math_f32.h and math_wide.h give to
// float.
#pragma once
#include "types.h"

namespace METAC_RUNTIME_NAMESPACE {

#define METAC_FOR(...) typename When<(__VA_ARGS__)>::type = 0

// ---- casts ----
namespace detail {
METAC_INLINE int32_t real_to_i32(double x) {
  return x > -2147483649.0 && x < 2147483648.0 ? static_cast<int32_t>(x) : static_cast<int32_t>(-2147483647 - 1);
}
METAC_INLINE int64_t real_to_i64(double x) {
  return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? static_cast<int64_t>(x) : least_of<int64_t>();
}
METAC_INLINE uint64_t real_to_u64(double x) {
  if (x >= 9223372036854775808.0 && x < 18446744073709551616.0) return static_cast<uint64_t>(x);
  return static_cast<uint64_t>(real_to_i64(x));
}
template <class To, bool wide, bool is_u64>
struct FromReal {
  METAC_INLINE To cast(double x) { return static_cast<To>(static_cast<uint32_t>(real_to_i32(x))); }
};
template <class To>
struct FromReal<To, true, false> {
  METAC_INLINE To cast(double x) { return static_cast<To>(static_cast<uint64_t>(real_to_i64(x))); }
};
template <class To>
struct FromReal<To, true, true> {
  METAC_INLINE To cast(double x) { return real_to_u64(x); }
};
// An unsigned word by way of signed ones. clang 19 makes vectors of a few conversions in a row, and those of elements that
// were signed and narrower once, such as (float)(uint64_t)int16, as if they had been unsigned.
template <class To, class From>
METAC_INLINE To real_of_word(From x) {
  typedef typename Choose<sizeof(From) == 8, int64_t, int32_t>::type Signed;
  if constexpr (sizeof(From) == 4 && sizeof(To) == 8) {
    return static_cast<To>(static_cast<Signed>(x ^ 0x80000000u)) + static_cast<To>(2147483648.0);
  } else {
    const Signed word = static_cast<Signed>(x);
    const To half = static_cast<To>(static_cast<Signed>(x >> 1 | (x & 1)));  // rounded as x is: the lowest bit sticks
    return word >= 0 ? static_cast<To>(word) : half + half;
  }
}
}  // namespace detail

template <class To, class From, METAC_FOR(is_integer_type<To> && (is_integer_type<From> || is_bool_type<From>))>
METAC_INLINE To cast_to(From x) {
  return static_cast<To>(x);
}
template <class To, class From, METAC_FOR(is_integer_type<To> && (is_real_type<From> || is_half_type<From>))>
METAC_INLINE To cast_to(From x) {
  return detail::FromReal<To, (sizeof(To) == 8 || (sizeof(To) == 4 && !is_signed_type<To>)),
                          Same<To, uint64_t>::value>::cast(static_cast<double>(x));
}
template <class To, class From, METAC_FOR(is_real_type<To>&& is_scalar_type<From>)>
METAC_INLINE To cast_to(From x) {
#if defined(__clang__) && !defined(__CUDA_ARCH__)
  if constexpr (is_integer_type<From> && !is_signed_type<From> && sizeof(From) >= 4)
    return detail::real_of_word<To>(x);
  else
#endif
    return static_cast<To>(x);
}
// To half precision: from double through float would round twice; round to odd first.
template <class To, METAC_FOR(is_half_type<To>)>
METAC_INLINE To cast_to(double x) {
  float f = static_cast<float>(x);
  uint32_t bits = float_bits(f);
  if (static_cast<double>(f) != x && x == x && !(bits & 1u)) {
    const bool away = (x > 0) == (static_cast<double>(f) > x);
    bits = away ? bits - 1u : bits | 1u;
    if ((bits & 0x7fffffffu) != 0x7f7fffffu) bits |= 1u;
    f = float_of_bits(bits);
  }
  return To(f);
}
template <class To, class From, METAC_FOR(is_half_type<To> && !Same<From, double>::value && is_scalar_type<From>)>
METAC_INLINE To cast_to(From x) {
  return To(cast_to<float>(x));
}
template <class To, class From, METAC_FOR(is_bool_type<To>&& is_scalar_type<From>)>
METAC_INLINE To cast_to(From x) {
  return x != static_cast<From>(0);
}

// ---- wrapping integer arithmetic ----
template <class T, METAC_FOR(is_integer_type<T>)>
METAC_INLINE T add(T a, T b) {
  return static_cast<T>(static_cast<typename WrapOf<T>::type>(a) + static_cast<typename WrapOf<T>::type>(b));
}
template <class T, METAC_FOR(is_integer_type<T>)>
METAC_INLINE T sub(T a, T b) {
  return static_cast<T>(static_cast<typename WrapOf<T>::type>(a) - static_cast<typename WrapOf<T>::type>(b));
}
template <class T, METAC_FOR(is_integer_type<T>)>
METAC_INLINE T mul(T a, T b) {
  return static_cast<T>(static_cast<typename WrapOf<T>::type>(a) * static_cast<typename WrapOf<T>::type>(b));
}
template <class T, METAC_FOR(is_integer_type<T>)>
METAC_INLINE T neg(T a) {
  return static_cast<T>(static_cast<typename WrapOf<T>::type>(0) - static_cast<typename WrapOf<T>::type>(a));
}
template <class T, METAC_FOR(is_integer_type<T>)>
METAC_INLINE T abs(T a) {
  return a < 0 ? neg(a) : a;
}
template <class T, METAC_FOR(is_integer_type<T>)>
METAC_INLINE T sign(T a) {
  return static_cast<T>(a > 0 ? 1 : a < 0 ? -1 : 0);
}
template <class T, METAC_FOR(is_integer_type<T>)>
METAC_INLINE T div(T a, T b) {
  return b == 0 ? static_cast<T>(0) : is_signed_type<T> && b == static_cast<T>(-1) ? neg(a) : static_cast<T>(a / b);
}
template <class T, METAC_FOR(is_integer_type<T>)>
METAC_INLINE T trunc_mod(T a, T b) {
  return b == 0 || (is_signed_type<T> && b == static_cast<T>(-1)) ? static_cast<T>(0) : static_cast<T>(a % b);
}
template <class T, METAC_FOR(is_integer_type<T>)>
METAC_INLINE T floor_div(T a, T b) {
  const T quotient = div(a, b);
  return is_signed_type<T> && trunc_mod(a, b) != 0 && ((a < 0) != (b < 0)) ? static_cast<T>(quotient - 1) : quotient;
}
template <class T, METAC_FOR(is_integer_type<T>)>
METAC_INLINE T floor_mod(T a, T b) {
  const T rest = trunc_mod(a, b);
  return is_signed_type<T> && rest != 0 && ((rest < 0) != (b < 0)) ? static_cast<T>(rest + b) : rest;
}
template <class T, METAC_FOR(is_integer_type<T>)>
METAC_INLINE T pow(T base, T exponent) {
  if (exponent < 0)
    return base == 1 ? base : base == static_cast<T>(-1) ? static_cast<T>(exponent & 1 ? -1 : 1) : static_cast<T>(0);
  T result = 1;
  for (uint64_t e = static_cast<uint64_t>(exponent); e != 0; e >>= 1) {
    if (e & 1) result = mul(result, base);
    base = mul(base, base);
  }
  return result;
}
template <class T, METAC_FOR(is_integer_type<T>)>
METAC_INLINE T shift_left(T a, T b) {
  return static_cast<uint64_t>(b) >= 8 * sizeof(T) ? static_cast<T>(0)
                                                   : static_cast<T>(static_cast<typename WrapOf<T>::type>(a) << b);
}
template <class T, METAC_FOR(is_integer_type<T>)>
METAC_INLINE T shift_right(T a, T b) {
  return static_cast<uint64_t>(b) >= 8 * sizeof(T) ? static_cast<T>(0) : static_cast<T>(a >> b);
}
template <class T, METAC_FOR(is_integer_type<T> || is_bool_type<T>)>
METAC_INLINE T bit_and(T a, T b) {
  return static_cast<T>(a & b);
}
template <class T, METAC_FOR(is_integer_type<T> || is_bool_type<T>)>
METAC_INLINE T bit_or(T a, T b) {
  return static_cast<T>(a | b);
}
template <class T, METAC_FOR(is_integer_type<T> || is_bool_type<T>)>
METAC_INLINE T bit_xor(T a, T b) {
  return static_cast<T>(a ^ b);
}
template <class T, METAC_FOR(is_integer_type<T>)>
METAC_INLINE T bit_not(T a) {
  return static_cast<T>(~a);
}
METAC_INLINE bool bit_not(bool a) { return !a; }
// Integers are already round, finite numbers.
#define METAC_IDENTITY(name)                        \
  template <class T, METAC_FOR(is_integer_type<T>)> \
  METAC_INLINE T name(T a) {                        \
    return a;                                       \
  }
METAC_IDENTITY(floor)
METAC_IDENTITY(ceil)
METAC_IDENTITY(trunc)
METAC_IDENTITY(rint)
#undef METAC_IDENTITY

// ---- comparisons and logic, any scalar ----
#define METAC_COMPARE(name, op)                    \
  template <class T, METAC_FOR(is_scalar_type<T>)> \
  METAC_INLINE bool name(T a, T b) {               \
    return a op b;                                 \
  }
METAC_COMPARE(lt, <)
METAC_COMPARE(le, <=)
METAC_COMPARE(eq, ==)
METAC_COMPARE(ne, !=)
#undef METAC_COMPARE
METAC_INLINE bool logical_and(bool a, bool b) { return a & b; }
METAC_INLINE bool logical_or(bool a, bool b) { return a | b; }
METAC_INLINE bool logical_xor(bool a, bool b) { return a != b; }
METAC_INLINE bool logical_not(bool a) { return !a; }
template <class T, METAC_FOR(is_scalar_type<T>)>
METAC_INLINE T select(bool condition, T then, T otherwise) {
  return condition ? then : otherwise;
}
template <class T, METAC_FOR(is_integer_type<T> || is_bool_type<T>)>
METAC_INLINE T min(T a, T b) {
  return b < a ? b : a;
}
template <class T, METAC_FOR(is_integer_type<T> || is_bool_type<T>)>
METAC_INLINE T max(T a, T b) {
  return a < b ? b : a;
}
template <class T, METAC_FOR(is_integer_type<T> || is_bool_type<T>)>
METAC_INLINE bool is_nan(T) {
  return false;
}
template <class T, METAC_FOR(is_integer_type<T> || is_bool_type<T>)>
METAC_INLINE bool is_inf(T) {
  return false;
}

// ---- reals ----
template <class T, METAC_FOR(is_real_type<T>)>
METAC_INLINE T add(T a, T b) {
  return a + b;
}
template <class T, METAC_FOR(is_real_type<T>)>
METAC_INLINE T sub(T a, T b) {
  return a - b;
}
template <class T, METAC_FOR(is_real_type<T>)>
METAC_INLINE T mul(T a, T b) {
  return a * b;
}
template <class T, METAC_FOR(is_real_type<T>)>
METAC_INLINE T div(T a, T b) {
  return a / b;
}
template <class T, METAC_FOR(is_real_type<T>)>
METAC_INLINE T neg(T a) {
  return -a;
}
template <class T, METAC_FOR(is_real_type<T>)>
METAC_INLINE T sign(T a) {
  return a > 0 ? static_cast<T>(1) : a < 0 ? static_cast<T>(-1) : a;
}
template <class T, METAC_FOR(is_real_type<T>)>
METAC_INLINE bool is_nan(T a) {
  return a != a;
}
// A NaN in either wins, and of two zeros b. Of a != a ? a : (a > b ? a : b) with a = |x| and b = 0 LLVM 17 to 19 make a
// comparison of x itself: where they join two selections they take |x| > 0 for x > 0 (compiler/jit/clang_compiler.cpp turns
// that off, too). So LLVM gets a form without such a >, as short with a constant on either side; g++ finds the instruction
// in the usual one.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDA_ARCH__)
template <class T, METAC_FOR(is_real_type<T>)>
METAC_INLINE T min(T a, T b) {
  return a != a ? a : (a < b ? a : b);
}
template <class T, METAC_FOR(is_real_type<T>)>
METAC_INLINE T max(T a, T b) {
  return a != a ? a : (a > b ? a : b);
}
#else
template <class T, METAC_FOR(is_real_type<T>)>
METAC_INLINE T min(T a, T b) {
  return b != b ? b : (b <= a ? b : a);
}
template <class T, METAC_FOR(is_real_type<T>)>
METAC_INLINE T max(T a, T b) {
  return b != b ? b : (a <= b ? b : a);
}
#endif

#if defined(__FMA__) || defined(__CUDA_ARCH__)
METAC_INLINE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
METAC_INLINE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
METAC_INLINE float fma(float a, float b, float c) { return a * b + c; }
METAC_INLINE double fma(double a, double b, double c) { return a * b + c; }
#endif

METAC_INLINE float abs(float x) { return __builtin_fabsf(x); }
METAC_INLINE double abs(double x) { return __builtin_fabs(x); }
METAC_INLINE bool is_inf(float x) { return __builtin_fabsf(x) == __builtin_inff(); }
METAC_INLINE bool is_inf(double x) { return __builtin_fabs(x) == __builtin_inf(); }
#define METAC_BUILTIN(name)                                           \
  METAC_INLINE float name(float x) { return __builtin_##name##f(x); } \
  METAC_INLINE double name(double x) { return __builtin_##name(x); }
METAC_BUILTIN(sqrt)
METAC_BUILTIN(floor)
METAC_BUILTIN(ceil)
METAC_BUILTIN(trunc)
METAC_BUILTIN(rint)
#undef METAC_BUILTIN
METAC_INLINE double trunc_mod(double a, double b) { return __builtin_fmod(a, b); }
template <class T, METAC_FOR(is_real_type<T>)>
METAC_INLINE T floor_div(T a, T b) {
  return floor(a / b);
}
METAC_INLINE double floor_mod(double a, double b) {
  const double rest = trunc_mod(a, b);
  if (rest == 0) return b < 0 ? -0.0 : 0.0;
  return (rest < 0) != (b < 0) ? rest + b : rest;
}

// double: libm. Compilers know what some functions are of others: g++ without errno makes cos(atan(x)) a quotient, which is
// 0 where x is no number. Behind the empty asm it is a value of which they know nothing.
METAC_INLINE double of_libm(double x) {
#if defined(__SSE2__) && !defined(METAC_SCALARS_ONLY)
  asm("" : "+x"(x));
#endif
  return x;
}
#define METAC_LIBM(name) \
  METAC_INLINE double name(double x) { return of_libm(__builtin_##name(x)); }
METAC_LIBM(exp)
METAC_LIBM(log)
METAC_LIBM(sin) METAC_LIBM(cos) METAC_LIBM(tan) METAC_LIBM(asin) METAC_LIBM(acos) METAC_LIBM(atan) METAC_LIBM(sinh)
    METAC_LIBM(cosh) METAC_LIBM(tanh) METAC_LIBM(asinh) METAC_LIBM(acosh) METAC_LIBM(atanh) METAC_LIBM(erf) METAC_LIBM(expm1)
        METAC_LIBM(log1p)
#undef METAC_LIBM
            METAC_INLINE double pow(double a, double b) {
  return __builtin_pow(a, b);
}
METAC_INLINE double atan2(double a, double b) { return __builtin_atan2(a, b); }
METAC_INLINE double sigmoid(double x) {
  const double z = __builtin_exp(-__builtin_fabs(x));
  return x < 0 ? z / (1 + z) : 1 / (1 + z);
}

}  // namespace METAC_RUNTIME_NAMESPACE
