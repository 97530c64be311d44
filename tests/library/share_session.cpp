// 8 threads with two sessions, one that compiles behind and one that keeps fewer programs than there are shapes: runs of
// many shapes, beside new weights, reports and other sessions that come and go. Every answer must be right, and all of it
// made with the same weights. Over metac.h alone: linked with libmetac in a user's project, and with the layers themselves
// under sanitizers.
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
  if (!session || !few) return 1;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([=] {
      std::minstd_rand random(t + 1);
      for (int run = 0; run < runs; ++run) {
        run_once(session, 1 + static_cast<int64_t>(random() % 12));
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
      for (const metac_session* watched : {session, few})
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
  metac_session_close(session), metac_session_close(few);
  const auto told = [](int64_t number) { return static_cast<long long>(number); };
  std::printf("%lld runs, %lld of them open, %lld compiled behind; %lld compiled first, %lld dropped\n", told(report.runs),
              told(report.open_runs), told(report.compiled), told(of_few.compiled), told(of_few.dropped));
  std::printf("%d passed, %d failed\n", faults ? 0 : 1, faults ? 1 : 0);
  return faults ? 1 : 0;
}
