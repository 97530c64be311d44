// Every iteration once, whoever does it; sleepers are woken or passed over; the caller's own pool.
#include "runtime/process/thread_pool.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>
#include <vector>

namespace {

using namespace metac_runtime;

struct Counted {
  explicit Counted(size_t n) : done(n) {}
  std::vector<std::atomic<int>> done;
  std::atomic<int> most_worker{0};
};
void count(void* state, int32_t worker, int64_t begin, int64_t end) {
  Counted& counted = *static_cast<Counted*>(state);
  for (int64_t i = begin; i < end; ++i) ++counted.done[static_cast<size_t>(i)];
  int seen = counted.most_worker;
  while (seen < worker && !counted.most_worker.compare_exchange_weak(seen, worker)) {
  }
}
bool each_once(const Counted& counted) {
  for (const auto& n : counted.done)
    if (n != 1) return false;
  return true;
}

TEST(ThreadPool, EveryIterationOnce) {
  for (const bool dynamic : {true, false}) {
    for (const int workers : {1, 2, 3, 7}) {
      ThreadPool pool;
      ASSERT_TRUE(pool.start(workers));
      pool.set_dynamic(dynamic);
      for (int round = 0; round < TEST_ITERATIONS; ++round) {
        const int64_t n = 1 + round % 37;
        Counted counted(static_cast<size_t>(n));
        pool.run(n, 100000, count, &counted);
        ASSERT_TRUE(each_once(counted)) << workers << " workers, " << n;
        ASSERT_LT(counted.most_worker, workers);
        if (round % 100 == 99) std::this_thread::sleep_for(std::chrono::microseconds(200));  // they sleep by now
      }
    }
  }
}

TEST(ThreadPool, SmallWorkStaysOnTheCaller) {
  ThreadPool pool;
  ASSERT_TRUE(pool.start(4));
  struct State {
    std::thread::id caller = std::this_thread::get_id();
    bool elsewhere = false;
  } state;
  // Less than pays even where the workers are still spinning; whether they are is the machine's affair.
  pool.run(
      100, ThreadPool::awake_alone_ns / 100 - 1,
      [](void* s, int32_t, int64_t, int64_t) {
        State& state = *static_cast<State*>(s);
        if (std::this_thread::get_id() != state.caller) state.elsewhere = true;
      },
      &state);
  EXPECT_FALSE(state.elsewhere);
}

TEST(ThreadPool, NothingToDo) {
  ThreadPool pool;
  ASSERT_TRUE(pool.start(2));
  pool.run(0, 1000000, nullptr, nullptr);
  pool.run(-5, 1000000, nullptr, nullptr);
}

TEST(ThreadPool, TheCallersOwnPool) {
  ThreadPool pool;
  ASSERT_TRUE(pool.start(1));
  int calls = 0;
  ASSERT_TRUE(pool.use(
      [](void* own, int32_t n, void (*task)(void*, int32_t), void* state) {
        ++*static_cast<int*>(own);
        std::vector<std::thread> threads;
        for (int32_t i = 0; i < n; ++i) threads.emplace_back(task, state, i);
        for (std::thread& t : threads) t.join();
      },
      &calls, 3));
  Counted counted(100);
  pool.run(100, 10000, count, &counted);
  EXPECT_TRUE(each_once(counted));
  EXPECT_EQ(calls, 1);
}

// Two launches behind a pause, from two CPUs: where the worker may run while they last.
TEST(ThreadPool, AWokenThreadIsNotOnTheCallersCpu) {
  ThreadPool pool;
  ASSERT_TRUE(pool.start(2));
  struct State {
    std::atomic<bool> there{false};
    cpu_set_t worker;
  };
  const auto launch = [&](State& state) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // it sleeps by now
    pool.run(
        2, 1000000,
        [](void* s, int32_t worker, int64_t, int64_t) {
          State& state = *static_cast<State*>(s);
          if (worker != 0) {
            sched_getaffinity(0, sizeof state.worker, &state.worker);
            state.there = true;
          }
          const auto begin = std::chrono::steady_clock::now();
          while (!state.there && std::chrono::steady_clock::now() - begin < std::chrono::seconds(10)) {
          }
        },
        &state);
  };
  cpu_set_t usable;
  ASSERT_EQ(sched_getaffinity(0, sizeof usable, &usable), 0);
  State first;
  launch(first);  // its thread is started
  for (int cpu = 0, tried = 0; cpu < CPU_SETSIZE && tried < 2; ++cpu) {
    if (!CPU_ISSET(static_cast<size_t>(cpu), &usable)) continue;
    ++tried;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<size_t>(cpu), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    State state;
    launch(state);
    ASSERT_TRUE(state.there);
    cpu_set_t expected = usable;
    if (CPU_COUNT(&usable) > 1) CPU_CLR(static_cast<size_t>(cpu), &expected);
    EXPECT_TRUE(CPU_EQUAL(&state.worker, &expected)) << "from CPU " << cpu;
  }
  sched_setaffinity(0, sizeof usable, &usable);
}

TEST(ThreadPool, PinnedAndManyPools) {
  for (int i = 0; i < 20; ++i) {
    ThreadPool a, b;
    ASSERT_TRUE(a.start(2, true));
    ASSERT_TRUE(b.start(2));
    Counted counted(50);
    a.run(50, 10000, count, &counted);
    EXPECT_TRUE(each_once(counted));
  }
}

}  // namespace
