// Minimal filtering: the matrices of cook_toom.h against the sum they stand for, in float64.
#include <gtest/gtest.h>

#include <random>

#include "compiler/kernel/cook_toom.h"

namespace metac {
namespace {

std::vector<double> times(const Matrix& m, const std::vector<double>& v) {
  std::vector<double> out;
  for (const std::vector<double>& row : m) {
    double sum = 0;
    for (size_t k = 0; k < row.size(); ++k) sum += row[k] * v[k];
    out.push_back(sum);
  }
  return out;
}

class CookToomTest : public testing::TestWithParam<std::pair<int, int>> {};

TEST_P(CookToomTest, IsTheSlidingSum) {
  auto [m, r] = GetParam();
  CookToom t = cook_toom(m, r);
  ASSERT_EQ(t.at.size(), static_cast<size_t>(m));
  ASSERT_EQ(t.bt.size(), static_cast<size_t>(m + r - 1));
  std::mt19937 random(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  std::vector<double> data(static_cast<size_t>(m + r - 1)), taps(static_cast<size_t>(r));
  for (double& x : data) x = uniform(random);
  for (double& x : taps) x = uniform(random);
  std::vector<double> u = times(t.g, taps), v = times(t.bt, data);
  for (size_t k = 0; k < u.size(); ++k) u[k] *= v[k];
  std::vector<double> y = times(t.at, u);
  for (int i = 0; i < m; ++i) {
    double direct = 0;
    for (int k = 0; k < r; ++k) direct += data[static_cast<size_t>(i + k)] * taps[static_cast<size_t>(k)];
    EXPECT_NEAR(y[static_cast<size_t>(i)], direct, 1e-11) << "point " << i << " of F(" << m << ", " << r << ")";
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, CookToomTest, testing::Values(std::pair(2, 3), std::pair(4, 3), std::pair(6, 3), std::pair(2, 5), std::pair(4, 5), std::pair(3, 2)));

}  // namespace
}  // namespace metac
