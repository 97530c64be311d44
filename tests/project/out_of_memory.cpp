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

int main() {
  for (long n = 1; n < 10000; ++n) {
    countdown = n;
    bool explained = false;
    const first_status status = attempt(&explained);
    const bool reached = countdown == 0;
    countdown = 0;
    if (!reached) return status == FIRST_OK ? std::printf("%ld allocations\n", n - 1), 0 : 1;
    if (status != FIRST_OUT_OF_MEMORY || !explained) return std::printf("allocation %ld: status %d\n", n, status), 1;
  }
  return 1;
}
