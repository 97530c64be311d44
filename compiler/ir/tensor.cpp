#include "compiler/ir/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "compiler/ir/element.h"
#include "compiler/support/checked.h"

namespace metac {

int64_t Tensor::element_count() const {
  int64_t count = 1;
  for (int64_t d : shape) {
    auto product = checked_mul(count, d);
    METAC_ASSERT(product.has_value(), "tensor of shape ", to_string(shape));
    count = *product;
  }
  return count;
}

Tensor make_tensor(DType dtype, std::vector<int64_t> shape, std::byte** data) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = std::move(shape);
  size_t bytes = tensor.byte_count();
  if (dtype == DType::string) tensor.strings.resize(tensor.element_count());
  // Aligned and rounded up: vectors of generated code are 64 bytes.
  auto* block = static_cast<std::byte*>(std::aligned_alloc(64, (bytes + 127) / 64 * 64));
  if (!block) fail("out of memory: a tensor of ", bytes, " bytes");
  std::memset(block, 0, bytes);
  tensor.bytes = std::shared_ptr<const std::byte>(block, [](const std::byte* p) { std::free(const_cast<std::byte*>(p)); });
  *data = block;
  return tensor;
}

double number_at(const Tensor& t, int64_t i) {
  METAC_ASSERT(is_numeric(t.dtype), "strings are no numbers");
  return with_element(t.dtype, [&](auto zero) { return static_cast<double>(value_of(t.data<decltype(zero)>()[i])); });
}

int64_t integer_at(const Tensor& t, int64_t i) {
  METAC_ASSERT(is_numeric(t.dtype), "strings are no numbers");
  return with_element(t.dtype, [&](auto zero) { return static_cast<int64_t>(value_of(t.data<decltype(zero)>()[i])); });
}

Tensor filled_tensor(DType dtype, std::vector<int64_t> shape, double value) {
  std::byte* data = nullptr;
  Tensor tensor = make_tensor(dtype, std::move(shape), &data);
  const int64_t count = tensor.element_count();
  with_element(dtype, [&](auto zero) {
    using T = decltype(zero);
    T element;
    if constexpr (is_real_element<T>)
      element = to_element<T>(value);
    else  // wraps
      element = to_element<T>(static_cast<int64_t>(value));
    std::fill_n(reinterpret_cast<T*>(data), count, element);
  });
  return tensor;
}

std::string to_string(const std::vector<int64_t>& shape) {
  if (shape.empty()) return "scalar";
  std::string out;
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? "x" : "") + std::to_string(shape[i]);
  return out;
}

}  // namespace metac
