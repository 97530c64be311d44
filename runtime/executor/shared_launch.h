// One launch: iterations that several workers do, each its own part first.
#pragma once
#include <sched.h>
#include <time.h>

#include <atomic>
#include <new>

#include "../memory.h"

namespace METAC_RUNTIME_NAMESPACE {

// Work on iterations [begin, end) as worker `worker`, which names its scratch memory.
using Body = void (*)(void* state, int32_t worker, int64_t begin, int64_t end);

inline int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<int64_t>(time.tv_sec) * 1000000000 + time.tv_nsec;
}

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

// The estimated time of `count` iterations.
inline int64_t total_cost(int64_t count, int64_t cost_ns) {
  int64_t total_ns = 0;
  return __builtin_mul_overflow(count, cost_ns > 0 ? cost_ns : 1, &total_ns) ? INT64_MAX : total_ns;
}

struct SharedLaunch {
  std::atomic<int32_t> remaining{0};  // workers that have not ended, but for the caller
  int32_t workers = 0;

  SharedLaunch() = default;
  SharedLaunch(const SharedLaunch&) = delete;
  SharedLaunch& operator=(const SharedLaunch&) = delete;
  ~SharedLaunch() { std::free(parts_); }

  // Before launches of so many workers. False: out of memory.
  bool reserve(int32_t workers) {
    if (workers <= capacity_) return true;
    void* memory = std::aligned_alloc(alignof(Part), sizeof(Part) * static_cast<size_t>(workers));
    if (memory == nullptr) return false;
    std::free(parts_);
    parts_ = static_cast<Part*>(memory);
    for (int32_t i = 0; i < workers; ++i) new (&parts_[i]) Part;
    capacity_ = workers;
    return true;
  }

  // `stealing`: chunks wander between workers, or each keeps to its part.
  void begin(int64_t count, int64_t cost_ns, int32_t for_workers, bool stealing, Body body, void* state) {
    body_ = body;
    state_ = state;
    workers = for_workers;
    stealing_ = stealing;
    const int64_t least = 2500 / (cost_ns > 0 ? cost_ns : 1);  // a chunk is worth its bookkeeping
    least_chunk_ = least > 1 ? least : 1;
    const int64_t quotient = count / workers, rest = count % workers;
    for (int32_t i = 0; i < workers; ++i) {
      parts_[i].next.store(quotient * i + (i < rest ? i : rest), std::memory_order_relaxed);
      parts_[i].end = quotient * (i + 1) + (i + 1 < rest ? i + 1 : rest);
    }
  }

  void run_part(int32_t worker) {
    for (int32_t turn = 0; turn < (stealing_ ? workers : 1); ++turn) {
      Part& part = parts_[(worker + turn) % workers];
      for (;;) {
        int64_t begin = part.next.load(std::memory_order_relaxed), end = 0;
        do {
          if (begin >= part.end) break;
          end = begin + next_chunk(part.end - begin);
        } while (!part.next.compare_exchange_weak(begin, end, std::memory_order_relaxed));
        if (begin >= part.end) break;
        body_(state_, worker, begin, end);
      }
    }
  }

 private:
  struct alignas(64) Part {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };

  // Iterations to take of the `left` ones of a part: half of them, so that no more than the least chunk is left to wait for.
  int64_t next_chunk(int64_t left) const {
    if (!stealing_ || left <= least_chunk_) return left;
    return left / 2 > least_chunk_ ? left / 2 : least_chunk_;
  }

  Body body_ = nullptr;
  void* state_ = nullptr;
  int64_t least_chunk_ = 1;
  bool stealing_ = false;
  Part* parts_ = nullptr;
  int32_t capacity_ = 0;
};

}  // namespace METAC_RUNTIME_NAMESPACE
