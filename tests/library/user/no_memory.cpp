// Every allocation of a session's life fails once, each in a process of its own that had another one before: all calls answer, either with METAC_OK or
// with METAC_OUT_OF_MEMORY, no answer is wrong, and the next session is as if nothing had been. The allocator is this
// program's: it counts, and refuses the n-th.
//
//   no_memory EVERY [SEED]    tries one allocation in EVERY; the last line is 'N passed, N failed'
#include <metac/metac.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "small_model.h"

namespace {
std::atomic<long> counted{0}, refused{0};  // refused: which one; 0: none
std::atomic<bool> counting{false};
bool refuses() { return counting && ++counted == refused; }
}  // namespace

extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void* malloc(size_t size) noexcept { return refuses() ? (errno = ENOMEM, nullptr) : __libc_malloc(size); }
void* calloc(size_t count, size_t size) noexcept {
  return refuses() ? (errno = ENOMEM, nullptr) : __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) noexcept {
  return refuses() ? (errno = ENOMEM, nullptr) : __libc_realloc(old, size);
}
void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return refuses() ? (errno = ENOMEM, nullptr) : __libc_memalign(alignment, size);
}
}

namespace {

constexpr int64_t rows = 8000;
const std::vector<float> x(rows * 4, 3.f), z(rows, 1.f);

// The status of one call, told where it is neither of the two.
bool good(const char* call, int status, const char* how) {
  if (status == METAC_OK || status == METAC_OUT_OF_MEMORY) return true;
  std::printf("%s, allocation %ld: %s is %d: %s\n", how, refused.load(), call, status, metac_last_error());
  return false;
}

bool run(metac_session* session, int64_t of_rows, const char* how, int* status) {
  const int64_t x_dims[] = {of_rows, 4}, z_dims[] = {of_rows, 1};
  const metac_tensor inputs[] = {{"x", x.data(), 0, x_dims, 2, METAC_FLOAT32},
                                 {"z", z.data(), 0, z_dims, 2, METAC_FLOAT32}};
  metac_result* result = nullptr;
  *status = metac_session_run(session, inputs, 2, &result);
  if (*status != METAC_OK) return good("a run", *status, how);
  const metac_tensor* y = metac_result_output(result, 0);
  bool right = y->bytes == of_rows * 16;
  for (int64_t i = 0; right && i < of_rows * 4; ++i) right = static_cast<const float*>(y->data)[i] == 4.f;
  if (!right) std::printf("%s, allocation %ld: a wrong answer\n", how, refused.load());
  metac_result_free(result);
  return right;
}

// False: a call did what it must not. `all_ok`: whether every call was METAC_OK.
bool life(const char* how, int64_t few, bool* all_ok) {
  metac_session_options options{};
  options.size = sizeof options, options.specialise = how, options.threads = 2;
  metac_session* session = nullptr;
  int status = metac_session_open_memory(small_model, sizeof small_model - 1, &options, &session);
  *all_ok = status == METAC_OK;
  if (status != METAC_OK) return good("opening", status, how);
  bool right = true;
  for (const int64_t of_rows : {few, few, few * 800, few * 800}) {
    right = run(session, of_rows, how, &status) && right;
    *all_ok &= status == METAC_OK;
  }
  const float w[] = {1, 1, 1, 1};
  const int64_t dims[] = {4};
  const metac_tensor weight{"w", w, sizeof w, dims, 1, METAC_FLOAT32};
  status = metac_session_set_weights(session, &weight, 1);
  right = good("set_weights", status, how) && right;
  *all_ok &= status == METAC_OK;
  status = metac_session_wait(session);
  right = good("wait", status, how) && right;
  right = run(session, few, how, &status) && right;
  *all_ok &= status == METAC_OK;
  metac_session_close(session);
  return right;
}

// What a process does whose n-th allocation fails; its status.
int process(const char* how, long n) {
  // What LLVM sets up once in a process has memory: locks that it holds while it does so are nobody's afterwards.
  bool all_ok = false;
  if (!life("eager", 9, &all_ok) || !all_ok) return 1;
  refused = n, counted = 0, counting = true;
  bool right = life(how, 5, &all_ok);
  counting = false;
  const long reached = counted;
  right = life(how, 5, &all_ok) && right;
  if (!all_ok) std::printf("%s, allocation %ld: the session after it fails: %s\n", how, n, metac_last_error());
  std::fflush(stdout);
  return !right || !all_ok ? 1 : n > reached ? 3 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const int every = argc > 1 ? std::atoi(argv[1]) : 1;
  std::minstd_rand random(argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 1u);
  int passed = 0, failed = 0;
  for (const char* how : {"eager", "never", "background"})
    for (long n = 1, past = 0; past < 3; n += 1 + static_cast<long>(random() % static_cast<unsigned>(2 * every - 1))) {
      const pid_t child = fork();
      if (child == 0) {
        alarm(120);
        _exit(process(how, n));
      }
      int status = 0;
      waitpid(child, &status, 0);
      if (WIFSIGNALED(status)) std::printf("%s, allocation %ld: ended by signal %d\n", how, n, WTERMSIG(status));
      const bool is_past = WIFEXITED(status) && WEXITSTATUS(status) == 3;
      past += is_past;
      ++(is_past || (WIFEXITED(status) && WEXITSTATUS(status) == 0) ? passed : failed);
    }
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed ? 1 : 0;
}
