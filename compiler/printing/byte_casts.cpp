#include "compiler/printing/byte_casts.h"

#include <cmath>
#include <cstdlib>

#include "compiler/ir/dtype.h"
#include "compiler/ir/walks.h"

namespace metac {
namespace {

bool is_call(Expr e, Fn fn) { return e->kind == ExprKind::call && e->fn == fn; }
std::optional<double> float_of(Expr e) {
  if (e->kind != ExprKind::float_constant) return std::nullopt;
  return e->float_value;
}
bool is_whole(double x) { return x == std::floor(x); }

// A whole number, NaN or an infinity: what is rounded, and that with whole numbers added.
bool is_rounded(Expr e) {
  while (is_call(e, Fn::add) || is_call(e, Fn::sub)) {
    const std::optional<double> more = float_of(e->args[1]);
    if (!more || !is_whole(*more)) return false;
    e = e->args[0];
  }
  return is_call(e, Fn::rint);
}

// Added to what fits into two bytes they stay exact.
constexpr double most_added = 1 << 16;

struct Limits {
  Expr value;
  double low, high;
};
std::optional<Limits> limits_of(Expr cast) {
  if (cast->kind != ExprKind::cast || !is_integer(cast->dtype) || size_of(cast->dtype) > 2) return std::nullopt;
  const Expr least = cast->args[0];
  if (least->dtype != DType::f32 || !is_call(least, Fn::min) || !is_call(least->args[0], Fn::max)) return std::nullopt;
  const std::optional<double> high = float_of(least->args[1]), low = float_of(least->args[0]->args[1]);
  const bool holds = low && high && *low >= static_cast<double>(min_value(cast->dtype)) &&
                     *high <= static_cast<double>(max_value(cast->dtype)) && *low <= *high;
  if (!holds) return std::nullopt;
  return Limits{least->args[0]->args[0], *low, *high};
}

// rint(x) + a whole number, if it is that.
std::optional<double> added_to_rounded(Expr e) {
  if (!is_call(e, Fn::add) || !is_call(e->args[0], Fn::rint)) return std::nullopt;
  const std::optional<double> more = float_of(e->args[1]);
  return more && is_whole(*more) && std::abs(*more) <= most_added ? more : std::nullopt;
}

}  // namespace

std::optional<ClampedCast> clamped_cast_of(Expr cast) {
  const std::optional<Limits> limits = limits_of(cast);
  if (!limits) return std::nullopt;
  const auto [value, low, high] = *limits;
  if (is_whole(low) && is_whole(high)) {
    if (is_call(value, Fn::rint)) return ClampedCast{value->args[0], low, high, true, 0};
    const std::optional<double> more = added_to_rounded(value);
    if (more && low == 0)  // NaN becomes what `low` does
      return ClampedCast{value->args[0]->args[0], low - *more, high - *more, true, static_cast<int>(*more)};
  }
  return ClampedCast{value, low, high, false, 0};
}

std::optional<ClampedFloats> clamped_floats_of(Expr cast) {
  if (cast->kind != ExprKind::cast || cast->dtype != DType::f32) return std::nullopt;
  Expr bytes = cast->args[0];
  double less = 0;
  if (bytes->dtype == DType::i32 && is_call(bytes, Fn::sub)) {
    const int64_t* zero = bytes->args[1].if_int();
    if (!zero || std::abs(static_cast<double>(*zero)) > most_added) return std::nullopt;
    less = static_cast<double>(*zero);
    bytes = bytes->args[0];
  }
  if (bytes->dtype == DType::i32 && bytes->kind == ExprKind::cast) bytes = bytes->args[0];
  const std::optional<Limits> limits = limits_of(bytes);
  if (!limits || !is_rounded(limits->value)) return std::nullopt;
  const auto [value, low, high] = *limits;
  const bool is_signed = min_value(bytes->dtype) < 0;
  if (!is_signed && low != 0) return std::nullopt;  // NaN becomes `low`
  const std::optional<double> more = added_to_rounded(value);
  if (!is_signed && more && *more == less) return ClampedFloats{value->args[0], bytes, low - less, high - less, 0};
  return ClampedFloats{value, bytes, low, high, less};
}

}  // namespace metac
