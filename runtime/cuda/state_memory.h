// Where a training program's states live when its steps run on a GPU: managed memory, which the device and the host both
// read and write. The libraries take it in place, so between two steps nothing is copied; checkpoints and exports read it
// as any memory. What is NaN or infinite is looked for on the device: the host's look would bring all of it back.
#pragma once
#include <cuda_runtime.h>

#include "../train/train_tables.h"

namespace metac::train::cuda {

constexpr int search_threads = 256;
constexpr unsigned most_search_blocks = 256;  // of one value
constexpr unsigned long long found_nothing = ~0ull;
constexpr int element_bits = 40;  // of what is found: the value's number stands above them

struct SearchedValue {
  const void* data;
  int64_t count;
  int32_t bytes;      // of an element
  uint64_t exponent;  // the bits that are all set where it is not finite
};

// A row of blocks for each value. The smallest place that anybody finds is the first one: no order matters.
static __global__ void __launch_bounds__(search_threads)
    search_non_finite_on_device(const SearchedValue* values, unsigned long long* found) {
  const SearchedValue value = values[blockIdx.y];
  const int64_t step = static_cast<int64_t>(gridDim.x) * search_threads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * search_threads + threadIdx.x; i < value.count; i += step) {
    const uint64_t bits = value.bytes == 2   ? static_cast<const uint16_t*>(value.data)[i]
                          : value.bytes == 4 ? static_cast<const uint32_t*>(value.data)[i]
                                             : static_cast<const uint64_t*>(value.data)[i];
    if ((bits & value.exponent) != value.exponent) continue;
    atomicMin(found, (static_cast<unsigned long long>(blockIdx.y) << element_bits) | static_cast<unsigned long long>(i));
    return;
  }
}

inline const char*& last_reason() {
  static const char* reason = "";
  return reason;
}
inline bool is_good(cudaError_t status) {
  if (status != cudaSuccess) last_reason() = cudaGetErrorString(status);
  return status == cudaSuccess;
}

inline void* take(int64_t bytes) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return last_reason() = "no CUDA device", nullptr;
  void* data = nullptr;
  return is_good(cudaMallocManaged(&data, static_cast<size_t>(bytes > 0 ? bytes : 1))) ? data : nullptr;
}
inline void give(void* data) { cudaFree(data); }

// Nothing is looked for in values of other types.
inline SearchedValue searched(const StateValue& value) {
  switch (value.dtype) {
    case ScalarType::f32:
      return {value.data, value.count, 4, 0x7f800000u};
    case ScalarType::f64:
      return {value.data, value.count, 8, 0x7ff0000000000000u};
    case ScalarType::f16:
      return {value.data, value.count, 2, 0x7c00u};
    case ScalarType::bf16:
      return {value.data, value.count, 2, 0x7f80u};
    default:
      return {value.data, 0, 1, 0};
  }
}

// The table of values is kept: a program looks at the same ones step by step.
inline bool find_non_finite(const StateValue* values, int32_t count, int32_t* value, int64_t* element) {
  static SearchedValue* table = nullptr;
  static unsigned long long* found = nullptr;
  static int32_t room = 0;
  *value = -1;
  if (count == 0) return true;
  if (found == nullptr && (found = static_cast<unsigned long long*>(take(sizeof *found))) == nullptr) return false;
  if (room < count) {
    if (table != nullptr) give(table);
    table = static_cast<SearchedValue*>(take(static_cast<int64_t>(sizeof *table) * count));
    room = table != nullptr ? count : 0;
    if (table == nullptr) return false;
  }
  int64_t longest = 1;
  for (int32_t k = 0; k < count; ++k) {
    table[k] = searched(values[k]);
    if (table[k].count > longest) longest = table[k].count;
  }
  *found = found_nothing;
  const int64_t blocks = (longest + search_threads - 1) / search_threads;
  const SearchedValue* from = table;
  unsigned long long* to = found;
  void* arguments[] = {&from, &to};
  const dim3 grid(blocks < most_search_blocks ? static_cast<unsigned>(blocks) : most_search_blocks,
                  static_cast<unsigned>(count));
  if (!is_good(cudaLaunchKernel(search_non_finite_on_device, grid, dim3(search_threads), arguments, 0, nullptr)) ||
      !is_good(cudaStreamSynchronize(nullptr)))
    return false;
  if (*found == found_nothing) return true;
  *value = static_cast<int32_t>(*found >> element_bits);
  *element = static_cast<int64_t>(*found & ((1ull << element_bits) - 1));
  return true;
}

inline const char* reason() { return last_reason(); }

inline bool choose(int32_t device) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) return last_reason() = "no CUDA device", false;
  if (device >= devices) return last_reason() = "there are more processes on this machine than GPUs", false;
  return is_good(cudaSetDevice(device));
}

}  // namespace metac::train::cuda
