// Calls of functions that the caller gave: what they throw ends here.
#pragma once
#include "../program.h"

namespace METAC_RUNTIME_NAMESPACE {

// Calls work(state); false: it threw. Of a generated library it is the one function that is compiled with exceptions
// (guarded_call.cpp).
bool call_guarded(void (*work)(void* state), void* state);

template <class Work>
bool guarded(Work work) {
  return call_guarded([](void* state) { (*static_cast<Work*>(state))(); }, &work);
}

}  // namespace METAC_RUNTIME_NAMESPACE
