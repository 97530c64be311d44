// Element types of tensors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "runtime/dtypes.h"

namespace metac {

// The rows of runtime/dtypes.h. Only host steps touch what is not numeric (string).
enum class DType : uint8_t {
#define ROW(id, ...) id,
  METAC_DTYPES(ROW)
#undef ROW
};

enum class DTypeKind : uint8_t { real, whole, truth, text };

struct DTypeInfo {
  DType dtype;
  std::string_view name;      // the name users see: "float32"
  std::string_view cpp_name;  // how generated code spells it
  size_t bytes;               // size of one element; 0: not fixed
  DTypeKind kind;
  bool is_signed;             // a truth is not
  int onnx_number;            // TensorProto.DataType
  std::string_view npy_code;  // of .npy files
};

const DTypeInfo& info(DType dtype);
std::span<const DTypeInfo> dtypes();  // all of them
std::optional<DType> dtype_from_name(std::string_view name);

inline std::string_view name_of(DType dtype) { return info(dtype).name; }
inline size_t size_of(DType dtype) { return info(dtype).bytes; }
inline bool is_float(DType dtype) { return info(dtype).kind == DTypeKind::real; }
// Reals narrower than float32: storage alone, computed with in float32.
inline bool is_half(DType dtype) { return is_float(dtype) && size_of(dtype) < 4; }
inline bool is_bool(DType dtype) { return dtype == DType::boolean; }
inline bool is_numeric(DType dtype) { return dtype != DType::string; }
inline bool is_integer(DType dtype) { return is_numeric(dtype) && !is_float(dtype) && !is_bool(dtype); }
inline bool is_signed(DType dtype) { return info(dtype).is_signed; }
// The least and greatest value of an integer dtype, clipped to what int64 holds.
int64_t min_value(DType dtype);
int64_t max_value(DType dtype);

}  // namespace metac
