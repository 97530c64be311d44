// The message of each thread's last failed call on a context: everybody reads that of his own calls, whatever others do
// meanwhile.
#pragma once
#include <pthread.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "../program.h"

namespace METAC_RUNTIME_NAMESPACE {

// A list that only grows, by one message for each thread that ever had a failure. A message is touched by its own thread
// alone.
class ThreadMessages {
 public:
  ThreadMessages() = default;
  ThreadMessages(const ThreadMessages&) = delete;
  ThreadMessages& operator=(const ThreadMessages&) = delete;
  ~ThreadMessages() {
    for (Message *m = last_.load(std::memory_order_relaxed), *before; m != nullptr; m = before) {
      before = m->before;
      if (m != &first_) std::free(m);
    }
  }

  void keep(const char* text) {
    Message* own = find();
    if (own == nullptr) own = add();
    if (own != nullptr) std::snprintf(own->text, sizeof own->text, "%s", text);  // else even that much memory is missing
  }
  void clear() {
    if (last_.load(std::memory_order_relaxed) == nullptr) return;
    if (Message* const own = find(); own != nullptr) own->text[0] = 0;
  }
  const char* text() const {
    const Message* const own = find();
    return own != nullptr ? own->text : "";
  }

 private:
  struct Message {
    pthread_t thread;
    Message* before;
    char text[512];
  };

  Message* find() const {
    const pthread_t self = pthread_self();
    Message* m = last_.load(std::memory_order_acquire);
    while (m != nullptr && !pthread_equal(m->thread, self)) m = m->before;
    return m;
  }
  Message* add() {
    void* const memory = first_taken_.exchange(true) ? std::malloc(sizeof(Message)) : &first_;
    if (memory == nullptr) return nullptr;
    Message* const own = new (memory) Message{pthread_self(), last_.load(std::memory_order_relaxed), ""};
    while (!last_.compare_exchange_weak(own->before, own, std::memory_order_release, std::memory_order_relaxed)) {
    }
    return own;
  }

  std::atomic<Message*> last_{nullptr};
  std::atomic<bool> first_taken_{false};
  Message first_{};  // a failure for lack of memory can be told
};

}  // namespace METAC_RUNTIME_NAMESPACE
