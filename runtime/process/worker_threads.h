// Threads that share the iterations of launches, of one context or of all contexts of a process.
//
// A launch is cut into one contiguous part per worker, so that a worker meets the same rows launch after launch, and each
// part into chunks, every one half of what is left; a worker that has finished its part takes chunks from the others. Who
// computes an iteration never changes its bits. The caller is worker 0. Threads wait for the next launch spinning, but at
// most 50 us; then they sleep. One that has not woken up by the time the work is done is taken off the launch again: small
// launches never wait for a sleeper. It is woken up elsewhere than on its caller's CPU, and stays awake for the next launch.
//
// Who launches is a client. Several may launch at once: each takes threads that are free, and no more than its share of the
// CPUs, which is what there are by the clients that are within a call with launches; one client alone has them all. So there
// are never more threads at work than CPUs because of this pool, and two callers on two CPUs leave its thread asleep.
//
// Clients have a priority. Those of higher ones take their CPUs first, and the others share what is left: where nothing is,
// a launch stands still before it begins, but only for a while, as the call that it gives way to may be waiting for it.
//
// In the child of a fork() the threads are not there: the first launch that wants them starts others.
#pragma once
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <new>

#include "../executor/shared_launch.h"
#include "../memory.h"
#include "fork_mark.h"
#include "process_lock.h"

namespace METAC_RUNTIME_NAMESPACE {

// Of a client's calls. Threads of libraries that did not have it yet take all clients for usual ones.
enum class Priority : int32_t { background, usual, urgent };
constexpr int32_t priority_count = 3;

class WorkerThreads {
 public:
  static constexpr int32_t most_workers = 256;
  static constexpr int64_t spin_ns = 50000;
  static constexpr int64_t alone_ns = 20000;                              // less work than this stays on the caller
  static constexpr int64_t share_ns = 10000;                              // a worker is woken for no less
  static constexpr int64_t awake_alone_ns = 8000, awake_share_ns = 4000;  // the same where the workers are spinning
  static constexpr int64_t stands_still_ns = 20000000;                    // for calls of higher priority

  // One who launches, one launch at a time.
  class alignas(256) Client {
   public:
    static Client* make(int32_t most) {
      void* const memory = std::aligned_alloc(alignof(Client), sizeof(Client));
      if (memory == nullptr) return nullptr;
      Client* const made = new (memory) Client;
      made->most_ = most < 1 ? 1 : most > most_workers ? most_workers : most;
      if (made->launch_.reserve(made->most_)) return made;
      made->end();
      return nullptr;
    }
    void end() {
      this->~Client();
      std::free(this);
    }

   private:
    friend class WorkerThreads;
    Client() = default;
    SharedLaunch launch_;  // at the client's own address
    int32_t most_ = 1;
    uint32_t entered_ = 0;  // the era in which it began to launch in this call; 0: it has not
    Priority priority_ = Priority::usual;
  };

  // Null: no memory. No thread is started before there is work for it. `cpus`: what clients share; 0: there is one client.
  static WorkerThreads* make(int32_t cpus, bool pinned) {
    void* const memory = std::aligned_alloc(alignof(WorkerThreads), sizeof(WorkerThreads));
    if (memory == nullptr) return nullptr;
    WorkerThreads* const made = new (memory) WorkerThreads;
    made->fork_.set();
    void* const slots = std::aligned_alloc(alignof(Slot), sizeof(Slot) * most_workers);
    made->slots_ = static_cast<Slot*>(slots);
    made->cpus_ = cpus;
    made->pinned_ = pinned;
    if (slots != nullptr) return made;
    made->end();
    return nullptr;
  }
  // No client launches any more.
  void end() {
    if (!fork_.in_child()) {
      const int32_t started = started_.load();
      stopping_.store(true);
      for (int32_t i = 1; i < started; ++i) {
        wake(slots_[i]);
        pthread_join(slots_[i].thread, nullptr);
      }
    }
    std::free(slots_);
    this->~WorkerThreads();
    std::free(this);
  }

