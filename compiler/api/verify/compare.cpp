#include "compiler/api/verify/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

// Floats of one sign are ordered like their bits; this maps both signs to one line.
int64_t ordered(int64_t bits, int64_t sign_bit) { return bits & sign_bit ? -(bits & (sign_bit - 1)) : bits; }

int64_t position(const Tensor& t, int64_t i) {
  switch (t.dtype) {
    case DType::f32:
      return ordered(t.data<uint32_t>()[i], int64_t{1} << 31);
    case DType::f16:
    case DType::bf16:
      return ordered(t.data<uint16_t>()[i], 1 << 15);
    default: {
      int64_t bits = t.data<int64_t>()[i];
      return bits < 0 ? -(bits & INT64_MAX) : bits;
    }
  }
}

int64_t ulps_between(const Tensor& a, const Tensor& b, int64_t i) {
  int64_t difference;
  if (__builtin_sub_overflow(position(a, i), position(b, i), &difference) || difference == INT64_MIN) return INT64_MAX;
  return std::abs(difference);
}

Comparison refused(std::string why) {
  Comparison result;
  result.good = false;
  result.detail = std::move(why);
  return result;
}

Comparison compare_floats(const Tensor& got, const Tensor& expected, Tolerance tolerance) {
  if (got.dtype == DType::bf16) tolerance.rtol = std::max(tolerance.rtol, 1.0 / 64);
  Comparison result;
  int64_t count = expected.element_count(), wrong = 0, first_wrong = -1;
  for (int64_t i = 0; i < count; ++i) {
    double a = number_at(got, i), b = number_at(expected, i);
    bool good;
    if (std::isfinite(b)) result.largest = std::max(result.largest, std::fabs(b));
    if (!std::isfinite(a) || !std::isfinite(b)) {
      good = (std::isnan(a) && std::isnan(b)) || a == b;
      if (!good) result.passing_atol = result.passing_rtol = std::numeric_limits<double>::infinity();
    } else {
      double difference = std::fabs(a - b);
      int64_t ulp = ulps_between(got, expected, i);
      good = difference <= tolerance.atol + tolerance.rtol * std::fabs(b) &&
             (tolerance.max_ulp < 0 || ulp <= tolerance.max_ulp);
      double relative = difference == 0 ? 0 : difference / std::max(std::fabs(b), 1e-300);
      result.max_ulp = std::max(result.max_ulp, ulp);
      if (difference > result.max_abs) result.max_abs = difference, result.furthest = i;
      result.passing_atol = std::max(result.passing_atol, difference - tolerance.rtol * std::fabs(b));
      if (difference > tolerance.atol)
        result.passing_rtol = std::max(result.passing_rtol, b == 0 ? std::numeric_limits<double>::infinity()
                                                                   : (difference - tolerance.atol) / std::fabs(b));
      if (relative > result.max_rel) result.max_rel = relative, result.worst = i;
    }
    if (!good && wrong++ == 0) first_wrong = i;
  }
  if (wrong) {
    result.good = false;
    result.detail = concat(wrong, " of ", count, " elements differ; the first, element ", first_wrong, ", is ",
                           number_at(got, first_wrong), ", expected ", number_at(expected, first_wrong));
  }
  return result;
}

Comparison compare_integers(const Tensor& got, const Tensor& expected) {
  Comparison result;
  int64_t count = expected.element_count(), wrong = 0, first_wrong = -1;
  for (int64_t i = 0; i < count; ++i) {
    int64_t a = integer_at(got, i), b = integer_at(expected, i), difference;
    if (a == b) continue;
    if (wrong++ == 0) first_wrong = i;
    if (__builtin_sub_overflow(a, b, &difference) || difference == INT64_MIN) difference = INT64_MAX;
    result.max_ulp = std::max(result.max_ulp, std::abs(difference));
  }
  if (wrong) {
    result.good = false;
    result.detail = concat(wrong, " of ", count, " elements differ; the first, element ", first_wrong, ", is ",
                           integer_at(got, first_wrong), ", expected ", integer_at(expected, first_wrong));
  }
  return result;
}

}  // namespace

double part_of_largest(DType dtype) { return dtype == DType::bf16 ? 1e-2 : dtype == DType::f16 ? 1e-3 : 1e-6; }

namespace {

struct Moments {
  double mean = 0, variance = 0;
  bool finite = true, binary = true;
};

Moments moments_of(const Tensor& t) {
  Moments m;
  const int64_t count = t.element_count();
  for (int64_t i = 0; i < count; ++i) {
    const double x = number_at(t, i);
    m.finite &= std::isfinite(x);
    m.binary &= x == 0 || x == 1;
    m.mean += x / static_cast<double>(count);
  }
  for (int64_t i = 0; i < count; ++i) m.variance += std::pow(number_at(t, i) - m.mean, 2) / static_cast<double>(count);
  return m;
}

// Empty: the same.
std::string type_difference(const Tensor& got, const Tensor& expected) {
  if (got.dtype != expected.dtype) return concat("is ", name_of(got.dtype), ", expected ", name_of(expected.dtype));
  if (got.shape != expected.shape)
    return concat("has shape ", to_string(got.shape), ", expected ", to_string(expected.shape));
  return "";
}

}  // namespace

Comparison compare(const Tensor& got, const Tensor& expected, const Tolerance& tolerance) {
  if (std::string difference = type_difference(got, expected); !difference.empty()) return refused(difference);
  if (got.dtype == DType::string) return got.strings == expected.strings ? Comparison{} : refused("its strings differ");
  return is_float(got.dtype) ? compare_floats(got, expected, tolerance) : compare_integers(got, expected);
}

Comparison compare_distributions(const Tensor& got, const Tensor& expected) {
  if (std::string difference = type_difference(got, expected); !difference.empty()) return refused(difference);
  if (!is_numeric(got.dtype)) return refused("strings have no distribution");
  if (expected.element_count() == 0) return {};
  const Moments a = moments_of(got), b = moments_of(expected);
  if (!b.finite) return refused("the expected values are not finite");
  if (!a.finite) return refused("holds values that are not finite");
  if (b.binary && !a.binary) return refused("holds other values than 0 and 1");
  const double error = std::sqrt((a.variance + b.variance) / static_cast<double>(expected.element_count()));
  if (std::fabs(a.mean - b.mean) > 5 * error + 1e-6 * std::fabs(b.mean))
    return refused(concat("has a mean of ", a.mean, ", expected about ", b.mean, " within ", 5 * error));
  return {};
}

}  // namespace metac
