// Convolutions by minimal filtering (cook_toom.h): F(m x m, 3 x 3) needs (m+2)^2 products for m^2 points of nine taps each.
// One kernel; each iteration takes a block of tiles through all three phases, so that what lies between them stays in the
// worker's cache:
//
//   V[p][t][c] = BT d B              p: position in the tile of (m+2) x (m+2), t: tile of the block, c: summed channel (of
//                                    each tap of a third dimension)
//   M[p][t][k] = sum over c of V[p][t][c] * U[block of k][p][c][k]     U: the weights, transformed by `prepare`
//   y = AT M A, epilogue, store      for one block of lanes k after the other
#pragma once
#include "compiler/loops/loop_tree.h"
#include "compiler/target/cpu/strategies/cpu_strategies.h"

namespace metac {

Kernel lower_winograd(const Group& group, const WinogradPlan& plan, const LoweringContext& context);

}  // namespace metac
