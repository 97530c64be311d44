// Bits and rounding of float32, for tests of instructions that are defined to the bit.
#pragma once
#include <gtest/gtest.h>

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>

inline uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float float_of(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline float flushed(float x) { return std::fabs(x) < FLT_MIN ? std::copysign(0.0f, x) : x; }

inline float multiplied_and_added(float a, float b, float c) {
#ifdef __FMA__
  return std::fma(a, b, c);
#else
  const volatile float product = a * b;  // m::fma rounds twice here: products beyond float32's range differ
  return product + c;
#endif
}

// As bits; a NaN where one is expected.
inline void expect_same(float found, float expected, const char* what) {
  if (std::isnan(expected))
    EXPECT_TRUE(std::isnan(found)) << what;
  else
    EXPECT_EQ(bits_of(found), bits_of(expected)) << what << ": " << found << ", not " << expected;
}
