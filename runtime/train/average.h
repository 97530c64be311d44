// Sums of what several processes computed, in the order of the processes: the same bits in every run and for everyone.
#pragma once
#include <cstdint>
#include <cstring>
#include <vector>

#include "train_tables.h"

namespace metac::train {

template <class Real>
void add_in_order_as(const std::vector<const char*>& parts, int64_t count, bool sums, char* result) {
  constexpr int64_t at_once = 512;
  Real sum[at_once], next[at_once];
  const Real share = sums ? Real(1) : Real(1) / static_cast<Real>(parts.size());
  for (int64_t at = 0; at < count; at += at_once) {
    const int64_t here = count - at < at_once ? count - at : at_once;
    const size_t bytes = static_cast<size_t>(here) * sizeof(Real), offset = static_cast<size_t>(at) * sizeof(Real);
    std::memcpy(sum, parts[0] + offset, bytes);
    for (size_t p = 1; p < parts.size(); ++p) {
      std::memcpy(next, parts[p] + offset, bytes);
      for (int64_t k = here; k < at_once; ++k) sum[k] = next[k] = 0;
      for (int64_t k = 0; k < at_once; ++k) sum[k] += next[k];  // of constant length: in vectors
    }
    for (int64_t k = 0; k < here; ++k) sum[k] *= share;
    std::memcpy(result + offset, sum, bytes);
  }
}

// `bytes` of f32 or f64 of each; `result` may be one of the parts. sums: no division by their number.
inline void add_in_order(ScalarType dtype, const std::vector<const char*>& parts, int64_t bytes, bool sums, char* result) {
  if (dtype == ScalarType::f64)
    add_in_order_as<double>(parts, bytes / 8, sums, result);
  else
    add_in_order_as<float>(parts, bytes / 4, sums, result);
}

}  // namespace metac::train
