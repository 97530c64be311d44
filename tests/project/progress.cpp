// Long runs tell how far they are, in the thread that runs; what they tell may cancel them, and may throw.
#include <pthread.h>

#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "first.h"

static int wrong = 0;
static void expect(bool good, const char* what, long long found = 0) {
  if (!good && ++wrong < 10) std::printf("%s: %lld\n", what, found);
}

struct Told {
  std::vector<int64_t> done;
  int64_t total = 0;
  pthread_t thread{};
  first_context* cancelled = nullptr;
  bool throws = false;
  static void hear(void* user, int64_t done, int64_t total) {
    Told& told = *static_cast<Told*>(user);
    expect(told.done.empty() ? done >= 0 : done >= told.done.back(), "progress goes back", done);
    expect(told.done.empty() || total == told.total, "the total changes", total);
    expect(told.done.empty() || pthread_equal(told.thread, pthread_self()), "another thread");
    told.done.push_back(done);
    told.total = total;
    told.thread = pthread_self();
    if (told.cancelled != nullptr) first_cancel(told.cancelled);
    if (told.throws) throw std::runtime_error("heard enough");
  }
};

struct Run {
  std::vector<float> images, answer;
  first_tensor input = {}, output = {};
  explicit Run(int64_t rows) : images(static_cast<size_t>(rows * 64), .5f), answer(static_cast<size_t>(rows * 10)) {
    input = {images.data(), 0, 4, {rows, 1, 8, 8}, 0};
    output.data = answer.data();
    output.bytes = static_cast<int64_t>(answer.size() * sizeof(float));
  }
  first_status call(first_context* context) { return first_run(context, &input, 1, &output, 1); }
};

int main() {
  Told told;
  first_options options = {};
  options.progress = Told::hear;
  options.progress_user = &told;
  first_context *context = nullptr, *silent = nullptr;
  expect(first_create(&options, &context) == FIRST_OK && first_create(nullptr, &silent) == FIRST_OK, "create");
  constexpr int64_t rows = 30000;  // tens of milliseconds
  Run run(rows), expected(rows);
  expect(expected.call(silent) == FIRST_OK && told.done.empty(), "a context without the function");
  expect(run.call(context) == FIRST_OK && run.answer == expected.answer, "run");
  expect(told.done.size() > 1 && told.done.front() < told.total, "what a long run tells",
         static_cast<long long>(told.done.size()));
  expect(told.total > 1 && !told.done.empty() && told.done.back() == told.total, "its end", told.total);
  expect(pthread_equal(told.thread, pthread_self()), "not the thread that runs");
  told = {};
  expect(first_run_async(context, &run.input, 1, &run.output, 1, nullptr, nullptr, nullptr) == FIRST_OK, "run_async");
  expect(first_wait(context) == FIRST_OK && told.done.size() > 1, "what a run behind tells");
  expect(!pthread_equal(told.thread, pthread_self()), "the thread of a run behind");
  told = {};
  told.cancelled = context;
  expect(run.call(context) == FIRST_CANCELLED && told.done.size() == 1, "cancelled",
         static_cast<long long>(told.done.size()));
  told = {};
  told.throws = true;
  std::memset(run.answer.data(), 0, run.answer.size() * sizeof(float));
  expect(run.call(context) == FIRST_CALLBACK && told.done.size() == 1, "it throws",
         static_cast<long long>(told.done.size()));
  expect(std::strstr(first_last_error(context), "progress") != nullptr && run.answer == expected.answer, "the work is done");
  told = {};
  expect(run.call(context) == FIRST_OK && told.done.size() > 1 && told.done.back() == told.total, "the run after");
  first_destroy(context);
  first_destroy(silent);
  if (wrong == 0) std::printf("right\n");
  return wrong != 0;
}
