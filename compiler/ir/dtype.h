// Element types of tensors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace metac {

// Only host steps touch what is not numeric (string). 8-bit floats and sub-byte integers get their rows here too.
enum class DType : uint8_t { f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean, string };

struct DTypeInfo {
  DType dtype;
  std::string_view name;      // the name users see: "float32"
  std::string_view cpp_name;  // how generated code spells it
  size_t bytes;               // size of one element; 0: not fixed
  bool is_float, is_signed;   // a boolean is neither float nor signed
};

const DTypeInfo& info(DType dtype);
std::optional<DType> dtype_from_name(std::string_view name);

inline std::string_view name_of(DType dtype) { return info(dtype).name; }
inline size_t size_of(DType dtype) { return info(dtype).bytes; }
inline bool is_float(DType dtype) { return info(dtype).is_float; }
inline bool is_bool(DType dtype) { return dtype == DType::boolean; }
inline bool is_numeric(DType dtype) { return dtype != DType::string; }
inline bool is_integer(DType dtype) { return is_numeric(dtype) && !is_float(dtype) && !is_bool(dtype); }
inline bool is_signed(DType dtype) { return info(dtype).is_signed; }
// The least and greatest value of an integer dtype, clipped to what int64 holds.
int64_t min_value(DType dtype);
int64_t max_value(DType dtype);

}  // namespace metac
