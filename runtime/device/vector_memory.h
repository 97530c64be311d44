// Loads and stores of vectors: any alignment, part of a vector, strided, indexed, converting; reductions across lanes.
#pragma once
#include "vector_x86.h"

namespace METAC_RUNTIME_NAMESPACE {

// What a lane is in memory: bool and the half types are held as their bits.
template <class T>
struct StoredAs {
  typedef T type;
};
template <>
struct StoredAs<bool> {
  typedef uint8_t type;
};
template <>
struct StoredAs<float16> {
  typedef uint16_t type;
};
template <>
struct StoredAs<bfloat16> {
  typedef uint16_t type;
};
template <class V, class T>
constexpr bool holds = Same<Lane<V>, typename StoredAs<T>::type>::value;

template <class V, class T>
METAC_INLINE V load(const T* p) {
  static_assert(holds<V, T>, "the vector's lanes are the memory's elements");
  V v;
  __builtin_memcpy(&v, p, sizeof(V));
  return v;
}
template <class T, class V, METAC_FOR(is_vector<V>)>
METAC_INLINE void store(T* p, V v) {
  static_assert(holds<V, T>, "the vector's lanes are the memory's elements");
  __builtin_memcpy(p, &v, sizeof(V));
}

// A condition that is asked where it stands: compilers make a loop for each answer otherwise, and prefetches are not worth
// such code.
METAC_INLINE bool asked_here(bool condition) {
  __asm__ volatile("" : "+r"(condition));
  return condition;
}

// Asks for the cache line at p, which need not exist, to be in the second-level cache soon.
template <class T>
METAC_INLINE void prefetch(const T* p) {
  __builtin_prefetch(p, 0, 2);
}

// p, which the compiler knows nothing about: what is read through it is read at this place of the program, not in front of
// the loops around it into a register. A tile needs its registers for sums; one that goes to memory in the innermost loop
// costs a fifth.
template <class T>
METAC_INLINE const T* here(const T* p) {
  asm volatile("" : "+r"(p));
  return p;
}

// Masked bytes and words of 16 bits: the compilers disagree on the pointer's type.
typedef char Chars16 __attribute__((vector_size(16)));
#ifdef __clang__
#define METAC_MASKED_BYTES Chars16
#define METAC_MASKED_SHORTS i16x16
#else
#define METAC_MASKED_BYTES char
#define METAC_MASKED_SHORTS short
#endif

// The first n lanes, 0 <= n <= lanes; the others read as zero and are not written.
template <class V, class T>
METAC_INLINE V load_first(const T* p, int64_t n) {
  static_assert(holds<V, T>, "the vector's lanes are the memory's elements");
#ifdef __AVX512F__
  if constexpr (lane_count<V> == 16 && sizeof(Lane<V>) == 4)
    return bit_cast<V>(
        __builtin_ia32_loadups512_mask(reinterpret_cast<const float*>(p), f32x16{}, static_cast<uint16_t>((1u << n) - 1)));
#endif
#if defined(__AVX__) && !defined(__AVX512F__)
  if constexpr (Same<V, f32x8>::value)
    return __builtin_ia32_maskloadps256(reinterpret_cast<const f32x8*>(p), iota<i32x8>() < static_cast<int32_t>(n));
#endif
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (lane_count<V> == 16 && sizeof(Lane<V>) == 1)
    return bit_cast<V>(
        __builtin_ia32_loaddquqi128_mask((const METAC_MASKED_BYTES*)p, Chars16{}, static_cast<uint16_t>((1u << n) - 1)));
  if constexpr (lane_count<V> == 16 && sizeof(Lane<V>) == 2)
    return bit_cast<V>(
        __builtin_ia32_loaddquhi256_mask((const METAC_MASKED_SHORTS*)p, i16x16{}, static_cast<uint16_t>((1u << n) - 1)));
#endif
  V v{};
  __builtin_memcpy(&v, p, static_cast<size_t>(n) * sizeof(Lane<V>));
  return v;
}
template <class T, class V, METAC_FOR(is_vector<V>)>
METAC_INLINE void store_first(T* p, V v, int64_t n) {
  static_assert(holds<V, T>, "the vector's lanes are the memory's elements");
#ifdef __AVX512F__
  if constexpr (lane_count<V> == 16 && sizeof(Lane<V>) == 4) {
    __builtin_ia32_storeups512_mask(reinterpret_cast<float*>(p), bit_cast<f32x16>(v), static_cast<uint16_t>((1u << n) - 1));
    return;
  }
#endif
#if defined(__AVX__) && !defined(__AVX512F__)
  if constexpr (Same<V, f32x8>::value) {
    __builtin_ia32_maskstoreps256(reinterpret_cast<f32x8*>(p), iota<i32x8>() < static_cast<int32_t>(n), v);
    return;
  }
#endif
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (lane_count<V> == 16 && sizeof(Lane<V>) == 1) {
    __builtin_ia32_storedquqi128_mask((METAC_MASKED_BYTES*)p, bit_cast<Chars16>(v), static_cast<uint16_t>((1u << n) - 1));
    return;
  }
  if constexpr (lane_count<V> == 16 && sizeof(Lane<V>) == 2) {
    __builtin_ia32_storedquhi256_mask((METAC_MASKED_SHORTS*)p, bit_cast<i16x16>(v), static_cast<uint16_t>((1u << n) - 1));
    return;
  }
#endif
  __builtin_memcpy(p, &v, static_cast<size_t>(n) * sizeof(Lane<V>));
}

// The lanes 0 ... n-1 as a list of numbers.
template <int... k>
struct Lanes {};
template <int n, int... k>
struct LanesUpTo : LanesUpTo<n - 1, n - 1, k...> {};
template <int... k>
struct LanesUpTo<0, k...> {
  typedef Lanes<k...> type;
};

// Of the lanes of two vectors, numbered on, those whose numbers are listed.
template <class V, class I, I... number>
METAC_INLINE V lanes_of(V low, V high) {
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(low, high, number...);
#else
  return __builtin_shuffle(low, high, Mask<V>{number...});
#endif
}
// Every `step`-th element, step > 1; nothing behind the last of them is touched.
template <int step, class V, class T, int... k>
METAC_INLINE V load_strided(const T* p, Lanes<k...>) {
  static_assert(holds<V, T>, "the vector's lanes are the memory's elements");
  constexpr int n = sizeof...(k), last = step * (n - 1) + 1 - n;  // where a load ends with the last element
  if constexpr (step == 2)
    return lanes_of<V, int, (2 * k < n ? 2 * k : 2 * k - last + n)...>(load<V>(p), load<V>(p + last));
  if constexpr (step == 3) {
    const V low = lanes_of<V, int, (3 * k < 2 * n ? 3 * k : 0)...>(load<V>(p), load<V>(p + n));
    return lanes_of<V, int, (3 * k < 2 * n ? k : 3 * k - last + n)...>(low, load<V>(p + last));
  }
  if constexpr (step == 4) {
    const V low = lanes_of<V, int, (2 * k < n ? 4 * k : 0)...>(load<V>(p), load<V>(p + n));
    const V high = lanes_of<V, int, (2 * k < n ? 0 : 4 * k < 3 * n ? 4 * k - 2 * n : 4 * k - last + n)...>(
        load<V>(p + 2 * n), load<V>(p + last));
    return lanes_of<V, int, (2 * k < n ? k : n + k)...>(low, high);
  }
  return V{bit_cast<Lane<V>>(p[step * k])...};
}
template <class V, int step, class T>
METAC_INLINE V load_strided(const T* p) {
  return load_strided<step, V>(p, typename LanesUpTo<lane_count<V>>::type());
}
template <class V, class T, class I>
METAC_INLINE V gather(const T* p, I index) {
  V v{};
  for (int i = 0; i < lane_count<V>; ++i)
    __builtin_memcpy(reinterpret_cast<char*>(&v) + i * sizeof(T), p + index[i], sizeof(T));
  return v;
}

// ---- half-precision lanes, held as u16xN; the formulas are those of types.h, or one instruction ----
// clang would compare the halves themselves instead of what they were widened to, and for that takes vectors apart: the
// empty asm hides where a widened value comes from.
template <class T, class V, METAC_FOR(is_half_type<T>&& is_vector<V>)>
METAC_INLINE Vec<float, lane_count<V>> widen(V bits) {
  typedef Vec<uint32_t, lane_count<V>> U;
  typedef Vec<float, lane_count<V>> F;
  const U h = __builtin_convertvector(bits, U);
  if constexpr (Same<T, bfloat16>::value) {
    return bit_cast<F>(h << 16);
#ifdef __F16C__
  } else if constexpr (lane_count<V> == 8) {
    F wide = __builtin_ia32_vcvtph2ps256(bit_cast<i16x8>(bits));
    __asm__("" : "+x"(wide));
    return wide;
#endif
#ifdef __AVX512F__
  } else if constexpr (lane_count<V> == 16) {
    F wide = __builtin_ia32_vcvtph2ps512_mask(bit_cast<i16x16>(bits), F{}, static_cast<uint16_t>(-1), 4);
    __asm__("" : "+v"(wide));
    return wide;
#endif
  } else {
    const U magnitude = (h & 0x7fffu) << 13;
    const U scaled = bit_cast<U>(bit_cast<F>(magnitude) * float_of_bits(0x77800000u));
    const U finite_or_not = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : scaled;
    return bit_cast<F>(finite_or_not | ((h & 0x8000u) << 16));
  }
}
// What vcvtneps2bf16 gives, as the compilers name it: bfloat16s, or int16s (g++ up to 12, clang up to 15).
#ifdef __AVX512BF16__
#ifndef __clang__
#define METAC_VCVTNEPS2BF16(v) __builtin_ia32_cvtneps2bf16_v16sf(v)
#elif __clang_major__ >= 16
typedef __bf16 HalvesOf256 __attribute__((vector_size(32)));
#define METAC_VCVTNEPS2BF16(v) __builtin_ia32_cvtneps2bf16_512_mask(v, HalvesOf256{}, static_cast<uint16_t>(-1))
#else
#define METAC_VCVTNEPS2BF16(v) __builtin_ia32_cvtneps2bf16_512_mask(v, i16x16{}, static_cast<uint16_t>(-1))
#endif
#endif
template <class T, class F, METAC_FOR(is_half_type<T>&& is_f32_vector<F>)>
METAC_INLINE Vec<uint16_t, lane_count<F>> narrow(F v) {
#ifdef __AVX512BF16__
  if constexpr (Same<T, bfloat16>::value && lane_count<F> == 16) {
    constexpr int denormals = 0x20;  // which the instruction takes for zeros
    if (__builtin_expect(__builtin_ia32_fpclassps512_mask(v, denormals, static_cast<uint16_t>(-1)) == 0, 1))
      return bit_cast<u16x16>(METAC_VCVTNEPS2BF16(v));
  }
#endif
#ifdef __F16C__
  if constexpr (Same<T, float16>::value && lane_count<F> == 8) return bit_cast<u16x8>(__builtin_ia32_vcvtps2ph256(v, 8));
#endif
#ifdef __AVX512F__
  if constexpr (Same<T, float16>::value && lane_count<F> == 16)
    return bit_cast<u16x16>(__builtin_ia32_vcvtps2ph512_mask(v, 8, i16x16{}, static_cast<uint16_t>(-1)));
#endif
  typedef Vec<uint32_t, lane_count<F>> U;
  const U bits = bit_cast<U>(v), magnitude = bits & 0x7fffffffu;
  U h;
  if constexpr (Same<T, bfloat16>::value) {
    h = magnitude > 0x7f800000u ? (bits >> 16) | 0x40u : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  } else {
    const U subnormal = bit_cast<U>(bit_cast<F>(magnitude) + 0.5f) - 0x3f000000u;
    const U normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    const U infinity = U{} + 0x7c00u;
    const U nan = ((magnitude >> 13) & 0x3ffu) | 0x7e00u;
    h = magnitude < 0x38800000u ? subnormal : normal;
    h = magnitude >= 0x477ff000u ? infinity : h;
    h = (magnitude > 0x7f800000u ? nan : h) | ((bits >> 16) & 0x8000u);
  }
  return __builtin_convertvector(h, Vec<uint16_t, lane_count<F>>);
}

// Float lanes from memory of any numeric type, and back (rounded to half types, truncated to integers).
template <class F, class T>
METAC_INLINE F load_f32(const T* p) {
  typedef Vec<T, lane_count<F>> Raw;
  if constexpr (is_half_type<T>)
    return widen<T>(load<Raw>(p));
  else
    return cast_to<F>(load<Raw>(p));
}
template <class T, class F, METAC_FOR(is_f32_vector<F>)>
METAC_INLINE void store_f32(T* p, F v) {
  typedef Vec<T, lane_count<F>> Raw;
  if constexpr (is_half_type<T>)
    store(p, narrow<T>(v));
  else
    store(p, cast_to<Raw>(v));
}

// ---- reductions across lanes: halves combined until one lane is left ----
#define METAC_REDUCE(name, combine)                \
  template <class T, METAC_FOR(is_scalar_type<T>)> \
  METAC_INLINE T name(T x) {                       \
    return x;                                      \
  }                                                \
  template <class V, METAC_FOR(is_vector<V>)>      \
  METAC_INLINE Lane<V> name(V v) {                 \
    return name(combine(low(v), high(v)));         \
  }
METAC_REDUCE(reduce_add, add)
METAC_REDUCE(reduce_mul, mul)
METAC_REDUCE(reduce_min, min)
METAC_REDUCE(reduce_max, max)
METAC_REDUCE(reduce_and, bit_and)
METAC_REDUCE(reduce_or, bit_or)
#undef METAC_REDUCE
template <class M, METAC_FOR(is_signed_vector<M>)>
METAC_INLINE bool any(M mask) {
  return reduce_or(mask) != 0;
}
template <class M, METAC_FOR(is_signed_vector<M>)>
METAC_INLINE bool all(M mask) {
  return reduce_and(mask) != 0;
}

// The lanes `at...` of v, in that order.
template <int... at, class V>
METAC_INLINE V shuffle(V v) {
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(v, v, at...);
#else
  return __builtin_shuffle(v, Mask<V>{at...});
#endif
}

// Words of four neighbouring bytes: lane k has the at[k]-th of those from p on, of which there are lanes / 4.
template <class V, int... at, class T>
METAC_INLINE V load_words(const T* p) {
  typedef Vec<int32_t, lane_count<V> / 4> Words;
  static_assert(sizeof(T) == 1, "bytes");
  Words words;
  __builtin_memcpy(&words, p, sizeof(Words));
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(words, words, at...);
#else
  return V{words[at]...};
#endif
}

}  // namespace METAC_RUNTIME_NAMESPACE
