// A sum of words' products in tiles of points and lanes that the processor's tile registers hold (runtime/device/matrix.h):
// an instruction multiplies up to 16 steps of 16 points by 16 lanes. What a tile needs of memory: the words of a point lie
// one behind the other, points are evenly apart, and so are the steps of a panel.
#pragma once
#include <vector>

#include "compiler/loops/loop_tree.h"
#include "compiler/target/cpu/tiles/tiled_sum.h"

namespace metac {

constexpr int most_matrix_points = 32, most_matrix_vectors = 2, matrix_lanes = 16;

// Do the instructions multiply so?
bool has_matrix_product(Fn product);

// Sets sum.matrix and the points of its tiles, and makes reduced loops over one run of memory one loop where that makes
// steps longer. Nothing is changed where the sum is none for such tiles.
void take_matrix(Kernel& kernel, TiledSum& sum, const std::vector<Symbol>& symbols);

// Cycles that a step of a tile takes.
double matrix_cycles(int points, int vectors);

}  // namespace metac
