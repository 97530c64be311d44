// The single-precision functions of runtime/device, walked densely over all floats, against libm in double: the error in
// ULP that each states, and that a vector lane and a scalar are the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "tests/runtime/device.h"

namespace {

// Distance in units in the last place of the exact result; infinite where only one of the two is a number.
double ulps(float got, double exact) {
  const float rounded = static_cast<float>(exact);
  if (std::isnan(exact)) return std::isnan(got) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(got))
    return rounded == got || (std::isinf(got) && std::fabs(exact) > 3.4028e38) ? 0 : INFINITY;
  int exponent = -149;
  if (exact != 0) std::frexp(exact, &exponent);
  return std::fabs(static_cast<double>(got) - exact) / std::ldexp(1.0, std::max(exponent - 24, -149));
}

// Python's % from C's.
double floored(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest == 0 ? std::copysign(0.0, b) : (rest < 0) != (b < 0) ? rest + b : rest;
}

float of_bits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, 4);
  return x;
}

// Every METAC_FLOAT_STEP-th float (1: all of them), and all near those at which some function changes its formula or its
// character: powers of two, halves, multiples of pi/2, the ends of exp's range, infinities.
unsigned float_step(unsigned otherwise) {
  const char* text = std::getenv("METAC_FLOAT_STEP");
  const int step = text ? std::atoi(text) : 0;
  return step > 0 ? static_cast<unsigned>(step) : otherwise;
}

std::vector<float> near_boundaries(int neighbours) {
  std::vector<float> xs = {0.0f, INFINITY, NAN, of_bits(0x7fffffffu), of_bits(0x7f800001u), 3.4028235e38f, 1e-45f};
  std::vector<float> centres = {0.625f,    0.4142135624f, 2.414213562f, 0.7071067812f, 1.414213562f, 88.72284f, 89.41599f,
                                103.9721f, 87.33655f,     1.5f,         2.5f,          3.0f,         9.0f,      17.32868f,
                                20.0f,     4.0f,          268435456.0f, 16777216.0f,   8388608.0f};
  for (int e = -149; e < 128; ++e) centres.push_back(std::ldexp(1.0f, e));
  for (int k = 1; k < 40; ++k) centres.push_back(static_cast<float>(k * 1.5707963267948966));
  for (float k = 0.5f; k < 16; ++k)
    centres.insert(centres.end(), {k * (65.0f / 256), k * (149.0f / 256)});  // pieces of erf and tanh
  centres.insert(centres.end(), {3.9355f, 9.0214f});
  for (const float c : centres) {
    uint32_t bits;
    std::memcpy(&bits, &c, 4);
    for (int d = -neighbours; d <= neighbours; ++d) xs.push_back(of_bits(bits + static_cast<uint32_t>(d)));
  }
  const size_t positive = xs.size();
  for (size_t k = 0; k < positive; ++k) xs.push_back(-xs[k]);
  return xs;
}

struct Worst {
  double error = 0;
  float a = 0, b = 0;
};

// Compares one vector of arguments; false where a lane and a scalar differ.
template <typename Vector, typename Scalar, typename Exact>
bool compare(const char* name, const float* a, const float* b, Vector vector, Scalar scalar, Exact exact, Worst& worst) {
  FloatVector v, w;
  std::memcpy(&v, a, sizeof v);
  std::memcpy(&w, b, sizeof w);
  const FloatVector results = vector(v, w);
  for (int lane = 0; lane < m::lane_count<FloatVector>; ++lane) {
    const float by_lane = results[lane], by_scalar = scalar(a[lane], b[lane]);
    if (std::memcmp(&by_lane, &by_scalar, 4) != 0 && !(std::isnan(by_lane) && std::isnan(by_scalar))) {
      ADD_FAILURE() << name << "(" << a[lane] << ", " << b[lane] << "): lane " << by_lane << ", scalar " << by_scalar;
      return false;
    }
    const double value = exact(static_cast<double>(a[lane]), static_cast<double>(b[lane]));
    double error = ulps(by_lane, value);
    if (value == 0 && by_lane == 0 && std::signbit(value) != std::signbit(by_lane)) error = INFINITY;
    if (error > worst.error) worst = {error, a[lane], b[lane]};
  }
  return true;
}

