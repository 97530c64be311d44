// Device memory for values whose size only the data know. cudaMalloc and cudaFree wait for the whole card, so what a value
// no longer needs is kept for the next one: blocks of whole classes of 512 bytes, one cache for each context. A context's
// work is done in the order of the calls, whatever streams it is put onto, so a block may be taken again while kernels that
// use it are still to run: what the next value does with it comes behind them.
#pragma once
#include <cuda_runtime_api.h>

#include "../memory.h"

namespace METAC_RUNTIME_NAMESPACE {

class BlockCache {
 public:
  static constexpr int64_t class_bytes = 512;

  BlockCache() = default;
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;
  ~BlockCache() { empty(); }

  // The smallest kept block that holds `bytes` and is not more than twice as large; null: none. `size`: what it holds.
  void* take(int64_t bytes, int64_t* size) {
    int32_t best = -1;
    for (int32_t k = 0; k < count_; ++k)
      if (kept_[k].size >= bytes && kept_[k].size / 2 <= class_of(bytes) && (best < 0 || kept_[k].size < kept_[best].size))
        best = k;
    if (best < 0) return nullptr;
    void* const data = kept_[best].data;
    *size = kept_[best].size;
    kept_[best] = kept_[--count_];
    return data;
  }
  // Keeps a block. The one that was given first makes room.
  void give(void* data, int64_t size) {
    if (count_ == most_blocks) {
      cudaFree(kept_[0].data);
      for (int32_t k = 1; k < count_; ++k) kept_[k - 1] = kept_[k];
      --count_;
    }
    kept_[count_++] = {data, size};
  }
  // All that is kept is the card's again; work that uses it ends first. False: nothing was.
  bool empty() {
    const bool any = count_ > 0;
    while (count_ > 0) cudaFree(kept_[--count_].data);
    return any;
  }
  static int64_t class_of(int64_t bytes) {
    return (bytes > 0 ? bytes + class_bytes - 1 : class_bytes) / class_bytes * class_bytes;
  }

 private:
  static constexpr int32_t most_blocks = 128;
  struct Kept {
    void* data;
    int64_t size;
  };
  Kept kept_[most_blocks];
  int32_t count_ = 0;
};

}  // namespace METAC_RUNTIME_NAMESPACE
