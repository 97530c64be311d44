// The n-th allocation fails, for n = 1, 2, ... until all goes well: every failure is a status with a message.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "first.h"

static long countdown = 0;
static bool fails() { return countdown > 0 && --countdown == 0; }
extern "C" {
void* __real_calloc(size_t count, size_t size);
void* __real_aligned_alloc(size_t alignment, size_t size);
void* __wrap_calloc(size_t count, size_t size) { return fails() ? nullptr : __real_calloc(count, size); }
void* __wrap_aligned_alloc(size_t alignment, size_t size) {
  return fails() ? nullptr : __real_aligned_alloc(alignment, size);
}
}

static first_status attempt(bool* explained) {
  float image[64] = {1};
  first_tensor input = {}, output = {};
  input.data = image;
  input.rank = 4;
  input.dims[0] = input.dims[1] = 1, input.dims[2] = input.dims[3] = 8;
  first_options options = {};
  options.size = sizeof options;
  options.threads = 2;
  first_context* context = nullptr;
  first_status status = first_create(&options, &context);
  if (status == FIRST_OK) status = first_run(context, &input, 1, &output, 1);
  *explained = status == FIRST_OK || std::strlen(first_last_error(context)) > 0;
  first_destroy(context);
  return status;
}

// The same by a batching queue, whose threads allocate while this one waits: two requests, which may be one batch.
static first_status attempt_queue(bool* explained) {
  float images[2][64] = {{1}};
  first_tensor inputs[2] = {}, outputs[2] = {};
  first_options context = {};
  context.threads = 1;
  first_queue_options options = {};
  options.context = &context;
  options.max_batch = 2;
  options.max_delay_us = 20000;
  first_queue* queue = nullptr;
  first_status status = first_queue_create(&options, &queue);
  int64_t tickets[2] = {};
  for (int k = 0; k < 2 && status == FIRST_OK; ++k) {
    inputs[k].data = images[k];
    inputs[k].rank = 4;
    inputs[k].dims[0] = inputs[k].dims[1] = 1, inputs[k].dims[2] = inputs[k].dims[3] = 8;
    status = first_queue_submit(queue, &inputs[k], 1, &outputs[k], 1, &tickets[k]);
  }
  for (int k = 0; k < 2 && status == FIRST_OK; ++k) status = first_queue_wait(queue, tickets[k]);
  *explained = status == FIRST_OK || std::strlen(first_queue_last_error(queue)) > 0;
  first_queue_destroy(queue);
  return status;
}

// `spared`: one that is made up for, as by running the requests of a batch one by one, is OK.
static int fail_each(first_status (*attempted)(bool* explained), bool spared) {
  for (long n = 1; n < 10000; ++n) {
    countdown = n;
    bool explained = false;
    const first_status status = attempted(&explained);
    const bool reached = countdown == 0;
    countdown = 0;
    if (!reached) return status == FIRST_OK ? std::printf("%ld allocations\n", n - 1), 0 : 1;
    const bool expected = status == FIRST_OUT_OF_MEMORY || (spared && status == FIRST_OK);
    if (!expected || !explained) return std::printf("allocation %ld: status %d\n", n, status), 1;
  }
  return 1;
}

int main() { return fail_each(attempt, false) || fail_each(attempt_queue, true); }
