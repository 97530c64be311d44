// The threads of a process: found by all who look for them, no more than there are CPUs, gone with the last user; shares of
// several callers.
#include "runtime/process/process_threads.h"

#include <dirent.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <thread>
#include <vector>

#include "runtime/process/thread_pool.h"

// As two libraries have them.
extern "C" {
__attribute__((visibility("hidden"), used)) metac_runtime::ThreadsAnchor first_threads_anchor, second_threads_anchor;
}
METAC_THREADS_NOTE(first_threads_anchor);
METAC_THREADS_NOTE(second_threads_anchor);

namespace process_threads_test {
namespace {

using namespace metac_runtime;

int threads_of_process() {
  int count = 0;
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* task = readdir(tasks)) count += task->d_name[0] != '.';
  closedir(tasks);
  return count;
}

struct Counted {
  explicit Counted(size_t n) : done(n) {}
  std::vector<std::atomic<int>> done;
  std::atomic<int> most_worker{0}, elsewhere{0};
  std::thread::id caller = std::this_thread::get_id();

  static void count(void* state, int32_t worker, int64_t begin, int64_t end) {
    Counted& counted = *static_cast<Counted*>(state);
    for (int64_t i = begin; i < end; ++i) ++counted.done[static_cast<size_t>(i)];
    int seen = counted.most_worker;
    while (seen < worker && !counted.most_worker.compare_exchange_weak(seen, worker)) {
    }
    if (std::this_thread::get_id() != counted.caller) ++counted.elsewhere;
  }
  bool each_once() const {
    for (const auto& n : done)
      if (n != 1) return false;
    return true;
  }
};
bool runs(ThreadPool& pool, int64_t n = 100) {
  Counted counted(static_cast<size_t>(n));
  pool.run(n, 100000, &Counted::count, &counted);
  pool.end_call();
  return counted.each_once();
}

TEST(ProcessThreads, LibrariesFindEachOther) {
  for (int round = 0; round < 2; ++round) {
    SharedThreads* const one = ProcessThreads::join(first_threads_anchor);
    SharedThreads* const two = ProcessThreads::join(second_threads_anchor);
    ASSERT_NE(one, nullptr);
    EXPECT_EQ(one, two);
    EXPECT_EQ(one->libraries, 2);
    EXPECT_EQ(ProcessThreads::join(first_threads_anchor), one);
    ProcessThreads::leave(first_threads_anchor);
    EXPECT_EQ(first_threads_anchor.shared, one);
    ProcessThreads::leave(first_threads_anchor);  // who made them
    EXPECT_EQ(first_threads_anchor.shared, nullptr);
    EXPECT_EQ(ProcessThreads::join(first_threads_anchor), one);
    ProcessThreads::leave(first_threads_anchor);
    ProcessThreads::leave(second_threads_anchor);
    EXPECT_EQ(second_threads_anchor.shared, nullptr);
  }
}

TEST(ProcessThreads, AHundredContextsHaveNoMoreThreadsThanOne) {
  std::thread([] {}).join();  // a sanitizer has a thread of its own from the first one on
  const int before = threads_of_process();
  {
    std::vector<ThreadPool> pools(100);
    for (size_t k = 0; k < pools.size(); ++k)
      ASSERT_TRUE(pools[k].share(k % 2 == 0 ? first_threads_anchor : second_threads_anchor, 2));
    EXPECT_EQ(threads_of_process(), before);  // none before there is work
    for (ThreadPool& pool : pools) EXPECT_TRUE(runs(pool));
    EXPECT_EQ(threads_of_process(), before + 1);
  }
  // A thread that was joined may stay listed for a moment.
  for (int turn = 0; threads_of_process() != before && turn < 1000; ++turn)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(threads_of_process(), before);
}

TEST(ProcessThreads, AllLaunchAtOnce) {
  std::vector<std::thread> callers;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 4; ++t)
    callers.emplace_back([&wrong, t] {
      for (int round = 0; round < TEST_ITERATIONS / 100; ++round) {
        ThreadPool pool;  // made and ended all the time, so that who makes and ends the threads changes
        if (!pool.share(t % 2 == 0 ? first_threads_anchor : second_threads_anchor, 3)) ++wrong;
        for (int k = 0; k < 10; ++k) wrong += !runs(pool, 1 + (round + k) % 37);
      }
    });
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(first_threads_anchor.shared, nullptr);
}

