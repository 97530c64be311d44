// Bytes as text: two lower-case digits each.
#pragma once
#include <cstddef>
#include <string>

namespace metac {

inline std::string hex_of(const unsigned char* bytes, size_t count) {
  std::string out;
  for (size_t k = 0; k < count; ++k) {
    out += "0123456789abcdef"[bytes[k] >> 4];
    out += "0123456789abcdef"[bytes[k] & 15];
  }
  return out;
}

}  // namespace metac
