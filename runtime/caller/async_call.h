// A thread of a context's own, which makes a call while whoever asked for it does something else. It is started by the first
// such call and ends with the context.
#pragma once
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>

#include "../program.h"

namespace METAC_RUNTIME_NAMESPACE {

class AsyncCall {
 public:
  AsyncCall() = default;
  AsyncCall(const AsyncCall&) = delete;
  AsyncCall& operator=(const AsyncCall&) = delete;
  ~AsyncCall() { stop(); }

  // Has the thread do `work(state)`, once it has returned from what it does. There is one at most that waits for that: the
  // context is held by the one before. False: the system gives no thread.
  bool begin(void (*work)(void* state), void* state) {
    forget_parents();
    pthread_mutex_lock(&mutex_);
    if (process_ == 0 && pthread_create(&thread_, nullptr, &AsyncCall::go_on, this) == 0) process_ = getpid();
    const bool good = process_ != 0;
    if (good) {
      work_ = work;
      state_ = state;
      pthread_cond_broadcast(&changed_);
    }
    pthread_mutex_unlock(&mutex_);
    return good;
  }

  // Is nothing left to do?
  bool is_done() {
    forget_parents();
    pthread_mutex_lock(&mutex_);
    const bool done = work_ == nullptr && !working_;
    pthread_mutex_unlock(&mutex_);
    return done;
  }
  void wait() {
    forget_parents();
    pthread_mutex_lock(&mutex_);
    while (work_ != nullptr || working_) pthread_cond_wait(&changed_, &mutex_);
    pthread_mutex_unlock(&mutex_);
  }

  // After what it has begun.
  void stop() {
    forget_parents();
    if (process_ == 0) return;
    pthread_mutex_lock(&mutex_);
    stopping_ = true;
    pthread_cond_broadcast(&changed_);
    pthread_mutex_unlock(&mutex_);
    pthread_join(thread_, nullptr);
    process_ = 0;
  }

 private:
  static void* go_on(void* self) {
    AsyncCall& call = *static_cast<AsyncCall*>(self);
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);  // signals belong to the program's own threads
    pthread_mutex_lock(&call.mutex_);
    for (;;) {
      while (call.work_ == nullptr && !call.stopping_) pthread_cond_wait(&call.changed_, &call.mutex_);
      if (call.work_ == nullptr) break;
      void (*const work)(void*) = call.work_;
      call.work_ = nullptr;
      call.working_ = true;
      pthread_mutex_unlock(&call.mutex_);
      work(call.state_);
      pthread_mutex_lock(&call.mutex_);
      call.working_ = false;
      pthread_cond_broadcast(&call.changed_);
    }
    pthread_mutex_unlock(&call.mutex_);
    return nullptr;
  }
  // In the child of a fork() the thread is not there, and what it did is not done.
  void forget_parents() {
    const pid_t process = process_;
    if (process == 0 || process == getpid()) return;
    pthread_mutex_init(&mutex_, nullptr);
    pthread_cond_init(&changed_, nullptr);
    work_ = nullptr;
    working_ = stopping_ = false;
    process_ = 0;
  }

  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t changed_ = PTHREAD_COND_INITIALIZER;
  pthread_t thread_{};
  void (*work_)(void*) = nullptr;
  void* state_ = nullptr;
  bool working_ = false, stopping_ = false;
  std::atomic<pid_t> process_{0};  // that the thread is in; 0: there is none
};

}  // namespace METAC_RUNTIME_NAMESPACE
