// Products in tile registers: those of bytes are exact, those of bfloat16 have the bits that tdpbf16ps is defined to have,
// whether the machine has the instruction or not.
#include <gtest/gtest.h>

#include <iterator>
#include <random>
#include <type_traits>
#include <vector>

#include "tests/runtime/device.h"
#include "tests/runtime/floats.h"

namespace {

constexpr int lanes = 16;
constexpr int data_step = 20 * 4, steps = 3;  // words of a row of data and bytes of them; products one after the other

float half_of(uint32_t word, int at) { return float_of(at == 0 ? word << 16 : word & 0xffff0000u); }

// What a step adds to a sum, by Intel's definition.
struct Bytes {
  static int32_t add(int32_t sum, const uint32_t* a, const uint32_t* b, int64_t step, int words, bool data_is_signed) {
    for (int w = 0; w < words; ++w)
      for (int k = 0; k < 4; ++k) {
        const auto x = static_cast<uint8_t>(a[w] >> 8 * k), y = static_cast<uint8_t>(b[w * step] >> 8 * k);
        sum += (data_is_signed ? static_cast<int8_t>(x) : x) * (data_is_signed ? y : static_cast<int8_t>(y));
      }
    return sum;
  }
};
float add_halves(float sum, const uint32_t* a, const uint32_t* b, int64_t step, int words) {
  float of[2] = {0, 0};
  for (int w = 0; w < words; ++w)
    for (int k : {0, 1})
      of[k] = flushed(multiplied_and_added(flushed(half_of(a[w], k)), flushed(half_of(b[w * step], k)), of[k]));
  return flushed(flushed(sum) + flushed(of[0] + of[1]));
}

struct Operands {
  std::vector<uint32_t> data, packed;
};

template <class Product, int points, int vectors, int words, class Sum, class Add>
void expect_products(std::mt19937& random, const Operands& of, const Add& add) {
  m::MatrixTiles tiles;
  std::vector<Sum> sums(points * vectors * lanes);
  constexpr int panel = lanes * vectors;
  for (int round = 0; round < 2 && !testing::Test::HasFailure(); ++round) {  // the second one begins with zeros again
    tiles.clear<points, vectors, words>();
    const auto first = static_cast<int>(random() % 3);
    for (int step = 0; step < steps; ++step) {
      if (step == 1 && round == 1) {  // another sum in between
        tiles.take<points, vectors, words>(sums.data());
        tiles.clear<points, vectors, words>();
        tiles.resume<points, vectors, words>(sums.data());
      }
      tiles.multiply<Product, points, vectors, words>(of.data.data() + first + step, data_step,
                                                      of.packed.data() + step * panel * words, panel * 4);
    }
    tiles.take<points, vectors, words>(sums.data());
    for (int p = 0; p < points; ++p)
      for (int k = 0; k < panel; ++k) {
        Sum expected = 0;
        for (int step = 0; step < steps; ++step)
          expected = add(expected, of.data.data() + p * data_step / 4 + first + step,
                         of.packed.data() + step * panel * words + k, panel, words);
        const Sum found = sums[static_cast<size_t>(p * panel + k)];
        if constexpr (std::is_same_v<Sum, float>) {
          expect_same(found, expected, "a sum");
        } else {
          ASSERT_EQ(found, expected) << "point " << p << ", lane " << k;
        }
      }
  }
}

template <class Product, class Sum, class Add>
void expect_all_shapes(std::mt19937& random, const Operands& of, const Add& add) {
  expect_products<Product, 32, 2, 16, Sum>(random, of, add);
  expect_products<Product, 31, 2, 9, Sum>(random, of, add);
  expect_products<Product, 17, 1, 16, Sum>(random, of, add);
  expect_products<Product, 16, 2, 4, Sum>(random, of, add);
  expect_products<Product, 7, 2, 12, Sum>(random, of, add);
  expect_products<Product, 1, 1, 1, Sum>(random, of, add);
}

template <class Word>
Operands operands_of(const Word& word) {
  Operands of{std::vector<uint32_t>(32 * data_step / 4), std::vector<uint32_t>(steps * lanes * 2 * 16)};
  for (auto* words : {&of.data, &of.packed})
    for (uint32_t& w : *words) w = word();
  return of;
}

TEST(DeviceMatrix, ProductsOfBytesAreExact) {
  if (!device_runs_here()) GTEST_SKIP() << "this CPU lacks the instruction set";
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round) {
    const Operands of = operands_of([&] {
      return round % 2 ? static_cast<uint32_t>(random()) : random() % 2 ? 0x7f80ff81u : ~0u;
    });
    for (const bool is_signed : {false, true}) {
      const auto add = [&](int32_t sum, const uint32_t* a, const uint32_t* b, int64_t step, int words) {
        return Bytes::add(sum, a, b, step, words, is_signed);
      };
      if (is_signed)
        expect_all_shapes<m::detail::SignedByUnsigned, int32_t>(random, of, add);
      else
        expect_all_shapes<m::detail::UnsignedBySigned, int32_t>(random, of, add);
    }
  }
}

TEST(DeviceMatrix, ProductsOfBfloat16AreAddedAsTheInstructionDoes) {
  if (!device_runs_here()) GTEST_SKIP() << "this CPU lacks the instruction set";
  std::mt19937 random(4);
  const uint32_t halves[] = {0x0000, 0x8000, 0x0001, 0x807f, 0x0080, 0x8080, 0x3f80, 0xbf81, 0x7f7f, 0xff7f, 0x1f80, 0x2001};
  for (int round = 0; round < 40; ++round) {
    const auto half = [&]() -> uint32_t {
      if (round % 4 == 3 && random() % 64 == 0) return random() % 2 ? 0x7f80 : 0xffc1;  // infinity, NaN
      if (round % 2 && random() % 4 == 0) return halves[random() % std::size(halves)];
      return (random() % 2 ? 0x8000u : 0u) | (0x3f00 + random() % 0x100);
    };
    expect_all_shapes<m::detail::OfHalves, float>(random, operands_of([&] { return half() << 16 | half(); }), add_halves);
  }
}

}  // namespace