template <typename Vector, typename Scalar, typename Exact>
void walk(const char* name, double allowed, Vector vector, Scalar scalar, Exact exact) {
  if (!device_runs_here()) GTEST_SKIP() << "this CPU lacks the instruction set";
  constexpr int n = m::lane_count<FloatVector>;
  Worst worst;
  std::vector<float> some = near_boundaries(64);
  while (some.size() % n != 0) some.push_back(0);
  for (size_t i = 0; i < some.size(); i += n)
    if (!compare(name, &some[i], &some[i], vector, scalar, exact, worst)) return;
  const uint64_t step = float_step(2999);
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += step * n) {
    float xs[n];
    for (int lane = 0; lane < n; ++lane)
      xs[lane] = of_bits(static_cast<uint32_t>(bits + step * static_cast<uint64_t>(lane)));
    if (!compare(name, xs, xs, vector, scalar, exact, worst)) return;
  }
  EXPECT_LE(worst.error, allowed) << name << " at " << worst.a;
  std::printf("%-9s %.2f ULP at %g\n", name, worst.error, static_cast<double>(worst.a));
}

// Pairs: all special ones with each other, and a walk over random bits, half of them of like size.
template <typename Vector, typename Scalar, typename Exact>
void walk_pairs(const char* name, double allowed, Vector vector, Scalar scalar, Exact exact) {
  if (!device_runs_here()) GTEST_SKIP() << "this CPU lacks the instruction set";
  constexpr int n = m::lane_count<FloatVector>;
  Worst worst;
  std::vector<float> some = near_boundaries(0);
  while (some.size() % n != 0) some.push_back(0);
  for (const float one : some)
    for (size_t i = 0; i < some.size(); i += n) {
      const std::vector<float> same(n, one);
      if (!compare(name, &some[i], same.data(), vector, scalar, exact, worst)) return;
    }
  std::mt19937_64 random(20240607);
  for (uint64_t left = (uint64_t{1} << 32) / float_step(2999) / n; left > 0; --left) {
    float a[n], b[n];
    for (int lane = 0; lane < n; ++lane) {
      const uint64_t bits = random();
      const uint32_t first = static_cast<uint32_t>(bits), second = static_cast<uint32_t>(bits >> 32);
      a[lane] = of_bits(first);
      b[lane] = of_bits(bits & 1 ? second : (first & 0x7f800000u) ^ (second & 0x81ffffffu));
    }
    if (!compare(name, a, b, vector, scalar, exact, worst)) return;
  }
  EXPECT_LE(worst.error, allowed) << name << " at " << worst.a << ", " << worst.b;
  std::printf("%-9s %.2f ULP at %g, %g\n", name, worst.error, static_cast<double>(worst.a), static_cast<double>(worst.b));
}

#define UNARY(name, allowed, reference)                                                                                   \
  TEST(DeviceMath, name) {                                                                                                \
    walk(                                                                                                                 \
        #name, allowed, [](FloatVector v, FloatVector) { return m::name(v); }, [](float x, float) { return m::name(x); }, \
        [](double x, double) { return reference; });                                                                      \
  }
#define BINARY(name, allowed, reference)                                                               \
  TEST(DeviceMath, name) {                                                                             \
    walk_pairs(                                                                                        \
        #name, allowed, [](FloatVector a, FloatVector b) { return m::name(a, b); },                    \
        [](float a, float b) { return m::name(a, b); }, [](double a, double b) { return reference; }); \
  }
#include "tests/runtime/math_functions.def"
#undef UNARY
#undef BINARY

TEST(DeviceMath, powers_of_all_bases) {
  for (const float p :
       {2.0f, 3.0f, 0.5f, -1.0f, -2.5f, 17.0f, 0.0f, -0.0f, INFINITY, -INFINITY, NAN, 33.33f, 1e-3f, 33554434.0f, -3.0f})
    walk(
        "pow", 1, [=](FloatVector v, FloatVector) { return m::pow(v, m::broadcast<FloatVector>(p)); },
        [=](float x, float) { return m::pow(x, p); }, [=](double x, double) { return std::pow(x, static_cast<double>(p)); });
}

}  // namespace
