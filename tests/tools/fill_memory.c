/* Loaded before a program (LD_PRELOAD), fills every block of aligned memory with bytes 0xff, which as real numbers of any
 * type are no numbers: what is computed from memory that nobody wrote, be it multiplied by 0, becomes visible. Operands of
 * kernels lie in such blocks.
 * With METAC_FILL=denormals it is denormal numbers, of float32 and of the half types. Products of such lanes change no
 * result where nobody stores them, but on some processors take a hundred times as long: metac_denormals_met tells. */
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void* aligned_alloc(size_t alignment, size_t size) {
  static const uint32_t denormal = 0x00010001;
  void* const block = memalign(alignment, size);
  const char* const fill = getenv("METAC_FILL");
  if (block == NULL) return NULL;
  if (fill == NULL || strcmp(fill, "denormals") != 0) return memset(block, 0xff, size);
  for (size_t at = 0; at + sizeof(denormal) <= size; at += sizeof(denormal))
    memcpy((char*)block + at, &denormal, sizeof(denormal));
  return block;
}

/* 1 where this thread has had an operand that is a denormal number since it was asked last, else 0; -1: not known. */
int metac_denormals_met(void) {
#ifdef __SSE2__
  const unsigned flags = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(flags & ~0x3fu);
  return (flags & 2) != 0;
#else
  return -1;
#endif
}
