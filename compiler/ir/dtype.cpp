#include "compiler/ir/dtype.h"

#include <limits>

namespace metac {

static constexpr DTypeInfo table[] = {
    {DType::f32, "float32", "float", 4, true, true},     {DType::f64, "float64", "double", 8, true, true},
    {DType::f16, "float16", "float16", 2, true, true},   {DType::bf16, "bfloat16", "bfloat16", 2, true, true},
    {DType::i8, "int8", "int8_t", 1, false, true},       {DType::i16, "int16", "int16_t", 2, false, true},
    {DType::i32, "int32", "int32_t", 4, false, true},    {DType::i64, "int64", "int64_t", 8, false, true},
    {DType::u8, "uint8", "uint8_t", 1, false, false},    {DType::u16, "uint16", "uint16_t", 2, false, false},
    {DType::u32, "uint32", "uint32_t", 4, false, false}, {DType::u64, "uint64", "uint64_t", 8, false, false},
    {DType::boolean, "bool", "bool", 1, false, false},   {DType::string, "string", "", 0, false, false},
};

const DTypeInfo& info(DType dtype) { return table[static_cast<size_t>(dtype)]; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeInfo& row : table)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

int64_t min_value(DType dtype) {
  if (!is_signed(dtype)) return 0;
  return size_of(dtype) == 8 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (8 * size_of(dtype) - 1));
}

int64_t max_value(DType dtype) {
  if (is_bool(dtype)) return 1;
  if (size_of(dtype) == 8) return std::numeric_limits<int64_t>::max();
  return (int64_t{1} << (8 * size_of(dtype) - (is_signed(dtype) ? 1 : 0))) - 1;
}

}  // namespace metac
