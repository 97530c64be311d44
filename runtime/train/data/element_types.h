// Elements of every numeric type as doubles and back, a row at a time, and the search for one that is not finite.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "../../non_finite.h"
#include "../train_tables.h"

namespace metac::train {

using METAC_RUNTIME_NAMESPACE::element_at;
using METAC_RUNTIME_NAMESPACE::size_of;
using METAC_RUNTIME_NAMESPACE::to_element;
using METAC_RUNTIME_NAMESPACE::value_of;
using METAC_RUNTIME_NAMESPACE::ValueOf;
using METAC_RUNTIME_NAMESPACE::with_element;

inline bool is_real(ScalarType type) {
  return with_element(type, [](auto element) { return std::is_floating_point_v<ValueOf<decltype(element)>>; });
}

inline int64_t element_count(const int64_t* dims, int32_t rank) {
  int64_t count = 1;
  for (int32_t d = 0; d < rank; ++d) count *= dims[d];
  return count;
}
template <class Described>  // State, Field, Port
int64_t elements(const Described& what) {
  return element_count(what.dims, what.rank);
}
template <class Described>
int64_t byte_count(const Described& what) {
  return elements(what) * size_of(what.dtype);
}

// What stands in a mapped archive need not be aligned.
inline void read_elements(ScalarType type, const void* from, int64_t count, double* to) {
  with_element(type, [&](auto zero) {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(value_of(element_at<decltype(zero)>(from, i)));
  });
}

// Writes `count` values as elements of `type`; -1, or the first that the type cannot hold (a fraction or NaN in an integer).
inline int64_t write_elements(ScalarType type, const double* from, int64_t count, void* to) {
  if (type == ScalarType::string) return 0;
  return with_element(type, [&](auto zero) -> int64_t {
    using T = decltype(zero);
    using Value = ValueOf<T>;
    T* at = static_cast<T*>(to);
    for (int64_t i = 0; i < count; ++i) {
      if constexpr (std::is_integral_v<Value> && !std::is_same_v<Value, bool>) {
        const double low = static_cast<double>(std::numeric_limits<Value>::min()),
                     beyond = 2.0 * static_cast<double>(std::numeric_limits<Value>::max() / 2 + 1);
        if (!(from[i] >= low && from[i] < beyond) || from[i] != std::floor(from[i])) return i;
      }
      at[i] = to_element<T>(from[i]);
    }
    return -1;
  });
}

// The first element that is NaN or infinite, -1 where there is none.
inline int64_t first_non_finite(ScalarType type, const void* data, int64_t count) {
  const METAC_RUNTIME_NAMESPACE::NonFiniteCount found = METAC_RUNTIME_NAMESPACE::search_non_finite(type, data, count);
  if (found.first_nan < 0 || found.first_infinity < 0) return found.first_nan < 0 ? found.first_infinity : found.first_nan;
  return found.first_nan < found.first_infinity ? found.first_nan : found.first_infinity;
}

}  // namespace metac::train
