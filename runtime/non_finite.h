// Where numbers stop being numbers: the search for NaN and infinities in memory, and in what the steps of a run write.
#pragma once
#include "memory.h"

namespace METAC_RUNTIME_NAMESPACE {

struct NonFiniteCount {
  int64_t first_nan = -1, first_infinity = -1;  // elements; -1: none
};

// `exponent`: the bits that are all set in NaN and infinities; `fraction`: those that are set in NaN alone.
template <class Bits>
NonFiniteCount search_non_finite(const void* data, int64_t count, Bits exponent, Bits fraction) {
  const Bits* at = static_cast<const Bits*>(data);
  NonFiniteCount found;
  for (int64_t begin = 0; begin < count; begin += 4096) {
    const int64_t end = begin + 4096 < count ? begin + 4096 : count;
    bool any = false;  // no way out of this loop: it becomes vectors
    for (int64_t i = begin; i < end; ++i) any |= (at[i] & exponent) == exponent;
    for (int64_t i = begin; any && i < end; ++i) {
      if ((at[i] & exponent) != exponent) continue;
      int64_t& first = (at[i] & fraction) != 0 ? found.first_nan : found.first_infinity;
      if (first < 0) first = i;
    }
    if (found.first_nan >= 0) break;
  }
  return found;
}

// Up to the first NaN, at the speed of memory. Types without NaN have none.
inline NonFiniteCount search_non_finite(ScalarType type, const void* data, int64_t count) {
  return with_element(type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_floating_point_v<ValueOf<T>>)
      return search_non_finite(data, count, NonFiniteBits<T>::exponent, NonFiniteBits<T>::fraction);
    else
      return NonFiniteCount();
  });
}

// What an executor that is told to notes of the steps of one run. Infinities may be meant (masks); NaN rarely is.
struct NonFiniteWatch {
  Array<char> touched;  // per buffer
  int32_t first_nan_step = -1, first_infinity_step = -1;
};

}  // namespace METAC_RUNTIME_NAMESPACE