  // Threads that were started so far, callers not among them.
  int32_t started() const { return fork_.in_child() ? 0 : started_.load(std::memory_order_relaxed) - 1; }

  // Runs body over [0, count), `cost_ns` being the estimated time of one iteration.
  void run(Client& client, int64_t count, int64_t cost_ns, Body body, void* state, bool fixed_split,
           Priority priority = Priority::usual) {
    const int64_t total_ns = total_cost(count, cost_ns);
    if (total_ns < awake_alone_ns || (client.most_ <= 1 && priority == Priority::usual)) return body(state, 0, 0, count);
    if (fork_.in_child()) begin_again();
    const int64_t most = share_of(client, priority);
    auto at_most = [&](int64_t wanted) {
      if (wanted > count) wanted = count;
      return wanted > most ? most : wanted;
    };
    int64_t wanted = at_most(total_ns < alone_ns ? 1 : total_ns / share_ns);
    if (const int64_t more = at_most(total_ns / awake_share_ns); more > wanted && are_awake(more)) wanted = more;
    if (wanted <= 1) return body(state, 0, 0, count);
    if (started_.load(std::memory_order_acquire) < client.most_ && !refused_.load(std::memory_order_relaxed))
      start_threads(client.most_);

    SharedLaunch& launch = client.launch_;
    const int32_t workers = static_cast<int32_t>(wanted);
    launch.begin(count, cost_ns, workers, !fixed_split, body, state);
    launch.remaining.store(workers - 1, std::memory_order_relaxed);
    const uintptr_t word = reinterpret_cast<uintptr_t>(&launch);
    const int32_t started = started_.load(std::memory_order_relaxed);
    int32_t given = 1, last = 0;  // parts that a thread was told of, and the last of these threads
    for (int32_t i = 1; i < started && given < workers; ++i) {
      uintptr_t expected = idle;
      if (slots_[i].work.load(std::memory_order_relaxed) != idle ||
          !slots_[i].work.compare_exchange_strong(expected, word | static_cast<uintptr_t>(given)))
        continue;
      if (slots_[i].sleeping.load()) wake(slots_[i]);
      ++given, last = i;
    }
    launch.run_part(0);
    for (int32_t i = 1; i <= last; ++i) {
      uintptr_t told = slots_[i].work.load(std::memory_order_relaxed);
      if ((told & ~part_mask) != word || !slots_[i].work.compare_exchange_strong(told, idle)) continue;
      launch.run_part(static_cast<int32_t>(told & part_mask));  // it has not begun: nothing is left of its part, or we do it
      launch.remaining.fetch_sub(1, std::memory_order_relaxed);
    }
    for (; given < workers; ++given) {
      launch.run_part(given);
      launch.remaining.fetch_sub(1, std::memory_order_relaxed);
    }
    for (int64_t turn = 0; launch.remaining.load(std::memory_order_acquire) != 0; ++turn) {
      relax();
      if (turn % 4096 == 4095) sched_yield();
    }
  }

  // The client's call is at its end: others may have its share.
  void end_call(Client& client) {
    if (client.entered_ == 0) return;
    if (client.entered_ == era_.load(std::memory_order_relaxed)) {
      Callers& callers = callers_[static_cast<int32_t>(client.priority_)];
      callers.count.fetch_sub(1, std::memory_order_relaxed);
      callers.cpus.fetch_sub(cpus_of(client), std::memory_order_relaxed);
    }
    client.entered_ = 0;
  }

 private:
  // What a thread is told: nothing, or a launch (whose address is a multiple of 256) and the part of it; and that it is at
  // it.
  static constexpr uintptr_t idle = 0, busy = 1, part_mask = 255;
  static_assert(alignof(Client) > part_mask && most_workers <= part_mask + 1);

