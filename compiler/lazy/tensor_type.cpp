#include "compiler/lazy/tensor_type.h"

#include <map>
#include <memory>
#include <utility>

#include "compiler/ir/tensor.h"
#include "compiler/support/checked.h"
#include "compiler/support/diagnostic.h"

namespace metac::lazy {

const TensorType* tensor_type(DType dtype, const std::vector<int64_t>& shape) {
  // Never destroyed: values of other threads and of static objects end after it would.
  static auto& types = *new std::map<std::pair<DType, std::vector<int64_t>>, std::unique_ptr<const TensorType>>();
  const auto found = types.find({dtype, shape});
  if (found != types.end()) return found->second.get();
  int64_t elements = 1;
  bool fits = true, empty = false;
  for (const int64_t dim : shape) {
    if (dim < 0) fail("a shape of ", to_string(shape), " has a negative dim");
    empty |= dim == 0;
    const auto product = checked_mul(elements, std::max<int64_t>(dim, 1));
    fits &= product.has_value();
    elements = product.value_or(1);
  }
  const auto bytes = checked_mul(elements, static_cast<int64_t>(size_of(dtype)));
  if (!fits || !bytes || *bytes > int64_t{1} << 62) fail("a tensor of shape ", to_string(shape), " is more than 2^62 bytes");
  auto type = std::make_unique<const TensorType>(
      TensorType{dtype, shape, empty ? 0 : elements, empty ? 0 : *bytes, types.size() + 1});
  return types.emplace(std::pair(dtype, shape), std::move(type)).first->second.get();
}

}  // namespace metac::lazy
