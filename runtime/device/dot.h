// Sums of products of small numbers: int32 words that each hold two int16 or bfloat16, or four bytes, multiplied element by
// element, the products of a word added up. Of integers exact: no intermediate saturates (two products of int16 fit unless
// all four factors are -32768). One instruction with VNNI, pairs of int16 by pmaddwd elsewhere.
//
// Of bfloat16 as Intel defines vdpbf16ps: the upper product is added to the sum, then the lower one, each exact before it is
// added and rounded to nearest; denormal operands, sums and results are zeros. With FMA the same bits elsewhere, in a dozen
// instructions.
#pragma once
#include "lanes.h"
#ifndef METAC_SCALARS_ONLY
#include "vector_memory.h"
#endif

namespace METAC_RUNTIME_NAMESPACE {
namespace detail {

// Element `at` of a word, sign- or zero-extended.
template <class E, int at, class V>
METAC_INLINE V element_of(V word) {
  constexpr int bits = 8 * static_cast<int>(sizeof(E)), above = 32 - bits * (at + 1);
  typedef typename Choose<is_signed_type<E>, int32_t, uint32_t>::type L;
  if constexpr (is_vector<V>) {
    typedef Vec<uint32_t, lane_count<V>> U;
    typedef Vec<L, lane_count<V>> S;
    return bit_cast<V>(bit_cast<S>(bit_cast<U>(word) << above) >> (32 - bits));
  } else {
    return static_cast<V>(static_cast<L>(static_cast<uint32_t>(word) << above) >> (32 - bits));
  }
}
template <class A, class B, int at, class V>
METAC_INLINE V sum_of_products(V a, V b, V sum) {
  if constexpr (at * sizeof(A) == 4)
    return sum;
  else
    return sum_of_products<A, B, at + 1>(a, b, add(sum, mul(element_of<A, at>(a), element_of<B, at>(b))));
}

// A signed byte of a times one of b. Where that is signed too, its magnitude times a's byte under its sign, under which -128
// stays what it is (psignb).
template <class B, int at, class V>
METAC_INLINE V product_of_bytes(V a, V b) {
  const V x = element_of<int8_t, at>(a), y = element_of<B, at>(b);
  if constexpr (is_signed_type<B>)
    return mul(y < V{} ? element_of<int8_t, 0>(sub(V{}, x)) : x, y < V{} ? sub(V{}, y) : y);
  else
    return mul(x, y);
}
// Of elements `at` and `at` + 1, saturated to int16.
template <class B, int at, class V>
METAC_INLINE V pair_of_products(V a, V b) {
  const V sum = add(product_of_bytes<B, at>(a, b), product_of_bytes<B, at + 1>(a, b));
  return min(max(sum, V{} - 32768), V{} + 32767);
}

}  // namespace detail

#ifndef METAC_SCALARS_ONLY
template <class V>
using ShortsOf = Vec<int16_t, 2 * lane_count<V>>;
#endif
// What vdpbf16ps takes, as the compilers name it: bfloat16s, int16s (g++ up to 12) or words (clang up to 15).
#ifdef __AVX512BF16__
#if (defined(__clang__) && __clang_major__ >= 16) || (!defined(__clang__) && __GNUC__ >= 13)
typedef __bf16 HalvesOf512 __attribute__((vector_size(64)));
#elif defined(__clang__)
typedef i32x16 HalvesOf512;
#else
typedef i16x32 HalvesOf512;
#endif
#endif
#ifdef __clang__  // the compilers name the widest ones differently
#define METAC_VCVTNE2PS2BF16(a, b) __builtin_ia32_cvtne2ps2bf16_512(a, b)
#define METAC_VDPBF16PS(sum, a, b) __builtin_ia32_dpbf16ps_512(sum, bit_cast<HalvesOf512>(a), bit_cast<HalvesOf512>(b))
#define METAC_VPDPBUSD(sum, a, b) __builtin_ia32_vpdpbusd512(sum, a, b)
#define METAC_VPDPWSSD(sum, a, b) __builtin_ia32_vpdpwssd512(sum, a, b)
#define METAC_PMADDWD(a, b) __builtin_ia32_pmaddwd512(a, b)
#else
#if __GNUC__ >= 13
#define METAC_VCVTNE2PS2BF16(a, b) __builtin_ia32_cvtne2ps2bf16_v32bf(a, b)
#else
#define METAC_VCVTNE2PS2BF16(a, b) __builtin_ia32_cvtne2ps2bf16_v32hi(a, b)
#endif
#define METAC_VDPBF16PS(sum, a, b) __builtin_ia32_dpbf16ps_v16sf(sum, bit_cast<HalvesOf512>(a), bit_cast<HalvesOf512>(b))
#define METAC_VPDPBUSD(sum, a, b) __builtin_ia32_vpdpbusd_v16si(sum, a, b)
#define METAC_VPDPWSSD(sum, a, b) __builtin_ia32_vpdpwssd_v16si(sum, a, b)
#define METAC_PMADDWD(a, b) __builtin_ia32_pmaddwd512_mask(a, b, V{}, static_cast<uint16_t>(-1))
#endif

// A sum that is made next, and not with others in whatever order needs more registers: compilers may add up integers so.
template <class V>
METAC_INLINE V in_order(V sum) {
#if defined(__SSE2__) && !defined(METAC_SCALARS_ONLY)
  if constexpr (is_vector<V>) asm("" : "+x"(sum));
#endif
  return sum;
}

// sum + the products of the words' elements, A being a's and B b's element type.
template <class A, class B, class V>
METAC_INLINE V dot(V a, V b, V sum) {
#ifndef METAC_SCALARS_ONLY
  if constexpr (sizeof(A) == 1) {
#if defined(__AVX512VNNI__)
    if constexpr (Same<V, i32x16>::value) {
      if constexpr (is_signed_type<A>)
        return METAC_VPDPBUSD(sum, b, a);
      else
        return METAC_VPDPBUSD(sum, a, b);
    }
#endif
  } else {
#if defined(__AVX512VNNI__)
    if constexpr (Same<V, i32x16>::value) return METAC_VPDPWSSD(sum, a, b);
#elif defined(__AVX512BW__)
    if constexpr (Same<V, i32x16>::value) return add(sum, METAC_PMADDWD(bit_cast<ShortsOf<V>>(a), bit_cast<ShortsOf<V>>(b)));
#endif
#if defined(__AVX2__)
    if constexpr (Same<V, i32x8>::value)
      return in_order(add(sum, bit_cast<V>(__builtin_ia32_pmaddwd256(bit_cast<ShortsOf<V>>(a), bit_cast<ShortsOf<V>>(b)))));
#endif
#if defined(__SSE2__)
    if constexpr (Same<V, i32x4>::value)
      return in_order(add(sum, bit_cast<V>(__builtin_ia32_pmaddwd128(bit_cast<ShortsOf<V>>(a), bit_cast<ShortsOf<V>>(b)))));
#endif
  }
#endif
  return detail::sum_of_products<A, B, 0>(a, b, sum);
}

namespace detail {

template <class F>
METAC_INLINE F without_denormals(F x) {
  return select(abs(x) < F{} + 0x1p-126f, x * F{}, x);
}
template <class V, bool vector = is_vector<V>>
struct FloatsOf {
  typedef float type;
};
template <class V>
struct FloatsOf<V, true> {
  typedef Vec<float, lane_count<V>> type;
};
// Element `at` of a word of bfloat16s.
template <int at, class V>
METAC_INLINE typename FloatsOf<V>::type bfloat16_of(V word) {
  if constexpr (is_vector<V>) {
    const auto bits = bit_cast<Vec<uint32_t, lane_count<V>>>(word);
    return without_denormals(bit_cast<typename FloatsOf<V>::type>(at == 0 ? bits << 16 : bits & 0xffff0000u));
  } else {
    const uint32_t bits = static_cast<uint32_t>(word);
    return without_denormals(float_of_bits(at == 0 ? bits << 16 : bits & 0xffff0000u));
  }
}
template <class V, class F>
METAC_INLINE F dot_bf16_exactly(V a, V b, F sum) {
  sum = without_denormals(fma(bfloat16_of<1>(a), bfloat16_of<1>(b), without_denormals(sum)));
  return without_denormals(fma(bfloat16_of<0>(a), bfloat16_of<0>(b), sum));
}

}  // namespace detail

// Lanes of words to float32 lanes, or a word to a float.
template <class V, class F = typename detail::FloatsOf<V>::type>
METAC_INLINE F dot_bf16(V a, V b, F sum = F{}) {
#if defined(__AVX512BF16__) && !defined(METAC_SCALARS_ONLY)
  if constexpr (Same<V, i32x16>::value) return METAC_VDPBF16PS(sum, a, b);
#endif
  return detail::dot_bf16_exactly(a, b, sum);
}

// Two floats, or lanes of them, rounded to bfloat16: `low` is the lower half of the word. Denormals are zeros.
template <class F>
METAC_INLINE auto bf16_word(F low, F high) {
#ifndef METAC_SCALARS_ONLY
  if constexpr (is_vector<F>) {
#ifdef __AVX512BF16__
    if constexpr (lane_count<F> == 16) {
      const i16x32 both = bit_cast<i16x32>(METAC_VCVTNE2PS2BF16(high, low));  // those of `low` in front
      return bit_cast<i32x16>(__builtin_shufflevector(both, both, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24,
                                                      9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
    } else
#endif
    {
      typedef Vec<int32_t, lane_count<F>> Words;
      const auto half = [](F x) {
        return __builtin_convertvector(narrow<bfloat16>(detail::without_denormals(x)), Words);
      };
      return half(low) | half(high) << 16;
    }
  } else
#endif
  {
    const uint32_t lower = bfloat16(detail::without_denormals(low)).bits, upper = bfloat16(detail::without_denormals(high)).bits;
    return static_cast<int32_t>(lower | upper << 16);
  }
}
#undef METAC_VCVTNE2PS2BF16
#undef METAC_VDPBF16PS
#undef METAC_VPDPBUSD
#undef METAC_VPDPWSSD
#undef METAC_PMADDWD
template <class V>
METAC_INLINE V dot_u8s8(V a, V b, V sum = V{}) {
  return dot<uint8_t, int8_t>(a, b, sum);
}
template <class V>
METAC_INLINE V dot_s8u8(V a, V b, V sum = V{}) {
  return dot<int8_t, uint8_t>(a, b, sum);
}

// Words of two int16: `low` and `high`, which wrap.
template <class V>
METAC_INLINE V word_of_i16(V low, V high) {
  return bit_or(shift_left(high, V{} + 16), bit_and(low, V{} + 0xffff));
}
// Each int16 is the sum of two products of a's signed and b's unsigned bytes, saturated (pmaddubsw).
template <class V>
METAC_INLINE V pairs_s8u8(V a, V b) {
#if defined(__AVX2__) && !defined(METAC_SCALARS_ONLY)
  if constexpr (Same<V, i32x8>::value) {
    typedef char Bytes __attribute__((vector_size(32)));  // as the compilers declare it
    return bit_cast<V>(__builtin_ia32_pmaddubsw256(bit_cast<Bytes>(b), bit_cast<Bytes>(a)));
  }
#endif
  return word_of_i16(detail::pair_of_products<uint8_t, 0>(a, b), detail::pair_of_products<uint8_t, 2>(a, b));
}
// The same of b's signed bytes: their magnitudes, and a's under their signs, where -128 stays what it is.
template <class V>
METAC_INLINE V pairs_s8s8(V a, V b) {
#if defined(__AVX2__) && !defined(METAC_SCALARS_ONLY)
  if constexpr (Same<V, i32x8>::value) {
    typedef char Bytes __attribute__((vector_size(32)));
    const Bytes factors = bit_cast<Bytes>(b);
    return bit_cast<V>(__builtin_ia32_pmaddubsw256(__builtin_ia32_psignb256(factors, factors),
                                                   __builtin_ia32_psignb256(bit_cast<Bytes>(a), factors)));
  }
#endif
  return word_of_i16(detail::pair_of_products<int8_t, 0>(a, b), detail::pair_of_products<int8_t, 2>(a, b));
}
template <class V>
METAC_INLINE V add_i16(V a, V b) {
#ifndef METAC_SCALARS_ONLY
  if constexpr (is_vector<V>) return in_order(bit_cast<V>(bit_cast<ShortsOf<V>>(a) + bit_cast<ShortsOf<V>>(b)));
#endif
  return word_of_i16(add(detail::element_of<int16_t, 0>(a), detail::element_of<int16_t, 0>(b)),
                     add(detail::element_of<int16_t, 1>(a), detail::element_of<int16_t, 1>(b)));
}
template <class V>
METAC_INLINE V sum_i16(V a) {
  return dot<int16_t, int16_t>(a, V{} + 0x10001, V{});
}
template <class V>
METAC_INLINE V dot_i16(V a, V b, V sum = V{}) {
  return dot<int16_t, int16_t>(a, b, sum);
}

// The word that starts at an element of 8 or 16 bits.
template <class T>
METAC_INLINE int32_t load_word(const T* p) {
  int32_t word;
  __builtin_memcpy(&word, p, 4);
  return word;
}
template <class V, class T>
METAC_INLINE V load_words(const T* p) {  // one behind the other
  V words;
  __builtin_memcpy(&words, p, sizeof(V));
  return words;
}

}  // namespace METAC_RUNTIME_NAMESPACE
