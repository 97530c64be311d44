// The one file that is compiled with exceptions: what functions of the caller's throw does not get past it.
#define METAC_RUNTIME_NAMESPACE @namespace@
#include "runtime/caller/guarded_call.h"

#if defined(__ELF__)
// What catches is the C++ library of whoever throws: without one nobody can, and this library needs none.
__asm__(
    ".weak __gxx_personality_v0\n"
    ".weak __cxa_begin_catch\n"
    ".weak __cxa_end_catch\n");
#endif

namespace METAC_RUNTIME_NAMESPACE {

bool call_guarded(void (*work)(void* state), void* state) {
  try {
    work(state);
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace METAC_RUNTIME_NAMESPACE
