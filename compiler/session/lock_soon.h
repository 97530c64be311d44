// A lock for those who may not wait. Who holds a session's locks may be the thread that compiles behind, which is of low
// priority: on a busy machine it can be without a processor for longer than a run takes.
#pragma once
#include <mutex>

namespace metac {

// The lock within some microseconds, or none.
inline std::unique_lock<std::mutex> lock_soon(std::mutex& mutex) {
  constexpr int most_turns = 200;
  for (int turn = 0; turn < most_turns; ++turn) {
    std::unique_lock lock(mutex, std::try_to_lock);
    if (lock) return lock;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }
  return {};
}

}  // namespace metac
