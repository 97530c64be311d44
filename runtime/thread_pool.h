// The threads that share a launch's iterations. Every context has its own pool (or the caller's, see ParallelFunction);
// nothing is global.
//
// A launch is cut into one contiguous part per worker, so that a worker meets the same rows launch after launch, and each
// part into chunks, every one half of what is left; a worker that has finished its part takes chunks from the others. Who
// computes an iteration never changes its bits. The caller is worker 0. Workers wait for the next launch spinning, but at
// most 50 us; then they sleep. A worker that has not woken up by the time the work is done is taken off the launch again:
// small launches never wait for a sleeper.
//
// In the child of a fork() the threads are not there: the first launch that wants them starts others.
#pragma once
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include <atomic>
#include <new>

#include "fork_mark.h"
#include "memory.h"
#include "usable_cpus.h"

namespace METAC_RUNTIME_NAMESPACE {

// The caller's own pool: runs task(state, 0) ... task(state, count - 1), each once, in any order and on any threads, and
// returns when all are done. Tasks do not wait for each other. A pool that does otherwise costs time, not answers: what it
// left out the caller's thread does, what comes twice or too late finds nothing to do. Only a task that runs after the
// pool's end is lost.
using ParallelFunction = void (*)(void* pool, int32_t count, void (*task)(void* state, int32_t index), void* state);

// Work on iterations [begin, end) as worker `worker`, which names its scratch memory.
using Body = void (*)(void* state, int32_t worker, int64_t begin, int64_t end);

inline int64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<int64_t>(time.tv_sec) * 1000000000 + time.tv_nsec;
}

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#endif
}

class ThreadPool {
 public:
  static constexpr int32_t most_workers = 256;
  static constexpr int64_t spin_ns = 50000;
  static constexpr int64_t alone_ns = 20000;                              // less work than this stays on the caller
  static constexpr int64_t share_ns = 10000;                              // a worker is woken for no less
  static constexpr int64_t awake_alone_ns = 8000, awake_share_ns = 4000;  // the same where the workers are spinning

  ThreadPool() = default;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() { stop(); }

  // `workers` counts the caller; 0: as many as there are CPUs to use. Fewer run where the system refuses threads. `pin`:
  // worker k stays on the k-th usable CPU. False: out of memory.
  bool start(int32_t workers, bool pin = false) {
    stop();
    if (workers <= 0) workers = usable_cpus();
    if (workers > most_workers) workers = most_workers;
    void* memory = std::aligned_alloc(alignof(Slot), sizeof(Slot) * static_cast<size_t>(workers));
    if (memory == nullptr) return false;
    slots_ = static_cast<Slot*>(memory);
    allocated_ = workers;
    pinned_ = pin;
    start_threads(workers);
    return reserve_parts(workers_);
  }

  void stop() {
    if (fork_.in_child()) workers_ = 1;  // nobody to wait for
    for (int32_t i = 1; i < workers_; ++i) {
      stopping_.store(true);
      wake(slots_[i]);
      pthread_join(slots_[i].thread, nullptr);
    }
    std::free(slots_);
    std::free(task_.parts);
    slots_ = nullptr;
    task_.parts = nullptr;
    parts_ = 0;
    workers_ = 1;
    allocated_ = 0;
    stopping_.store(false);
  }

  // From now on launches go to the caller's pool, cut into `workers` tasks. A null function returns to the own threads.
  // False: out of memory.
  bool use(ParallelFunction function, void* pool, int32_t workers) {
    if (workers < 1) workers = 1;
    if (workers > most_workers) workers = most_workers;
    if (!reserve_parts(workers)) return false;
    foreign_ = function;
    foreign_pool_ = pool;
    foreign_workers_ = workers;
    return true;
  }
  // Chunks wander between workers (the default), or every worker keeps to its part.
  void set_dynamic(bool dynamic) { dynamic_ = dynamic; }

  // Is this the child of the process that made the pool?
  bool in_child() const { return fork_.in_child(); }

  int32_t workers() const { return foreign_ != nullptr ? foreign_workers_ : workers_; }

