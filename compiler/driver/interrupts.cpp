// A thread of its own waits for the signals: removing folders is nothing a signal handler may do.
#include "compiler/driver/interrupts.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "compiler/api/child_process.h"
#include "compiler/support/unfinished_folders.h"

namespace metac {
namespace {

sigset_t interrupts() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

}  // namespace

void watch_for_interrupts() {
  sigset_t set = interrupts();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);  // inherited by every thread to come
  signal(SIGPIPE, SIG_IGN);                   // a closed pipe is an error of a write, not the end of the program
  static std::atomic_flag up;
  std::thread([set] {
    up.test_and_set();
    up.notify_one();
    int number = 0;
    if (sigwait(&set, &number) != 0) return;
    kill_children();
    remove_unfinished_folders();
    _exit(128 + number);
  }).detach();
  up.wait(false);  // a fork while a thread is still starting may copy a lock that is held (seen with AddressSanitizer)
}

void stop_watching_for_interrupts() {
  sigset_t set = interrupts();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace metac