// As a library of another version has them.
TEST(ProcessThreads, ThoseOfAnotherVersionAreUsedAsTheySay) {
  static int joined, left, ran, ended_calls;
  SharedThreads others = {
      nullptr,
      [](void*, int32_t most) {
        joined += most;
        return static_cast<void*>(&joined);
      },
      [](void*, void*) { ++left; },
      [](void*, void*, int64_t count, int64_t, void (*body)(void*, int32_t, int64_t, int64_t), void* state, int32_t) {
        ++ran;
        body(state, 0, 0, count);
      },
      [](void*, void*) { ++ended_calls; },
      [](SharedThreads*) { FAIL() << "they are in use"; },
      nullptr,
      {1}};
  first_threads_anchor.shared = &others;
  {
    ThreadPool pool;
    ASSERT_TRUE(pool.share(second_threads_anchor, 5));
    EXPECT_EQ(others.libraries, 2);
    EXPECT_TRUE(runs(pool));
  }
  EXPECT_EQ(others.libraries, 1);
  EXPECT_EQ(joined, 5);
  EXPECT_TRUE(left == 1 && ran == 1 && ended_calls == 1);
  first_threads_anchor.shared = nullptr;
}

TEST(ProcessThreads, CallersShareTheCpus) {
  for (const int cpus : {2, 4, 5}) {
    WorkerThreads* const threads = WorkerThreads::make(cpus, false);
    WorkerThreads::Client* clients[3];
    for (auto& client : clients) ASSERT_NE(client = WorkerThreads::Client::make(cpus), nullptr);
    for (int callers = 1; callers <= 3; ++callers) {
      for (int c = 0; c < callers; ++c) {  // the last one to begin sees all of them within a call
        Counted counted(1000);
        threads->run(*clients[c], 1000, 100000, &Counted::count, &counted, true);
        EXPECT_TRUE(counted.each_once());
        const int share = std::max(1, cpus / (c + 1));
        EXPECT_LE(counted.most_worker, share - 1);
        EXPECT_TRUE(share > 1 || counted.elsewhere == 0);
      }
      for (int c = 0; c < callers; ++c) threads->end_call(*clients[c]), threads->end_call(*clients[c]);
    }
    Counted counted(1000);
    threads->run(*clients[2], 1000, 100000, &Counted::count, &counted, true);
    EXPECT_EQ(counted.most_worker, cpus - 1) << "one alone has all of them";
    threads->end_call(*clients[2]);
    threads->end();
    for (auto& client : clients) client->end();
  }
}

