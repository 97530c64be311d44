#include "python/extension/process.h"

#include <pthread.h>

namespace metac_python {
namespace {

unsigned generation = 0;  // written between fork and its return in a child, which has one thread

}  // namespace

unsigned process_generation() { return generation; }

void watch_forks() {
  pthread_atfork(nullptr, nullptr, [] { ++generation; });
}

}  // namespace metac_python
