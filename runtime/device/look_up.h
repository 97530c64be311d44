// One of 256 bytes for each lane.
#pragma once
#include "vector_memory.h"

namespace METAC_RUNTIME_NAMESPACE {

#if defined(__AVX512BW__) && !defined(METAC_SCALARS_ONLY)
namespace detail {

// Those that hold nothing but `lanes` below are 0.
template <class Wide, class V>
METAC_INLINE Wide widened_to(V lanes) {
  if constexpr (sizeof(V) == sizeof(Wide))
    return lanes;
  else
    return widened_to<Wide>(join(lanes, V{}));
}
template <class Narrow, class V>
METAC_INLINE Narrow lowest_of(V lanes) {
  if constexpr (sizeof(V) == sizeof(Narrow))
    return lanes;
  else
    return lowest_of<Narrow>(low(lanes));
}

// Shuffles of two registers: by bytes of 7 bits, or of words by 6.
#ifdef __AVX512VBMI__
typedef char BytesOf512 __attribute__((vector_size(64)));
METAC_INLINE u8x64 of_two(u8x64 a, u8x64 at, u8x64 b) {
#ifdef __clang__
  return bit_cast<u8x64>(
      __builtin_ia32_vpermi2varqi512(bit_cast<BytesOf512>(a), bit_cast<BytesOf512>(at), bit_cast<BytesOf512>(b)));
#else
  return bit_cast<u8x64>(__builtin_ia32_vpermt2varqi512_mask(bit_cast<BytesOf512>(at), bit_cast<BytesOf512>(a),
                                                             bit_cast<BytesOf512>(b), static_cast<uint64_t>(-1)));
#endif
}
#else
METAC_INLINE u16x32 of_two(u16x32 a, u16x32 at, u16x32 b) {
#ifdef __clang__
  return bit_cast<u16x32>(__builtin_ia32_vpermi2varhi512(bit_cast<i16x32>(a), bit_cast<i16x32>(at), bit_cast<i16x32>(b)));
#else
  return bit_cast<u16x32>(__builtin_ia32_vpermt2varhi512_mask(bit_cast<i16x32>(at), bit_cast<i16x32>(a), bit_cast<i16x32>(b),
                                                              static_cast<uint32_t>(-1)));
#endif
}
#endif

}  // namespace detail
#endif

// table[k] of each lane k; the table has an element for every byte. Out of registers where shuffles reach that far.
template <class V, class T, class K>
METAC_INLINE V look_up(const T* table, K k) {
  static_assert(sizeof(T) == 1 && Same<Lane<K>, uint8_t>::value && sizeof(V) == sizeof(K), "bytes by bytes");
#if defined(__AVX512BW__) && !defined(METAC_SCALARS_ONLY)
  if constexpr (sizeof(V) == 16) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(table);
#ifdef __AVX512VBMI__
    const u8x64 at = detail::widened_to<u8x64>(k);
    const u8x64 first = detail::of_two(load<u8x64>(bytes), at, load<u8x64>(bytes + 64)),
                second = detail::of_two(load<u8x64>(bytes + 128), at, load<u8x64>(bytes + 192));
    return bit_cast<V>(
        select(bit_cast<i8x16>(bit_cast<i8x16>(k) < 0), detail::lowest_of<u8x16>(second), detail::lowest_of<u8x16>(first)));
#else
    const auto words = [&](int n) { return bit_cast<u16x32>(load<u8x64>(bytes + 64 * n)); };
    const u16x16 number = __builtin_convertvector(k, u16x16);
    const u16x32 at = detail::widened_to<u16x32>(number >> 1);
    const u16x32 first = detail::of_two(words(0), at, words(1)), second = detail::of_two(words(2), at, words(3));
    const u16x16 pair =
        select(bit_cast<i16x16>(number) > 127, detail::lowest_of<u16x16>(second), detail::lowest_of<u16x16>(first));
    return bit_cast<V>(__builtin_convertvector(pair >> ((number & 1) << 3), u8x16));
#endif
  }
#endif
  return gather<V>(table, k);
}

}  // namespace METAC_RUNTIME_NAMESPACE
