// Extents in 64 bits: where that gives an answer, the one of 128 bits is the same.
#include "runtime/extent.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace metac_runtime::extent_test {
namespace {

struct Evaluated {
  bool good = false;
  int64_t value = 0;
};

Evaluated by(bool (*way)(const Program&, const Extent&, const int64_t*, int64_t*), const std::vector<Instruction>& code,
             const std::vector<int64_t>& symbols) {
  Program program{};
  program.code = code.data(), program.code_count = static_cast<int32_t>(code.size());
  Evaluated result;
  result.good = way(program, {0, static_cast<int32_t>(code.size())}, symbols.data(), &result.value);
  return result;
}

// Reverse Polish, well formed: operands first, now and then an operator on the last ones.
std::vector<Instruction> drawn(std::mt19937_64& random) {
  constexpr Code of_two[] = {Code::add, Code::sub, Code::mul, Code::floor_div, Code::floor_mod,   Code::min,       Code::max,
                             Code::lt,  Code::le,  Code::eq,  Code::ne,        Code::logical_and, Code::logical_or};
  const int64_t edges[] = {0,         1,        -1, 2, 3, 7, 64, -5, int64_t{1} << 31, int64_t{1} << 32, int64_t{1} << 40,
                           INT64_MAX, INT64_MIN};
  std::vector<Instruction> code;
  int depth = 0;
  const int length = 1 + static_cast<int>(random() % 12);
  for (int k = 0; k < length || depth > 1; ++k) {
    const bool more = k < length && (depth < 2 || random() % 2 == 0);
    if (more) {
      const bool is_symbol = random() % 2 == 0;
      code.push_back({is_symbol ? Code::symbol : Code::constant,
                      is_symbol ? static_cast<int64_t>(random() % 3) : edges[random() % std::size(edges)]});
      ++depth;
    } else if (depth >= 3 && random() % 4 == 0) {
      code.push_back({Code::select, 0});
      depth -= 2;
    } else if (depth >= 1 && random() % 8 == 0) {
      code.push_back({Code::logical_not, 0});
    } else if (depth >= 2) {
      code.push_back({of_two[random() % std::size(of_two)], 0});
      --depth;
    }
  }
  return code;
}

TEST(Extent, NarrowAnswersAreTheWideOnes) {
  std::mt19937_64 random(29);
  int narrow = 0, beyond = 0;
  for (int k = 0; k < 20000; ++k) {
    const std::vector<Instruction> code = drawn(random);
    const std::vector<int64_t> symbols = {static_cast<int64_t>(random() % 5), static_cast<int64_t>(random() % 100000),
                                          static_cast<int64_t>(random())};
    const Evaluated small = by(evaluate_narrowly, code, symbols), wide = by(evaluate_widely, code, symbols);
    if (small.good) {
      ++narrow;
      ASSERT_TRUE(wide.good) << k;
      ASSERT_EQ(small.value, wide.value) << k;
    } else if (wide.good) {
      ++beyond;
    }
    const Evaluated either = by(evaluate, code, symbols);
    ASSERT_EQ(either.good, wide.good) << k;
    if (wide.good) {
      ASSERT_EQ(either.value, wide.value) << k;
    }
  }
  EXPECT_GT(narrow, 5000);
  EXPECT_GT(beyond, 100) << "nothing needed more than 64 bits on its way";
}

}  // namespace
}  // namespace metac_runtime::extent_test
