// Vector types and the functions on them that need no instruction set by name.
#pragma once
#include "lanes.h"

namespace METAC_RUNTIME_NAMESPACE {

#define METAC_VECTOR(name, T, n)                                    \
  typedef T name##x##n __attribute__((vector_size(n * sizeof(T)))); \
  template <>                                                       \
  struct VecOf<T, n> {                                              \
    typedef name##x##n type;                                        \
  };
#define METAC_VECTORS(name, T) \
  METAC_VECTOR(name, T, 2)     \
  METAC_VECTOR(name, T, 4)     \
  METAC_VECTOR(name, T, 8)     \
  METAC_VECTOR(name, T, 16)    \
  METAC_VECTOR(name, T, 32)    \
  METAC_VECTOR(name, T, 64)
METAC_VECTORS(i8, int8_t)
METAC_VECTORS(u8, uint8_t)
METAC_VECTORS(i16, int16_t)
METAC_VECTORS(u16, uint16_t)
METAC_VECTORS(i32, int32_t)
METAC_VECTORS(u32, uint32_t)
METAC_VECTORS(i64, int64_t)
METAC_VECTORS(u64, uint64_t)
METAC_VECTORS(f32, float)
METAC_VECTORS(f64, double)
#undef METAC_VECTORS
#undef METAC_VECTOR

template <int bytes>
struct SignedOfSize;
template <>
struct SignedOfSize<1> {
  typedef int8_t type;
  typedef uint8_t unsigned_type;
};
template <>
struct SignedOfSize<2> {
  typedef int16_t type;
  typedef uint16_t unsigned_type;
};
template <>
struct SignedOfSize<4> {
  typedef int32_t type;
  typedef uint32_t unsigned_type;
};
template <>
struct SignedOfSize<8> {
  typedef int64_t type;
  typedef uint64_t unsigned_type;
};

#define METAC_TRAITS(name, T, n)                                                 \
  template <>                                                                    \
  struct VecTraits<name##x##n> {                                                 \
    static constexpr bool is_vector = true;                                      \
    static constexpr int count = n;                                              \
    typedef T lane;                                                              \
    typedef Vec<SignedOfSize<sizeof(T)>::type, n> mask;                          \
    typedef Vec<SignedOfSize<sizeof(T)>::unsigned_type, n> bits;                 \
    typedef typename Choose<(n > 2), Vec<T, (n > 2 ? n / 2 : 2)>, T>::type half; \
  };
#define METAC_TRAITS_ALL(name, T) \
  METAC_TRAITS(name, T, 2)        \
  METAC_TRAITS(name, T, 4)        \
  METAC_TRAITS(name, T, 8)        \
  METAC_TRAITS(name, T, 16)       \
  METAC_TRAITS(name, T, 32)       \
  METAC_TRAITS(name, T, 64)
METAC_TRAITS_ALL(i8, int8_t)
METAC_TRAITS_ALL(u8, uint8_t)
METAC_TRAITS_ALL(i16, int16_t)
METAC_TRAITS_ALL(u16, uint16_t)
METAC_TRAITS_ALL(i32, int32_t)
METAC_TRAITS_ALL(u32, uint32_t)
METAC_TRAITS_ALL(i64, int64_t)
METAC_TRAITS_ALL(u64, uint64_t)
METAC_TRAITS_ALL(f32, float)
METAC_TRAITS_ALL(f64, double)
#undef METAC_TRAITS_ALL
#undef METAC_TRAITS

// Lanes that are held as their bits.
template <int n>
struct VecOf<bool, n> {
  typedef Vec<uint8_t, n> type;
};
template <int n>
struct VecOf<float16, n> {
  typedef Vec<uint16_t, n> type;
};
template <int n>
struct VecOf<bfloat16, n> {
  typedef Vec<uint16_t, n> type;
};

