// Register tiles fit into registers.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/kernel/register_tile.h"

namespace metac {
namespace {

TEST(Tile, SumsAndOperandsFitIntoRegisters) {
  for (int registers : {16, 32})
    for (int64_t points : {0, 1, 7, 14, 28, 56, 112})
      for (int64_t lanes : {0, 16, 32, 96, 672}) {
        const int vector_lanes = registers / 2;
        Tile shared = choose_tile({points, lanes}, vector_lanes, registers);
        EXPECT_LT(shared.points * shared.vectors + shared.vectors, registers);
        // A window's neighbours share elements, which compilers keep in registers from one tap to the next.
        for (int taps : {3, 5, 7}) {
          Tile window = choose_tile({points, lanes, taps, 0, false, true, taps}, vector_lanes, registers);
          EXPECT_LE((2 * window.points + taps) * window.vectors, registers) << points << " points, " << lanes << " lanes, " << taps << " taps";
          EXPECT_GE(window.points * window.vectors, std::min<int64_t>(points ? points : 56, registers == 32 ? 7 : 4)) << "sums wait for each other";
        }
      }
}

// An open batch may be one: its tiles would all be rests.
TEST(Tile, KnownAxesBeforeOpenOnes) {
  EXPECT_EQ(choose_tiled_axis({0, 7}), 1u);       // images, positions
  EXPECT_EQ(choose_tiled_axis({0, 7, 3}), 1u);
  EXPECT_EQ(choose_tiled_axis({0, 49, 0}), 1u);
  EXPECT_EQ(choose_tiled_axis({0, 2}), 0u);
  EXPECT_EQ(choose_tiled_axis({0, 0}), 1u);
  EXPECT_EQ(choose_tiled_axis({14, 8}), 1u);      // the innermost, where it is long enough
}

}  // namespace
}  // namespace metac
