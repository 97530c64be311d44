// What a context tells its caller (metac_model_options.log). Without a function nothing is said anywhere, and no text is
// made.
#pragma once
#include <cstdarg>
#include <cstdio>

#include "../metac_model.h"
#include "guarded_call.h"

namespace METAC_RUNTIME_NAMESPACE {

class CallerLog {
 public:
  // Before the context's first call.
  void begin(metac_model_log function, void* user) {
    function_ = function;
    user_ = user;
  }
  bool is_heard() const { return function_ != nullptr; }

  // What the function throws ends here: no call fails because of what is said about it.
  void say(int32_t level, const char* message) const {
    if (is_heard()) guarded([&] { function_(user_, level, message); });
  }
  __attribute__((format(printf, 2, 3))) void info(const char* format, ...) const {
    va_list arguments;
    va_start(arguments, format);
    say_formatted(METAC_MODEL_LOG_INFO, format, arguments);
    va_end(arguments);
  }
  __attribute__((format(printf, 2, 3))) void warn(const char* format, ...) const {
    va_list arguments;
    va_start(arguments, format);
    say_formatted(METAC_MODEL_LOG_WARNING, format, arguments);
    va_end(arguments);
  }

 private:
  void say_formatted(int32_t level, const char* format, va_list arguments) const {
    if (!is_heard()) return;
    char message[1024];
    vsnprintf(message, sizeof message, format, arguments);
    say(level, message);
  }

  metac_model_log function_ = nullptr;
  void* user_ = nullptr;
};

}  // namespace METAC_RUNTIME_NAMESPACE
