// What a call of the C interface answers: no exception leaves it, and what went wrong is kept for the thread.
#pragma once
#include <string>

#include "compiler/support/diagnostic.h"
#include "metac/metac.h"

namespace metac::library {

// A call that fails with that status.
class CallError : public std::exception {
 public:
  CallError(metac_status status, std::string text) : status(status), text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }
  const metac_status status;

 private:
  std::string text_;
};

template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw CallError(METAC_INVALID_ARGUMENT, concat(parts...));
}

// For catch (...): the status of the exception in flight, its message kept for metac_last_error().
metac_status failed() noexcept;

// Runs `work`; what it throws becomes a status.
template <typename Work>
metac_status answered(Work&& work) noexcept {
  try {
    work();
    return METAC_OK;
  } catch (...) {
    return failed();
  }
}

}  // namespace metac::library
