// Casts between float lanes and bytes that take fewer instructions than they are made of (runtime/device/vector_x86.h):
// what quantised networks do behind each product.
#pragma once
#include <optional>

#include "compiler/ir/expr.h"

namespace metac {

// cast(min(max(value, low), high)) to an integer of one or two bytes that holds both limits.
struct ClampedCast {
  Expr value;
  double low = 0, high = 0;
  bool rounds = false;  // value is first rounded to the nearest integer, `more` is added to what it comes to between the
  int more = 0;         // limits, all of them whole
};
std::optional<ClampedCast> clamped_cast_of(Expr cast);

// A cast of float32 to bytes and back, perhaps less a zero point: min(max(value, low), high) - less, of a whole number.
struct ClampedFloats {
  Expr value, bytes;
  double low = 0, high = 0, less = 0;
};
std::optional<ClampedFloats> clamped_floats_of(Expr cast);

}  // namespace metac
