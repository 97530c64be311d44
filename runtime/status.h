// Error codes and messages of the runtime. Nothing throws and nothing aborts: a failing call returns a code and leaves a
// message in its context.
#pragma once
#include <cstdarg>
#include <cstdio>

#include "program.h"

namespace METAC_RUNTIME_NAMESPACE {

// The values are part of the C ABI of generated libraries.
enum class Status : int32_t {
  ok = 0,
  invalid_argument = 1,  // a shape, dtype, count or pointer that the caller gave
  requirement = 2,       // a condition on the data that the model states
  out_of_memory = 3,
  unsupported = 4,  // this build or machine cannot do it
  io = 5,           // a file is missing, unreadable or damaged
  busy = 6,         // the context is running in another thread
  internal = 7,     // the tables contradict themselves: a bug of ours
  callback = 8,     // a function that the caller gave threw an exception
  cancelled = 9,    // another thread asked for the end of the run
  full = 10,        // as many requests wait as may
};

inline const char* name_of(Status status) {
  static const char* const names[] = {"ok",
                                      "invalid argument",
                                      "requirement violated",
                                      "out of memory",
                                      "unsupported",
                                      "input/output error",
                                      "context busy",
                                      "internal error",
                                      "the caller's function failed",
                                      "cancelled",
                                      "queue full"};
  const int32_t i = static_cast<int32_t>(status);
  return i >= 0 && i < 11 ? names[i] : "unknown status";
}

// The last failure of a context. A message longer than the space is cut.
struct Failure {
  Status status = Status::ok;
  char message[512] = "";

  bool ok() const { return status == Status::ok; }
  void clear() {
    status = Status::ok;
    message[0] = 0;
  }
  // Returns false, so that `return failure.set(...)` reads well.
  __attribute__((format(printf, 3, 4))) bool set(Status what, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    status = what;
    vsnprintf(message, sizeof(message), format, arguments);
    va_end(arguments);
    return false;
  }
  // Adds to the message.
  __attribute__((format(printf, 2, 3))) void append(const char* format, ...) {
    size_t used = 0;
    while (used < sizeof(message) && message[used] != 0) ++used;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message + used, sizeof(message) - used, format, arguments);
    va_end(arguments);
  }
};

}  // namespace METAC_RUNTIME_NAMESPACE
