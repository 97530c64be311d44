// The functions of functions.py as a user writes them in C++: operators of domain "user".
#include <cmath>
#include <algorithm>
#include <limits>

namespace {
// For the functions of this file alone.
template <class T>
T softplus_of(T x) {
  return std::max(x, T(0)) + std::log1p(std::exp(-std::abs(x)));
}
}  // namespace

static double half(double x) { return x / 2; }

template <class T>
T mish(T x) {
  const T e = std::log1p(std::exp(x));
  return x * std::tanh(e);
}

template <class T>
T swish(T x, T beta = T(1.5)) {
  return x / (1 + std::exp(-beta * x));
}

template <class T>
T gelu(const T& x) {
  constexpr T root_of_2 = T(1.4142135623730951);
  return T(0.5) * x * (1 + std::erf(x / root_of_2));
}

template <class T>
T elu(T x, T alpha = T(1)) {
  if (x > 0) return x;
  return alpha * std::expm1(x);
}

template <class T>
T softplus(T x) {
  return softplus_of(x);
}

template <class T>
T snake(T x, T frequency = T(2)) {
  T s = std::sin(frequency * x);
  s *= s;
  return x + s / frequency;
}

float gaussian(float x, float s = 0.7f) { return std::exp(-x * x / (2 * s * s)); }
double gaussian(double x, double s = 0.7) { return std::exp(-x * x / (2 * s * s)); }

template <class T>
T huber(T p, T t, T delta = T(1)) {
  const T d = std::abs(p - t);
  if (d <= delta) {
    return d * d / 2;
  } else {
    return delta * (d - delta / 2);
  }
}

template <class T>
T log_cosh(T p, T t) {
  const T d = std::abs(p - t);
  return d + std::log1p(std::exp(-2 * d)) - T(0.6931471805599453);
}

template <class T>
T bce(T p, T t) {
  return softplus_of(p) - p * t;
}

template <class T>
T focal(T p, T t, T gamma = T(2)) {
  const T s = 1 / (1 + std::exp(-p));
  return -(t * std::pow(1 - s, gamma) * std::log(s) + (1 - t) * std::pow(s, gamma) * std::log(1 - s));
}

template <class T>
T weighted_smooth_l1(T p, T t, T w) {
  T d = p - t;
  if (d < 0) d = -d;
  T loss;
  if (d < 1)
    loss = T(0.5) * d * d;
  else
    loss = d - T(0.5);
  return w * loss;
}

template <class T>
T tanh_shrink(T x) {
  return x - std::tanh(x);
}

template <class T>
T rational(T x) {
  return x / (1 + x * x);
}

double quake(double x) { return 2 * half(1.0) / std::sqrt(1 + x * x); }
float quake(float x) { return 1 / std::sqrt(1 + x * x); }

template <class T>
T atan_gate(T a, T b) {
  return std::atan2(a, 1 + b * b);
}

// A polynomial by Horner's rule: the loop is written out.
template <class T>
T poly(T x) {
  constexpr T coefficients[] = {T(1), T(2), T(3), T(4)};
  T sum = 0;
  for (int i = 3; i >= 0; --i) sum = sum * x + coefficients[i];
  return sum;
}

template <class T>
T length(T a, T b) {
  return std::sqrt(a * a + b * b);
}

template <class T>
T leaky_clip(T x, T low = T(-1), T high = T(1), T slope = T(0.1)) {
  return x < low ? low + slope * (x - low) : x > high ? high + slope * (x - high) : x;
}

template <class T>
T soft_max_of_two(T a, T b) {
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

// The derivative of rounding is 0 by the rules; this one lets the gradient through.
template <class T>
T straight_round(T x) {
  return std::rint(x);
}
template <class T>
T straight_round_gradient_x(T x, T y, T dy) {
  return dy;
}
