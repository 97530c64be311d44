// The element types as Python's buffers and DLPack call them, by the numbers of metac_dtype.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "metac/metac.h"
#include "runtime/dtypes.h"

namespace metac_python {

struct ElementType {
  std::string_view name;
  char kind;  // NumPy's: f, i, u or b; of bfloat16, which NumPy does not have, u
  int bytes;
  bool is_bfloat16() const { return name == "bfloat16"; }
  // The letter of module struct; 64 bits are Python's and NumPy's own integers, which are C's long where that has 64.
  const char* format() const;
  // DLPack's DLDataTypeCode.
  uint8_t dlpack_code() const;
};

#define METAC_ELEMENT_TYPE(id, name, element, spelled, kind, onnx, numpy) ElementType{name, numpy[1], numpy[2] - '0'},
// The last row, strings, is no type that a metac_tensor carries.
inline constexpr std::array element_types{METAC_DTYPES(METAC_ELEMENT_TYPE)};
#undef METAC_ELEMENT_TYPE
inline constexpr int element_type_count = METAC_BOOL + 1;
static_assert(element_types[METAC_BOOL].name == "bool" && element_types[METAC_BFLOAT16].name == "bfloat16");

inline const ElementType& element_type(int32_t dtype) { return element_types.at(static_cast<size_t>(dtype)); }

// The metac_dtype of elements that a buffer describes: of native byte order, not structs or characters.
std::optional<int32_t> dtype_of_format(std::string_view format, int64_t bytes);
std::optional<int32_t> dtype_of_dlpack(uint8_t code, uint8_t bits, uint16_t lanes);

}  // namespace metac_python
