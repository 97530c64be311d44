/* Loaded before a program (LD_PRELOAD), fills every block of aligned memory with bytes 0xff, which as real numbers of any
 * type are no numbers: what is computed from memory that nobody wrote, be it multiplied by 0, becomes visible. Operands of
 * kernels lie in such blocks. */
#include <malloc.h>
#include <string.h>

void* aligned_alloc(size_t alignment, size_t size) {
  void* const block = memalign(alignment, size);
  if (block != NULL) memset(block, 0xff, size);
  return block;
}
