// A lock for what the contexts of a process share, taken seldom and for long: when something is made or ended. It is held by
// a process, not by a thread, so that the child of a fork() takes over what a thread of its parent held: nobody is there to
// release it. What it guards is whole after every single store.
#pragma once
#include <time.h>
#include <unistd.h>

#include <atomic>

#include "../program.h"

namespace METAC_RUNTIME_NAMESPACE {

class ProcessLock {
 public:
  constexpr ProcessLock() = default;
  ProcessLock(const ProcessLock&) = delete;
  ProcessLock& operator=(const ProcessLock&) = delete;

  void lock() {
    const pid_t own = getpid();
    for (;;) {
      pid_t holder = 0;
      if (holder_.compare_exchange_strong(holder, own, std::memory_order_acquire)) return;
      // Of a parent: this memory is a copy of the parent's, so that nobody releases it here.
      if (holder != own && holder_.compare_exchange_strong(holder, own, std::memory_order_acquire)) return;
      const timespec pause = {0, 100000};
      nanosleep(&pause, nullptr);
    }
  }
  void unlock() { holder_.store(0, std::memory_order_release); }

 private:
  std::atomic<pid_t> holder_{0};
};

class ProcessLockHold {
 public:
  explicit ProcessLockHold(ProcessLock& lock) : lock_(lock) { lock_.lock(); }
  ~ProcessLockHold() { lock_.unlock(); }
  ProcessLockHold(const ProcessLockHold&) = delete;
  ProcessLockHold& operator=(const ProcessLockHold&) = delete;

 private:
  ProcessLock& lock_;
};

}  // namespace METAC_RUNTIME_NAMESPACE
