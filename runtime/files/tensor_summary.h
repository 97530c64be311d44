// What the command-line programs say of a tensor, and the numbers that they make up when asked to.
#pragma once
#include <cstring>

#include "tensor_files.h"

namespace METAC_RUNTIME_NAMESPACE {

inline double number_at(ScalarType type, const void* data, int64_t i) {
  return with_element(type,
                      [&](auto zero) { return static_cast<double>(value_of(static_cast<const decltype(zero)*>(data)[i])); });
}

// Least, greatest and mean of the numbers among the elements.
struct Summary {
  int64_t count = 1, least = -1, greatest = -1, nan = 0;  // least and greatest: where
  double mean = 0;
};

inline Summary summary_of(ScalarType type, const void* data, const int64_t* dims, int32_t rank) {
  Summary s;
  for (int32_t d = 0; d < rank; ++d) s.count *= dims[d];
  for (int64_t i = 0; i < s.count; ++i) {
    const double x = number_at(type, data, i);
    if (x != x) {
      ++s.nan;
      continue;
    }
    s.mean += x / static_cast<double>(s.count);
    if (s.least < 0 || x < number_at(type, data, s.least)) s.least = i;
    if (s.greatest < 0 || x > number_at(type, data, s.greatest)) s.greatest = i;
  }
  if (s.nan > 0 && s.nan < s.count) s.mean *= static_cast<double>(s.count) / static_cast<double>(s.count - s.nan);
  return s;
}

// Numbers between -1 and 1 (integers: 0 to 3), the same on every run.
inline void fill_random(FileTensor& tensor, uint64_t seed) {
  const int64_t size = size_of(tensor.dtype);
  uint64_t state = 0x9e3779b97f4a7c15u * (seed + 1);
  for (size_t at = 0; at + static_cast<size_t>(size) <= tensor.bytes.size(); at += static_cast<size_t>(size)) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    const double x = static_cast<double>(state >> 11) * 0x1p-52 - 1;
    uint64_t bits = (state >> 40) & 3;
    if (tensor.dtype == ScalarType::f64) std::memcpy(&bits, &x, 8);
    const float f = static_cast<float>(x);
    if (tensor.dtype == ScalarType::f32) std::memcpy(&bits, &f, 4);
    if (tensor.dtype == ScalarType::f16) bits = (state >> 40) % 0x3c00 | (state >> 32 & 0x8000);
    if (tensor.dtype == ScalarType::bf16) bits = (state >> 40) % 0x80 | 0x3f00 | (state >> 32 & 0x8000);
    if (tensor.dtype == ScalarType::boolean) bits &= 1;
    std::memcpy(tensor.bytes.data() + at, &bits, static_cast<size_t>(size));
  }
}

}  // namespace METAC_RUNTIME_NAMESPACE
