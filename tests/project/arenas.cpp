// Contexts of two libraries that share an arena: their answers are right in turn, a run within another's is BUSY, and the
// memory goes with the last of them.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "first.h"
#include "second.h"

static int wrong = 0;
static void expect(bool good, const char* what, const std::string& found = "") {
  if (!good && ++wrong < 10) std::printf("%s: %s\n", what, found.c_str());
}

static int64_t given = 0;
static void* allocate(void*, size_t bytes, size_t alignment) {
  given += static_cast<int64_t>(bytes);
  return std::aligned_alloc(alignment, bytes);
}
static void release(void*, void* memory, size_t bytes) {
  given -= static_cast<int64_t>(bytes);
  std::free(memory);
}

static std::vector<float> images(int64_t rows) {
  std::vector<float> values(static_cast<size_t>(rows * 64));
  for (size_t k = 0; k < values.size(); ++k) values[k] = static_cast<float>(k * 31 % 19) / 18;
  return values;
}

// Both libraries are of the same model.
template <class Context>
static metac_model_status run(metac_model_status (*function)(Context*, const metac_model_tensor*, int32_t,
                                                             metac_model_tensor*, int32_t),
                              Context* context, int64_t rows, std::vector<float>& answer) {
  std::vector<float> given_images = images(rows);
  answer.assign(static_cast<size_t>(rows * 10), 0.f);
  const metac_model_tensor input = {given_images.data(), 0, 4, {rows, 1, 8, 8}, 0};
  metac_model_tensor output = {answer.data(), static_cast<int64_t>(answer.size() * sizeof(float)), 0, {}, 0};
  return function(context, &input, 1, &output, 1);
}

struct Other {
  second_context* context = nullptr;
  int busy = 0;
  static void within(void* user, int64_t, int64_t) {
    Other& other = *static_cast<Other*>(user);
    std::vector<float> answer;
    if (other.context == nullptr) return;
    other.busy += run(second_run, other.context, 1, answer) == SECOND_BUSY;
    expect(std::strstr(second_last_error(other.context), "arena") != nullptr, "the message",
           second_last_error(other.context));
  }
};

int main() {
  first_arena* arena = nullptr;
  expect(first_arena_create(allocate, nullptr, nullptr, &arena) == FIRST_INVALID_ARGUMENT && arena == nullptr,
         "allocate alone");
  expect(first_arena_create(allocate, release, nullptr, &arena) == FIRST_OK && arena != nullptr, "arena_create");
  Other other;
  metac_model_options options = {};
  options.arena = arena;
  options.threads = 2;
  first_context *own = nullptr, *shared = nullptr, *hears = nullptr;
  second_context* second = nullptr;
  expect(first_create(nullptr, &own) == FIRST_OK && first_create(&options, &shared) == FIRST_OK &&
             second_create(&options, &second) == SECOND_OK,
         "create");
  options.progress = Other::within;
  options.progress_user = &other;
  expect(first_create(&options, &hears) == FIRST_OK, "create");
  first_arena_destroy(arena);  // its contexts keep it

  std::vector<float> right, answer;
  int64_t largest = 0;
  for (const int64_t rows : {1, 50, 3, 200, 7, 200}) {
    expect(run(first_run, own, rows, right) == FIRST_OK, "run");
    expect(run(first_run, shared, rows, answer) == FIRST_OK && answer == right, "shared", std::to_string(rows));
    const int64_t one = given;
    expect(run(second_run, second, rows, answer) == SECOND_OK && answer == right, "second", std::to_string(rows));
    expect(run(first_run, shared, rows / 2 + 1, answer) == FIRST_OK, "a smaller run");
    expect(given == one && given >= largest, "two contexts take more than one", std::to_string(given));
    largest = given;
  }
  expect(given > 0 && first_held_bytes(own) >= given, "the arena's bytes", std::to_string(given));
  expect(first_held_bytes(shared) < first_held_bytes(own), "a context holds what it shares");

  other.context = second;
  expect(run(first_run, own, 30000, right) == FIRST_OK, "run");
  expect(run(first_run, hears, 30000, answer) == FIRST_OK && answer == right && other.busy > 0, "a run within a run",
         first_last_error(hears));
  expect(run(second_run, second, 3, answer) == SECOND_OK, "the run after", second_last_error(second));

  for (first_context* context : {own, shared, hears}) first_destroy(context);
  expect(given > 0 && run(second_run, second, 9, answer) == SECOND_OK, "the last context's run");
  second_destroy(second);
  expect(given == 0, "bytes that did not come back", std::to_string(given));

  alignas(64) char of_another_version[1024] = {};
  options.arena = reinterpret_cast<metac_model_arena*>(of_another_version);
  expect(first_create(&options, &own) == FIRST_UNSUPPORTED, "an arena of another version");
  first_destroy(own);
  if (wrong == 0) std::printf("right\n");
  return wrong != 0;
}
