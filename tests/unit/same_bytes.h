// Answers that are to be the same to the last bit.
#pragma once
#include <cstring>

#include "compiler/ir/tensor.h"

namespace metac {

// Of empty tensors too, which may have no memory at all.
inline bool same_bytes(const Tensor& a, const Tensor& b) {
  return a.byte_count() == b.byte_count() &&
         (a.byte_count() == 0 || std::memcmp(a.bytes.get(), b.bytes.get(), a.byte_count()) == 0);
}

}  // namespace metac
