// A process with contexts forks: in the child they answer as in the parent, with threads that the child starts, and can be
// destroyed. One that a thread of the parent was running is BUSY there. Nothing hangs: every child has a minute.
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "first.h"

namespace {

constexpr int batch = 192;  // so large that the work is shared among threads
std::vector<float> image(batch * 64), expected;

first_status answer(first_context* context, std::vector<float>& y) {
  first_tensor input = {}, output = {};
  input.data = image.data();
  input.rank = 4;
  input.dims[0] = batch, input.dims[1] = 1, input.dims[2] = input.dims[3] = 8;
  y.assign(batch * 10, -1);
  output.data = y.data();
  output.bytes = static_cast<int64_t>(y.size() * sizeof(float));
  return first_run(context, &input, 1, &output, 1);
}
bool answers_right(first_context* context) {
  std::vector<float> y;
  return answer(context, y) == FIRST_OK && y == expected;
}
first_context* made(int threads, bool pin = false) {
  first_options options = {};
  options.size = sizeof options;
  options.threads = threads;
  options.pin = pin;
  first_context* context = nullptr;
  if (first_create(&options, &context) != FIRST_OK) std::puts(first_last_error(context));
  return context;
}

int threads_now() {
  int count = 0;
  char line[200];
  FILE* file = std::fopen("/proc/self/status", "r");
  while (file != nullptr && std::fgets(line, sizeof line, file) != nullptr) std::sscanf(line, "Threads: %d", &count);
  if (file != nullptr) std::fclose(file);
  return count;
}

// Does every thread of this process but the caller sleep?
bool others_sleep() {
  bool sleep = true;
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* task = tasks != nullptr ? readdir(tasks) : nullptr) {
    const int id = std::atoi(task->d_name);
    if (id == 0 || id == gettid()) continue;
    char path[64], state = 'S';
    std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", id);
    FILE* file = std::fopen(path, "r");
    if (file == nullptr) continue;  // it has just ended
    sleep &= std::fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && state == 'S';
    std::fclose(file);
  }
  if (tasks != nullptr) closedir(tasks);
  return sleep;
}

// What the child does, within a minute. `at_rest`: only once no other thread runs here. One that is just starting may be in
// the allocator, and of the allocators the C library's alone sees to its locks when a process forks: in the child of a
// program with GCC 12's AddressSanitizer they would stay taken.
template <class Child>
bool child_does(const char* what, Child child, bool at_rest = true) {
  while (at_rest && !others_sleep()) usleep(1000);
  const pid_t pid = fork();
  if (pid == 0) {
    alarm(60);
    _exit(child() ? 0 : 1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (!good)
    std::printf("%s: %s %d\n", what, WIFSIGNALED(status) ? "ended by signal" : "status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  return good;
}

}  // namespace

int main() {
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i * 7 % 17);
  first_context* alone = made(1);
  answer(alone, expected);
  bool good = child_does("one thread", [&] { return answers_right(alone) && (first_destroy(alone), true); });
  for (const bool pin : {false, true}) {
    first_context* context = made(4, pin);
    good &= child_does("destroying a context that never ran", [&] { return first_destroy(context), true; });
    good &= answers_right(context);
    for (int k = 0; k < 20; ++k)
      good &= child_does("destroying", [&] {
        return (k % 2 == 0 && answers_right(context) ? (first_destroy(context), true)
                                                     : (first_destroy(context), k % 2 == 1));
      });
    good &= child_does("running", [&] {
      return answers_right(context) && answers_right(context) && threads_now() == 4 && (first_destroy(context), true);
    });
    good &= child_does("the child's child", [&] {
      return answers_right(context) &&
             child_does("", [&] { return answers_right(context) && (first_destroy(context), true); }) &&
             answers_right(context);
    });
    good &= child_does("a context of the child's own", [&] {
      first_context* own = made(3);
      return answers_right(own) && answers_right(context) && (first_destroy(own), first_destroy(context), true);
    });
    good &= answers_right(context);
    first_destroy(context);
  }
  // A thread of the parent runs meanwhile: the child finds the context BUSY for ever, or at rest.
  first_context* context = made(3);
  while (!others_sleep()) usleep(1000);
  std::atomic<bool> started{false}, stop{false};
  std::thread other([&] {
    std::vector<float> y;
    answer(context, y);
    for (started = true; !stop;) answer(context, y);  // allocates nothing any more
  });
  while (!started) usleep(1000);
  const auto answers_or_is_busy = [&] {
    std::vector<float> y;
    const first_status status = answer(context, y);
    const bool told =
        status == FIRST_BUSY ? std::strlen(first_last_error(context)) > 0 : status == FIRST_OK && y == expected;
    return told && (first_destroy(context), true);
  };
  for (int k = 0; k < 20; ++k) good &= child_does("forked while running", answers_or_is_busy, false);
  stop = true;
  other.join();
  good &= answers_right(context);
  first_destroy(context);
  first_destroy(alone);
  if (good) std::puts("right");
  return good ? 0 : 1;
}
