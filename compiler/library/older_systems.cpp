// What the newest functions of this system's libraries do, for older ones: libmetac runs where glibc 2.34 and GCC 11's
// libstdc++ are (Ubuntu 22.04, RHEL 9), and asks them for nothing that came later. tests/package looks at what it asks for.
#include <sys/random.h>

#include <condition_variable>
#include <cstdint>
#include <cstdlib>

// glibc 2.36. LLVM asks for the names of temporary files.
extern "C" __attribute__((visibility("hidden"))) uint32_t arc4random() noexcept {
  uint32_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) std::abort();  // a kernel before 3.17
  return number;
}

// GCC 12 gave it another version when it took its noexcept away.
void std::condition_variable::wait(std::unique_lock<std::mutex>& lock) {
  pthread_cond_wait(native_handle(), lock.mutex()->native_handle());
}
