// ONNX's numbers for element types, as attributes such as Cast's `to` carry them (TensorProto.DataType).
#pragma once
#include <optional>
#include <string>

#include "compiler/ir/dtype.h"

namespace metac {

// Empty: a type that this build does not compute with (float8, int4, complex, ...).
std::optional<DType> dtype_of_onnx_number(int64_t number);
// "float8e4m3fn", or "type 99" where the number is unknown.
std::string name_of_onnx_number(int64_t number);
// As above, but throws naming `what` and the type where it is not supported.
DType require_onnx_dtype(int64_t number, std::string_view what);

}  // namespace metac
