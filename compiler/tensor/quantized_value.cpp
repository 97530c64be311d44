#include "compiler/tensor/quantized_value.h"

#include <algorithm>

#include "compiler/ir/walks.h"

namespace metac {

static std::optional<IntegerRange> range_of_dtype(DType dtype) {
  switch (dtype) {
    case DType::boolean:
      return IntegerRange{0, 1};
    case DType::u8:
      return IntegerRange{0, 255};
    case DType::i8:
      return IntegerRange{-128, 127};
    case DType::u16:
      return IntegerRange{0, 65535};
    case DType::i16:
      return IntegerRange{-32768, 32767};
    default:
      return std::nullopt;
  }
}

static bool fits_i32(const IntegerRange& r) { return r.within(INT32_MIN, INT32_MAX); }

std::optional<IntegerRange> integer_range(Expr whole) {
  return answer_once<std::optional<IntegerRange>>(whole, [](Expr e, const auto& of) -> std::optional<IntegerRange> {
    if (const int64_t* value = e.if_int()) return IntegerRange{*value, *value};
    if (e->kind == ExprKind::cast) return is_float(e->args[0]->dtype) ? range_of_dtype(e->dtype) : of(e->args[0]);
    if (e->kind == ExprKind::load) return range_of_dtype(e->dtype);
    if (e->kind != ExprKind::call || e->dtype != DType::i32) return range_of_dtype(e->dtype);
    if (e->fn == Fn::bit_and)  // with a mask that is not negative
      if (const auto mask = of(e->args[1]); mask && mask->low >= 0) return IntegerRange{0, mask->high};
    size_t first = e->fn == Fn::select ? 1 : 0;
    if (e->args.size() - first > 2) return std::nullopt;
    auto a = of(e->args[first]);
    if (!a) return std::nullopt;
    if (e->fn == Fn::neg)
      return fits_i32({-a->high, -a->low}) ? std::optional(IntegerRange{-a->high, -a->low}) : std::nullopt;
    if (e->args.size() - first < 2) return std::nullopt;
    auto b = of(e->args[first + 1]);
    if (!b) return std::nullopt;
    IntegerRange r;
    switch (e->fn) {
      case Fn::add:
        r = {a->low + b->low, a->high + b->high};
        break;
      case Fn::sub:
        r = {a->low - b->high, a->high - b->low};
        break;
      case Fn::min:
        r = {std::min(a->low, b->low), std::min(a->high, b->high)};
        break;
      case Fn::max:
        r = {std::max(a->low, b->low), std::max(a->high, b->high)};
        break;
      case Fn::select:
        r = {std::min(a->low, b->low), std::max(a->high, b->high)};
        break;
      default:
        return std::nullopt;
    }
    return fits_i32(r) ? std::optional(r) : std::nullopt;
  });
}

// int32 of a byte: the byte.
static Expr byte_of(Expr e) {
  bool byte = e->kind == ExprKind::cast && e->dtype == DType::i32 &&
              (e->args[0]->dtype == DType::u8 || e->args[0]->dtype == DType::i8);
  return byte ? e->args[0] : Expr();
}

static bool is_factor(Expr e) {
  return !any_of(e,
                 [](Expr n) { return n->kind == ExprKind::call || (n->kind == ExprKind::load && n->dtype != DType::f32); });
}

std::optional<QuantizedValue> match_quantized(Expr value) {
  QuantizedValue q;
  Expr e = value;
  if (e->dtype == DType::f32) {
    if (e->kind == ExprKind::call && e->fn == Fn::mul) {
      size_t factor = is_factor(e->args[1]) && e->args[0]->kind == ExprKind::cast ? 1 : 0;
      if (!is_factor(e->args[factor])) return std::nullopt;
      q.scale = e->args[factor];
      e = e->args[1 - factor];
    } else {
      q.scale = float_constant(1, DType::f32);
    }
    if (e->kind != ExprKind::cast || e->args[0]->dtype != DType::i32) return std::nullopt;
    e = e->args[0];
  }
  if (e->dtype != DType::i32) return std::nullopt;
  q.whole = e;
  q.range = integer_range(e);
  q.zero_point = int_constant(0, DType::i32);
  q.stored = byte_of(e);
  if (bool(q.stored) || e->kind != ExprKind::call || (e->fn != Fn::sub && e->fn != Fn::add)) return q;
  for (size_t k : {size_t{0}, size_t{1}}) {
    Expr byte = byte_of(e->args[k]), other = e->args[1 - k];
    if (!byte || (e->fn == Fn::sub && k == 1)) continue;
    if (e->fn == Fn::add && !other.if_int()) continue;
    q.stored = byte;
    q.zero_point = e->fn == Fn::sub ? other : int_constant(-other.as_int(), DType::i32);
    break;
  }
  return q;
}

}  // namespace metac
