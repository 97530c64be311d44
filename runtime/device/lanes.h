// What functions that serve scalars and vectors alike ask about their argument. Without vectors (on a GPU, where
// METAC_SCALARS_ONLY is defined) nothing is a vector and the functions remain for scalars.
#pragma once
#include "scalar.h"

namespace METAC_RUNTIME_NAMESPACE {

template <class T, int n>
struct VecOf;  // by lane type and count
template <class V>
struct VecTraits {  // by vector
  static constexpr bool is_vector = false;
};
template <class T, int n>
using Vec = typename VecOf<T, n>::type;

template <class V>
using Lane = typename VecTraits<V>::lane;
template <class V>
using Mask = typename VecTraits<V>::mask;
template <class V>
constexpr bool is_vector = VecTraits<V>::is_vector;
template <class V>
constexpr int lane_count = VecTraits<V>::count;
template <class V, bool vector = is_vector<V>>
struct LaneCategory {
  static constexpr Category value = Category::none;
};
template <class V>
struct LaneCategory<V, true> {
  static constexpr Category value = CategoryOf<Lane<V>>::value;
};
template <class V>
constexpr bool is_real_vector = LaneCategory<V>::value == Category::real;
template <class V>
constexpr bool is_signed_vector = LaneCategory<V>::value == Category::signed_integer;
template <class V>
constexpr bool is_integer_vector = is_signed_vector<V> || LaneCategory<V>::value == Category::unsigned_integer;
template <class V, bool vector = is_vector<V>>
struct LaneIs {
  template <class T>
  static constexpr bool same = false;
};
template <class V>
struct LaneIs<V, true> {
  template <class T>
  static constexpr bool same = Same<Lane<V>, T>::value;
};
template <class V>
constexpr bool is_f32_vector = LaneIs<V>::template same<float>;
template <class V>
constexpr bool is_f64_vector = LaneIs<V>::template same<double>;

template <class V>
METAC_INLINE V broadcast(Lane<V> x) {
  return x - V{};
}  // x - 0 is x, -0 and NaN included
template <class To, class From>
METAC_INLINE To bit_cast(From v) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast keeps the size");
  To result;
  __builtin_memcpy(&result, &v, sizeof(To));
  return result;
}
METAC_INLINE int32_t to_int_exact(float v) { return static_cast<int32_t>(v); }
METAC_INLINE bool any(bool mask) { return mask; }
METAC_INLINE bool all(bool mask) { return mask; }

// What no instruction does: lane by lane through the scalar function.
#ifndef METAC_SCALARS_ONLY
#define METAC_LANES_1(name, condition)                                               \
  template <class V, METAC_FOR(condition)>                                           \
  METAC_INLINE V name(V a) {                                                         \
    V r{};                                                                           \
    for (int i = 0; i < lane_count<V>; ++i) r[i] = name(static_cast<Lane<V>>(a[i])); \
    return r;                                                                        \
  }
#define METAC_LANES_2(name, condition)                                                                           \
  template <class V, METAC_FOR(condition)>                                                                       \
  METAC_INLINE V name(V a, V b) {                                                                                \
    V r{};                                                                                                       \
    for (int i = 0; i < lane_count<V>; ++i) r[i] = name(static_cast<Lane<V>>(a[i]), static_cast<Lane<V>>(b[i])); \
    return r;                                                                                                    \
  }
// The same for quotients and rests. What is known to be a comparison (1 / b is b == 1, b / b is b != 0) g++ 12 puts together
// as a mask, whose lanes are -1 where 1 is meant: each lane is hidden from it.
#if defined(__GNUC__) && !defined(__clang__)
#define METAC_LANES_APART_2(name, condition)                                       \
  template <class V, METAC_FOR(condition)>                                         \
  METAC_INLINE V name(V a, V b) {                                                  \
    V r{};                                                                         \
    for (int i = 0; i < lane_count<V>; ++i) {                                      \
      Lane<V> lane = name(static_cast<Lane<V>>(a[i]), static_cast<Lane<V>>(b[i])); \
      __asm__("" : "+r"(lane));                                                    \
      r[i] = lane;                                                                 \
    }                                                                              \
    return r;                                                                      \
  }
#else
#define METAC_LANES_APART_2 METAC_LANES_2
#endif
#else
#define METAC_LANES_1(name, condition)
#define METAC_LANES_2(name, condition)
#define METAC_LANES_APART_2(name, condition)
#endif

}  // namespace METAC_RUNTIME_NAMESPACE
