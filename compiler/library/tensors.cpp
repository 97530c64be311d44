#include "compiler/library/tensors.h"

#include <cstring>

#include "compiler/library/status.h"
#include "compiler/support/checked.h"

namespace metac::library {
namespace {

// metac_dtype has DType's numbers, less the strings behind them.
static_assert(METAC_FLOAT32 == static_cast<int>(DType::f32) && METAC_FLOAT64 == static_cast<int>(DType::f64) &&
              METAC_FLOAT16 == static_cast<int>(DType::f16) && METAC_BFLOAT16 == static_cast<int>(DType::bf16) &&
              METAC_INT8 == static_cast<int>(DType::i8) && METAC_INT16 == static_cast<int>(DType::i16) &&
              METAC_INT32 == static_cast<int>(DType::i32) && METAC_INT64 == static_cast<int>(DType::i64) &&
              METAC_UINT8 == static_cast<int>(DType::u8) && METAC_UINT16 == static_cast<int>(DType::u16) &&
              METAC_UINT32 == static_cast<int>(DType::u32) && METAC_UINT64 == static_cast<int>(DType::u64) &&
              METAC_BOOL == static_cast<int>(DType::boolean));

constexpr int64_t most_kept = 64;  // elements of values that a session relies on
constexpr int32_t most_axes = 64;  // more than NumPy allows; a rank beyond is memory that nobody has set

Tensor view_of(const metac_tensor& given, const std::string& which) {
  if (given.dtype < METAC_FLOAT32 || given.dtype > METAC_BOOL)
    refuse(which, ": dtype is ", given.dtype, "; metac_dtype has ", METAC_FLOAT32, " to ", METAC_BOOL);
  if (given.rank < 0 || given.rank > most_axes) refuse(which, ": rank is ", given.rank, "; it must be 0 to ", most_axes);
  if (given.rank > 0 && !given.dims) refuse(which, ": dims is NULL, and rank is ", given.rank);
  Tensor tensor;
  tensor.dtype = static_cast<DType>(given.dtype);
  int64_t bytes = static_cast<int64_t>(size_of(tensor.dtype));
  bool too_many = false;
  for (int32_t axis = 0; axis < given.rank; ++axis) {
    const int64_t dim = given.dims[axis];
    if (dim < 0) refuse(which, ": dims[", axis, "] is ", dim, "; a dim is at least 0");
    tensor.shape.push_back(dim);
    const std::optional<int64_t> product = checked_mul(bytes, std::max<int64_t>(dim, 1));
    too_many |= !product;
    bytes = product.value_or(1);
  }
  if (too_many)
    refuse(which, ": ", to_string(tensor.shape), " elements of ", name_of(tensor.dtype), " are more than 2^63 bytes");
  for (const int64_t dim : tensor.shape)
    if (dim == 0) bytes = 0;
  if (given.bytes != 0 && given.bytes != bytes)
    refuse(which, ": bytes is ", given.bytes, "; ", name_of(tensor.dtype), " ", to_string(tensor.shape), " is ", bytes,
           " bytes");
  if (bytes == 0) return tensor;
  if (!given.data)
    refuse(which, ": data is NULL, and ", name_of(tensor.dtype), " ", to_string(tensor.shape), " is ", bytes, " bytes");
  if (reinterpret_cast<uintptr_t>(given.data) % size_of(tensor.dtype) != 0)
    refuse(which, ": data is not aligned to the ", size_of(tensor.dtype), " bytes of a ", name_of(tensor.dtype));
  // Shares ownership with nobody: the caller keeps the memory for as long as the call takes.
  tensor.bytes = std::shared_ptr<const std::byte>(std::shared_ptr<void>(), static_cast<const std::byte*>(given.data));
  return tensor.element_count() <= most_kept ? copy_of(tensor) : tensor;
}

}  // namespace

std::map<std::string, Tensor> views_of(const metac_tensor* tensors, int32_t count, const char* what) {
  if (count < 0) refuse(what, " count is ", count);
  if (count > 0 && !tensors) refuse(what, "s are NULL, and their count is ", count);
  std::map<std::string, Tensor> views;
  for (int32_t k = 0; k < count; ++k) {
    if (!tensors[k].name) refuse(what, "s[", k, "]: name is NULL");
    const std::string which = concat(what, " ", quoted(std::string(tensors[k].name)));
    if (!views.emplace(tensors[k].name, view_of(tensors[k], which)).second) refuse(which, " is given twice");
  }
  return views;
}

Tensor copy_of(const Tensor& tensor) {
  std::byte* memory = nullptr;
  Tensor copy;
  try {
    copy = make_tensor(tensor.dtype, tensor.shape, &memory);
  } catch (const CompileError& error) {  // the shape is a checked one
    throw CallError(METAC_OUT_OF_MEMORY, error.what());
  }
  if (tensor.byte_count() > 0) std::memcpy(memory, tensor.bytes.get(), tensor.byte_count());
  return copy;
}

}  // namespace metac::library