  struct alignas(64) Slot {
    std::atomic<uintptr_t> work{idle};
    std::atomic<bool> sleeping{false};
    cpu_set_t usable, placed;  // where it may run by whoever started the threads, and without `kept_off`
    int kept_off = -1;         // the CPU of who woke it last
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
    pthread_t thread{};
    WorkerThreads* threads = nullptr;
  };

  // Clients of one priority within a call that has launches, and the CPUs that these can use.
  struct Callers {
    std::atomic<int32_t> count{0}, cpus{0};
  };

  WorkerThreads() = default;

  int32_t cpus_of(const Client& client) const { return client.most_ < cpus_ ? client.most_ : cpus_; }

  // Workers that a launch of the client's may have by now, itself among them. Stands still where there are none to have.
  int64_t share_of(Client& client, Priority priority) {
    if (cpus_ == 0) return client.most_;
    const uint32_t era = era_.load(std::memory_order_relaxed);
    Callers& like_it = callers_[static_cast<int32_t>(priority)];
    int32_t callers = 0;
    if (client.entered_ != era) {
      client.entered_ = era;
      client.priority_ = priority;
      callers = like_it.count.fetch_add(1, std::memory_order_relaxed) + 1;
      like_it.cpus.fetch_add(cpus_of(client), std::memory_order_relaxed);
    } else {
      callers = like_it.count.load(std::memory_order_relaxed);
    }
    const int32_t left = cpus_left_for(priority);
    if (callers <= 1 && left == cpus_) return client.most_;
    const int64_t share = (client.most_ > cpus_ ? client.most_ - cpus_ + left : left) / callers;
    return share < 1 ? 1 : share > client.most_ ? client.most_ : share;
  }

  // CPUs that calls of higher priority cannot use; where these are none, only after a while.
  int32_t cpus_left_for(Priority priority) const {
    const auto left = [&] {
      int32_t cpus = cpus_;
      for (int32_t above = static_cast<int32_t>(priority) + 1; above < priority_count; ++above)
        cpus -= callers_[above].cpus.load(std::memory_order_relaxed);
      return cpus;
    };
    int32_t cpus = left();
    if (cpus > 0) return cpus;
    const int64_t since = now_ns();
    do {
      const timespec pause{0, 200000};
      nanosleep(&pause, nullptr);
      cpus = left();
    } while (cpus <= 0 && now_ns() - since < stands_still_ns);
    return cpus > 0 ? cpus : 0;
  }

  // Are threads for so many workers spinning, with nothing to do?
  bool are_awake(int64_t workers) const {
    const int32_t started = started_.load(std::memory_order_acquire);
    int64_t awake = 1;
    for (int32_t i = 1; i < started && awake < workers; ++i)
      awake += !slots_[i].sleeping.load(std::memory_order_relaxed) && slots_[i].work.load(std::memory_order_relaxed) == idle;
    return awake == workers;
  }

  // Threads for so many workers, the caller among them, as far as the system gives any.
  void start_threads(int32_t workers) {
    const ProcessLockHold hold(lock_);
    for (int32_t i = started_.load(); i < workers; ++i) {
      Slot* const slot = new (&slots_[i]) Slot;
      slot->threads = this;
      if (pthread_create(&slot->thread, nullptr, &WorkerThreads::work, slot) != 0) {
        refused_.store(true);
        break;
      }
      started_.store(i + 1, std::memory_order_release);
    }
    if (pinned_) pin();
  }

  // In the child: threads, and calls of threads, that only the parent has. Slots are memory and nothing else: what a
  // parent's thread left in one is overwritten when it is used again.
  void begin_again() {
    const ProcessLockHold hold(lock_);
    if (!fork_.in_child()) return;  // another thread was here first
    started_.store(1);
    for (Callers& callers : callers_) callers.count.store(0), callers.cpus.store(0);
    era_.store(era_.load() + 1 != 0 ? era_.load() + 1 : 1);
    refused_.store(false);
    fork_.set();
  }

