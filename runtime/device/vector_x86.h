// fma, square roots and rounding of vectors: one instruction where the machine has it. Each works by the widest register
// at hand: a vector wider than that is done in halves, and without an instruction set it is done lane by lane.
// The two compilers name some instructions differently; new clang has portable spellings for all.
#pragma once
#include "vector.h"

#if defined(__clang__) && METAC_HAS_BUILTIN(__builtin_elementwise_fma) && METAC_HAS_BUILTIN(__builtin_elementwise_sqrt)
#define METAC_ELEMENTWISE 1
#endif
#if defined(__AVX512F__)
#define METAC_REGISTER_BYTES 64
#elif defined(__AVX__)
#define METAC_REGISTER_BYTES 32
#else
#define METAC_REGISTER_BYTES 16
#endif

namespace METAC_RUNTIME_NAMESPACE {

namespace detail {

struct Fma {
  template <class V>
  METAC_INLINE V apply(V a, V b, V c) {
#ifdef METAC_ELEMENTWISE
#ifdef __FMA__
    return __builtin_elementwise_fma(a, b, c);
#else
    return a * b + c;
#endif
#elif !defined(__FMA__)
    return a * b + c;
#else
    if constexpr (Same<V, f32x4>::value)
      return __builtin_ia32_vfmaddps(a, b, c);
    else if constexpr (Same<V, f64x2>::value)
      return __builtin_ia32_vfmaddpd(a, b, c);
    else if constexpr (Same<V, f32x8>::value)
      return __builtin_ia32_vfmaddps256(a, b, c);
    else if constexpr (Same<V, f64x4>::value)
      return __builtin_ia32_vfmaddpd256(a, b, c);
#ifdef __AVX512F__
    else if constexpr (Same<V, f32x16>::value)
      return __builtin_ia32_vfmaddps512_mask(a, b, c, static_cast<uint16_t>(-1), 4);
    else if constexpr (Same<V, f64x8>::value)
      return __builtin_ia32_vfmaddpd512_mask(a, b, c, static_cast<uint8_t>(-1), 4);
#endif
    else {
      V r{};
      for (int i = 0; i < lane_count<V>; ++i)
        r[i] = fma(static_cast<Lane<V>>(a[i]), static_cast<Lane<V>>(b[i]), static_cast<Lane<V>>(c[i]));
      return r;
    }
#endif
  }
};

struct Sqrt {
  template <class V>
  METAC_INLINE V apply(V a) {
#ifdef METAC_ELEMENTWISE
    return __builtin_elementwise_sqrt(a);
#else
#ifdef __SSE2__
    if constexpr (Same<V, f32x4>::value)
      return __builtin_ia32_sqrtps(a);
    else if constexpr (Same<V, f64x2>::value)
      return __builtin_ia32_sqrtpd(a);
    else
#endif
#ifdef __AVX__
        if constexpr (Same<V, f32x8>::value)
      return __builtin_ia32_sqrtps256(a);
    else if constexpr (Same<V, f64x4>::value)
      return __builtin_ia32_sqrtpd256(a);
    else
#endif
#if defined(__AVX512F__) && defined(__clang__)
        if constexpr (Same<V, f32x16>::value)
      return __builtin_ia32_sqrtps512(a, 4);
    else if constexpr (Same<V, f64x8>::value)
      return __builtin_ia32_sqrtpd512(a, 4);
    else
#elif defined(__AVX512F__)
    if constexpr (Same<V, f32x16>::value)
      return __builtin_ia32_sqrtps512_mask(a, a, static_cast<uint16_t>(-1), 4);
    else if constexpr (Same<V, f64x8>::value)
      return __builtin_ia32_sqrtpd512_mask(a, a, static_cast<uint8_t>(-1), 4);
    else
#endif
    {
      V r{};
      for (int i = 0; i < lane_count<V>; ++i) r[i] = sqrt(static_cast<Lane<V>>(a[i]));
      return r;
    }
#endif
  }
};

// The machine's own maximum and minimum: b where either is NaN, and of two zeros. By name, not as a > b ? a : b: see
// scalar.h.
#if defined(__clang__)
#define METAC_512(name, a, b, lane_bits) __builtin_ia32_##name##512(a, b, 4)
#else
#define METAC_512(name, a, b, lane_bits) __builtin_ia32_##name##512_mask(a, b, a, static_cast<lane_bits>(-1), 4)
#endif
struct Max {
  template <class V>
  METAC_INLINE V apply(V a, V b) {
#ifdef __AVX512F__
    if constexpr (Same<V, f32x16>::value) return METAC_512(maxps, a, b, uint16_t);
    if constexpr (Same<V, f64x8>::value) return METAC_512(maxpd, a, b, uint8_t);
#endif
#ifdef __AVX__
    if constexpr (Same<V, f32x8>::value) return __builtin_ia32_maxps256(a, b);
    if constexpr (Same<V, f64x4>::value) return __builtin_ia32_maxpd256(a, b);
#endif
#ifdef __SSE2__
    if constexpr (Same<V, f32x4>::value) return __builtin_ia32_maxps(a, b);
    if constexpr (Same<V, f64x2>::value) return __builtin_ia32_maxpd(a, b);
#endif
    return a > b ? a : b;
  }
};
struct Min {
  template <class V>
  METAC_INLINE V apply(V a, V b) {
#ifdef __AVX512F__
    if constexpr (Same<V, f32x16>::value) return METAC_512(minps, a, b, uint16_t);
    if constexpr (Same<V, f64x8>::value) return METAC_512(minpd, a, b, uint8_t);
#endif
#ifdef __AVX__
    if constexpr (Same<V, f32x8>::value) return __builtin_ia32_minps256(a, b);
    if constexpr (Same<V, f64x4>::value) return __builtin_ia32_minpd256(a, b);
#endif
#ifdef __SSE2__
    if constexpr (Same<V, f32x4>::value) return __builtin_ia32_minps(a, b);
    if constexpr (Same<V, f64x2>::value) return __builtin_ia32_minpd(a, b);
#endif
    return a < b ? a : b;
  }
};
#undef METAC_512

// mode as the instruction takes it: 8 nearest even, 9 down, 10 up, 11 towards zero (8: no inexact flag).
template <int mode, class T>
METAC_INLINE T round_scalar(T x) {
  if constexpr (mode == 8)
    return rint(x);
  else if constexpr (mode == 9)
    return floor(x);
  else if constexpr (mode == 10)
    return ceil(x);
  else
    return trunc(x);
}
template <int mode>
struct Round {
  template <class V>
  METAC_INLINE V apply(V a) {
#if defined(METAC_ELEMENTWISE)
    if constexpr (mode == 8)
      return __builtin_elementwise_roundeven(a);
    else if constexpr (mode == 9)
      return __builtin_elementwise_floor(a);
    else if constexpr (mode == 10)
      return __builtin_elementwise_ceil(a);
    else
      return __builtin_elementwise_trunc(a);
#else
#ifdef __SSE4_1__
    if constexpr (Same<V, f32x4>::value)
      return __builtin_ia32_roundps(a, mode);
    else if constexpr (Same<V, f64x2>::value)
      return __builtin_ia32_roundpd(a, mode);
    else
#endif
#ifdef __AVX__
        if constexpr (Same<V, f32x8>::value)
      return __builtin_ia32_roundps256(a, mode);
    else if constexpr (Same<V, f64x4>::value)
      return __builtin_ia32_roundpd256(a, mode);
    else
#endif
#ifdef __AVX512F__
        if constexpr (Same<V, f32x16>::value)
      return __builtin_ia32_rndscaleps_mask(a, mode, a, static_cast<uint16_t>(-1), 4);
    else if constexpr (Same<V, f64x8>::value)
      return __builtin_ia32_rndscalepd_mask(a, mode, a, static_cast<uint8_t>(-1), 4);
    else
#endif
    {
      V r{};
      for (int i = 0; i < lane_count<V>; ++i) r[i] = round_scalar<mode>(static_cast<Lane<V>>(a[i]));
      return r;
    }
#endif
  }
};

// Lanes that are integers within int32 once they are rounded to the nearest, ties to even; NaN becomes the least one.
struct NearestInt {
  template <class V>
  METAC_INLINE Vec<int32_t, lane_count<V>> apply(V a) {
#ifdef __AVX512F__
    if constexpr (Same<V, f32x16>::value)
      return __builtin_ia32_cvtps2dq512_mask(a, Vec<int32_t, 16>{}, static_cast<uint16_t>(-1), 8);
#endif
#ifdef __AVX__
    if constexpr (Same<V, f32x8>::value) return __builtin_ia32_cvtps2dq256(a);
#endif
#ifdef __SSE2__
    if constexpr (Same<V, f32x4>::value) return __builtin_ia32_cvtps2dq(a);
#endif
    return cast_to<Vec<int32_t, lane_count<V>>>(Round<8>::apply(a));
  }
};

template <class F, class V>
METAC_INLINE auto by_registers(V a) {
  if constexpr (sizeof(V) > METAC_REGISTER_BYTES)
    return join(by_registers<F>(low(a)), by_registers<F>(high(a)));
  else
    return F::template apply<V>(a);
}
template <class F, class V>
METAC_INLINE V by_registers(V a, V b) {
  if constexpr (sizeof(V) > METAC_REGISTER_BYTES)
    return join(by_registers<F>(low(a), low(b)), by_registers<F>(high(a), high(b)));
  else
    return F::template apply<V>(a, b);
}
template <class F, class V>
METAC_INLINE V by_registers(V a, V b, V c) {
  if constexpr (sizeof(V) > METAC_REGISTER_BYTES)
    return join(by_registers<F>(low(a), low(b), low(c)), by_registers<F>(high(a), high(b), high(c)));
  else
    return F::template apply<V>(a, b, c);
}

}  // namespace detail

template <class V, METAC_FOR(is_real_vector<V>)>
METAC_INLINE V fma(V a, V b, V c) {
  return detail::by_registers<detail::Fma>(a, b, c);
}
template <class V, METAC_FOR(is_real_vector<V>)>
METAC_INLINE V max(V a, V b) {
  return a != a ? a : detail::by_registers<detail::Max>(a, b);
}
template <class V, METAC_FOR(is_real_vector<V>)>
METAC_INLINE V min(V a, V b) {
  return a != a ? a : detail::by_registers<detail::Min>(a, b);
}
template <class V, METAC_FOR(is_real_vector<V>)>
METAC_INLINE V sqrt(V a) {
  return detail::by_registers<detail::Sqrt>(a);
}
template <class V, METAC_FOR(is_real_vector<V>)>
METAC_INLINE V rint(V a) {
  return detail::by_registers<detail::Round<8>>(a);
}
template <class V, METAC_FOR(is_real_vector<V>)>
METAC_INLINE V floor(V a) {
  return detail::by_registers<detail::Round<9>>(a);
}
template <class V, METAC_FOR(is_real_vector<V>)>
METAC_INLINE V ceil(V a) {
  return detail::by_registers<detail::Round<10>>(a);
}
template <class V, METAC_FOR(is_real_vector<V>)>
METAC_INLINE V trunc(V a) {
  return detail::by_registers<detail::Round<11>>(a);
}
template <class V, METAC_FOR(is_real_vector<V>)>
METAC_INLINE V floor_div(V a, V b) {
  return floor(a / b);
}
// cast_to<To>(min(max(v, low), high)) where To's lanes hold both limits: what is left to convert needs no test. NaN becomes
// the least int32 and wraps, as with cast_to.
template <class To, class V, METAC_FOR(is_f32_vector<V>)>
METAC_INLINE To clamped_cast(V v, float low, float high) {
  const V clamped = min(broadcast<V>(high), max(broadcast<V>(low), v));
#if defined(__SSE2__)
  return __builtin_convertvector(to_int_exact(clamped), To);
#else
  return cast_to<To>(clamped);
#endif
}
// cast_to<To>(min(max(rint(v) + more, low + more), high + more)), all but v whole numbers: one instruction rounds and
// converts. NaN becomes 0 where nothing is added, else what `low` does.
template <class To, class V, METAC_FOR(is_f32_vector<V>)>
METAC_INLINE To rounded_cast(V v, float low, float high, int32_t more = 0) {
  const V above = more != 0 ? detail::by_registers<detail::Max>(v, broadcast<V>(low)) : max(broadcast<V>(low), v);
  const auto whole = detail::by_registers<detail::NearestInt>(min(broadcast<V>(high), above));
  return __builtin_convertvector(whole + broadcast<Vec<int32_t, lane_count<V>>>(more), To);
}
// cast_to<V>(clamped_cast<To>(v, low, high)) of whole numbers, which need not go through To.
template <class To, class V, METAC_FOR(is_f32_vector<V>)>
METAC_INLINE V clamped(V v, float low, float high) {
  if constexpr (static_cast<Lane<To>>(-1) < 0)  // NaN becomes 0, as with casts
    return v != v ? broadcast<V>(0) : min(broadcast<V>(high), max(broadcast<V>(low), v));
  return detail::by_registers<detail::Min>(detail::by_registers<detail::Max>(v, broadcast<V>(low)), broadcast<V>(high));
}
#define METAC_IDENTITY(name)                          \
  template <class V, METAC_FOR(is_integer_vector<V>)> \
  METAC_INLINE V name(V a) {                          \
    return a;                                         \
  }
METAC_IDENTITY(floor)
METAC_IDENTITY(ceil)
METAC_IDENTITY(trunc)
METAC_IDENTITY(rint)
#undef METAC_IDENTITY

}  // namespace METAC_RUNTIME_NAMESPACE
