#include "compiler/target/cpu/integer_factors.h"

#include <algorithm>

namespace metac {

static Expr whole_number(int64_t value) { return int_constant(value, DType::i32); }

std::optional<IntegerFactor> factor_of_constant(const Operand& operand, Var* v, std::deque<Definition>& definitions) {
  if (!v->constant || v->is_parameter || v->dtype() != DType::i32 || v->constant->element_count() == 0) return std::nullopt;
  IntegerRange range{INT32_MAX, INT32_MIN};
  for (int64_t k = 0; k < v->constant->element_count(); ++k) {
    int64_t value = integer_at(*v->constant, k);
    range = {std::min(range.low, value), std::max(range.high, value)};
  }
  Definition& d = definitions.emplace_back();
  d.out = v;
  d.domain = v->shape();
  d.out_index = identity_indices(v->rank());
  d.body = load(v->id, DType::i32, d.out_index);
  return IntegerFactor{operand, &d, QuantizedValue{d.body, {}, {}, whole_number(0), range}};
}

std::optional<SignedBytes> as_signed_bytes(const IntegerFactor& f) {
  if (f.value.range->within(-128, 127)) return SignedBytes{f, whole_number(0)};
  const IntegerRange range = *f.value.range;
  if (!f.value.stored && range.high - range.low > 255) return std::nullopt;
  // What is left without the offset is int8.
  const int64_t low = f.value.stored ? (f.value.stored->dtype == DType::u8 ? 0 : -128) : range.low;
  const Expr offset = whole_number(low + 128);
  const Expr number = f.value.stored ? cast(f.value.stored, DType::i32) : f.value.whole;
  SignedBytes bytes{f, (f.value.stored ? f.value.zero_point : whole_number(0)) - offset};
  bytes.factor.value.whole = number - offset;
  bytes.factor.value.range = {-128, 127};
  return bytes;
}

}  // namespace metac
