// Operands whose lanes are neighbours: when they are packed all the same.
#include "compiler/target/cpu/layouts/pack_operand.h"

#include <gtest/gtest.h>

namespace metac::pack_operand_test {
namespace {

// y[i, j] = sum over k of a[i, k] b[k, j], b in rows of `columns` elements.
bool collides(int64_t rows, int64_t steps, int64_t columns, int64_t element_bytes = 4) {
  Definition d;
  d.domain = shape_of(std::vector<int64_t>{rows, columns, steps});
  d.reduced = 1;
  Operand a;
  a.load = load(0, DType::f32, {axis(0), axis(2)});
  return steps_collide(d, axis(2) * Expr(columns) + axis(1), a, element_bytes);
}

TEST(PackOperand, WhereStepsFallIntoTheSameSets) {
  EXPECT_TRUE(collides(300, 128, 1024));
  EXPECT_TRUE(collides(300, 128, 512));
  EXPECT_FALSE(collides(300, 128, 1000));
  EXPECT_FALSE(collides(300, 128, 512, 2)) << "1 KiB apart";
}

TEST(PackOperand, OnlyWhereItIsUsedOftenEnough) {
  EXPECT_FALSE(collides(100, 128, 1024)) << "too few points";
  EXPECT_FALSE(collides(300, 32, 1024)) << "too few steps";
}

}  // namespace
}  // namespace metac::pack_operand_test
