// Minimal filtering algorithms F(m, r) (S. Winograd, "Arithmetic complexity of computations", 1980; for convolutions A.
// Lavin and S. Gray, arXiv:1509.09308): m outputs of a window of r taps with m + r - 1 multiplications,
//
//   y = AT [ (G g) * (BT d) ],   y: m outputs, g: r taps, d: m + r - 1 neighbours,
//
// after Cook and Toom: products of polynomials by their values at the points 0, 1, -1, 2, -2, 1/2, -1/2, ... and infinity.
#pragma once
#include <vector>

namespace metac {

using Matrix = std::vector<std::vector<double>>;

struct CookToom {
  Matrix at;  // m by n, n = m + r - 1
  Matrix g;   // n by r
  Matrix bt;  // n by n
};

// 2 <= m, 2 <= r, m + r <= 10.
CookToom cook_toom(int m, int r);

}  // namespace metac
