// The single-precision functions of runtime/device, walked densely over all floats, against libm in double: the error in
// ULP that each states, and that a vector lane and a scalar are the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tests/runtime/device.h"

namespace {

// Distance in units in the last place of the exact result; infinite where only one of the two is a number.
double ulps(float got, double exact) {
  const float rounded = static_cast<float>(exact);
  if (std::isnan(exact)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(got)) return rounded == got || (std::isinf(got) && std::fabs(exact) > 3.4028e38) ? 0 : INFINITY;
  int exponent = -149;
  if (exact != 0) std::frexp(exact, &exponent);
  return std::fabs(static_cast<double>(got) - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

template <typename Vector, typename Scalar, typename Exact>
void walk(const char* name, double allowed, Vector vector, Scalar scalar, Exact exact, unsigned step) {
  if (!device_runs_here()) GTEST_SKIP() << "this CPU lacks the instruction set";
  constexpr int n = m::lane_count<FloatVector>;
  std::vector<float> xs = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1, -1, 1e-45f, -1e-45f, 1.17549435e-38f, 88.73f, -103.98f, 1e30f, -1e30f, 0.5f, 2};
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += step) {
    const uint32_t word = static_cast<uint32_t>(bits);
    float x;
    std::memcpy(&x, &word, 4);
    xs.push_back(x);
  }
  while (xs.size() % n != 0) xs.push_back(0);
  double worst = 0;
  float worst_at = 0;
  for (size_t i = 0; i < xs.size(); i += n) {
    FloatVector v;
    std::memcpy(&v, &xs[i], sizeof v);
    const FloatVector results = vector(v);
    for (int lane = 0; lane < n; ++lane) {
      const float x = xs[i + static_cast<size_t>(lane)], by_lane = results[lane], by_scalar = scalar(x);
      if (std::memcmp(&by_lane, &by_scalar, 4) != 0 && !(std::isnan(by_lane) && std::isnan(by_scalar)))
        FAIL() << name << "(" << x << "): lane " << by_lane << ", scalar " << by_scalar;
      const double error = ulps(by_lane, exact(static_cast<double>(x)));
      if (error > worst) worst = error, worst_at = x;
    }
  }
  EXPECT_LE(worst, allowed) << name << " at " << worst_at;
  std::printf("%-8s %.2f ULP at %g\n", name, worst, static_cast<double>(worst_at));
}

#define WALK(name, allowed, reference)                                                                                        \
  TEST(DeviceMath, name) {                                                                                                    \
    walk(#name, allowed, [](FloatVector v) { return m::name(v); }, [](float x) { return m::name(x); },                  \
         [](double x) { return reference; }, 1999);                                                                     \
  }
WALK(exp, 2, std::exp(x))
WALK(expm1, 2, std::expm1(x))
WALK(log, 1, std::log(x))
WALK(log1p, 2, std::log1p(x))
WALK(tanh, 2, std::tanh(x))
WALK(sigmoid, 3, x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)))
WALK(erf, 3, std::erf(x))
WALK(sin, 1, std::sin(x))
WALK(cos, 1, std::cos(x))
WALK(tan, 1, std::tan(x))
WALK(asinh, 1, std::asinh(x))
WALK(sqrt, 0.5, std::sqrt(x))
WALK(floor, 0, std::floor(x))
WALK(ceil, 0, std::ceil(x))
WALK(trunc, 0, std::trunc(x))
WALK(rint, 0, std::nearbyint(x))

TEST(DeviceMath, pow) {
  for (const float p : {2.0f, 3.0f, 0.5f, -1.0f, -2.5f, 17.0f, 0.0f, -0.0f, INFINITY, -INFINITY, NAN, 33.33f, 1e-3f, 33554434.0f, -3.0f}) {
    walk("pow", 1, [=](FloatVector v) { return m::pow(v, m::broadcast<FloatVector>(p)); }, [=](float x) { return m::pow(x, p); },
         [=](double x) { return std::pow(x, static_cast<double>(p)); }, 39999);
    walk("pow", 1, [=](FloatVector v) { return m::pow(m::broadcast<FloatVector>(p), v); }, [=](float x) { return m::pow(p, x); },
         [=](double x) { return std::pow(static_cast<double>(p), x); }, 39999);
  }
}

}  // namespace
