#include "compiler/target/cpu/strategies/cook_toom.h"

#include <cmath>

#include "compiler/support/diagnostic.h"

namespace metac {

// The coefficients, constant term first, of the product of (x - point) over all points but number `skipped`.
static std::vector<double> product_of_roots(const std::vector<double>& points, size_t skipped) {
  std::vector<double> p = {1};
  for (size_t k = 0; k < points.size(); ++k) {
    if (k == skipped) continue;
    p.insert(p.begin(), 0);
    for (size_t n = 0; n + 1 < p.size(); ++n) p[n] -= points[k] * p[n + 1];
  }
  return p;
}

// Zero and pairs of opposites, of short binary fractions, so that AT and BT are exact in float32. A rounding of a product
// reaches the result through AT, and the larger the rows of G and BT, the larger it is: of the points with up to three
// binary places these have the least mean of |AT|^2 |G|^2 |BT|^2, summed over the products. With 1 and 2 instead of 5/8 and
// 3/2 it is 2.3 times as large.
static std::vector<double> points_of(size_t count) {
  if (count == 3) return {0, 1, -1};
  if (count == 5) return {0, 0.625, -0.625, 1.5, -1.5};
  return {0, 1, -1, 2, -2, 0.5, -0.5};
}

CookToom cook_toom(int m, int r) {
  METAC_ASSERT(m >= 2 && r >= 2 && (m + r == 5 || m + r == 7 || m + r == 9), m, " ", r);
  size_t n = static_cast<size_t>(m + r - 1);
  const std::vector<double> points = points_of(n - 1);
  CookToom t;
  t.at.assign(static_cast<size_t>(m), std::vector<double>(n));
  t.g.assign(n, std::vector<double>(static_cast<size_t>(r)));
  t.bt.assign(n, std::vector<double>(n));
  for (size_t j = 0; j + 1 < n; ++j) {
    double scale = 1;
    for (size_t l = 0; l + 1 < n; ++l)
      if (l != j) scale *= points[j] - points[l];
    // The sign of the scale moves from G to BT.
    double sign = scale < 0 ? -1 : 1;
    for (int i = 0; i < m; ++i) t.at[static_cast<size_t>(i)][j] = i == 0 ? 1 : std::pow(points[j], i);
    for (int k = 0; k < r; ++k) t.g[j][static_cast<size_t>(k)] = (k == 0 ? 1 : std::pow(points[j], k)) / std::abs(scale);
    std::vector<double> p = product_of_roots(points, j);
    for (size_t k = 0; k < p.size(); ++k) t.bt[j][k] = sign * p[k];
  }
  t.at[static_cast<size_t>(m) - 1][n - 1] = 1;
  t.g[n - 1][static_cast<size_t>(r) - 1] = 1;
  t.bt[n - 1] = product_of_roots(points, n);
  return t;
}

}  // namespace metac
