// Where a program's values live and its kernels run, as the executor sees it. This is the host: memory is the process's
// own and kernels run on a thread pool. runtime/cuda/place.h is a GPU.
#pragma once
#include "memory.h"
#include "process/thread_pool.h"
#include "status.h"

namespace METAC_RUNTIME_NAMESPACE {

// What a launch needs: the kernel, its arguments, how many iterations, the estimated ns of one, and scratch memory.
struct LaunchRequest {
  KernelFunction kernel;
  void* const* buffers;
  const int64_t* symbols;
  int64_t iterations, cost;
  char* scratch;
  int64_t scratch_bytes;  // of each worker (a GPU: of each block)
};

template <class Device>
struct Place;

template <>
struct Place<ThreadPool> {
  using Memory = Block;
  using HostMemory = Block;
  static constexpr bool separate = false;  // values are where the caller can reach them
  static constexpr bool records = false;   // runs that repeat are started as one (executor/replay.h)
  static constexpr bool caches = false;    // what a value no longer needs is given back while running
  struct Graph {};

  // Memory of a value whose size only the data know.
  static bool reserve(ThreadPool&, Memory& block, int64_t bytes, int64_t keep) { return block.reserve(bytes, keep); }
  static bool enter(ThreadPool&, Failure&) { return true; }
  static bool wait(ThreadPool&, Failure&) { return true; }
  static bool leave(ThreadPool&, Failure&) { return true; }  // instead of waiting
  // May kernels read and write the caller's memory where it is?
  static bool in_place(const void*) { return true; }
  static int64_t scratch_parts(ThreadPool& pool, int64_t) { return pool.workers(); }
  // Between two values that live here.
  static bool copy(ThreadPool&, void* to, const void* from, int64_t bytes, Failure&) {
    std::memmove(to, from, static_cast<size_t>(bytes));
    return true;
  }
  static bool launch(ThreadPool& pool, LaunchRequest& request, Failure&) {
    pool.run(request.iterations, request.cost, &run_part, &request);
    return true;
  }

 private:
  static void run_part(void* state, int32_t worker, int64_t begin, int64_t end) {
    const LaunchRequest& r = *static_cast<const LaunchRequest*>(state);
    r.kernel(r.buffers, r.symbols, r.scratch + worker * r.scratch_bytes, begin, end);
  }
};

}  // namespace METAC_RUNTIME_NAMESPACE
