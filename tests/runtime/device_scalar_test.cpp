// Integer arithmetic that never traps, casts, and half precision.
#include <gtest/gtest.h>

#include <climits>
#include <cmath>

#include "tests/runtime/device.h"

namespace {

class DeviceScalar : public testing::Test {
 protected:
  void SetUp() override {
    if (!device_runs_here()) GTEST_SKIP() << "this CPU lacks the instruction set";
  }
};

TEST_F(DeviceScalar, IntegerDivisionNeverTraps) {
  EXPECT_EQ(m::div(7, 0), 0);
  EXPECT_EQ(m::div(INT_MIN, -1), INT_MIN);
  EXPECT_EQ(m::trunc_mod(7, 0), 0);
  EXPECT_EQ(m::trunc_mod(INT_MIN, -1), 0);
  EXPECT_EQ(m::floor_mod(INT64_MIN, int64_t{-1}), 0);
  EXPECT_EQ(m::div(static_cast<uint8_t>(200), static_cast<uint8_t>(0)), 0);
}

TEST_F(DeviceScalar, FloorDivisionAndModulo) {
  for (int a = -9; a <= 9; ++a) {
    for (int b = -4; b <= 4; ++b) {
      if (b == 0) continue;
      EXPECT_EQ(m::floor_div(a, b), static_cast<int>(std::floor(static_cast<double>(a) / b))) << a << " " << b;
      EXPECT_EQ(m::floor_mod(a, b), a - b * m::floor_div(a, b)) << a << " " << b;
      EXPECT_EQ(m::floor_mod(static_cast<int8_t>(a), static_cast<int8_t>(b)), a - b * m::floor_div(a, b));
    }
  }
  EXPECT_EQ(m::floor_mod(5.5f, -2.0f), -0.5f);
  EXPECT_TRUE(std::signbit(m::floor_mod(4.0f, -2.0f)));
}

TEST_F(DeviceScalar, ArithmeticWraps) {
  EXPECT_EQ(m::add(INT_MAX, 1), INT_MIN);
  EXPECT_EQ(m::mul(static_cast<uint16_t>(65535), static_cast<uint16_t>(65535)), 1);
  EXPECT_EQ(m::neg(INT64_MIN), INT64_MIN);
  EXPECT_EQ(m::abs(static_cast<int8_t>(-128)), -128);
  EXPECT_EQ(m::pow(3, 4), 81);
  EXPECT_EQ(m::pow(2, -1), 0);
  EXPECT_EQ(m::pow(-1, -3), -1);
}

TEST_F(DeviceScalar, ShiftsBeyondTheWidthGiveZero) {
  EXPECT_EQ(m::shift_left(1u, 32u), 0u);
  EXPECT_EQ(m::shift_right(static_cast<uint8_t>(200), static_cast<uint8_t>(8)), 0);
  EXPECT_EQ(m::shift_left(static_cast<uint8_t>(255), static_cast<uint8_t>(4)), 240);
  EXPECT_EQ(m::shift_right(uint64_t{1} << 63, uint64_t{63}), 1u);
}

TEST_F(DeviceScalar, CastsOfWhatDoesNotFit) {
  EXPECT_EQ(m::cast_to<int32_t>(3e9f), INT_MIN);
  EXPECT_EQ(m::cast_to<int32_t>(NAN), INT_MIN);
  EXPECT_EQ(m::cast_to<int32_t>(-2147483648.9), INT_MIN);
  EXPECT_EQ(m::cast_to<int32_t>(2147483647.9), INT_MAX);
  EXPECT_EQ(m::cast_to<int64_t>(INFINITY), INT64_MIN);
  EXPECT_EQ(m::cast_to<uint8_t>(-1.0f), 255);
  EXPECT_EQ(m::cast_to<uint32_t>(4e9f), 4000000000u);
  EXPECT_EQ(m::cast_to<uint64_t>(1.8e19), 18000000000000000000u);
  EXPECT_EQ(m::cast_to<int8_t>(200), -56);
  EXPECT_TRUE(m::cast_to<bool>(0.5f));
  EXPECT_TRUE(m::cast_to<bool>(NAN));
  EXPECT_FALSE(m::cast_to<bool>(-0.0f));
}

TEST_F(DeviceScalar, MinimumAndMaximumPassNaN) {
  EXPECT_TRUE(std::isnan(m::max(NAN, 1.0f)));
  EXPECT_TRUE(std::isnan(m::max(1.0f, NAN)));
  EXPECT_TRUE(std::isnan(m::min(static_cast<double>(NAN), 1.0)));
  EXPECT_EQ(m::max(-1.0f, 2.0f), 2.0f);
}

TEST_F(DeviceScalar, HalfToFloatAndBackIsExact) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    m::float16 h;
    h.bits = static_cast<uint16_t>(bits);
    const float f = h;
    if (std::isnan(f)) continue;
    EXPECT_EQ(m::float16(f).bits, bits);
    m::bfloat16 b;
    b.bits = static_cast<uint16_t>(bits);
    const float g = b;
    if (!std::isnan(g)) {
      EXPECT_EQ(m::bfloat16(g).bits, bits);
    }
  }
}

TEST_F(DeviceScalar, HalfRoundsToNearestEven) {
  EXPECT_EQ(m::float16(2049.0f).bits, m::float16(2048.0f).bits);
  EXPECT_EQ(m::float16(2051.0f).bits, m::float16(2052.0f).bits);
  EXPECT_EQ(m::float16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(m::float16(65520.0f).bits, 0x7c00);
  EXPECT_EQ(m::float16(2.9802322e-8f).bits, 0);  // half of the least subnormal: to even
  EXPECT_EQ(m::float16(2.9802326e-8f).bits, 1);
  EXPECT_EQ(m::bfloat16(1.00390625f).bits, 0x3f80);  // 1 + 2^-8: to even
  // Once, not first to float: 1 + 2^-11 + 2^-40 is above the middle between two halves, as a float it is the middle.
  EXPECT_EQ(m::cast_to<m::float16>(1 + 0x1p-11 + 0x1p-40).bits, 0x3c01);
}

TEST_F(DeviceScalar, HalfComputesInFloat) {
  const m::float16 a(1.5f), b(2.25f);
  EXPECT_EQ(static_cast<float>(m::add(a, b)), 3.75f);
  EXPECT_EQ(static_cast<float>(m::exp(m::float16(0.0f))), 1.0f);
  EXPECT_TRUE(m::lt(a, b));
  EXPECT_EQ(static_cast<float>(m::max(m::bfloat16(1.0f), m::bfloat16(2.0f))), 2.0f);
}

}  // namespace
