// What a context launches its kernels on: the threads of the process (process_threads.h), some of its own, or the caller's
// pool (ParallelFunction). How iterations are shared: worker_threads.h.
#pragma once
#include "process_threads.h"

namespace METAC_RUNTIME_NAMESPACE {

// The caller's own pool: runs task(state, 0) ... task(state, count - 1), each once, in any order and on any threads, and
// returns when all are done. Tasks do not wait for each other. A pool that does otherwise costs time, not answers: what it
// left out the caller's thread does, what comes twice or too late finds nothing to do. Only a task that runs after the
// pool's end is lost.
using ParallelFunction = void (*)(void* pool, int32_t count, void (*task)(void* state, int32_t index), void* state);

class ThreadPool {
 public:
  static constexpr int32_t most_workers = WorkerThreads::most_workers;
  static constexpr int64_t alone_ns = WorkerThreads::alone_ns, share_ns = WorkerThreads::share_ns,
                           awake_alone_ns = WorkerThreads::awake_alone_ns;

  ThreadPool() = default;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool() { stop(); }

  // Threads of its own. `workers` counts the caller; 0: as many as there are CPUs to use. Fewer run where the system refuses
  // threads. `pin`: worker k stays on the k-th usable CPU. False: out of memory.
  bool start(int32_t workers, bool pin = false) {
    stop();
    begin(workers);
    if (workers_ == 1) return true;
#ifdef METAC_OPENMP
    return launch_.reserve(workers_);
#endif
    own_ = WorkerThreads::make(0, pin);
    client_ = own_ == nullptr ? nullptr : WorkerThreads::Client::make(workers_);
    if (client_ != nullptr) return true;
    stop();
    return false;
  }

  // The threads of the process, of which a launch takes `workers` at most, with the caller. False: out of memory.
  bool share(ThreadsAnchor& anchor, int32_t workers, Priority priority = Priority::usual) {
#ifdef METAC_OPENMP
    return start(workers);
#endif
    stop();
    begin(workers);
    priority_ = priority;
    if (workers_ == 1 && priority == Priority::usual) return true;
    shared_ = ProcessThreads::join(anchor);
    if (shared_ == nullptr) return false;
    anchor_ = &anchor;
    client_ = shared_->join(shared_->threads, workers_);
    if (client_ != nullptr) return true;
    stop();
    return false;
  }

  void stop() {
    if (shared_ != nullptr) {
      if (client_ != nullptr) shared_->leave(shared_->threads, client_);
      ProcessThreads::leave(*anchor_);
    }
    if (own_ != nullptr) {
      own_->end();
      if (client_ != nullptr) static_cast<WorkerThreads::Client*>(client_)->end();
    }
    own_ = nullptr;
    shared_ = nullptr;
    client_ = nullptr;
    workers_ = 1;
  }

  // From now on launches go to the caller's pool, cut into `workers` tasks. A null function returns to the threads before.
  // False: out of memory.
  bool use(ParallelFunction function, void* pool, int32_t workers) {
    if (workers < 1) workers = 1;
    if (workers > most_workers) workers = most_workers;
    if (!launch_.reserve(workers)) return false;
    foreign_ = function;
    foreign_pool_ = pool;
    foreign_workers_ = workers;
    return true;
  }
  // Chunks wander between workers (the default), or every worker keeps to its part.
  void set_dynamic(bool dynamic) { dynamic_ = dynamic; }

  // Do launches go to the caller's pool?
  bool is_callers() const { return foreign_ != nullptr; }
  // Is this the child of the process that made the pool?
  bool in_child() const { return fork_.in_child(); }

  // Threads of its own that were started so far.
  int32_t started() const { return own_ == nullptr ? 0 : own_->started(); }
  int32_t workers() const { return foreign_ != nullptr ? foreign_workers_ : workers_; }

  // Runs body over [0, count), `cost_ns` being the estimated time of one iteration.
  void run(int64_t count, int64_t cost_ns, Body body, void* state) {
    if (count <= 0) return;
    const int64_t total_ns = total_cost(count, cost_ns);
    if (total_ns < awake_alone_ns || (workers() <= 1 && client_ == nullptr)) return body(state, 0, 0, count);
    if (foreign_ != nullptr) return run_foreign(count, cost_ns, total_ns, body, state);
#ifdef METAC_OPENMP
    if (fork_.in_child()) return body(state, 0, 0, count);  // its threads are not there, and it does not know
    const int32_t wanted = wanted_of(count, total_ns);
    if (wanted <= 1) return body(state, 0, 0, count);
    launch_.begin(count, cost_ns, wanted, dynamic_, body, state);
#pragma omp parallel for num_threads(wanted) schedule(static, 1)
    for (int32_t i = 0; i < wanted; ++i) launch_.run_part(i);
#else
    if (shared_ != nullptr)
      return shared_->run(shared_->threads, client_, count, cost_ns, body, state, launch_way(!dynamic_, priority_));
    own_->run(*static_cast<WorkerThreads::Client*>(client_), count, cost_ns, body, state, !dynamic_);
#endif
  }

  // After the last launch of a call: what threads are shared may all be another context's.
  void end_call() {
    if (shared_ != nullptr) shared_->end_call(shared_->threads, client_);
  }

 private:
  void begin(int32_t workers) {
    if (workers <= 0) workers = usable_cpus();
    workers_ = workers > most_workers ? most_workers : workers;
    fork_.set();
  }
  int32_t wanted_of(int64_t count, int64_t total_ns) const {
    int64_t wanted = total_ns < alone_ns ? 1 : total_ns / share_ns;
    if (wanted > count) wanted = count;
    return wanted > workers() ? workers() : static_cast<int32_t>(wanted);
  }

  void run_foreign(int64_t count, int64_t cost_ns, int64_t total_ns, Body body, void* state) {
    const int32_t wanted = wanted_of(count, total_ns);
    if (wanted <= 1) return body(state, 0, 0, count);
    launch_.begin(count, cost_ns, wanted, false, body, state);
    open_.store(true);
    foreign_(foreign_pool_, wanted, &run_foreign_part, this);
    for (int32_t i = 0; i < wanted; ++i) launch_.run_part(i);  // what it left out
    open_.store(false);
    for (int64_t turn = 1; inside_.load() != 0; ++turn) {
      relax();
      if (turn % 64 == 0) sched_yield();
    }
  }
  static void run_foreign_part(void* state, int32_t worker) {
    ThreadPool& pool = *static_cast<ThreadPool*>(state);
    pool.inside_.fetch_add(1);  // before looking: who closes a launch waits for those who saw it open
    if (pool.open_.load() && worker >= 0 && worker < pool.launch_.workers) pool.launch_.run_part(worker);
    pool.inside_.fetch_sub(1);
  }

  int32_t workers_ = 1;
  bool dynamic_ = true;
  Priority priority_ = Priority::usual;  // with threads that are shared
  ForkMark fork_;
  WorkerThreads* own_ = nullptr;
  SharedThreads* shared_ = nullptr;
  ThreadsAnchor* anchor_ = nullptr;
  void* client_ = nullptr;  // of either

  ParallelFunction foreign_ = nullptr;
  void* foreign_pool_ = nullptr;
  int32_t foreign_workers_ = 1;
  SharedLaunch launch_;             // of the caller's pool, or OpenMP's threads:
  std::atomic<int32_t> inside_{0};  // how many tasks are at work,
  std::atomic<bool> open_{false};   // and whether there is a launch
};

}  // namespace METAC_RUNTIME_NAMESPACE
