// What the stand-ins of libraries share: numbers of the types that they compute with.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>

enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };

namespace shim {

// METAC_SHIM_EXACT: the libraries round no float32, so that what else there is with TF32 shows.
inline bool exact() {
  static const bool is = std::getenv("METAC_SHIM_EXACT") != nullptr;
  return is;
}

inline float number(cudaDataType_t type, const void* data, int64_t index, bool tf32) {
  if (type == CUDA_R_16F) return static_cast<float>(static_cast<const _Float16*>(data)[index]);
  uint32_t bits = 0;
  if (type == CUDA_R_16BF) {
    bits = uint32_t{static_cast<const uint16_t*>(data)[index]} << 16;
  } else {
    std::memcpy(&bits, static_cast<const float*>(data) + index, 4);
    if (tf32 && !exact()) bits = (bits + 0x1000) & ~uint32_t{0x1fff};
  }
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}
inline void set_number(cudaDataType_t type, void* data, int64_t index, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(data)[index] = value;
  } else if (type == CUDA_R_16F) {
    static_cast<_Float16*>(data)[index] = static_cast<_Float16>(value);
  } else {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    static_cast<uint16_t*>(data)[index] =
        value != value ? uint16_t{0x7fc0} : static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
  }
}

}  // namespace shim
