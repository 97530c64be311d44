// 8 threads with two sessions, one that compiles behind and one that keeps fewer programs than there are shapes: runs of
// many shapes, beside new weights, reports and other sessions that come and go; and with a third one, whose streams each
// thread has one of and two threads share one. Every answer must be right, and all of it made with the same weights. Over
// metac.h alone: linked with libmetac in a user's project, and with the layers themselves under sanitizers.
//
//   share_session [RUNS]      of each thread, 300 if it is not said; the last line is 'N passed, N failed'
#include <metac/metac.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/library/user/small_model.h"

namespace {

std::atomic<int> faults{0};

void fault(const char* what) {
  ++faults;
  std::printf("%s: %s\n", what, metac_last_error());
}

metac_session* open_small(const char* specialise, int contexts, int specialisations) {
  metac_session_options options{};
  options.size = sizeof options;
  options.specialise = specialise;
  options.threads = 2;
  options.max_contexts = contexts;
  options.max_specialisations = specialisations;
  metac_session* session = nullptr;
  if (metac_session_open_memory(small_model, sizeof small_model - 1, &options, &session) != METAC_OK) fault("open");
  return session;
}

// x is 1, z is 0: y is w, the same in all elements.
void run_once(metac_session* session, int64_t rows) {
  const auto x = std::make_unique<std::vector<float>>(rows * 4, 1.f), z = std::make_unique<std::vector<float>>(rows, 0.f);
  const int64_t x_dims[] = {rows, 4}, z_dims[] = {rows, 1};
  const metac_tensor inputs[] = {{"x", x->data(), 0, x_dims, 2, METAC_FLOAT32},
                                 {"z", z->data(), 0, z_dims, 2, METAC_FLOAT32}};
  metac_result* result = nullptr;
  if (metac_session_run(session, inputs, 2, &result) != METAC_OK) return fault("run");
  const metac_tensor* output = metac_result_output(result, 0);
  const float* y = static_cast<const float*>(output->data);
  bool good = output->dims[0] == rows && output->bytes == rows * 16 && y[0] >= 1;
  for (int64_t i = 0; i < rows * 4; ++i) good = good && y[i] == y[0];
  if (!good) fault("a wrong answer");
  metac_result_free(result);
}

void give_weights(metac_session* session, float value) {
  const float w[] = {value, value, value, value};
  const int64_t dims[] = {4};
  const metac_tensor weight{"w", w, sizeof w, dims, 1, METAC_FLOAT32};
  if (metac_session_set_weights(session, &weight, 1) != METAC_OK) fault("set_weights");
}

metac_session* open_keeping() {
  metac_session_options options{};
  options.size = sizeof options;
  options.threads = 2;
  options.max_contexts = 3;
  options.max_specialisations = 2;
  options.known_states = 1;
  metac_session* session = nullptr;
  if (metac_session_open_memory(keeping_model, sizeof keeping_model - 1, &options, &session) != METAC_OK) fault("open");
  return session;
}

// Ones are put behind what the stream has: the sum of all, -1 where it failed.
float put_behind(metac_stream* stream, int64_t steps) {
  const float ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  const int64_t dims[] = {1, steps, 2};
  const metac_tensor x{"x", ones, 0, dims, 3, METAC_FLOAT32};
  metac_result* result = nullptr;
  if (metac_stream_run(stream, &x, 1, &result) != METAC_OK) return fault("run of a stream"), -1.f;
  const float sum = *static_cast<const float*>(metac_result_output(result, 0)->data);
  metac_result_free(result);
  return sum;
}

// A thread's own stream, cut and forked now and then.
class Keeper {
 public:
  explicit Keeper(metac_session* session) {
    if (metac_stream_open(session, &stream_) != METAC_OK) fault("open a stream");
  }
  ~Keeper() { metac_stream_close(stream_); }
  void step(int run) {
    const int64_t steps = 1 + run % 4;
    length_ += steps;
    if (put_behind(stream_, steps) != static_cast<float>(2 * length_)) fault("a wrong answer of a stream");
    if (run % 16 == 9) {
      length_ /= 2;
      if (metac_stream_truncate(stream_, length_) != METAC_OK) fault("truncate");
    }
    if (run % 32 == 3) {
      metac_stream* forked = nullptr;
      if (metac_stream_fork(stream_, &forked) != METAC_OK) return fault("fork");
      metac_stream_close(stream_);
      stream_ = forked;
    }
  }