  // Runs body over [0, count), `cost_ns` being the estimated time of one iteration.
  void run(int64_t count, int64_t cost_ns, Body body, void* state) {
    if (count <= 0) return;
    int64_t total_ns = 0;
    if (__builtin_mul_overflow(count, cost_ns > 0 ? cost_ns : 1, &total_ns)) total_ns = INT64_MAX;
    if (total_ns < awake_alone_ns || workers() <= 1) return body(state, 0, 0, count);
    if (foreign_ == nullptr && fork_.in_child()) begin_again();
    auto at_most = [&](int64_t wanted) {
      if (wanted > count) wanted = count;
      return wanted > workers() ? int64_t{workers()} : wanted;
    };
    int64_t wanted = at_most(total_ns < alone_ns ? 1 : total_ns / share_ns);
    if (foreign_ == nullptr)
      if (const int64_t more = at_most(total_ns / awake_share_ns); more > wanted && are_awake(more)) wanted = more;
    if (wanted <= 1) return body(state, 0, 0, count);

    Task& task = task_;
    task.body = body;
    task.state = state;
    task.workers = static_cast<int32_t>(wanted);
    task.stealing = dynamic_ && foreign_ == nullptr;
    const int64_t least = 2500 / (cost_ns > 0 ? cost_ns : 1);  // a chunk is worth its bookkeeping
    task.least_chunk = least > 1 ? least : 1;
    for (int32_t i = 0; i < task.workers; ++i) {
      const int64_t quotient = count / wanted, rest = count % wanted;
      task.parts[i].next.store(quotient * i + (i < rest ? i : rest), std::memory_order_relaxed);
      task.parts[i].end = quotient * (i + 1) + (i + 1 < rest ? i + 1 : rest);
    }
    if (foreign_ != nullptr) return run_foreign(task);
#ifdef METAC_OPENMP
#pragma omp parallel for num_threads(task.workers) schedule(static, 1)
    for (int32_t i = 0; i < task.workers; ++i) run_part(&task, i);
#else
    task.remaining.store(task.workers - 1, std::memory_order_relaxed);
    for (int32_t i = 1; i < task.workers; ++i) {
      slots_[i].task.store(&task);
      if (slots_[i].sleeping.load()) wake(slots_[i]);
    }
    run_part(&task, 0);
    for (int32_t i = 1; i < task.workers; ++i) {
      Task* expected = &task;
      if (!slots_[i].task.compare_exchange_strong(expected, nullptr)) continue;
      run_part(&task, i);  // it has not begun: nothing is left of its part, or we do it
      task.remaining.fetch_sub(1, std::memory_order_relaxed);
    }
    for (int64_t turn = 0; task.remaining.load(std::memory_order_acquire) != 0; ++turn) {
      relax();
      if (turn % 4096 == 4095) sched_yield();
    }
#endif
  }

 private:
  struct alignas(64) Part {
    std::atomic<int64_t> next{0};
    int64_t end = 0;
  };
  struct Task {
    Body body = nullptr;
    void* state = nullptr;
    int32_t workers = 0;
    int64_t least_chunk = 1;
    bool stealing = false;
    std::atomic<int32_t> remaining{0};
    std::atomic<int32_t> inside{0};  // of the caller's pool: how many tasks are at work,
    std::atomic<bool> open{false};   // and whether there is any
    Part* parts = nullptr;

    // Iterations to take of the `left` ones of a part: half of them, so that no more than the least chunk is left to wait
    // for.
    int64_t next_chunk(int64_t left) const {
      if (!stealing || left <= least_chunk) return left;
      return left / 2 > least_chunk ? left / 2 : least_chunk;
    }
  };
  struct alignas(64) Slot {
    std::atomic<Task*> task{nullptr};
    std::atomic<bool> sleeping{false};
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t woken = PTHREAD_COND_INITIALIZER;
    pthread_t thread{};
    ThreadPool* pool = nullptr;
    int32_t index = 0;
  };

  // Are the workers up to this one spinning?
  bool are_awake(int64_t workers) const {
    for (int64_t i = 1; i < workers; ++i)
      if (slots_[i].sleeping.load(std::memory_order_relaxed)) return false;
    return true;
  }

  static void run_part(void* state, int32_t worker) {
    Task& task = *static_cast<Task*>(state);
    for (int32_t turn = 0; turn < (task.stealing ? task.workers : 1); ++turn) {
      Part& part = task.parts[(worker + turn) % task.workers];
      for (;;) {
        int64_t begin = part.next.load(std::memory_order_relaxed), end = 0;
        do {
          if (begin >= part.end) break;
          end = begin + task.next_chunk(part.end - begin);
        } while (!part.next.compare_exchange_weak(begin, end, std::memory_order_relaxed));
        if (begin >= part.end) break;
        task.body(task.state, worker, begin, end);
      }
    }
  }

