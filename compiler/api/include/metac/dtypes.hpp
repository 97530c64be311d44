// What the element types are called, and how long an element is.
#pragma once
#include <cstring>
#include <string>

#include "metac.hpp"

namespace metac {

struct DtypeFacts {
  metac_dtype dtype;
  const char *name, *in_safetensors;
  int64_t bytes;
};
inline constexpr DtypeFacts dtypes[] = {
    {METAC_FLOAT32, "float32", "F32", 4},    {METAC_FLOAT64, "float64", "F64", 8}, {METAC_FLOAT16, "float16", "F16", 2},
    {METAC_BFLOAT16, "bfloat16", "BF16", 2}, {METAC_INT8, "int8", "I8", 1},        {METAC_INT16, "int16", "I16", 2},
    {METAC_INT32, "int32", "I32", 4},        {METAC_INT64, "int64", "I64", 8},     {METAC_UINT8, "uint8", "U8", 1},
    {METAC_UINT16, "uint16", "U16", 2},      {METAC_UINT32, "uint32", "U32", 4},   {METAC_UINT64, "uint64", "U64", 8},
    {METAC_BOOL, "bool", "BOOL", 1}};
inline const DtypeFacts& facts_of(metac_dtype dtype) {
  for (const DtypeFacts& each : dtypes)
    if (each.dtype == dtype) return each;
  throw Error(METAC_INVALID_ARGUMENT, "there is no dtype " + std::to_string(dtype));
}

// As Python's tuples print: (), (5,), (2, 3).
inline std::string shape_text(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t dim : shape) text += (text.empty() ? "" : ", ") + std::to_string(dim);
  return "(" + text + (shape.size() == 1 ? ",)" : ")");
}

}  // namespace metac
