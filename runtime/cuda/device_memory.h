// Memory of a GPU and page-locked memory of the host, as contexts hold them.
#pragma once
#include <cuda_runtime_api.h>

#include <cstring>

#include "../memory.h"
#include "block_cache.h"

namespace METAC_RUNTIME_NAMESPACE {

// Memory that only grows, as Block is on the host. Kind: where it is.
template <typename Kind>
class CudaBlock {
 public:
  CudaBlock() = default;
  CudaBlock(const CudaBlock&) = delete;
  CudaBlock& operator=(const CudaBlock&) = delete;
  ~CudaBlock() { release(); }

  void* data() const { return data_; }
  int64_t capacity() const { return capacity_; }

  // At least `bytes`; the first `keep` stay. False: no memory, the old block is untouched. Work that still uses the old
  // block ends first.
  bool reserve(int64_t bytes, int64_t keep = 0) {
    if (bytes <= capacity_ && data_ != nullptr) return true;
    if (bytes < 0 || bytes > most_bytes) return false;
    const int64_t size = align_up(bytes > 0 ? bytes : 1);
    void* fresh = nullptr;
    if (Kind::take(&fresh, static_cast<size_t>(size)) != cudaSuccess) {
      cudaGetLastError();  // it is told by the result
      return false;
    }
    if (keep > 0 && cudaMemcpy(fresh, data_, static_cast<size_t>(keep), Kind::copy) != cudaSuccess) {
      Kind::give(fresh);
      return false;
    }
    release();
    data_ = fresh;
    capacity_ = size;
    return true;
  }
  // As above, with what others no longer need, and nobody waits: what the stream still does with the old block comes first.
  bool reserve(BlockCache& cache, int64_t bytes, int64_t keep, cudaStream_t stream) {
    if (bytes <= capacity_ && data_ != nullptr) return true;
    if (bytes < 0 || bytes > most_bytes) return false;
    int64_t size = 0;
    void* fresh = cache.take(bytes, &size);
    if (fresh == nullptr) {
      size = BlockCache::class_of(bytes);
      const size_t wanted = static_cast<size_t>(size);
      // What is kept goes before memory that the driver moves to and fro.
      if (Kind::take(&fresh, wanted, [&cache] { return cache.empty(); }) != cudaSuccess) {
        cudaGetLastError();
        return false;
      }
    }
    if (keep > 0 && cudaMemcpyAsync(fresh, data_, static_cast<size_t>(keep), Kind::copy, stream) != cudaSuccess) {
      cache.give(fresh, size);
      return false;
    }
    give_back(cache);
    data_ = fresh;
    capacity_ = size;
    return true;
  }
  void give_back(BlockCache& cache) {
    if (data_ != nullptr) cache.give(data_, capacity_);
    data_ = nullptr;
    capacity_ = 0;
  }
  // Work that still uses it ends first.
  void release() {
    if (data_ != nullptr) Kind::give(data_);
    data_ = nullptr;
    capacity_ = 0;
  }

 private:
  void* data_ = nullptr;
  int64_t capacity_ = 0;
};

struct OnDevice {
  static constexpr cudaMemcpyKind copy = cudaMemcpyDeviceToDevice;
  // More than the card has left is memory of both, which the driver moves to and fro: slow, and better than nothing.
  // `make_room`: gives back what is kept for later; false: there was nothing.
  template <class MakeRoom>
  static cudaError_t take(void** data, size_t bytes, MakeRoom make_room) {
    cudaError_t status = cudaMalloc(data, bytes);
    if (status == cudaErrorMemoryAllocation && make_room()) {
      cudaGetLastError();
      status = cudaMalloc(data, bytes);
    }
    if (status != cudaErrorMemoryAllocation) return status;
    cudaGetLastError();
    return cudaMallocManaged(data, bytes);
  }
  static cudaError_t take(void** data, size_t bytes) {
    return take(data, bytes, [] { return false; });
  }
  static void give(void* data) { cudaFree(data); }
};
// Of the host; the device copies to and from it directly.
struct Pinned {
  static constexpr cudaMemcpyKind copy = cudaMemcpyHostToHost;
  static cudaError_t take(void** data, size_t bytes) { return cudaHostAlloc(data, bytes, cudaHostAllocDefault); }
  static void give(void* data) { cudaFreeHost(data); }
};
using DeviceBlock = CudaBlock<OnDevice>;
using PinnedBlock = CudaBlock<Pinned>;

// Host memory that inputs pass through on their way to the device: what is page-locked is copied while the host goes on, and
// the caller's memory may change once the call has returned. Two stages, so that a run can be filled while another one's
// inputs are on their way.
class InputStages {
 public:
  static constexpr int64_t most_bytes_staged = int64_t{64} << 20;  // more is copied from where it is

  ~InputStages() {
    for (Stage& s : stages_)
      if (s.copied != nullptr) cudaEventDestroy(s.copied);
  }
  // Inputs of `bytes` together follow. What cannot be staged is no error.
  cudaError_t begin(int64_t bytes) {
    at_ = nullptr;
    left_ = 0;
    if (bytes == 0 || bytes > most_bytes_staged) return cudaSuccess;
    Stage& s = stages_[next_];
    if (s.copied == nullptr && cudaEventCreateWithFlags(&s.copied, cudaEventDisableTiming) != cudaSuccess) {
      cudaGetLastError();
      return cudaSuccess;
    }
    if (const cudaError_t status = cudaEventSynchronize(s.copied); status != cudaSuccess) return status;
    if (!s.block.reserve(bytes)) return cudaSuccess;
    at_ = static_cast<char*>(s.block.data());
    left_ = s.block.capacity();
    return cudaSuccess;
  }
  // Where to copy from: the stage, or where the data are.
  const void* staged(const void* from, int64_t bytes) {
    cudaPointerAttributes found{};
    if (at_ == nullptr || left_ < bytes) return from;
    if (cudaPointerGetAttributes(&found, from) != cudaSuccess)
      cudaGetLastError();
    else if (found.type != cudaMemoryTypeUnregistered)
      return from;
    std::memcpy(at_, from, static_cast<size_t>(bytes));
    const void* const place = at_;
    at_ += align_up(bytes);
    left_ -= align_up(bytes);
    return place;
  }
  cudaError_t end(cudaStream_t stream) {
    if (at_ == nullptr) return cudaSuccess;
    at_ = nullptr;
    const cudaError_t status = cudaEventRecord(stages_[next_].copied, stream);
    next_ = 1 - next_;
    return status;
  }

 private:
  struct Stage {
    PinnedBlock block;
    cudaEvent_t copied = nullptr;  // the stage is free again
  };
  Stage stages_[2];
  int next_ = 0;
  char* at_ = nullptr;
  int64_t left_ = 0;
};

}  // namespace METAC_RUNTIME_NAMESPACE
