// Vectors: lanes do what scalars do, memory access touches what it should, reductions keep their order.
#include <gtest/gtest.h>

#include <climits>
#include <cmath>
#include <cstring>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "tests/runtime/device.h"

namespace {

class DeviceVector : public testing::Test {
 protected:
  void SetUp() override {
    if (!device_runs_here()) GTEST_SKIP() << "this CPU lacks the instruction set";
  }
};

TEST_F(DeviceVector, FmaIsTheScalarsFma) {
  const FloatVector a = m::iota<FloatVector>() + 0.1f, b = m::broadcast<FloatVector>(1.0f / 3),
                    c = m::broadcast<FloatVector>(-0.7f);
  const FloatVector r = m::fma(a, b, c);
  for (int i = 0; i < m::lanes<FloatVector>(); ++i) EXPECT_EQ(r[i], m::fma(static_cast<float>(a[i]), 1.0f / 3, -0.7f));
  const m::f64x8 d = m::fma(m::iota<m::f64x8>(), m::broadcast<m::f64x8>(0.1), m::broadcast<m::f64x8>(1));
  for (int i = 0; i < 8; ++i) EXPECT_EQ(d[i], m::fma(static_cast<double>(i), 0.1, 1.0));
}

TEST_F(DeviceVector, MaximumPassesNaNFromEitherSide) {
  FloatVector a = m::iota<FloatVector>(), b = m::broadcast<FloatVector>(1.5f);
  a[0] = NAN;
  b[1] = NAN;
  const FloatVector high = m::max(a, b), low = m::min(a, b);
  EXPECT_TRUE(std::isnan(high[0]) && std::isnan(high[1]) && std::isnan(low[0]) && std::isnan(low[1]));
  EXPECT_EQ(high[2], 2.0f);
  EXPECT_EQ(low[2], 1.5f);
}

TEST_F(DeviceVector, PartialAccessTouchesNothingElse) {
  constexpr int n = m::lane_count<FloatVector>;
  float memory[3 * n];
  for (int count = 0; count <= n; ++count) {
    for (float& x : memory) x = 7;
    m::store_first(memory + n, m::iota<FloatVector>(), count);
    for (int i = 0; i < 3 * n; ++i) EXPECT_EQ(memory[i], i >= n && i < n + count ? static_cast<float>(i - n) : 7.0f);
    const FloatVector back = m::load_first<FloatVector>(memory + n, count);
    for (int i = 0; i < n; ++i) EXPECT_EQ(back[i], i < count ? static_cast<float>(i) : 0.0f);
  }
  int8_t bytes[16] = {1, 2, 3, 4, 5, 6, 7, 8};
  const m::i8x16 part = m::load_first<m::i8x16>(bytes, 3);
  EXPECT_EQ(part[2], 3);
  EXPECT_EQ(part[3], 0);
}

// Every step-th element of memory that ends with the last of them.
template <class V, int step>
void expect_steps() {
  constexpr int n = m::lane_count<V>, reach = step * (n - 1) + 1;
  std::vector<m::Lane<V>> memory(reach);
  for (int k = 0; k < reach; ++k) memory[static_cast<size_t>(k)] = static_cast<m::Lane<V>>(k);
  const V found = m::load_strided<V, step>(memory.data());
  for (int k = 0; k < n; ++k) EXPECT_EQ(found[k], static_cast<m::Lane<V>>(step * k)) << step << ", " << k;
}

TEST_F(DeviceVector, StridedLoadsEndWithTheLastElement) {
  expect_steps<FloatVector, 2>();
  expect_steps<FloatVector, 3>();
  expect_steps<FloatVector, 4>();
  expect_steps<FloatVector, 5>();
  expect_steps<m::Vec<uint8_t, m::lane_count<FloatVector>>, 2>();
  expect_steps<m::Vec<uint8_t, m::lane_count<FloatVector>>, 3>();
  expect_steps<m::Vec<uint8_t, m::lane_count<FloatVector>>, 4>();
  expect_steps<m::Vec<int8_t, m::lane_count<FloatVector>>, 4>();
}

TEST_F(DeviceVector, WordsOfSeveralGroups) {
  uint8_t bytes[16];
  for (int k = 0; k < 16; ++k) bytes[k] = static_cast<uint8_t>(200 + 3 * k);
  const auto words = m::load_words<m::i32x16, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 3, 3, 1, 1>(bytes);
  const int at[] = {0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 3, 3, 1, 1};
  for (int k = 0; k < 16; ++k) {
    int32_t word;
    std::memcpy(&word, bytes + 4 * at[k], 4);
    EXPECT_EQ(words[k], word) << k;
  }
}

template <class V, size_t... row>
void expect_transposed(std::index_sequence<row...>) {
  constexpr int n = m::lane_count<V>;
  V rows[n];
  for (int r = 0; r < n; ++r)
    for (int k = 0; k < n; ++k) rows[r][k] = static_cast<m::Lane<V>>(100 * r + k);
  m::transpose(rows[row]...);
  for (int r = 0; r < n; ++r)
    for (int k = 0; k < n; ++k) EXPECT_EQ(rows[r][k], static_cast<m::Lane<V>>(100 * k + r)) << r << " " << k;
}

TEST_F(DeviceVector, SquareBlocksAreTransposed) {
  constexpr int n = m::lane_count<FloatVector>;
  expect_transposed<FloatVector>(std::make_index_sequence<n>());
  expect_transposed<m::Vec<int32_t, n>>(std::make_index_sequence<n>());
}

TEST_F(DeviceVector, ReductionsCombineHalves) {
  const m::f32x8 v = {1e8f, 1, -1e8f, 1, 3, 5, 7, 9};
  const float expected = ((1e8f + 3) + (-1e8f + 7)) + ((1.0f + 5) + (1.0f + 9));
  EXPECT_EQ(m::reduce_add(v), expected);
  EXPECT_EQ(m::reduce_max(v), 1e8f);
  EXPECT_EQ(m::reduce_min(v), -1e8f);
  EXPECT_EQ(m::reduce_add(m::iota<m::i64x16>()), 120);
  EXPECT_TRUE(m::any(m::lt(v, m::broadcast<m::f32x8>(0))));
  EXPECT_FALSE(m::all(m::lt(v, m::broadcast<m::f32x8>(0))));
}

TEST_F(DeviceVector, CastsAreTheScalars) {
  m::f32x8 v = {1.9f, -1.9f, 3e9f, NAN, 300, -1, 2147483520.0f, -2147483648.0f};
  const m::i32x8 i = m::cast_to<m::i32x8>(v);
  const m::u8x8 u = m::cast_to<m::u8x8>(v);
  const m::i64x8 l = m::cast_to<m::i64x8>(v);
  const m::u64x8 w = m::cast_to<m::u64x8>(v);
  for (int k = 0; k < 8; ++k) {
    EXPECT_EQ(i[k], m::cast_to<int32_t>(static_cast<float>(v[k])));
    EXPECT_EQ(u[k], m::cast_to<uint8_t>(static_cast<float>(v[k])));
    EXPECT_EQ(l[k], m::cast_to<int64_t>(static_cast<float>(v[k])));
    EXPECT_EQ(w[k], m::cast_to<uint64_t>(static_cast<float>(v[k])));
  }
}

TEST_F(DeviceVector, ClampedCastsAreClampsAndCasts) {
  const m::f32x8 v = {1.5f, -1.9f, 3e9f, NAN, 300, 254.6f, -INFINITY, -0.0f};
  const m::u8x8 u = m::clamped_cast<m::u8x8>(v, 0, 255);
  const m::i8x8 i = m::clamped_cast<m::i8x8>(v, -128, 127);
  for (int k = 0; k < 8; ++k) {
    const float x = v[k];
    EXPECT_EQ(u[k], m::cast_to<uint8_t>(m::min(m::max(x, 0.0f), 255.0f))) << x;
    EXPECT_EQ(i[k], m::cast_to<int8_t>(m::min(m::max(x, -128.0f), 127.0f))) << x;
  }
}

TEST_F(DeviceVector, WhatIsRoundedToBytesIsRoundedAndCast) {
  const float numbers[] = {1.5f,   2.5f,      -0.5f,    -1.5f, 3e9f,   NAN,     300,
                           254.5f, -INFINITY, INFINITY, -0.0f, -1e38f, -128.5f, 0.49999997f};
  for (const int more : {0, 1, 154, -3})
    for (const float x : numbers) {
      const auto v = m::broadcast<m::f32x8>(x);
      const float whole = m::rint(x) + static_cast<float>(more);
      const auto z = static_cast<float>(more);
      const uint8_t u = m::cast_to<uint8_t>(m::min(m::max(whole, 0.0f), 255.0f));
      EXPECT_EQ((m::rounded_cast<m::u8x8>(v, 0 - z, 255 - z, more)[3]), u) << x << " + " << more;
      EXPECT_EQ((m::clamped<m::u8x8>(m::broadcast<m::f32x8>(whole), 0, 255)[5]), u) << x << " + " << more;
      EXPECT_EQ((m::clamped<m::u8x8>(m::rint(v), 0 - z, 255 - z)[5]), static_cast<float>(u) - z) << x << " + " << more;
      const int8_t i = m::cast_to<int8_t>(m::min(m::max(whole, -128.0f), 127.0f));
      EXPECT_EQ((m::clamped<m::i8x8>(m::broadcast<m::f32x8>(whole), -128, 127)[1]), i) << x << " + " << more;
      if (more == 0) {
        EXPECT_EQ((m::rounded_cast<m::i8x8>(v, -128, 127)[0]), i) << x;
      }
    }
}

template <class T, int n>
void expect_looked_up() {
  T table[256];
  for (int i = 0; i < 256; ++i) table[i] = static_cast<T>((i * 37 + 11) % 251);
  for (int first = 0; first < 256; first += n) {
    m::Vec<uint8_t, n> keys = {};
    for (int i = 0; i < n; ++i) keys[i] = static_cast<uint8_t>((first + i) * 5);  // 5 is odd: every byte is asked for
    const auto found = m::look_up<m::Vec<T, n>>(table, keys);
    for (int i = 0; i < n; ++i) ASSERT_EQ(found[i], table[keys[i]]) << int{keys[i]};
  }
}

TEST_F(DeviceVector, BytesAreLookedUp) {
  expect_looked_up<uint8_t, 4>();
  expect_looked_up<int8_t, 8>();
  expect_looked_up<uint8_t, 16>();
  expect_looked_up<int8_t, 16>();
  expect_looked_up<uint8_t, 32>();
}

TEST_F(DeviceVector, MasksOfDifferentWidthsMeet) {
  const m::i64x8 index = m::iota<m::i64x8>();
  const m::f32x8 r =
      m::select(m::lt(index, m::broadcast<m::i64x8>(3)), m::broadcast<m::f32x8>(1), m::broadcast<m::f32x8>(2));
  EXPECT_EQ(r[2], 1.0f);
  EXPECT_EQ(r[3], 2.0f);
  const m::u8x8 booleans = m::to_bool(m::lt(index, m::broadcast<m::i64x8>(3)));
  EXPECT_EQ(booleans[2], 1);
  EXPECT_EQ(booleans[3], 0);
  EXPECT_EQ(m::logical_not(booleans)[3], 1);
  EXPECT_EQ(m::select(m::to_mask<m::f32x8>(booleans), r, -r)[3], -2.0f);
}

TEST_F(DeviceVector, HalfLanesAreTheScalars) {
  const float xs[8] = {0.1f, -65520.0f, 1e-7f, NAN, INFINITY, 2049.0f, -0.0f, 5.9e-8f};
  const m::f32x8 v = m::load<m::f32x8>(xs);
  const m::u16x8 h = m::narrow<m::float16>(v), b = m::narrow<m::bfloat16>(v);
  const m::f32x8 wide = m::widen<m::float16>(h);
  for (int i = 0; i < 8; ++i) {
    EXPECT_EQ(h[i], m::float16(xs[i]).bits);
    EXPECT_EQ(b[i], m::bfloat16(xs[i]).bits);
    if (!std::isnan(xs[i])) {
      EXPECT_EQ(wide[i], static_cast<float>(m::float16(xs[i])));
    }
  }
}

// The widest lanes have an instruction for it with AVX512-BF16, which takes denormals for zeros: those do not come out so.
TEST_F(DeviceVector, WidestLanesAreRoundedToBfloat16AsScalarsAre) {
  constexpr int n = m::lane_count<FloatVector>;
  const uint32_t special[] = {0x00000001, 0x807fffff, 0x00008000, 0x00018000, 0x7f800000, 0xff800000,
                              0x7f800001, 0xffc12345, 0x7f7fffff, 0x3f808000, 0x3f818000, 0x80000000,
                              0x00800000, 0x00ffffff, 0x3f80ffff, 0xbf808001};
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    float xs[n];
    for (float& x : xs) {
      // Now and then nothing but normal numbers, for which there is an instruction.
      uint32_t bits = round % 3 == 0 && random() % 4 == 0 ? special[random() % std::size(special)] : random();
      if (round % 3 == 1 && (bits & 0x7f800000u) == 0) bits |= 0x3f800000u;
      std::memcpy(&x, &bits, sizeof x);
    }
    const auto h = m::narrow<m::bfloat16>(m::load<FloatVector>(xs));
    for (int i = 0; i < n; ++i) ASSERT_EQ(h[i], m::bfloat16(xs[i]).bits) << xs[i];
  }
}

TEST_F(DeviceVector, BroadcastKeepsMinusZero) {
  EXPECT_TRUE(std::signbit(static_cast<float>(m::broadcast<FloatVector>(-0.0f)[0])));
  EXPECT_TRUE(std::signbit(static_cast<float>(m::neg(m::zero<FloatVector>())[0])));
  EXPECT_FALSE(std::signbit(static_cast<float>(m::abs(m::broadcast<FloatVector>(-0.0f))[1])));
}

TEST_F(DeviceVector, IntegerLanesWrapAndNeverTrap) {
  const m::i32x4 a = {INT_MAX, INT_MIN, 7, -7}, b = {1, -1, 0, 2};
  const m::i32x4 sum = m::add(a, b), quotient = m::div(a, b), floored = m::floor_div(a, b);
  EXPECT_EQ(sum[0], INT_MIN);
  EXPECT_EQ(quotient[1], INT_MIN);
  EXPECT_EQ(quotient[2], 0);
  EXPECT_EQ(floored[3], -4);
  EXPECT_EQ(m::abs(m::i8x16{-128})[0], -128);
}

}  // namespace
