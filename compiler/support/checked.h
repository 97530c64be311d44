// Checked 64-bit arithmetic for every extent, byte count and stride.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>

#include "compiler/support/diagnostic.h"

namespace metac {

inline std::optional<int64_t> checked_add(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return std::nullopt;
  return r;
}
inline std::optional<int64_t> checked_sub(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_sub_overflow(a, b, &r)) return std::nullopt;
  return r;
}
inline std::optional<int64_t> checked_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return std::nullopt;
  return r;
}

// The nearest number that 64 bits hold: for what is compared with a limit or weighs a choice, where an extent may be
// anything.
inline int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t r;
  if (!__builtin_mul_overflow(a, b, &r)) return r;
  return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}
inline int64_t saturating_add(int64_t a, int64_t b) {
  int64_t r;
  if (!__builtin_add_overflow(a, b, &r)) return r;
  return a < 0 ? INT64_MIN : INT64_MAX;
}

// The largest divisor of n > 0 that is at most `most` and a multiple of `multiple`; 0: there is none.
inline int64_t largest_divisor(int64_t n, int64_t most, int64_t multiple = 1) {
  for (int64_t q = std::min(n, most) / multiple * multiple; q > 0; q -= multiple)
    if (n % q == 0) return q;
  return 0;
}

// Floor division and the remainder with the divisor's sign. The caller rules out b == 0; INT64_MIN / -1 wraps.
inline int64_t floor_div(int64_t a, int64_t b) {
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  return a / b - ((a % b != 0) && ((a % b < 0) != (b < 0)));
}
inline int64_t floor_mod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  int64_t r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

}  // namespace metac
