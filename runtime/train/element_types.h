// Elements of every numeric type as doubles and back, a row at a time, and the search for one that is not finite.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "../non_finite.h"
#include "train_tables.h"

namespace metac::train {

using METAC_RUNTIME_NAMESPACE::size_of;

inline bool is_real(ScalarType type) {
  return type == ScalarType::f32 || type == ScalarType::f64 || type == ScalarType::f16 || type == ScalarType::bf16;
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

inline double from_half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? std::nan("") : sign * HUGE_VAL;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}
inline uint16_t to_half(double value) {  // to nearest, ties to even
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  const double size = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (size >= 65520) return static_cast<uint16_t>(sign | 0x7c00);
  if (size < 0x1p-14) return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(size * 0x1p24)));
  int exponent = 0;
  const double fraction = std::frexp(size, &exponent);  // in [0.5, 1)
  return static_cast<uint16_t>(
      sign | static_cast<uint16_t>((exponent + 13) * 1024 + static_cast<int>(std::nearbyint(fraction * 2048))));
}
inline float from_bfloat(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}
inline uint16_t to_bfloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// What stands in a mapped archive need not be aligned.
template <class T>
T element_at(const void* from, int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(from) + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <class T>
void widen(const void* from, int64_t count, double* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(element_at<T>(from, i));
}
inline void read_elements(ScalarType type, const void* from, int64_t count, double* to) {
  switch (type) {
    case ScalarType::f32:
      return widen<float>(from, count, to);
    case ScalarType::f64:
      return widen<double>(from, count, to);
    case ScalarType::i8:
      return widen<int8_t>(from, count, to);
    case ScalarType::i16:
      return widen<int16_t>(from, count, to);
    case ScalarType::i32:
      return widen<int32_t>(from, count, to);
    case ScalarType::i64:
      return widen<int64_t>(from, count, to);
    case ScalarType::u8:
    case ScalarType::boolean:
      return widen<uint8_t>(from, count, to);
    case ScalarType::u16:
      return widen<uint16_t>(from, count, to);
    case ScalarType::u32:
      return widen<uint32_t>(from, count, to);
    case ScalarType::u64:
      return widen<uint64_t>(from, count, to);
    case ScalarType::f16:
      for (int64_t i = 0; i < count; ++i) to[i] = from_half(element_at<uint16_t>(from, i));
      return;
    case ScalarType::bf16:
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<double>(from_bfloat(element_at<uint16_t>(from, i)));
      return;
    case ScalarType::string:
      return;
  }
}

// -1, or the first element that the integer type T has no value for.
template <class T>
int64_t narrow(const double* from, int64_t count, void* to) {
  T* at = static_cast<T*>(to);
  const double low = static_cast<double>(std::numeric_limits<T>::min()),
               beyond = 2.0 * static_cast<double>(std::numeric_limits<T>::max() / 2 + 1);
  for (int64_t i = 0; i < count; ++i) {
    if (!(from[i] >= low && from[i] < beyond) || from[i] != std::floor(from[i])) return i;
    at[i] = static_cast<T>(from[i]);
  }
  return -1;
}
// Writes `count` values as elements of `type`; -1, or the first that the type cannot hold (a fraction or NaN in an integer).
inline int64_t write_elements(ScalarType type, const double* from, int64_t count, void* to) {
  switch (type) {
    case ScalarType::f32:
      for (int64_t i = 0; i < count; ++i) static_cast<float*>(to)[i] = static_cast<float>(from[i]);
      return -1;
    case ScalarType::f64:
      for (int64_t i = 0; i < count; ++i) static_cast<double*>(to)[i] = from[i];
      return -1;
    case ScalarType::f16:
      for (int64_t i = 0; i < count; ++i) static_cast<uint16_t*>(to)[i] = to_half(from[i]);
      return -1;
    case ScalarType::bf16:
      for (int64_t i = 0; i < count; ++i) static_cast<uint16_t*>(to)[i] = to_bfloat(static_cast<float>(from[i]));
      return -1;
    case ScalarType::boolean:
      for (int64_t i = 0; i < count; ++i) static_cast<uint8_t*>(to)[i] = from[i] != 0;
      return -1;
    case ScalarType::i8:
      return narrow<int8_t>(from, count, to);
    case ScalarType::i16:
      return narrow<int16_t>(from, count, to);
    case ScalarType::i32:
      return narrow<int32_t>(from, count, to);
    case ScalarType::i64:
      return narrow<int64_t>(from, count, to);
    case ScalarType::u8:
      return narrow<uint8_t>(from, count, to);
    case ScalarType::u16:
      return narrow<uint16_t>(from, count, to);
    case ScalarType::u32:
      return narrow<uint32_t>(from, count, to);
    case ScalarType::u64:
      return narrow<uint64_t>(from, count, to);
    case ScalarType::string:
      return 0;
  }
  return 0;
}

// The first element that is NaN or infinite, -1 where there is none.
inline int64_t first_non_finite(ScalarType type, const void* data, int64_t count) {
  const METAC_RUNTIME_NAMESPACE::NonFiniteCount found = METAC_RUNTIME_NAMESPACE::search_non_finite(type, data, count);
  if (found.first_nan < 0 || found.first_infinity < 0) return found.first_nan < 0 ? found.first_infinity : found.first_nan;
  return found.first_nan < found.first_infinity ? found.first_nan : found.first_infinity;
}

}  // namespace metac::train
