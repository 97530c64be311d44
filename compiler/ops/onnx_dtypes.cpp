#include "compiler/ops/onnx_dtypes.h"

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

// Index = ONNX's number.
constexpr std::string_view names[] = {
    "undefined", "float32",    "uint8",      "int8",         "uint16",         "int16",      "int32",
    "int64",     "string",     "bool",       "float16",      "float64",        "uint32",     "uint64",
    "complex64", "complex128", "bfloat16",   "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
    "uint4",     "int4",       "float4e2m1", "float8e8m0",   "uint2",          "int2",
};

}  // namespace

std::optional<DType> dtype_of_onnx_number(int64_t number) {
  for (const DTypeInfo& row : dtypes())
    if (row.onnx_number == number) return row.dtype;
  return std::nullopt;
}

std::string name_of_onnx_number(int64_t number) {
  if (number < 0 || number >= static_cast<int64_t>(std::size(names))) return concat("type ", number);
  return std::string(names[number]);
}

DType require_onnx_dtype(int64_t number, std::string_view what) {
  std::optional<DType> dtype = dtype_of_onnx_number(number);
  if (!dtype || *dtype == DType::string) fail(what, ": ", name_of_onnx_number(number), " is not supported");
  return *dtype;
}

}  // namespace metac
