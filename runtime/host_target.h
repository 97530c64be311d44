// What a generated library runs on: the CPU. runtime/cuda/cuda_target.h is the same for a GPU.
#pragma once
#include "executor/executor.h"
#include "executor/state_place.h"

namespace METAC_RUNTIME_NAMESPACE {

class Target {
 public:
  using Device = ThreadPool;

  bool open(Failure&) { return true; }
  Device* device(ThreadPool& pool) { return &pool; }
  // How many threads the library's pool gets.
  static int32_t threads(int32_t asked) { return asked; }
  void use_stream(void*) {}
  // Is this a child of fork(), which lost what the parent's context runs on? Threads are started anew (ThreadPool).
  bool left_behind() const { return false; }
  // Does hold() read all of the weights at once? They must be ready then; kernels of the CPU read what is made ready for
  // their program.
  static constexpr bool copies_weights = false;
  // The weights block where the device reads it; null: failed.
  const void* hold(const void* weights, int64_t, bool, Failure&) { return weights; }
  // Where a context's states live (StateSet::live_in). `allocator`: the caller's, for the host's memory; may be null.
  StatePlace place_of_states(const Allocator* allocator) const { return states_on_host(allocator); }
};

}  // namespace METAC_RUNTIME_NAMESPACE
