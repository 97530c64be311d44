// A host tensor with its bytes: initialisers, test data, results of constant folding. Row-major, contiguous.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "compiler/ir/dtype.h"

namespace metac {

struct Tensor {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  // The elements, shared and immutable once published (a mapped file or a heap block); null for zero bytes.
  std::shared_ptr<const std::byte> bytes;
  std::vector<std::string> strings;  // the elements where dtype is string

  int64_t element_count() const;  // asserts that the product fits
  size_t byte_count() const { return static_cast<size_t>(element_count()) * size_of(dtype); }
  template <typename T>
  const T* data() const {
    return reinterpret_cast<const T*>(bytes.get());
  }
};

// A tensor of that type with writable, zeroed memory returned through `data`.
Tensor make_tensor(DType dtype, std::vector<int64_t> shape, std::byte** data);
template <typename T>
Tensor make_tensor(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values);

// Every element is this number, rounded to the dtype; integers wrap.
Tensor filled_tensor(DType dtype, std::vector<int64_t> shape, double value);

// Element `index` as a number, whatever the dtype (int64 and uint64 beyond 2^53 lose bits in number_at, not in integer_at).
double number_at(const Tensor& tensor, int64_t index);
int64_t integer_at(const Tensor& tensor, int64_t index);

std::string to_string(const std::vector<int64_t>& shape);  // "1x3x224x224", "scalar" for rank 0

template <typename T>
Tensor make_tensor(DType dtype, std::vector<int64_t> shape, const std::vector<T>& values) {
  std::byte* data = nullptr;
  Tensor tensor = make_tensor(dtype, std::move(shape), &data);
  for (size_t i = 0; i < values.size(); ++i) reinterpret_cast<T*>(data)[i] = values[i];
  return tensor;
}

}  // namespace metac
