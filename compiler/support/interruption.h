// Work that somebody may end before it is done: whoever starts it gives its thread an Interruption, whoever takes long asks.
#pragma once
#include <atomic>
#include <exception>

namespace metac {

// Not a CompileError: nobody is told of it.
class Interrupted : public std::exception {
 public:
  const char* what() const noexcept override { return "interrupted"; }
};

class Interruption {
 public:
  void request() { requested_.store(true, std::memory_order_relaxed); }
  bool requested() const { return requested_.load(std::memory_order_relaxed); }

  // Throws Interrupted where this thread's work is to end.
  static void check() {
    if (current && current->requested()) throw Interrupted();
  }
  static const Interruption* of_thread() { return current; }

  // This thread works under `interruption` while the scope lives; null: nobody ends it.
  class Scope {
   public:
    explicit Scope(const Interruption* interruption) : before_(current) { current = interruption; }
    ~Scope() { current = before_; }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const Interruption* before_;
  };

 private:
  static inline thread_local const Interruption* current = nullptr;
  std::atomic<bool> requested_{false};
};

}  // namespace metac
