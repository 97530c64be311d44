#include "compiler/ops/onnx_dtypes.h"

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

struct Row {
  std::string_view name;
  std::optional<DType> dtype;
};
// Index = ONNX's number.
constexpr Row rows[] = {
    {"undefined", {}},
    {"float32", DType::f32},
    {"uint8", DType::u8},
    {"int8", DType::i8},
    {"uint16", DType::u16},
    {"int16", DType::i16},
    {"int32", DType::i32},
    {"int64", DType::i64},
    {"string", DType::string},
    {"bool", DType::boolean},
    {"float16", DType::f16},
    {"float64", DType::f64},
    {"uint32", DType::u32},
    {"uint64", DType::u64},
    {"complex64", {}},
    {"complex128", {}},
    {"bfloat16", DType::bf16},
    {"float8e4m3fn", {}},
    {"float8e4m3fnuz", {}},
    {"float8e5m2", {}},
    {"float8e5m2fnuz", {}},
    {"uint4", {}},
    {"int4", {}},
    {"float4e2m1", {}},
    {"float8e8m0", {}},
    {"uint2", {}},
    {"int2", {}},
};
constexpr int64_t row_count = sizeof rows / sizeof rows[0];

}  // namespace

std::optional<DType> dtype_of_onnx_number(int64_t number) {
  if (number < 0 || number >= row_count) return std::nullopt;
  return rows[number].dtype;
}

std::string name_of_onnx_number(int64_t number) {
  if (number < 0 || number >= row_count) return concat("type ", number);
  return std::string(rows[number].name);
}

DType require_onnx_dtype(int64_t number, std::string_view what) {
  std::optional<DType> dtype = dtype_of_onnx_number(number);
  if (!dtype || *dtype == DType::string) fail(what, ": ", name_of_onnx_number(number), " is not supported");
  return *dtype;
}

}  // namespace metac
