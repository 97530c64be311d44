// Thread pools of the caller's that do not do what is asked of them: the answers are right all the same, an exception is a
// status, and the context works on.
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "first.h"

namespace {

constexpr int batch = 192;  // so large that the work is shared
std::vector<float> image(batch * 64), expected;
std::vector<std::thread> late;
int calls = 0;

using Task = void (*)(void* state, int32_t index);

struct Pool {
  const char* what;
  first_parallel run;
  bool throws;
};
const Pool pools[] = {
    {"as asked",
     [](void*, int32_t count, Task task, void* state) {
       for (int32_t i = 0; i < count; ++i) task(state, i);
     },
     false},
    {"in threads",
     [](void*, int32_t count, Task task, void* state) {
       std::vector<std::thread> threads;
       for (int32_t i = 0; i < count; ++i) threads.emplace_back(task, state, i);
       for (std::thread& t : threads) t.join();
     },
     false},
    {"nothing", [](void*, int32_t, Task, void*) {}, false},
    {"the last task alone", [](void*, int32_t count, Task task, void* state) { task(state, count - 1); }, false},
    {"every task twice",
     [](void*, int32_t count, Task task, void* state) {
       std::vector<std::thread> threads;
       for (int32_t i = 0; i < 2 * count; ++i) threads.emplace_back(task, state, i / 2);
       for (std::thread& t : threads) t.join();
     },
     false},
    {"tasks that there are not",
     [](void*, int32_t count, Task task, void* state) {
       for (int32_t i : {-1, count, count + 1, 1 << 30, INT32_MIN}) task(state, i);
     },
     false},
    {"tasks after its end",
     [](void*, int32_t count, Task task, void* state) {
       for (int32_t i = 0; i < count; ++i)
         late.emplace_back([=] {
           if (i % 2 == 0) std::this_thread::yield();
           task(state, i);
         });
     },
     false},
    {"throws at once", [](void*, int32_t, Task, void*) { throw std::runtime_error("at once"); }, true},
    {"throws an int in between", [](void*, int32_t, Task task, void* state) { task(state, 1), throw 5; }, true},
    {"throws while tasks are at work",
     [](void*, int32_t count, Task task, void* state) {
       for (int32_t i = 0; i < count; ++i) late.emplace_back(task, state, i);
       throw std::bad_alloc();
     },
     true},
};

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

void join_late() {
  for (std::thread& t : late) t.join();
  late.clear();
}

// The pool that misbehaves, but only once the context is made: making one fails where the pool throws.
struct Switched {
  const Pool* pool;
  bool on;
};
void run_switched(void* user, int32_t count, Task task, void* state) {
  const Switched& s = *static_cast<Switched*>(user);
  ++calls;
  (s.on ? *s.pool : pools[0]).run(nullptr, count, task, state);
}

bool try_pool(const Pool& pool) {
  Switched state = {&pool, false};
  first_options options = {};
  options.size = sizeof options;
  options.threads = 3;
  options.parallel = run_switched;
  options.pool = &state;
  first_context* context = nullptr;
  if (first_create(&options, &context) != FIRST_OK)
    return std::printf("%s: %s\n", pool.what, first_last_error(context)), false;
  bool good = true;
  std::vector<float> y;
  for (const bool on : {false, true, true, false, true, false}) {
    state.on = on;
    calls = 0;
    const first_status status = answer(context, y), wanted = on && pool.throws ? FIRST_CALLBACK : FIRST_OK;
    const std::string said = first_last_error(context);
    good &= status == wanted && y == expected && calls > 0 &&
            said == (wanted == FIRST_OK ? "" : "the caller's thread pool threw an exception");
    if (!good)
      return std::printf("%s: status %d, %d calls, %s answer: %s\n", pool.what, status, calls,
                         y == expected ? "right" : "another", said.c_str()),
             join_late(), false;
    if (late.size() > 100) join_late();
  }
  join_late();
  first_destroy(context);
  return good;
}

}  // namespace

int main() {
  for (size_t i = 0; i < image.size(); ++i) image[i] = static_cast<float>(i * 7 % 17);
  first_options options = {};
  options.size = sizeof options;
  options.threads = 1;
  first_context* alone = nullptr;
  if (first_create(&options, &alone) != FIRST_OK) return 1;
  answer(alone, expected);
  first_destroy(alone);
  bool good = true;
  for (const Pool& pool : pools) good &= try_pool(pool);
  if (good) std::puts("right");
  return good ? 0 : 1;
}
