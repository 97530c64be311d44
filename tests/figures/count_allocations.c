/* Runs the library `net` four times on the same inputs and prints how many times each run asked the system for memory. Open
 * dims are 5. */
#include <stdio.h>
#include <stdlib.h>

#include "net.h"

static long asked =
    0; /* workers of a pool ask for nothing while a run is going on, and if one did the race would still show */
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* old, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
void* malloc(size_t bytes) { return ++asked, __libc_malloc(bytes); }
void* calloc(size_t count, size_t bytes) { return ++asked, __libc_calloc(count, bytes); }
void* realloc(void* old, size_t bytes) { return ++asked, __libc_realloc(old, bytes); }
void* aligned_alloc(size_t alignment, size_t bytes) { return ++asked, __libc_memalign(alignment, bytes); }
int posix_memalign(void** out, size_t alignment, size_t bytes) {
  return ++asked, (*out = __libc_memalign(alignment, bytes)) == NULL;
}

int main(void) {
  static float data[NET_INPUTS][1 << 16];
  net_tensor inputs[NET_INPUTS] = {0}, outputs[NET_OUTPUTS];
  net_options options = {0};
  options.size = sizeof options;
  net_context* context = NULL;
  options.threads = 2;
  for (int i = 0; i < NET_INPUTS; ++i) {
    const net_port* port = net_input(i);
    for (int k = 0; k < 1 << 16; ++k) data[i][k] = (float)((k * 37 + i) % 101) / 50 - 1;
    inputs[i].data = data[i];
    inputs[i].rank = port->rank;
    for (int d = 0; d < port->rank; ++d) inputs[i].dims[d] = port->dims[d] < 0 ? 5 : port->dims[d];
  }
  if (net_create(&options, &context) != NET_OK) return printf("%s\n", net_last_error(context)), 1;
  for (int run = 0; run < 4; ++run) {
    for (int o = 0; o < NET_OUTPUTS; ++o) outputs[o] = (net_tensor){0};
    const long before = asked;
    const net_status status = net_run(context, inputs, NET_INPUTS, outputs, NET_OUTPUTS);
    const long in_run = asked - before;
    if (status != NET_OK) return printf("%s\n", net_last_error(context)), 1;
    printf("%ld\n", in_run);
  }
  net_destroy(context);
  return 0;
}
