#include "python/extension/element_types.h"

#include <cstring>

namespace metac_python {
namespace {

enum DlpackCode : uint8_t { dlpack_int = 0, dlpack_uint = 1, dlpack_float = 2, dlpack_bfloat = 4, dlpack_bool = 6 };

std::optional<int32_t> dtype_of_kind(char kind, int64_t bytes) {
  for (int32_t dtype = 0; dtype < element_type_count; ++dtype) {
    const ElementType& type = element_type(dtype);
    if (type.kind == kind && type.bytes == bytes && !type.is_bfloat16()) return dtype;
  }
  return std::nullopt;
}

}  // namespace

const char* ElementType::format() const {
  switch (kind) {
    case 'b':
      return "?";
    case 'f':
      return bytes == 2 ? "e" : bytes == 4 ? "f" : "d";
    case 'i':
      return bytes == 1 ? "b" : bytes == 2 ? "h" : bytes == 4 ? "i" : sizeof(long) == 8 ? "l" : "q";
    default:
      return bytes == 1 ? "B" : bytes == 2 ? "H" : bytes == 4 ? "I" : sizeof(long) == 8 ? "L" : "Q";
  }
}

uint8_t ElementType::dlpack_code() const {
  if (is_bfloat16()) return dlpack_bfloat;
  return kind == 'f' ? dlpack_float : kind == 'i' ? dlpack_int : kind == 'u' ? dlpack_uint : dlpack_bool;
}

std::optional<int32_t> dtype_of_format(std::string_view format, int64_t bytes) {
  if (format.size() == 2 && (format[0] == '@' || format[0] == '=' || format[0] == '<')) format.remove_prefix(1);
  if (format.size() != 1) return std::nullopt;
  if (std::strchr("efd", format[0])) return dtype_of_kind('f', bytes);
  if (std::strchr("bhilqn", format[0])) return dtype_of_kind('i', bytes);
  if (std::strchr("BHILQN", format[0])) return dtype_of_kind('u', bytes);
  if (format[0] == '?') return dtype_of_kind('b', bytes);
  return std::nullopt;
}

std::optional<int32_t> dtype_of_dlpack(uint8_t code, uint8_t bits, uint16_t lanes) {
  for (int32_t dtype = 0; dtype < element_type_count && lanes == 1; ++dtype)
    if (element_type(dtype).dlpack_code() == code && element_type(dtype).bytes * 8 == bits) return dtype;
  return std::nullopt;
}

}  // namespace metac_python
