// A decoder's caches stay where they are: while it makes tokens nothing is allocated, and nothing writes to the pages of
// what was in the cache before, which are read-only meanwhile. run_states.py builds it with every allocation of the library
// in the program's hands.
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "decoder_kept.hpp"

constexpr int64_t heads = 4, size = 16, begin = 1500, room = 2048, page = 4096;
constexpr int tokens = 100;
constexpr size_t row = room * size * sizeof(float), block = heads * row + 64;

static long allocations = 0;
static std::vector<char*>* blocks = nullptr;  // as large as a cache
extern "C" {
void* __real_calloc(size_t count, size_t bytes);
void* __real_aligned_alloc(size_t alignment, size_t bytes);
void* __wrap_calloc(size_t count, size_t bytes) { return ++allocations, __real_calloc(count, bytes); }
void* __wrap_aligned_alloc(size_t alignment, size_t bytes) {
  ++allocations;
  void* const made = __real_aligned_alloc(alignment, bytes);
  if (blocks != nullptr && bytes == block) blocks->push_back(static_cast<char*>(made));
  return made;
}
}

static int fail(const char* what, decoder_kept_context* context) {
  return std::printf("%s: %s\n", what, decoder_kept_last_error(context)), 1;
}

// The whole pages of the old part of each head's keys or values.
static int protect(char* cache, int how) {
  for (int64_t h = 0; h < heads; ++h) {
    const uintptr_t from = reinterpret_cast<uintptr_t>(cache) + h * row, to = from + begin * size * sizeof(float);
    const uintptr_t first = (from + page - 1) / page * page, last = to / page * page;
    if (mprotect(reinterpret_cast<void*>(first), last - first, how) != 0) return 1;
  }
  return 0;
}

// The C++ interface: states of one model set in another, forked and cut.
static bool hands_on(const decoder_kept_options& options) {
  decoder_kept::Model a(options), b(options), c(options);
  const int64_t ids[] = {3, 1, 4, 1, 5};
  a.run({decoder_kept::tensor_of(ids, {1, 4})});
  for (int32_t k = 0; k < DECODER_KEPT_STATES; ++k) {
    decoder_kept::Tensor state;
    const std::vector<char> elements = a.state_get(k, &state);
    if (state.rank != 4 || state.dims[2] != 4 || elements.size() != heads * 4 * size * sizeof(float)) return false;
    b.state_set(k, state);
  }
  c.state_fork(a);
  const auto next = [&](decoder_kept::Model& model) {
    const decoder_kept::Tensor logits = model.run({decoder_kept::tensor_of(ids + 4, {1, 1})})[0];
    const float* data = static_cast<const float*>(logits.data);
    return std::vector<float>(data, data + logits.bytes / sizeof(float));
  };
  const std::vector<float> expected = next(a);
  if (next(b) != expected || next(c) != expected) return false;
  c.state_truncate(4);
  if (next(c) != expected) return false;
  c.state_reset();
  return next(c) != expected;
}

int main(int, char** values) {
  std::vector<char*> found;
  blocks = &found;
  decoder_kept_options options{};
  options.size = sizeof options;
  options.threads = 2;
  options.weights = values[1];
  if (!hands_on(options)) return std::printf("the states of a model are not what they were\n"), 1;
  found.clear();
  decoder_kept_context* context = nullptr;
  if (decoder_kept_create(&options, &context) != DECODER_KEPT_OK) return fail("create", context);
  std::vector<float> elements(heads * begin * size);
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i % 17) / 17 - 0.5f;
  decoder_kept_tensor state{};
  state.data = elements.data();
  state.rank = 4;
  state.dims[0] = 1, state.dims[1] = heads, state.dims[2] = begin, state.dims[3] = size;
  for (int32_t k = 0; k < DECODER_KEPT_STATES; ++k)
    if (decoder_kept_state_set(context, k, &state) != DECODER_KEPT_OK) return fail("state_set", context);
  decoder_kept_tensor endless = state;  // of no bytes, as there is no sequence
  endless.dims[0] = 0, endless.dims[2] = INT64_MAX;
  if (decoder_kept_state_set(context, 0, &endless) != DECODER_KEPT_INVALID_ARGUMENT)
    return fail("an endless state", context);
  int64_t id = 5;
  decoder_kept_tensor input{}, output{};
  input.data = &id;
  input.rank = 2;
  input.dims[0] = input.dims[1] = 1;
  for (int token = 0; token < 2; ++token) {
    output = decoder_kept_tensor{};
    if (decoder_kept_run(context, &input, 1, &output, 1) != DECODER_KEPT_OK) return fail("run", context);
  }
  if (found.size() != DECODER_KEPT_STATES)
    return std::printf("%zu caches in memory, expected %d\n", found.size(), DECODER_KEPT_STATES), 1;
  for (char* cache : found)
    if (protect(cache, PROT_READ)) return std::printf("mprotect\n"), 1;
  const long before = allocations;
  const int64_t held = decoder_kept_held_bytes(context);
  for (int token = 0; token < tokens; ++token) {
    output = decoder_kept_tensor{};
    id = token % 60;
    if (decoder_kept_run(context, &input, 1, &output, 1) != DECODER_KEPT_OK) return fail("run", context);
  }
  const long after = allocations;
  const int64_t holds = decoder_kept_held_bytes(context);
  for (char* cache : found) protect(cache, PROT_READ | PROT_WRITE);
  decoder_kept_destroy(context);
  if (after != before || held != holds)
    return std::printf("%ld allocations for %d tokens, %lld bytes held and then %lld\n", after - before, tokens,
                       static_cast<long long>(held), static_cast<long long>(holds)),
           1;
  std::printf("right\n");
  return 0;
}