// ---- making ----
template <class V>
METAC_INLINE constexpr int lanes() {
  return lane_count<V>;
}
template <class V>
METAC_INLINE V zero() {
  return V{};
}
template <class V>
METAC_INLINE V iota() {
  V v{};
  for (int i = 0; i < lane_count<V>; ++i) v[i] = static_cast<Lane<V>>(i);
  return v;
}
template <class V, METAC_FOR(is_vector<V>)>
METAC_INLINE typename VecTraits<V>::half low(V v) {
  typename VecTraits<V>::half h;
  __builtin_memcpy(&h, &v, sizeof(h));
  return h;
}
template <class V, METAC_FOR(is_vector<V>)>
METAC_INLINE typename VecTraits<V>::half high(V v) {
  typename VecTraits<V>::half h;
  __builtin_memcpy(&h, reinterpret_cast<const char*>(&v) + sizeof(h), sizeof(h));
  return h;
}
template <class H, METAC_FOR(is_vector<H>)>
METAC_INLINE Vec<Lane<H>, 2 * lane_count<H>> join(H low_half, H high_half) {
  Vec<Lane<H>, 2 * lane_count<H>> v;
  __builtin_memcpy(&v, &low_half, sizeof(H));
  __builtin_memcpy(reinterpret_cast<char*>(&v) + sizeof(H), &high_half, sizeof(H));
  return v;
}

// ---- masks ----
template <class V, class M>
METAC_INLINE Mask<V> mask_for(M mask) {  // the mask with lanes as wide as V's
  if constexpr (sizeof(M) == sizeof(Mask<V>))
    return bit_cast<Mask<V>>(mask);
  else
    return __builtin_convertvector(mask, Mask<V>);
}
template <class V>
METAC_INLINE Mask<V> to_mask(Vec<uint8_t, lane_count<V>> booleans) {
  return __builtin_convertvector(booleans != 0, Mask<V>);
}
template <class M, METAC_FOR(is_signed_vector<M>)>
METAC_INLINE Vec<uint8_t, lane_count<M>> to_bool(M mask) {
  return __builtin_convertvector(mask, Vec<uint8_t, lane_count<M>>) & static_cast<uint8_t>(1);
}
METAC_INLINE bool to_bool(bool mask) { return mask; }
template <class M, class V, METAC_FOR(is_vector<V>&& is_vector<M>)>
METAC_INLINE V select(M mask, V then, V otherwise) {
  return mask_for<V>(mask) ? then : otherwise;
}
template <class V, METAC_FOR(is_vector<V>)>
METAC_INLINE V select(bool condition, V then, V otherwise) {
  return condition ? then : otherwise;
}

// ---- arithmetic and comparisons ----
// Signed lanes wrap: computed unsigned, because compilers may assume that signed vectors do not overflow.
#define METAC_ARITHMETIC(name, op)                                          \
  template <class V, METAC_FOR(is_vector<V>)>                               \
  METAC_INLINE V name(V a, V b) {                                           \
    if constexpr (is_signed_vector<V>) {                                    \
      typedef typename VecTraits<V>::bits U;                                \
      return bit_cast<V>(static_cast<U>(bit_cast<U>(a) op bit_cast<U>(b))); \
    } else {                                                                \
      return a op b;                                                        \
    }                                                                       \
  }
METAC_ARITHMETIC(add, +)
METAC_ARITHMETIC(sub, -)
METAC_ARITHMETIC(mul, *)
#undef METAC_ARITHMETIC
template <class V, METAC_FOR(is_real_vector<V>)>
METAC_INLINE V div(V a, V b) {
  return a / b;
}
template <class V, METAC_FOR(is_vector<V>)>
METAC_INLINE V neg(V a) {
  if constexpr (is_real_vector<V>)
    return -a;
  else
    return sub(V{}, a);
}
#define METAC_COMPARE(name, op)               \
  template <class V, METAC_FOR(is_vector<V>)> \
  METAC_INLINE Mask<V> name(V a, V b) {       \
    return a op b;                            \
  }
METAC_COMPARE(lt, <)
METAC_COMPARE(le, <=)
METAC_COMPARE(eq, ==)
METAC_COMPARE(ne, !=)
#undef METAC_COMPARE
#define METAC_LOGIC(name, op)                         \
  template <class V, METAC_FOR(is_integer_vector<V>)> \
  METAC_INLINE V name(V a, V b) {                     \
    return a op b;                                    \
  }
