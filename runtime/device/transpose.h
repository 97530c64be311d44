// Square blocks of lanes, transposed in registers.
#pragma once
#include "vector_memory.h"

namespace METAC_RUNTIME_NAMESPACE {

// How lane k of n comes from two vectors, a (lanes 0 ... n-1) and b (n ... 2n-1), in terms of blocks of four lanes, which
// x86 moves by one instruction each.
enum class Interleave { low_lanes, high_lanes, low_pairs, high_pairs, even_blocks, odd_blocks };
constexpr int source_lane(Interleave how, int n, int k) {
  const int block = k / 4 * 4, high = how == Interleave::high_lanes || how == Interleave::high_pairs ? 2 : 0;
  if (how == Interleave::low_lanes || how == Interleave::high_lanes) return k % 2 * n + block + k % 4 / 2 + high;
  if (how == Interleave::low_pairs || how == Interleave::high_pairs) return k % 4 / 2 * n + block + k % 2 + high;
  const int half = n / 8, q = k / 4, odd = how == Interleave::odd_blocks ? 1 : 0;
  return q / half * n + (2 * (q % half) + odd) * 4 + k % 4;
}
template <Interleave how, class V, int... k>
METAC_INLINE V interleave(V a, V b, Lanes<k...>) {
  constexpr int n = sizeof...(k);
#if defined(__clang__) || __GNUC__ >= 12
  return __builtin_shufflevector(a, b, source_lane(how, n, k)...);
#else
  return __builtin_shuffle(a, b, Mask<V>{source_lane(how, n, k)...});
#endif
}
template <Interleave how, class V>
METAC_INLINE V interleave(V a, V b) {
  return interleave<how>(a, b, typename LanesUpTo<lane_count<V>>::type());
}

// Four vectors: then lane block q of r<j> has column 4q + j of the four rows.
template <class V>
METAC_INLINE void transpose_blocks(V& r0, V& r1, V& r2, V& r3) {
  const V low01 = interleave<Interleave::low_lanes>(r0, r1), high01 = interleave<Interleave::high_lanes>(r0, r1);
  const V low23 = interleave<Interleave::low_lanes>(r2, r3), high23 = interleave<Interleave::high_lanes>(r2, r3);
  r0 = interleave<Interleave::low_pairs>(low01, low23);
  r1 = interleave<Interleave::high_pairs>(low01, low23);
  r2 = interleave<Interleave::low_pairs>(high01, high23);
  r3 = interleave<Interleave::high_pairs>(high01, high23);
}
template <class V>
METAC_INLINE void part_blocks(V& a, V& b) {  // even blocks of both into a, odd ones into b
  const V even = interleave<Interleave::even_blocks>(a, b);
  b = interleave<Interleave::odd_blocks>(a, b);
  a = even;
}
template <class V>
METAC_INLINE void part_four(V& a, V& b, V& c, V& d) {  // block q of the four, in their order, into vector q
  part_blocks(a, b);
  part_blocks(c, d);
  part_blocks(a, c);
  part_blocks(b, d);
}

// Lane k of vector r and lane r of vector k change places. As many vectors as a vector has lanes of four bytes.
template <class V>
METAC_INLINE void transpose(V& r0, V& r1, V& r2, V& r3) {
  static_assert(lane_count<V> == 4 && sizeof(V) == 16, "a square block of lanes of four bytes");
  transpose_blocks(r0, r1, r2, r3);
}
template <class V>
METAC_INLINE void transpose(V& r0, V& r1, V& r2, V& r3, V& r4, V& r5, V& r6, V& r7) {
  static_assert(lane_count<V> == 8 && sizeof(V) == 32, "a square block of lanes of four bytes");
  transpose_blocks(r0, r1, r2, r3);
  transpose_blocks(r4, r5, r6, r7);
  part_blocks(r0, r4);
  part_blocks(r1, r5);
  part_blocks(r2, r6);
  part_blocks(r3, r7);
}
template <class V>
METAC_INLINE void transpose(V& r0, V& r1, V& r2, V& r3, V& r4, V& r5, V& r6, V& r7, V& r8, V& r9, V& r10, V& r11, V& r12,
                            V& r13, V& r14, V& r15) {
  static_assert(lane_count<V> == 16 && sizeof(V) == 64, "a square block of lanes of four bytes");
  transpose_blocks(r0, r1, r2, r3);
  transpose_blocks(r4, r5, r6, r7);
  transpose_blocks(r8, r9, r10, r11);
  transpose_blocks(r12, r13, r14, r15);
  part_four(r0, r4, r8, r12);
  part_four(r1, r5, r9, r13);
  part_four(r2, r6, r10, r14);
  part_four(r3, r7, r11, r15);
}

}  // namespace METAC_RUNTIME_NAMESPACE
