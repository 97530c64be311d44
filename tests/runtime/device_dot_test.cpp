// Products of words of bytes are exact, those of unsigned bytes of at most 127 in fewer instructions too. Of words of
// bfloat16 lanes and scalars alike have the bits that vdpbf16ps is defined to have, whether the machine has that instruction
// or not.
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <random>

#include "tests/runtime/device.h"
#include "tests/runtime/floats.h"

namespace {

// Intel's definition: the upper elements' product is added first; a product of two bfloat16 has at most 16 bits.
float by_definition(uint32_t a, uint32_t b, float sum) {
  for (int upper : {1, 0}) {
    const auto element = [&](uint32_t word) { return flushed(float_of(upper ? word & 0xffff0000u : word << 16)); };
    sum = flushed(multiplied_and_added(element(a), element(b), flushed(sum)));
  }
  return sum;
}

TEST(DeviceDot, WordsHoldWhatIsRoundedToBfloat16) {
  if (!device_runs_here()) GTEST_SKIP() << "this CPU lacks the instruction set";
  constexpr int n = m::lane_count<FloatVector>;
  const uint32_t special[] = {0x00000001, 0x807fffff, 0x00800000, 0x7f800000, 0xff800000, 0x7f800001, 0xffc12345,
                              0x7f7fffff, 0x3f808000, 0x3f818000, 0x80000000, 0x3f80ffff, 0xbf808001};
  std::mt19937 random(5);
  for (int round = 0; round < 20000; ++round) {
    float low[n], high[n];
    for (float* xs : {low, high})
      for (int i = 0; i < n; ++i) xs[i] = float_of(random() % 4 == 0 ? special[random() % std::size(special)] : random());
    const auto words = m::bf16_word(m::load<FloatVector>(low), m::load<FloatVector>(high));
    for (int i = 0; i < n; ++i) {
      const auto expected = m::bfloat16(flushed(low[i])).bits | uint32_t{m::bfloat16(flushed(high[i])).bits} << 16;
      ASSERT_EQ(static_cast<uint32_t>(words[i]), expected) << low[i] << ", " << high[i];
      ASSERT_EQ(static_cast<uint32_t>(m::bf16_word(low[i], high[i])), expected) << low[i] << ", " << high[i];
    }
  }
}

TEST(DeviceDot, WordsOfBfloat16AreAddedAsTheInstructionDoes) {
  if (!device_runs_here()) GTEST_SKIP() << "this CPU lacks the instruction set";
  typedef m::Vec<int32_t, m::lane_count<FloatVector>> Words;
  constexpr int n = m::lane_count<FloatVector>;
  std::mt19937 random(11);
  const uint32_t halves[] = {0x0000, 0x8000, 0x0001, 0x807f, 0x0080, 0x8080, 0x3f80, 0xbf81,
                             0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0x1f80, 0x2001};
  const auto half = [&]() -> uint32_t {
    return random() % 4 == 0 ? halves[random() % std::size(halves)]
           : random() % 2    ? 0x3f80 + random() % 0x100
                             : random() % 0x10000;
  };
  for (int round = 0; round < 20000; ++round) {
    Words a, b;
    FloatVector sum;
    for (int i = 0; i < n; ++i) {
      a[i] = static_cast<int32_t>(half() << 16 | half());
      b[i] = static_cast<int32_t>(half() << 16 | half());
      sum[i] = float_of(round % 3 == 0 ? static_cast<uint32_t>(random()) : half() << 16 | half());
    }
    const FloatVector found = m::dot_bf16(a, b, sum);
    for (int i = 0; i < n; ++i) {
      const int32_t one = a[i], other = b[i];
      const float before = sum[i];
      const float expected = by_definition(static_cast<uint32_t>(one), static_cast<uint32_t>(other), before);
      expect_same(found[i], expected, "a lane");
      expect_same(m::dot_bf16(one, other, before), expected, "a scalar");
    }
    if (testing::Test::HasFailure()) break;
  }
}

TEST(DeviceDot, WordsOfBytesAreExact) {
  if (!device_runs_here()) GTEST_SKIP() << "this CPU lacks the instruction set";
  typedef m::Vec<int32_t, m::lane_count<FloatVector>> Words;
  constexpr int n = m::lane_count<FloatVector>;
  std::mt19937 random(7);
  const uint8_t extreme[] = {0, 1, 127, 128, 129, 255};
  for (int round = 0; round < 5000; ++round) {
    Words a, b, sum;
    const auto word = [&] {
      uint32_t bits = 0;
      for (int k = 0; k < 4; ++k)
        bits = bits << 8 | (round % 2 == 0 ? extreme[random() % std::size(extreme)] : random() % 256);
      return static_cast<int32_t>(bits);
    };
    for (int i = 0; i < n; ++i) a[i] = word(), b[i] = word(), sum[i] = static_cast<int32_t>(random() >> 8);
    const Words all = m::dot_s8u8(a, b, sum), pairs = m::pairs_s8u8(a, b), added = m::add_i16(a, b), whole = m::sum_i16(a);
    for (int i = 0; i < n; ++i) {
      int32_t products[4], of_all = sum[i];
      for (int k = 0; k < 4; ++k) {
        products[k] = static_cast<int8_t>(static_cast<uint32_t>(a[i]) >> 8 * k) *
                      static_cast<uint8_t>(static_cast<uint32_t>(b[i]) >> 8 * k);
        of_all += products[k];
      }
      const Words both_signed = m::pairs_s8s8(a, b);
      ASSERT_EQ(m::pairs_s8s8(static_cast<int32_t>(a[i]), static_cast<int32_t>(b[i])), both_signed[i]);
      for (int at : {0, 1}) {
        int32_t of_two = 0;
        for (int k = 2 * at; k < 2 * at + 2; ++k) {
          const int8_t of_a = static_cast<int8_t>(static_cast<uint32_t>(a[i]) >> 8 * k),
                       of_b = static_cast<int8_t>(static_cast<uint32_t>(b[i]) >> 8 * k);
          of_two += (of_b < 0 ? static_cast<int8_t>(-of_a) : of_a) * std::abs(of_b);  // -128 stays itself
        }
        ASSERT_EQ(static_cast<int16_t>(static_cast<uint32_t>(both_signed[i]) >> 16 * at), std::clamp(of_two, -32768, 32767));
      }
      ASSERT_EQ(all[i], of_all);
      const int32_t x = a[i], y = b[i];
      ASSERT_EQ(m::pairs_s8u8(x, y), pairs[i]);
      ASSERT_EQ(m::add_i16(x, y), added[i]);
      ASSERT_EQ(m::sum_i16(x), whole[i]);
      const auto half = [](int32_t bits, int at) { return static_cast<int16_t>(static_cast<uint32_t>(bits) >> 16 * at); };
      ASSERT_EQ(whole[i], half(x, 0) + half(x, 1));
      for (int at : {0, 1}) {
        ASSERT_EQ(half(pairs[i], at), std::clamp(products[2 * at] + products[2 * at + 1], -32768, 32767));
        ASSERT_EQ(half(added[i], at), static_cast<int16_t>(half(x, at) + half(y, at)));
      }
    }
  }
}

}  // namespace