  void run_foreign(Task& task) {
    task.open.store(true);
    foreign_(foreign_pool_, task.workers, &run_foreign_part, &task);
    for (int32_t i = 0; i < task.workers; ++i) run_part(&task, i);  // what it left out
    task.open.store(false);
    for (int64_t turn = 1; task.inside.load() != 0; ++turn) {
      relax();
      if (turn % 64 == 0) sched_yield();
    }
  }

  static void run_foreign_part(void* state, int32_t worker) {
    Task& task = *static_cast<Task*>(state);
    task.inside.fetch_add(1);  // before looking: who closes a launch waits for those who saw it open
    if (task.open.load() && worker >= 0 && worker < task.workers) run_part(&task, worker);
    task.inside.fetch_sub(1);
  }

  // Threads for those that only the parent has.
  void begin_again() {
#ifdef METAC_OPENMP
    workers_ = 1;  // OpenMP's are gone too, and it does not know
#else
    start_threads(workers_);
#endif
  }

  // Threads for so many workers, the caller among them, as far as the system gives any.
  void start_threads(int32_t workers) {
    fork_.set();
    workers_ = 1;
    for (int32_t i = 0; i < allocated_; ++i) {
      Slot* const slot =
          new (&slots_[i]) Slot;  // slots are memory and nothing else: what a parent's thread left in one is overwritten
      slot->pool = this;
      slot->index = i;
    }
    while (workers_ < workers &&
           pthread_create(&slots_[workers_].thread, nullptr, &ThreadPool::work, &slots_[workers_]) == 0)
      ++workers_;
    if (pinned_) pin_workers();
  }

  bool reserve_parts(int32_t workers) {
    if (workers <= parts_) return true;
    void* memory = std::aligned_alloc(alignof(Part), sizeof(Part) * static_cast<size_t>(workers));
    if (memory == nullptr) return false;
    std::free(task_.parts);
    task_.parts = static_cast<Part*>(memory);
    for (int32_t i = 0; i < workers; ++i) new (&task_.parts[i]) Part;
    parts_ = workers;
    return true;
  }

  static void wake(Slot& slot) {
    pthread_mutex_lock(&slot.mutex);
    pthread_cond_signal(&slot.woken);
    pthread_mutex_unlock(&slot.mutex);
  }

  static void* work(void* argument) {
    Slot& slot = *static_cast<Slot*>(argument);
    ThreadPool& pool = *slot.pool;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);  // signals belong to the program's own threads
    int64_t idle_since = now_ns();
    for (int64_t turn = 1;; ++turn) {
      if (slot.task.load(std::memory_order_relaxed) != nullptr) {
        if (Task* task = slot.task.exchange(nullptr)) {
          run_part(task, slot.index);
          task->remaining.fetch_sub(1, std::memory_order_release);
          idle_since = now_ns();
        }
        continue;
      }
      if (pool.stopping_.load(std::memory_order_relaxed)) return nullptr;
      relax();
      if (turn % 64 != 0 || now_ns() - idle_since < spin_ns) continue;
      pthread_mutex_lock(&slot.mutex);
      slot.sleeping.store(true);
      while (slot.task.load() == nullptr && !pool.stopping_.load()) pthread_cond_wait(&slot.woken, &slot.mutex);
      slot.sleeping.store(false);
      pthread_mutex_unlock(&slot.mutex);
      idle_since = now_ns();
    }
  }

  void pin_workers() {
    cpu_set_t usable;
    CPU_ZERO(&usable);
    if (sched_getaffinity(0, sizeof(usable), &usable) != 0) return;
    int cpu = -1;
    for (int32_t i = 0; i < workers_; ++i) {
      int tried = 0;
      do cpu = (cpu + 1) % CPU_SETSIZE;
      while (!CPU_ISSET(static_cast<size_t>(cpu), &usable) && ++tried < CPU_SETSIZE);
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(static_cast<size_t>(cpu), &one);
      if (i > 0) pthread_setaffinity_np(slots_[i].thread, sizeof(one), &one);  // the caller's own thread is the caller's
    }
  }

  Task task_;
  int32_t parts_ = 0;
  Slot* slots_ = nullptr;
  int32_t workers_ = 1, allocated_ = 0;
  std::atomic<bool> stopping_{false};
  bool dynamic_ = true, pinned_ = false;
  ForkMark fork_;
  ParallelFunction foreign_ = nullptr;
  void* foreign_pool_ = nullptr;
  int32_t foreign_workers_ = 1;
};

}  // namespace METAC_RUNTIME_NAMESPACE
