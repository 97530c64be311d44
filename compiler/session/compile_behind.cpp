#include "compiler/session/compile_behind.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>

#include "compiler/session/lock_soon.h"
#include "compiler/support/trace.h"
#include "runtime/process/usable_cpus.h"

namespace metac {
namespace {

constexpr int low_priority = 19;  // why: docs/decisions/sessions.md

// So many of the process's threads work at once, whatever the number of sessions.
class Turns {
 public:
  // False: somebody stopped waiting.
  bool take(const Interruption& interruption) {
    std::unique_lock lock(mutex_);
    while (taken_ >= most_) {
      if (interruption.requested()) return false;
      changed_.wait_for(lock, std::chrono::milliseconds(20));
    }
    ++taken_;
    return true;
  }
  void give_back() {
    {
      const std::lock_guard lock(mutex_);
      --taken_;
    }
    changed_.notify_one();
  }
  static Turns& of_process() {
    static Turns& turns = *new Turns;  // threads may wait while statics are destroyed
    return turns;
  }

 private:
  const int most_ = std::max(1, metac_runtime::usable_cpus() / 4);
  int taken_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
};

}  // namespace

bool CompileBehind::add(std::function<void()> task) {
  {
    const auto lock = lock_soon(mutex_);
    if (!lock) return false;
    if (stopping_ || (thread_.joinable() && mark_.in_child())) return true;  // the thread is the parent's
    if (!thread_.joinable()) {
      mark_.set();
      try {
        thread_ = std::thread([this] { work(); });
      } catch (const std::system_error&) {
        return false;
      }
    }
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
  return true;
}

void CompileBehind::work() {
  // On Linux the priority is the thread's own, and that of threads that it starts.
  setpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)), low_priority);
  trace::name_thread("compiles behind");
  const Interruption::Scope scope(&interruption_);
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
    if (stopping_) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    working_ = true;
    lock.unlock();
    if (Turns::of_process().take(interruption_)) {
      try {
        task();
      } catch (const Interrupted&) {
      } catch (const std::bad_alloc&) {  // what was to be made is not there, as before
      }
      Turns::of_process().give_back();
    }
    lock.lock();
    working_ = false;
    changed_.notify_all();
  }
}

void CompileBehind::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    tasks_.clear();
    interruption_.request();
  }
  changed_.notify_all();
  if (!thread_.joinable()) return;
  if (mark_.in_child())
    thread_.detach();
  else
    thread_.join();
}

void CompileBehind::wait() {
  std::unique_lock lock(mutex_);
  if (mark_.in_child()) return;
  changed_.wait(lock, [this] { return stopping_ || (tasks_.empty() && !working_); });
}

size_t CompileBehind::waiting() const {
  const std::lock_guard lock(mutex_);
  return tasks_.size() + (working_ ? 1 : 0);
}

bool CompileBehind::has_thread() const {
  const std::lock_guard lock(mutex_);
  return thread_.joinable();
}

}  // namespace metac
