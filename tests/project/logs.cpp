// What a context's log is told, and that what the log's function throws goes no further.
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "first.h"

static int wrong = 0;
static void expect(bool good, const char* what, const std::string& found = "") {
  if (!good && ++wrong < 10) std::printf("%s: %s\n", what, found.c_str());
}

struct Line {
  int32_t level;
  std::string text;
};
struct Lines : std::vector<Line> {
  bool throws = false;
  static void add(void* user, int32_t level, const char* message) {
    Lines& lines = *static_cast<Lines*>(user);
    lines.push_back({level, message});
    if (lines.throws) throw std::runtime_error("the log is full");
  }
  // The lines of this level, one after another.
  std::string all(int32_t level) const {
    std::string text;
    for (const Line& line : *this)
      if (line.level == level) text += line.text + "\n";
    return text;
  }
  bool has(int32_t level, const char* part) const { return all(level).find(part) != std::string::npos; }
};

static first_options with_log(Lines& lines) {
  first_options options = {};
  options.log = Lines::add;
  options.log_user = &lines;
  return options;
}

static first_context* make(const first_options& options) {
  first_context* context = nullptr;
  const first_status status = first_create(&options, &context);
  expect(status == FIRST_OK, "create", first_last_error(context));
  return context;
}

static first_status run(first_context* context, int64_t height) {
  static float image[64] = {1};
  first_tensor input = {image, 0, 4, {1, 1, height, 8}, 0}, output = {};
  return first_run(context, &input, 1, &output, 1);
}

static void what_is_chosen_and_what_fails() {
  Lines lines;
  first_options options = with_log(lines);
  options.threads = 1;
  first_context* const context = make(options);
  const std::string chosen = lines.all(FIRST_LOG_INFO);
  expect(chosen.find(std::string("the code for ") + first_cpu_of(context) + " runs\n") != std::string::npos, "cpu", chosen);
  expect(chosen.find("memory that the contexts of the process share, of ") != std::string::npos, "weights", chosen);
  expect(chosen.find("first.weights, checked for damage") != std::string::npos, "checked", chosen);
  expect(chosen.find("1 thread at most") != std::string::npos, "threads", chosen);
  expect(lines.all(FIRST_LOG_WARNING).empty() && lines.all(FIRST_LOG_ERROR).empty(), "warnings",
         lines.all(FIRST_LOG_WARNING));
  lines.clear();
  expect(run(context, 8) == FIRST_OK && lines.empty(), "a run that goes well is told");
  expect(run(context, 9) == FIRST_INVALID_ARGUMENT && lines.size() == 1, "a run of wrong dims");
  expect(lines.all(FIRST_LOG_ERROR) == std::string(first_last_error(context)) + "\n", "the reason",
         lines.all(FIRST_LOG_ERROR));
  lines.clear();
  // One line for the run; waiting for it and asking whether it is done are none.
  float image[64] = {};
  first_tensor input = {image, 0, 4, {1, 1, 7, 8}, 0}, output = {};
  expect(first_run_async(context, &input, 1, &output, 1, nullptr, nullptr, nullptr) == FIRST_OK, "run_async");
  while (first_poll(context) == FIRST_BUSY) {
  }
  expect(first_wait(context) == FIRST_INVALID_ARGUMENT && lines.size() == 1, "a run behind", lines.all(FIRST_LOG_ERROR));
  first_destroy(context);
}

static void contexts_that_are_not_made() {
  Lines lines;
  first_options options = with_log(lines);
  first_context* context = nullptr;
  options.cpu = "z80";
  expect(first_create(&options, &context) == FIRST_INVALID_ARGUMENT && lines.has(FIRST_LOG_ERROR, "no code for \"z80\""),
         "cpu");
  first_destroy(context);
  options.cpu = nullptr;
  options.weights = "/nowhere/first.weights";
  expect(first_create(&options, &context) == FIRST_IO && lines.has(FIRST_LOG_ERROR, "/nowhere/first.weights"), "weights");
  first_destroy(context);
  options.weights = nullptr;
  options.threads = -1;
  expect(first_create(&options, &context) == FIRST_INVALID_ARGUMENT && lines.has(FIRST_LOG_ERROR, "threads is -1"),
         "threads");
  first_destroy(context);
}

static void other_choices() {
  Lines lines;
  first_options options = with_log(lines);
  options.threads = 500;
  options.pin = 1;
  first_context* const before = make(options);
  const std::string better = lines.all(FIRST_LOG_INFO);
  for (int32_t i = 0; std::strcmp(first_cpu(i), first_cpu_of(before)) != 0; ++i)
    expect(better.find(std::string("the code for ") + first_cpu(i) + " is not used: this CPU has no ") != std::string::npos,
           first_cpu(i), better);
  options.cpu = first_cpu_of(before);
  lines.clear();
  options.weights_flags = FIRST_WEIGHTS_MAP | FIRST_WEIGHTS_UNCHECKED;
  first_context* const context = make(options);
  const std::string chosen = lines.all(FIRST_LOG_INFO);
  for (const char* part : {"as was asked for", "mapped from ", "not checked for damage", "stay on their CPUs"})
    expect(chosen.find(part) != std::string::npos, part, chosen);
  expect(lines.has(FIRST_LOG_WARNING, "threads were asked for, and the process may use"), "too many threads");
  first_destroy(context);
  first_destroy(before);
}

static void a_log_that_throws() {
  Lines lines;
  lines.throws = true;
  const first_options options = with_log(lines);
  first_context* const context = make(options);
  expect(!lines.empty(), "nothing is told");
  expect(run(context, 9) == FIRST_INVALID_ARGUMENT && run(context, 8) == FIRST_OK, "runs");
  first_destroy(context);
}

static void of_a_queue() {
  Lines lines;
  const first_options options = with_log(lines);
  first_queue_options wanted = {};
  wanted.context = &options;
  first_queue* queue = nullptr;
  expect(first_queue_create(&wanted, &queue) == FIRST_OK && lines.has(FIRST_LOG_INFO, "the code for "), "queue");
  expect(first_queue_run(queue, nullptr, 0, nullptr, 0) == FIRST_INVALID_ARGUMENT, "a request without inputs");
  expect(lines.all(FIRST_LOG_ERROR) == std::string(first_queue_last_error(queue)) + "\n", "the reason",
         lines.all(FIRST_LOG_ERROR));
  first_queue_destroy(queue);
}

int main() {
  what_is_chosen_and_what_fails();
  contexts_that_are_not_made();
  other_choices();
  a_log_that_throws();
  of_a_queue();
  if (wrong == 0) std::printf("right\n");
  return wrong != 0;
}
