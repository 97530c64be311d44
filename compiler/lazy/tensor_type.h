// Element type and shape of a value. There is one object for each, so that types are compared and hashed as pointers are,
// and a shape's memory lies where the executor may read it. They stay for the life of the process.
#pragma once
#include <cstdint>
#include <vector>

#include "compiler/ir/dtype.h"

namespace metac::lazy {

struct TensorType {
  DType dtype;
  std::vector<int64_t> shape;
  int64_t elements, bytes;
  uint64_t number;  // of its own among all types: for hashes within this process

  int rank() const { return static_cast<int>(shape.size()); }
};

// Throws CompileError where a dim is negative or the bytes pass 2^62.
const TensorType* tensor_type(DType dtype, const std::vector<int64_t>& shape);

}  // namespace metac::lazy
