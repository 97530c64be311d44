// A thread that works behind others: of low priority, started with the first task, one for each object and few at work in a
// process at once.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "compiler/support/interruption.h"
#include "runtime/process/fork_mark.h"

namespace metac {

class CompileBehind {
 public:
  CompileBehind() = default;
  CompileBehind(const CompileBehind&) = delete;
  CompileBehind& operator=(const CompileBehind&) = delete;
  ~CompileBehind() { stop(); }

  // Does it some time, unless stop() comes first. `task` throws nothing but Interrupted and bad_alloc, which it may. False:
  // it is forgotten, for it could not be noted at once, or there is no thread that could do it.
  bool add(std::function<void()> task);
  // Interrupts the task at work, forgets the others and waits for the thread.
  void stop();
  // Until there is nothing to do.
  void wait();
  size_t waiting() const;  // the one at work included
  bool has_thread() const;

 private:
  void work();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool working_ = false, stopping_ = false;
  Interruption interruption_;
  std::thread thread_;
  metac_runtime::ForkMark mark_;
};

}  // namespace metac
