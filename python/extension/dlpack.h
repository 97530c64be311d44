// DLPack's structures, which arrays of different libraries are described by to each other: a layout in memory that all of
// them declare (https://dmlc.github.io/dlpack/latest/c_api.html). Only what metac reads and writes has a name of its own.
#pragma once
#include <cstdint>

namespace metac_python {

enum DlpackDevice : int32_t { dlpack_cpu = 1, dlpack_cuda_host = 3, dlpack_rocm_host = 11 };

struct DlpackTensor {
  void* data;
  int32_t device_type, device_id;
  int32_t rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t* dims;
  int64_t* strides;  // in elements; NULL: row-major and contiguous
  uint64_t byte_offset;
};

// Of capsules named "dltensor", then "used_dltensor".
struct DlpackManaged {
  static constexpr const char* capsule = "dltensor";
  DlpackTensor tensor;
  void* manager;
  void (*deleter)(DlpackManaged*);
};

// Of capsules named "dltensor_versioned", then "used_dltensor_versioned": DLPack 1.
struct DlpackVersioned {
  static constexpr const char* capsule = "dltensor_versioned";
  uint32_t major, minor;
  void* manager;
  void (*deleter)(DlpackVersioned*);
  uint64_t flags;
  DlpackTensor tensor;
};
inline constexpr uint64_t dlpack_is_copied = 2;

}  // namespace metac_python