TEST(ProcessThreads, CallsOfHigherPriorityHaveTheCpusFirst) {
  WorkerThreads* const threads = WorkerThreads::make(4, false);
  WorkerThreads::Client *all = WorkerThreads::Client::make(4), *three = WorkerThreads::Client::make(3),
                        *other = WorkerThreads::Client::make(4);
  const auto most_worker = [&](WorkerThreads::Client* client, Priority priority) {
    Counted counted(1000);
    threads->run(*client, 1000, 100000, &Counted::count, &counted, true, priority);
    EXPECT_TRUE(counted.each_once());
    return counted.most_worker.load();
  };
  EXPECT_EQ(most_worker(other, Priority::background), 3) << "one alone has all of them, whatever its priority";
  EXPECT_EQ(most_worker(three, Priority::urgent), 2) << "who stands back is not counted";
  EXPECT_EQ(most_worker(other, Priority::background), 0) << "one CPU is left";
  threads->end_call(*three), threads->end_call(*other);

  // Nothing is left: until the call ends, or for a while.
  EXPECT_EQ(most_worker(all, Priority::usual), 3);
  struct Waiting {
    std::atomic<bool> began{false}, ended{false}, was_over{false};
  } waiting;
  int64_t waited = 0;
  std::thread background([&] {
    waiting.began = true;
    const int64_t begin = now_ns();
    threads->run(
        *other, 1, 100000,
        [](void* s, int32_t, int64_t, int64_t) {
          static_cast<Waiting*>(s)->was_over = static_cast<Waiting*>(s)->ended.load();
        },
        &waiting, true, Priority::background);
    waited = now_ns() - begin;
    threads->end_call(*other);
  });
  while (!waiting.began) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  waiting.ended = true;
  threads->end_call(*all);
  background.join();
  EXPECT_TRUE(waiting.was_over || waited >= WorkerThreads::stands_still_ns);
  EXPECT_EQ(most_worker(all, Priority::urgent), 3);
  const int64_t begin = now_ns();
  EXPECT_EQ(most_worker(other, Priority::usual), 0) << "behind a call that does not end it does its work alone";
  EXPECT_GE(now_ns() - begin, WorkerThreads::stands_still_ns);
  threads->end_call(*all), threads->end_call(*other);
  EXPECT_EQ(most_worker(other, Priority::background), 3);
  threads->end();
  for (WorkerThreads::Client* client : {all, three, other}) client->end();
}

TEST(ProcessThreads, OneThreadThatStandsBack) {
  ThreadPool all, one;
  ASSERT_TRUE(all.share(first_threads_anchor, 100, Priority::urgent));
  ASSERT_TRUE(one.share(second_threads_anchor, 1, Priority::background));
  Counted counted(1000);
  all.run(1000, 100000, &Counted::count, &counted);
  const int64_t begin = now_ns();
  EXPECT_TRUE(runs(one));
  EXPECT_GE(now_ns() - begin, WorkerThreads::stands_still_ns);
  all.end_call();
  EXPECT_TRUE(runs(one));
}

TEST(ProcessThreads, MoreThreadsThanCpusWhereTheyAreAskedFor) {
  ThreadPool few, many;
  ASSERT_TRUE(few.share(first_threads_anchor, 2));
  ASSERT_TRUE(many.share(first_threads_anchor, 7));
  few.set_dynamic(false), many.set_dynamic(false);
  for (ThreadPool* pool : {&few, &many, &few}) {
    Counted counted(1000);
    pool->run(1000, 100000, &Counted::count, &counted);
    pool->end_call();
    EXPECT_TRUE(counted.each_once());
    EXPECT_EQ(counted.most_worker, pool->workers() - 1);
  }
}

#ifndef __SANITIZE_THREAD__  // which starts no threads in such a child
TEST(ProcessThreads, TheChildOfAForkHasItsOwn) {
  const auto pool = std::make_unique<ThreadPool>();
  ASSERT_TRUE(pool->share(first_threads_anchor, 3));
  ASSERT_TRUE(runs(*pool));
  std::atomic<bool> done{false};
  std::thread busy([&done] {  // within launches when the process is forked
    ThreadPool other;
    if (!other.share(second_threads_anchor, 3)) return;
    while (!done) runs(other);
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      bool good = runs(*pool) && runs(*pool);
      ThreadPool more;
      good = good && more.share(second_threads_anchor, 2) && runs(more);
      Counted counted(1000);  // nobody else is within a call here
      pool->set_dynamic(false);
      pool->run(1000, 100000, &Counted::count, &counted);
      good = good && counted.most_worker == 2;
      more.stop();
      pool->stop();
      _exit(good ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  done = true;
  busy.join();
}
#endif

}  // namespace
}  // namespace process_threads_test
