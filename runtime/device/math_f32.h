// Single-precision mathematics for float and for vectors of float lanes, from one text each, so that a lane and a scalar
// give the same bits. Every function reduces its argument to a small interval and evaluates a minimax polynomial there
// (coefficients: weighted least squares with Lawson's iteration, rounded to float). pow, sin and cos compute in double
// lanes: their reductions need the digits. The errors stand beside each function, in ULP of the result, rounded up from what
// the dense walk of tests/runtime/device_math_test.cpp finds, with and without FMA.
#pragma once
#include "math_pieces.h"

namespace METAC_RUNTIME_NAMESPACE {
namespace detail {

// The types that go with a float scalar or vector, so that one text serves both.
template <class V>
struct Real32 {
  typedef Vec<int32_t, lane_count<V>> Int;
  typedef Vec<uint32_t, lane_count<V>> Bits;
  typedef Vec<double, lane_count<V>> Wide;
  typedef Vec<int64_t, lane_count<V>> WideInt;
};
template <>
struct Real32<float> {
  typedef int32_t Int;
  typedef uint32_t Bits;
  typedef double Wide;
  typedef int64_t WideInt;
};
// The integers as wide as the lanes of a double scalar or vector.
template <class W>
struct Bits64 {
  typedef Vec<int64_t, lane_count<W>> Int;
};
template <>
struct Bits64<double> {
  typedef int64_t Int;
};
template <class V>
using Int32 = typename Real32<V>::Int;
template <class V>
using Bits32 = typename Real32<V>::Bits;
template <class V>
using Wide64 = typename Real32<V>::Wide;

template <class V, class T>
METAC_INLINE V constant(T x) {
  if constexpr (is_vector<V>)
    return broadcast<V>(static_cast<Lane<V>>(x));
  else
    return static_cast<V>(x);
}
template <class To, class From>
METAC_INLINE To convert(From v) {
  if constexpr (is_vector<To>)
    return __builtin_convertvector(v, To);
  else
    return static_cast<To>(v);
}
// c[0] + c[1] x + ... by Horner's rule.
template <class V, class T>
METAC_INLINE V polynomial(V, T last) {
  return constant<V>(last);
}
template <class V, class T, class... Rest>
METAC_INLINE V polynomial(V x, T first, Rest... rest) {
  return fma(polynomial(x, rest...), x, constant<V>(first));
}

// 2^n as a float, -126 <= n <= 127.
template <class V, class I>
METAC_INLINE V power_of_two(I n) {
  return bit_cast<V>(bit_cast<Bits32<V>>(n + 127) << 23);
}

constexpr float log2_e = 1.44269504f, ln2_high = 0.693359375f,
                ln2_low = -2.12194440e-4f;  // high: 9 bits, so n * high is exact

// Where `sign` or the result is chosen under a mask, clang 19 makes one masked vpternlogd of both, with an immediate for
// other operands. It sees no more than a value behind the empty asm; scalar callers give the sign last of all.
template <class V>
METAC_INLINE V copy_sign(V magnitude, V sign) {
  const Bits32<V> bit = bit_cast<Bits32<V>>(sign) & 0x80000000u;
  V result = bit_cast<V>((bit_cast<Bits32<V>>(magnitude) & 0x7fffffffu) | bit);
#if defined(__clang__) && defined(__AVX512F__) && !defined(METAC_SCALARS_ONLY)
  if constexpr (is_vector<V> && sizeof(V) >= 16 && sizeof(V) <= 64) asm("" : "+v"(result));
#endif
  return result;
}

// x log2 e, rounded to the integer n by an addition that leaves n in the low bits: n, and what x is beyond n ln 2.
constexpr float round_to_integer = 12582912.0f;  // 1.5 * 2^23
template <class V>
METAC_INLINE V reduce_ln2(V x, V* n, Int32<V>* k) {
  const V shifted = fma(x, constant<V>(log2_e), constant<V>(round_to_integer));
  *n = shifted - constant<V>(round_to_integer);
  *k = bit_cast<Int32<V>>(shifted) - constant<Int32<V>>(0x4b400000);
  return fma(*n, constant<V>(-ln2_low), fma(*n, constant<V>(-ln2_high), x));
}
// e 2^n, rounded once, where k = n as integers and -150 <= n <= 129.
template <class V>
METAC_INLINE V scale_by_power(V e, V n, Int32<V> k) {
#if defined(__AVX512F__) && !defined(METAC_SCALARS_ONLY)
  if constexpr (is_vector<V>)
    if constexpr (Same<V, f32x16>::value) return __builtin_ia32_scalefps512_mask(e, n, e, static_cast<uint16_t>(-1), 4);
#endif
  (void)n;
  const Int32<V> half = k >> 1;
  return e * power_of_two<V>(half) * power_of_two<V>(k - half);  // two steps: 2^n itself may not be representable
}

// exp, 2 ULP: e^x = 2^n e^r, |r| <= ln 2 / 2.
template <class V>
METAC_INLINE V exp_f32(V x) {
  const V clamped = min(constant<V>(89.0f), max(constant<V>(-104.0f), x));  // beyond: infinity and zero; NaN passes
  V n;
  Int32<V> k;
  const V r = reduce_ln2(clamped, &n, &k);
  const V p = polynomial(r, 0.5f, 0.166665182f, 0.0416662022f, 0.00836895872f, 0.00139506103f);
  return scale_by_power(fma(p, r * r, r) + constant<V>(1.0f), n, k);
}

// e^x as e * *power with the sum of two exponents of 2 in one shift: *power = 2^(n + bias - 127), where 0 < n + bias < 255.
template <int bias, class V>
METAC_INLINE V exp_parts(V x, V* power) {
  const V origin = constant<V>(round_to_integer + bias), shifted = fma(x, constant<V>(log2_e), origin), n = shifted - origin;
  *power = bit_cast<V>(bit_cast<Bits32<V>>(shifted) << 23);
  const V r = fma(n, constant<V>(-ln2_low), fma(n, constant<V>(-ln2_high), x));
  const V p = polynomial(r, 0.5f, 0.166665182f, 0.0416662022f, 0.00836895872f, 0.00139506103f);
  return fma(p, r * r, r) + constant<V>(1.0f);
}
// exp of x <= 0, the same bits in fewer operations.
template <class V>
METAC_INLINE V exp_of_nonpositive(V x) {
#if defined(__AVX512F__) && !defined(METAC_SCALARS_ONLY)
  if constexpr (is_vector<V>)
    if constexpr (Same<V, f32x16>::value) return exp_f32(x);
#endif
  V power;  // 2^(n + 24): a normal number wherever the result is not 0
  const V e = exp_parts<127 + 24>(max(constant<V>(-104.0f), x), &power);
  return e * power * constant<V>(5.9604644775390625e-08f);
}
// exp of x in [-80, 80].
template <class V>
METAC_INLINE V exp_of_small(V x) {
  V power;
  const V e = exp_parts<127>(x, &power);
  return e * power;
}

// e^x - 1, 2 ULP: 2^n (e^r - 1) + (2^n - 1).
template <class V>
METAC_INLINE V expm1_f32(V x) {
  const V clamped = min(constant<V>(89.0f), max(constant<V>(-20.0f), x));
  V n;
  Int32<V> k;
  const V r = reduce_ln2(clamped, &n, &k);
  const V p = polynomial(r, 0.5f, 0.166666672f, 0.041666355f, 0.00833327416f, 0.00139411236f, 0.000199137154f);
  const V e = fma(p, r * r, r);
  const V half_scale = power_of_two<V>(k - constant<Int32<V>>(1));
  const V result = fma(half_scale, e, half_scale - constant<V>(0.5f)) * constant<V>(2.0f);
  return select(eq(x, constant<V>(0.0f)), x, select(eq(n, constant<V>(0.0f)), e, result));
}

// log of 1 + f times 2^e, f in [sqrt(1/2) - 1, sqrt(2) - 1].
template <class V>
METAC_INLINE V log_reduced(V f, V e, V tail) {
  const V p = polynomial(f, 0.333333105f, -0.249999866f, 0.200022265f, -0.166692495f, 0.142186552f, -0.123843685f,
                         0.118730128f, -0.117897049f, 0.0691516548f);
  const V square = f * f;
  V small = fma(p, square * f, fma(e, constant<V>(ln2_low), tail));
  small = fma(constant<V>(-0.5f), square, small);
  return fma(e, constant<V>(ln2_high), f + small);
}
// Splits a positive normal x into m * 2^e with m in [sqrt(1/2), sqrt(2)).
template <class V>
METAC_INLINE V split(V x, V* exponent) {
  const Bits32<V> bits = bit_cast<Bits32<V>>(x) - 0x3f3504f3u;  // sqrt(1/2)
  const Int32<V> e = bit_cast<Int32<V>>(bits) >> 23;
  *exponent = convert<V>(e);
  return bit_cast<V>((bits & 0x007fffffu) + 0x3f3504f3u);
}
template <class V>
METAC_INLINE V log_specials(V x, V result) {
  result = select(eq(x, constant<V>(0.0f)), constant<V>(-__builtin_inff()), result);
  result = select(lt(x, constant<V>(0.0f)), constant<V>(__builtin_nanf("")), result);
  return select(lt(x, constant<V>(__builtin_inff())), result, x);  // infinity and NaN
}

// log, 1 ULP.
template <class V>
METAC_INLINE V log_f32(V x) {
  const auto subnormal = lt(x, constant<V>(1.17549435e-38f));
  V e;
  const V m = split(select(subnormal, x * constant<V>(8388608.0f), x), &e);
  e = e - select(subnormal, constant<V>(23.0f), constant<V>(0.0f));
  return log_specials(x, log_reduced(m - constant<V>(1.0f), e, constant<V>(0.0f)));
}

// log(1 + x), 2 ULP: what 1 + x rounds away comes back as a first-order term.
template <class V>
METAC_INLINE V log1p_f32(V x) {
  const V one = constant<V>(1.0f), u = one + x;
  const V lost = select(lt(one, x), one - (u - x), x - (u - one));
  V e;
  const V m = split(u, &e);
  const V result = log_reduced(m - one, e, lost / u);
  return select(lt(abs(x), constant<V>(1e-8f)), x, log_specials(u, result));
}

// p.c[from] + p.c[from + 1] t + ..., each c at [k].
template <int from, class V, int degree>
METAC_INLINE V polynomial_of_piece(const Pieces<degree>& p, Int32<V> k, V t) {
  const V c = look_up<V>(p.c[from], k);
  if constexpr (from == degree)
    return c;
  else
    return fma(polynomial_of_piece<from + 1>(p, k, t), t, c);
}
// x R(|x|) as math_pieces.h has it.
template <class V, int degree>
METAC_INLINE V odd_in_pieces(V x, const Pieces<degree>& p) {
  const V a = min(constant<V>(p.end), abs(x));  // NaN passes
  const V shifted = fma(a, constant<V>(p.pieces_per_unit), constant<V>(round_to_integer));
  const V t = fma(shifted - constant<V>(round_to_integer), constant<V>(-p.width), a);
  const Int32<V> k = bit_cast<Int32<V>>(shifted);  // its low bits
  return copy_sign(min(constant<V>(1.0f), a * polynomial_of_piece<0>(*here(&p), k, t)), x);
}

#ifdef METAC_PIECES
#define METAC_IN_PIECES(function, pieces) \
  if constexpr (!is_vector<V>)            \
    return odd_in_pieces(x, pieces);      \
  else if constexpr (lane_count<V> == 16) \
    return odd_in_pieces(x, pieces);      \
  else if constexpr (lane_count<V> < 16)  \
    return low(function(join(x, x)));     \
  else                                    \
    return join(function(low(x)), function(high(x)));
#endif

// tanh, 3 ULP.
template <class V>
METAC_INLINE V tanh_f32(V x) {
#ifdef METAC_PIECES
  METAC_IN_PIECES(tanh_f32, tanh_pieces)
#else
  const V a = abs(x), z = x * x;
  const V small = fma(polynomial(z, -0.333332837f, 0.133314908f, -0.0537434965f, 0.0206505787f, -0.00571703678f) * z, x, x);
  const V one = constant<V>(1.0f);
  const V large = one - constant<V>(2.0f) / (exp_of_small(min(constant<V>(20.0f), a + a)) + one);  // 1 from 9.02 on
  return copy_sign(select(lt(a, constant<V>(0.625f)), small, large), x);  // -0 too, which the sum would lose
#endif
}

// 1 / (1 + e^-x), 3 ULP, by e^-|x| so that neither end overflows.
template <class V>
METAC_INLINE V sigmoid_f32(V x) {
  const V one = constant<V>(1.0f), z = exp_of_nonpositive(-abs(x));
  return select(lt(x, constant<V>(0.0f)), z, one) / (one + z);
}

// erf, 3 ULP: in pieces, or x P(x^2) below 1 and 1 - Q(|x|)^4 above, where Q approximates the fourth root of erfc: without
// an exponential or a division.
template <class V>
METAC_INLINE V erf_f32(V x) {
#ifdef METAC_PIECES
  METAC_IN_PIECES(erf_f32, erf_pieces)
#else
  const V a = min(constant<V>(4.0f), abs(x)), z = a * a, one = constant<V>(1.0f);
  const V small = x * polynomial(z, 1.12837923f, -0.376130342f, 0.11288169f, -0.0270438883f, 0.00554694002f, -0.00111426879f,
                                 0.000181479991f);
  const V root = polynomial(a, 1.00218523f, -0.293623954f, -0.0932318419f, -0.0176226608f, 0.0439199395f, -0.0128012216f,
                            0.000790503691f, 0.000175646332f, -2.21142946e-05f);
  const V square = root * root;
  return select(lt(a, one), small, copy_sign(fma(-square, square, one), x));
#endif
}

// x, at most 2^28 in size, less k quarter turns: sine and cosine of what is left, in [-pi/4, pi/4]; returns k.
template <class V>
METAC_INLINE Int32<V> reduce_quarters(V x, Wide64<V>* sine, Wide64<V>* cosine) {
  typedef Wide64<V> W;
  const W wide = convert<W>(x);
  // Adding 1.5 * 2^52 rounds to an integer that stands in the low bits.
  const W magic = constant<W>(6755399441055744.0), shifted = wide * constant<W>(0.63661977236758134308) + magic;
  const W n = shifted - magic;
  // pi/2 in parts of 25 bits, whose products with n < 2^28 are exact with and without FMA.
  const W near = fma(n, constant<W>(-1.5893254712295857e-08), fma(n, constant<W>(-1.5707963109016418), wide));
  const W r = fma(n, constant<W>(-6.123233995736766e-17), near), z = r * r;
  *sine = fma(polynomial(z, -0.1666666663955762, 0.0083333291438941991, -0.00019839256628345425, 2.7175644100889358e-06) * z,
              r, r);
  *cosine = fma(polynomial(z, 0.041666666619203978, -0.001388888343840406, 2.479943640297542e-05, -2.7203303329938726e-07),
                z * z, fma(constant<W>(-0.5), z, constant<W>(1.0)));
  return convert<Int32<V>>(bit_cast<typename Real32<V>::WideInt>(shifted));
}

// sin and cos, 1 ULP up to 2^28 by a double-precision reduction modulo pi/2; libm's beyond. quadrant: 0 for sin, 1 for cos.
template <int quadrant, class V>
METAC_INLINE V sin_cos_f32(V x) {
  typedef Wide64<V> W;
  const auto huge = lt(constant<V>(268435456.0f), abs(x));
  if (__builtin_expect(any(huge), 0)) {
    if constexpr (is_vector<V>) {
      V r{};
      for (int i = 0; i < lane_count<V>; ++i) r[i] = sin_cos_f32<quadrant>(static_cast<float>(x[i]));
      return r;
    } else {
      return static_cast<float>(quadrant == 0 ? __builtin_sin(static_cast<double>(x))
                                              : __builtin_cos(static_cast<double>(x)));
    }
  }
  W sine, cosine;
  const Int32<V> k = reduce_quarters(x, &sine, &cosine) + quadrant;
  const V value = select(ne(k & 1, Int32<V>{}), convert<V>(cosine), convert<V>(sine));
  const V zero_keeps_its_sign = quadrant == 0 ? select(eq(x, constant<V>(0.0f)), x, value) : value;
  return bit_cast<V>(bit_cast<Bits32<V>>(zero_keeps_its_sign) ^ (bit_cast<Bits32<V>>(k & 2) << 30));
}

// 2^t in double, |t| <= 1000, to 5e-11 of the result.
template <class W>
METAC_INLINE W exp2_wide(W t) {
  typedef typename Bits64<W>::Int I;
  const W magic = constant<W>(6755399441055744.0), shifted = t + magic, n = shifted - magic, r = t - n;
  const W p = polynomial(r, 0.99999999996137923, 0.69314718072980275, 0.24022651201149489, 0.055504103503473547,
                         0.0096180268485166198, 0.0013333924038603595, 0.00015469422070580802, 1.5201816057678642e-05);
  const I scale = (bit_cast<I>(shifted) - bit_cast<I>(magic) + 1023) << 52;
  return p * bit_cast<W>(scale);
}

// a^b, 1 ULP, as 2^(b log2 a) in double; the special cases are those of C's pow.
template <class V>
METAC_INLINE V pow_f32(V a, V b) {
  typedef Wide64<V> W;
  const V magnitude = abs(a), zero = constant<V>(0.0f), one = constant<V>(1.0f), infinity = constant<V>(__builtin_inff());
  const auto subnormal = lt(magnitude, constant<V>(1.17549435e-38f));
  V e;
  const W m = convert<W>(split(select(subnormal, magnitude * constant<V>(8388608.0f), magnitude), &e));
  e = e - select(subnormal, constant<V>(23.0f), zero);
  const W s = (m - constant<W>(1.0)) / (m + constant<W>(1.0)), z = s * s;
  const W log2_a = fma(s,
                       polynomial(z, 2.8853900817778442, 0.96179669412388058, 0.57707793906245197, 0.41220960717431321,
                                  0.31989036152815786, 0.28312952836470395),
                       convert<W>(e));
  W t = log2_a * convert<W>(b);
  t = min(constant<W>(1000.0), max(constant<W>(-1000.0), t));
  V result = convert<V>(exp2_wide(t));

  // Below, as C has it: zero and infinite bases, then the sign of an odd power, then NaN, then what is 1 in any case.
  const V b_size = abs(b);
  const auto b_negative = lt(b, zero), b_whole = eq(rint(b), b);
  const auto b_odd = logical_and(
      b_whole, logical_and(lt(b_size, constant<V>(16777216.0f)), ne(rint(b * constant<V>(0.5f)), b * constant<V>(0.5f))));
  result = select(eq(magnitude, zero), select(b_negative, infinity, zero), result);
  result = select(eq(magnitude, infinity), select(b_negative, zero, infinity), result);
  result = select(eq(b_size, infinity),
                  select(eq(magnitude, one), one,
                         select(lt(magnitude, one), select(b_negative, infinity, zero), select(b_negative, zero, infinity))),
                  result);
  result = select(b_odd, copy_sign(result, a), result);
  const auto no_value =
      logical_and(logical_and(lt(a, zero), lt(magnitude, infinity)), logical_and(ne(rint(b), b), lt(b_size, infinity)));
  result = select(no_value, constant<V>(__builtin_nanf("")), result);
  result = select(is_nan(a), a, select(is_nan(b), b, result));
  return select(logical_or(eq(b, zero), eq(a, one)), one, result);
}

}  // namespace detail

// float32(k & mask) - less, mask 3 or 15
template <class V, int mask, int less = 0, class I>
METAC_INLINE V low_bits(I k) {
#ifdef METAC_PIECES
  if constexpr (is_vector<V> && lane_count<V> == 16) {
    alignas(64) static constexpr float table[16] = {
        0 - less,          (1 & mask) - less, (2 & mask) - less,  (3 & mask) - less,  (4 & mask) - less,  (5 & mask) - less,
        (6 & mask) - less, (7 & mask) - less, (8 & mask) - less,  (9 & mask) - less,  (10 & mask) - less, (11 & mask) - less,
        (12 & mask) - less, (13 & mask) - less, (14 & mask) - less, (15 & mask) - less};
    return detail::look_up<V>(table, k);
  } else
#endif
  {
    const V number = detail::convert<V>(k & detail::constant<I>(mask));
    if constexpr (less == 0)
      return number;
    else
      return number - detail::constant<V>(static_cast<float>(less));
  }
}

#define METAC_F32_FUNCTION(name, implementation)                         \
  METAC_INLINE float name(float x) { return detail::implementation(x); } \
  template <class V, METAC_FOR(is_f32_vector<V>)>                        \
  METAC_INLINE V name(V x) {                                             \
    return detail::implementation(x);                                    \
  }
METAC_F32_FUNCTION(exp, exp_f32)
METAC_F32_FUNCTION(expm1, expm1_f32)
METAC_F32_FUNCTION(log, log_f32)
METAC_F32_FUNCTION(log1p, log1p_f32)
METAC_F32_FUNCTION(tanh, tanh_f32)
METAC_F32_FUNCTION(sigmoid, sigmoid_f32)
METAC_F32_FUNCTION(erf, erf_f32)
// Functions that compute in double: in halves where the doubles would not fit into a register.
#ifdef METAC_SCALARS_ONLY
#define METAC_WIDER_THAN_A_REGISTER(V) false
#else
#define METAC_WIDER_THAN_A_REGISTER(V) (2 * sizeof(V) > METAC_REGISTER_BYTES && lane_count<V> > 2)
#endif
#define METAC_F32_FUNCTION_WIDE(name, implementation)                    \
  METAC_INLINE float name(float x) { return detail::implementation(x); } \
  template <class V, METAC_FOR(is_f32_vector<V>)>                        \
  METAC_INLINE V name(V x) {                                             \
    if constexpr (METAC_WIDER_THAN_A_REGISTER(V))                        \
      return join(name(low(x)), name(high(x)));                          \
    else                                                                 \
      return detail::implementation(x);                                  \
  }
#define METAC_F32_FUNCTION_WIDE_2(name, implementation)                              \
  METAC_INLINE float name(float a, float b) { return detail::implementation(a, b); } \
  template <class V, METAC_FOR(is_f32_vector<V>)>                                    \
  METAC_INLINE V name(V a, V b) {                                                    \
    if constexpr (METAC_WIDER_THAN_A_REGISTER(V))                                    \
      return join(name(low(a), low(b)), name(high(a), high(b)));                     \
    else                                                                             \
      return detail::implementation(a, b);                                           \
  }
METAC_F32_FUNCTION_WIDE(sin, sin_cos_f32<0>)
METAC_F32_FUNCTION_WIDE(cos, sin_cos_f32<1>)
METAC_F32_FUNCTION_WIDE_2(pow, pow_f32)
#undef METAC_F32_FUNCTION

}  // namespace METAC_RUNTIME_NAMESPACE
