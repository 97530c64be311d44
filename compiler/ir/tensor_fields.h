// Tensors in byte archives.
#pragma once
#include "compiler/ir/tensor.h"
#include "compiler/support/byte_archive.h"

namespace metac {

inline void fields(ByteWriter& archive, Tensor& tensor) {
  auto& [dtype, shape, bytes, strings] = tensor;
  archive(dtype, shape, strings, bytes != nullptr);
  if (bytes) archive.raw(bytes.get(), tensor.byte_count());
}

inline void fields(ByteReader& archive, Tensor& tensor) {
  bool has_bytes = false;
  archive(tensor.dtype, tensor.shape, tensor.strings, has_bytes);
  if (!archive.ok() || !has_bytes) return;
  const size_t bytes = tensor.byte_count();
  const char* const from = archive.raw(bytes);
  if (!from) return;
  std::byte* data = nullptr;
  tensor = make_tensor(tensor.dtype, tensor.shape, &data);
  if (bytes > 0) std::memcpy(data, from, bytes);
}

}  // namespace metac
