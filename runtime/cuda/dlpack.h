// Tensors as DLPack hands them over: the structures of dlpack.h (version 0.2 on, whose layout does not change).
#pragma once
#include "place.h"

namespace METAC_RUNTIME_NAMESPACE {

struct DlTensor {
  void* data;
  int32_t device_type, device_id;
  int32_t rank;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t* dims;
  int64_t* strides;  // in elements; null: row-major
  uint64_t byte_offset;
};

enum DlDevice : int32_t { dl_cpu = 1, dl_cuda = 2, dl_cuda_host = 3, dl_cuda_managed = 13 };

// The code and the bits of a dtype. Strings have none.
inline void dl_dtype(ScalarType type, uint8_t* code, uint8_t* bits) {
  enum : uint8_t { integer = 0, natural = 1, real = 2, brain = 4, boolean = 6 };
  *bits = static_cast<uint8_t>(8 * size_of(type));
  switch (type) {
    case ScalarType::i8:
    case ScalarType::i16:
    case ScalarType::i32:
    case ScalarType::i64:
      *code = integer;
      return;
    case ScalarType::u8:
    case ScalarType::u16:
    case ScalarType::u32:
    case ScalarType::u64:
      *code = natural;
      return;
    case ScalarType::bf16:
      *code = brain;
      return;
    case ScalarType::boolean:
      *code = boolean;
      return;
    default:
      *code = real;
      return;
  }
}

// The tensor's data where a run may take it from: of this dtype, contiguous, on the host or on this device.
inline bool take_dlpack(const DlTensor& given, const char* name, ScalarType type, int device, int32_t most_rank, void** data,
                        Failure& failure) {
  uint8_t code = 0, bits = 0;
  dl_dtype(type, &code, &bits);
  if (given.dtype.code != code || given.dtype.bits != bits || given.dtype.lanes != 1)
    return failure.set(
        Status::invalid_argument,
        "\"%s\": a DLPack tensor of type code %d with %d bits and %d lanes, expected code %d with %d bits and 1 lane", name,
        given.dtype.code, given.dtype.bits, given.dtype.lanes, code, bits);
  const bool on_host = given.device_type == dl_cpu || given.device_type == dl_cuda_host;
  if (!on_host && given.device_type != dl_cuda && given.device_type != dl_cuda_managed)
    return failure.set(Status::invalid_argument,
                       "\"%s\": a DLPack tensor on a device of type %d; expected the host or a CUDA device", name,
                       given.device_type);
  if (given.device_type == dl_cuda && given.device_id != device)
    return failure.set(Status::invalid_argument, "\"%s\": a DLPack tensor on CUDA device %d; the context is on device %d",
                       name, given.device_id, device);
  if (given.rank < 0 || given.rank > most_rank)
    return failure.set(Status::invalid_argument, "\"%s\": a DLPack tensor of rank %d", name, given.rank);
  int64_t step = 1;
  bool contiguous = true, empty = false;
  for (int32_t axis = given.rank; axis-- > 0;) {
    if (given.strides != nullptr && given.dims[axis] != 1 && given.strides[axis] != step) contiguous = false;
    empty |= given.dims[axis] == 0;
    if (given.dims[axis] < 0 || __builtin_mul_overflow(step, given.dims[axis], &step) || step > most_bytes)
      return failure.set(Status::invalid_argument, "\"%s\": dim %d of a DLPack tensor is %lld", name, axis,
                         static_cast<long long>(given.dims[axis]));
  }
  if (!contiguous && !empty)
    return failure.set(Status::invalid_argument, "\"%s\": a DLPack tensor that is not contiguous", name);
  *data = given.data == nullptr ? nullptr : static_cast<char*>(given.data) + given.byte_offset;
  return true;
}

inline DlTensor give_dlpack(void* data, ScalarType type, int32_t rank, int64_t* dims, int device) {
  cudaPointerAttributes found{};
  DlTensor given{};
  given.data = data;
  given.device_type = dl_cpu;
  if (data != nullptr && cudaPointerGetAttributes(&found, data) == cudaSuccess) {
    given.device_type = found.type == cudaMemoryTypeDevice    ? dl_cuda
                        : found.type == cudaMemoryTypeManaged ? dl_cuda_managed
                        : found.type == cudaMemoryTypeHost    ? dl_cuda_host
                                                              : dl_cpu;
    given.device_id = found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged ? device : 0;
  } else {
    cudaGetLastError();
  }
  given.rank = rank;
  dl_dtype(type, &given.dtype.code, &given.dtype.bits);
  given.dtype.lanes = 1;
  given.dims = dims;
  return given;
}

}  // namespace METAC_RUNTIME_NAMESPACE
