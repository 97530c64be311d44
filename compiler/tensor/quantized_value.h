// What a value is made of when it is a small integer, or a scaled one: value = scale * (stored - zero_point). Found in the
// expression alone; nothing here knows an operator.
#pragma once
#include <optional>

#include "compiler/ir/expr.h"

namespace metac {

// The values that an int32 expression can take, ends included.
struct IntegerRange {
  int64_t low = 0, high = 0;
  bool within(int64_t least, int64_t most) const { return least <= low && high <= most; }
};
// Empty where only the whole of int32 is known.
std::optional<IntegerRange> integer_range(Expr e);

struct QuantizedValue {
  Expr whole;       // int32: the value, less the scale
  Expr scale;       // float32 factor; empty: there is none and the value is int32
  Expr stored;      // int8 or uint8 with whole = int32(stored) - zero_point; empty where `whole` has no such form
  Expr zero_point;  // int32
  std::optional<IntegerRange> range;  // of whole
};
// Empty where the value is neither int32 nor float32(int32) times a factor that is loaded or constant.
std::optional<QuantizedValue> match_quantized(Expr value);

}  // namespace metac
