// Elements in memory and what they are as numbers. Each type of dtypes.h is a class here: arithmetic types are themselves,
// half types and truths hold their bits. with_element() goes from a ScalarType to the class.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "program.h"

namespace METAC_RUNTIME_NAMESPACE {

struct Half {
  uint16_t bits;
};
struct Bfloat {
  uint16_t bits;
};
struct Truth {
  uint8_t byte;
};
struct Text {};  // strings are the compiler's own; no element lies in memory

// ---- 16 bits and float32, to nearest, ties to even ----
inline float half_to_float(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16, exponent = (bits >> 10) & 31u, mantissa = bits & 1023u;
  uint32_t out;
  if (exponent == 31) {
    out = sign | 0x7f800000u | (mantissa << 13);
  } else if (exponent != 0) {
    out = sign | ((exponent + 112) << 23) | (mantissa << 13);
  } else {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    std::memcpy(&out, &value, 4);
    out |= sign;
  }
  float result;
  std::memcpy(&result, &out, 4);
  return result;
}

inline uint16_t float_to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds to 65536 or beyond
  if (magnitude < 0x38800000u) {                                               // subnormal: the spacing is 2^-24
    float scaled;
    std::memcpy(&scaled, &magnitude, 4);
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(__builtin_nearbyintf(scaled * 0x1p24f)));
  }
  const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13));
}

inline float bfloat16_to_float(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float result;
  std::memcpy(&result, &wide, 4);
  return result;
}

inline uint16_t float_to_bfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// float32 rounded to odd: a second rounding, to fewer bits, then sees what was cut.
inline float odd_float(double x) {
  float f = static_cast<float>(x);
  if (!std::isfinite(f) || static_cast<double>(f) == x) return f;
  if (std::fabs(static_cast<double>(f)) > std::fabs(x)) f = std::nextafter(f, 0.0f);
  uint32_t pattern;
  std::memcpy(&pattern, &f, 4);
  pattern |= 1;
  std::memcpy(&f, &pattern, 4);
  return f;
}

// ---- what an element is ----
template <class T>
inline T value_of(T x) {
  return x;
}
inline float value_of(Half x) { return half_to_float(x.bits); }
inline float value_of(Bfloat x) { return bfloat16_to_float(x.bits); }
inline bool value_of(Truth x) { return x.byte != 0; }

// bool, an integer type, float or double.
template <class T>
using ValueOf = decltype(value_of(T{}));

// The element that a number becomes: rounded once, to nearest; integers wrap, a fraction is cut; a truth is what is not 0.
template <class T, class Number>
inline T to_element(Number x) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bfloat>) {
    float rounded;
    if constexpr (std::is_same_v<Number, float>)
      rounded = x;
    else
      rounded = odd_float(static_cast<double>(x));
    if constexpr (std::is_same_v<T, Half>)
      return {float_to_half(rounded)};
    else
      return {float_to_bfloat16(rounded)};
  } else if constexpr (std::is_same_v<T, Truth>) {
    return {static_cast<uint8_t>(x != 0)};
  } else {
    return static_cast<T>(x);
  }
}

// Of real types: the bits that are all set in NaN and infinities, and those of which one is set in NaN alone.
template <class T>
struct NonFiniteBits;
template <>
struct NonFiniteBits<float> {
  static constexpr uint32_t exponent = 0x7f800000u, fraction = 0x007fffffu;
};
template <>
struct NonFiniteBits<double> {
  static constexpr uint64_t exponent = 0x7ff0000000000000u, fraction = 0x000fffffffffffffu;
};
template <>
struct NonFiniteBits<Half> {
  static constexpr uint16_t exponent = 0x7c00, fraction = 0x03ff;
};
template <>
struct NonFiniteBits<Bfloat> {
  static constexpr uint16_t exponent = 0x7f80, fraction = 0x007f;
};

// f(T{}) with the class of that type; what f gives back by default for strings, for which it is not called.
template <class F>
inline auto with_element(ScalarType type, F&& f) -> decltype(f(float{})) {
  switch (type) {
#define ROW(id, name, element, ...)                \
  case ScalarType::id:                             \
    if constexpr (std::is_same_v<element, Text>)   \
      break;                                       \
    else                                           \
      return f(element{});
    METAC_DTYPES(ROW)
#undef ROW
  }
  return decltype(f(float{}))();
}

// What an element lies as in memory that need not be aligned.
template <class T>
inline T element_at(const void* from, int64_t i) {
  T element;
  std::memcpy(&element, static_cast<const char*>(from) + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return element;
}

}  // namespace METAC_RUNTIME_NAMESPACE
