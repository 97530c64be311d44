// What fails leaves the extension as an exception of metac/errors.py.
#pragma once
#include <pybind11/pybind11.h>

#include <string>

#include "metac/metac.h"

namespace metac_python {

namespace py = pybind11;

// A metac_status with its message, also thrown where the interpreter's lock is not held.
struct Failure {
  int status;
  std::string message;
};

// Throws the message of the calling thread's last call, if it failed.
inline void check(metac_status status) {
  if (status != METAC_OK) throw Failure{status, metac_last_error()};
}

// Sets Python's exception of that status, where no C++ exception may pass.
void set_error(int status, const std::string& message) noexcept;

[[noreturn]] void raise_dtype_error(const std::string& message);
void register_failures();

}  // namespace metac_python