METAC_LOGIC(bit_and, &)
METAC_LOGIC(bit_or, |)
METAC_LOGIC(bit_xor, ^)
METAC_LOGIC(logical_and, &)  // of masks, or of booleans held as 0 and 1
METAC_LOGIC(logical_or, |)
METAC_LOGIC(logical_xor, ^)
#undef METAC_LOGIC
template <class V, METAC_FOR(is_integer_vector<V>)>
METAC_INLINE V bit_not(V a) {
  return ~a;
}
template <class V, METAC_FOR(is_integer_vector<V>)>
METAC_INLINE V logical_not(V a) {  // masks are signed, booleans unsigned
  if constexpr (is_signed_vector<V>)
    return ~a;
  else
    return a ^ static_cast<Lane<V>>(1);
}
template <class V, METAC_FOR(is_integer_vector<V>)>
METAC_INLINE V min(V a, V b) {
  return b < a ? b : a;
}
template <class V, METAC_FOR(is_integer_vector<V>)>
METAC_INLINE V max(V a, V b) {
  return a < b ? b : a;
}
template <class V, METAC_FOR(is_vector<V>)>
METAC_INLINE V abs(V a) {
  if constexpr (is_real_vector<V>) {
    typedef typename VecTraits<V>::bits U;
    return bit_cast<V>(bit_cast<U>(a) & ~bit_cast<U>(broadcast<V>(static_cast<Lane<V>>(-0.0))));
  } else {
    return a < V{} ? neg(a) : a;
  }
}
template <class V, METAC_FOR(is_vector<V>)>
METAC_INLINE V sign(V a) {
  const V one = broadcast<V>(static_cast<Lane<V>>(1));
  return a > V{} ? one : (a < V{} ? neg(one) : a);
}
template <class V, METAC_FOR(is_vector<V>)>
METAC_INLINE Mask<V> is_nan(V a) {
  return a != a;
}
template <class V, METAC_FOR(is_vector<V>)>
METAC_INLINE Mask<V> is_inf(V a) {
  if constexpr (is_real_vector<V>)
    return abs(a) == broadcast<V>(static_cast<Lane<V>>(__builtin_inff()));
  else
    return Mask<V>{};
}

// What no instruction does.
METAC_LANES_APART_2(div, is_integer_vector<V>)
METAC_LANES_APART_2(floor_div, is_integer_vector<V>)
METAC_LANES_APART_2(floor_mod, is_integer_vector<V>)
METAC_LANES_APART_2(trunc_mod, is_integer_vector<V>)
METAC_LANES_2(shift_left, is_integer_vector<V>)
METAC_LANES_2(shift_right, is_integer_vector<V>)
METAC_LANES_2(pow, (is_integer_vector<V> || is_f64_vector<V>))

// ---- casts ----
namespace detail {
// Float lanes to int32 or int64 ones; what does not fit becomes the least value. The conversion itself sees only what fits.
template <class I, class V>
METAC_INLINE I round_towards_zero(V v) {
  typedef Lane<V> R;
  constexpr R limit = sizeof(Lane<I>) == 8 ? static_cast<R>(9223372036854775808.0) : static_cast<R>(2147483648.0);
  const Mask<V> fits = sizeof(R) == 8 && sizeof(Lane<I>) == 4 ? (v > static_cast<R>(-2147483649.0)) & (v < limit)
                                                              : (v >= -limit) & (v < limit);
  const I converted = __builtin_convertvector(fits ? v : V{}, I);
  return mask_for<I>(fits) ? converted : broadcast<I>(least_of<Lane<I>>());
}
}  // namespace detail

template <class To, class From, METAC_FOR(is_vector<To>&& is_vector<From>)>
METAC_INLINE To cast_to(From v) {
  static_assert(lane_count<To> == lane_count<From>, "a cast keeps the number of lanes");
  if constexpr (is_real_vector<From> && is_integer_vector<To>) {
    constexpr int n = lane_count<To>;
    if constexpr (sizeof(Lane<To>) == 8 && !is_signed_vector<To>) {
      To r{};
      for (int i = 0; i < n; ++i) r[i] = cast_to<Lane<To>>(static_cast<Lane<From>>(v[i]));
      return r;
    } else if constexpr (sizeof(Lane<To>) == 8 || (sizeof(Lane<To>) == 4 && !is_signed_vector<To>)) {
      return __builtin_convertvector((detail::round_towards_zero<Vec<int64_t, n>>(v)), To);
    } else {
      return __builtin_convertvector((detail::round_towards_zero<Vec<int32_t, n>>(v)), To);
    }
  } else {
    return __builtin_convertvector(v, To);
  }
}
// Float lanes known to be integers within int32: one instruction.
template <class V, METAC_FOR(is_f32_vector<V>)>
METAC_INLINE Vec<int32_t, lane_count<V>> to_int_exact(V v) {
  return __builtin_convertvector(v, Vec<int32_t, lane_count<V>>);
}

}  // namespace METAC_RUNTIME_NAMESPACE