 private:
  metac_stream* stream_ = nullptr;
  int64_t length_ = 0;
};

metac_session_report sized() {
  metac_session_report report{};
  report.size = sizeof report;
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  const int runs = argc > 1 ? std::atoi(argv[1]) : 300;
  metac_session* session = open_small("background", 4, 64);
  metac_session* few = open_small("eager", 2, 3);
  metac_session* keeping = open_keeping();
  if (!session || !few || !keeping) return 1;
  metac_stream* shared = nullptr;
  if (metac_stream_open(keeping, &shared) != METAC_OK) return 1;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([=] {
      std::minstd_rand random(t + 1);
      Keeper keeper(keeping);
      for (int run = 0; run < runs; ++run) {
        run_once(session, 1 + static_cast<int64_t>(random() % 12));
        keeper.step(run);
        if (t < 2 && put_behind(shared, 1) < 2) fault("a wrong answer of a shared stream");
        if (run % 10 == 0) run_once(few, 1 + static_cast<int64_t>(random() % 6));
        if (t == 0 && run % 20 == 0) give_weights(few, static_cast<float>(1 + run / 20));
        if (t == 0 && run % 20 == 0) give_weights(session, static_cast<float>(1 + run / 20));
        if (t == 2 && run % 25 == 0) {
          const char* const ways[] = {"eager", "never", "background"};
          metac_session* other = open_small(ways[run / 25 % 3], 1, 1);
          // A shape that nobody else has: behind the runs it is being compiled when the session is closed.
          for (int k = 0; other && k < 3; ++k) run_once(other, 13 + run);
          metac_session_close(other);
        }
        if (t == 3 && run % 100 == 0 && metac_session_wait(session) != METAC_OK) fault("wait");
        const metac_tensor wrong{"x", nullptr, 0, nullptr, -1, 0};
        metac_result* none = nullptr;
        if (t == 4 && metac_session_run(session, &wrong, 1, &none) != METAC_INVALID_ARGUMENT) fault("a wrong call");
      }
    });
  // Another looks on and does nothing else: no lock that it takes for a run of its own orders what it reads.
  std::atomic<bool> done{false};
  std::thread watcher([&] {
    for (metac_session_report seen = sized(); !done; std::this_thread::sleep_for(std::chrono::microseconds(200)))
      for (const metac_session* watched : {session, few, keeping})
        if (metac_session_get_report(watched, &seen) != METAC_OK || seen.runs < seen.open_runs) fault("report");
  });
  for (std::thread& thread : threads) thread.join();
  done = true;
  watcher.join();
  metac_session_report report = sized(), of_few = sized();
  metac_session_wait(session);
  metac_session_get_report(session, &report), metac_session_get_report(few, &of_few);
  if (report.runs != 8 * runs) fault("the number of runs");
  if (runs >= 100 && report.specialisations == 0) fault("nothing was compiled behind");
  if (of_few.specialisations > 3 || of_few.dropped == 0) fault("more specialisations than allowed");
  if (put_behind(shared, 1) != static_cast<float>(2 * (2 * runs + 1))) fault("a shared stream");
  metac_stream_close(shared);
  metac_session_report of_keeping = sized();
  metac_session_get_report(keeping, &of_keeping);
  if (of_keeping.streams != 0 || of_keeping.state_bytes != 0) fault("streams that are left");
  if (of_keeping.specialisations > 2) fault("more specialisations than allowed");
  metac_session_close(session), metac_session_close(few), metac_session_close(keeping);
  const auto told = [](int64_t number) { return static_cast<long long>(number); };
  std::printf("%lld runs, %lld of them open, %lld compiled behind; %lld compiled first, %lld dropped\n", told(report.runs),
              told(report.open_runs), told(report.compiled), told(of_few.compiled), told(of_few.dropped));
  std::printf("%d passed, %d failed\n", faults ? 0 : 1, faults ? 1 : 0);
  return faults ? 1 : 0;
}