  // It takes its time to wake up, and may find that its part was done meanwhile: it stays awake for the next one, as behind
  // work of its own. Where it slept on, short launches that come close behind each other would never have it.
  static void wake(Slot& slot) {
    pthread_mutex_lock(&slot.mutex);
    keep_off_own_cpu(slot);
    slot.sleeping.store(false);
    pthread_cond_signal(&slot.woken);
    pthread_mutex_unlock(&slot.mutex);
  }

  // Systems wake a thread on the CPU of who wakes it while others are idle, and leave both there, taking turns, for tens of
  // ms: seen with Linux 6.18 on two CPUs of a virtual machine. So that CPU is not for a thread that is woken up. The slot's
  // mutex is held.
  static void keep_off_own_cpu(Slot& slot) {
    const int cpu = sched_getcpu();
    if (slot.threads->pinned_ || cpu == slot.kept_off || cpu < 0 || cpu >= CPU_SETSIZE) return;
    cpu_set_t now;
    if (pthread_getaffinity_np(slot.thread, sizeof now, &now) != 0) return;
    if (slot.kept_off < 0 || !CPU_EQUAL(&now, &slot.placed)) slot.usable = now;  // not ours: the program's wish
    slot.placed = slot.usable;
    CPU_CLR(static_cast<size_t>(cpu), &slot.placed);
    if (CPU_COUNT(&slot.placed) == 0) slot.placed = slot.usable;
    if (pthread_setaffinity_np(slot.thread, sizeof slot.placed, &slot.placed) == 0) slot.kept_off = cpu;
  }

  static void* work(void* argument) {
    Slot& slot = *static_cast<Slot*>(argument);
    WorkerThreads& threads = *slot.threads;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);  // signals belong to the program's own threads
    int64_t idle_since = now_ns();
    for (int64_t turn = 1;; ++turn) {
      if (uintptr_t told = slot.work.load(std::memory_order_relaxed); told != idle) {
        if (!slot.work.compare_exchange_strong(told, busy)) continue;
        SharedLaunch& launch = *reinterpret_cast<SharedLaunch*>(told & ~part_mask);
        launch.run_part(static_cast<int32_t>(told & part_mask));
        slot.work.store(idle);  // before the launch ends, so that the next one finds this thread free
        launch.remaining.fetch_sub(1, std::memory_order_release);
        idle_since = now_ns();
        continue;
      }
      if (threads.stopping_.load(std::memory_order_relaxed)) return nullptr;
      relax();
      if (turn % 64 != 0 || now_ns() - idle_since < spin_ns) continue;
      pthread_mutex_lock(&slot.mutex);
      slot.sleeping.store(true);
      while (slot.sleeping.load() && slot.work.load() == idle && !threads.stopping_.load())
        pthread_cond_wait(&slot.woken, &slot.mutex);
      slot.sleeping.store(false);
      pthread_mutex_unlock(&slot.mutex);
      idle_since = now_ns();
    }
  }

  // Worker k stays on the k-th usable CPU; the caller's own thread is the caller's.
  void pin() {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return;
    int cpu = -1;
    for (int32_t i = 0; i < started_.load(); ++i) {
      int tried = 0;
      do cpu = (cpu + 1) % CPU_SETSIZE;
      while (!CPU_ISSET(static_cast<size_t>(cpu), &usable) && ++tried < CPU_SETSIZE);
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(static_cast<size_t>(cpu), &one);
      if (i > 0) pthread_setaffinity_np(slots_[i].thread, sizeof(one), &one);
    }
  }

  Slot* slots_ = nullptr;
  int32_t cpus_ = 0;
  bool pinned_ = false;
  std::atomic<int32_t> started_{1};
  std::atomic<bool> stopping_{false}, refused_{false};
  ProcessLock lock_;
  ForkMark fork_;
  std::atomic<uint32_t> era_{1};  // goes up with every fork
  alignas(64) Callers callers_[priority_count];
};

}  // namespace METAC_RUNTIME_NAMESPACE
