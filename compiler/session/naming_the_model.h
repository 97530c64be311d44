// What refuses without naming a file means the model.
#pragma once
#include <string>

#include "compiler/jit/run_error.h"

namespace metac {

// f(), the file `path` added to its errors.
template <class F>
auto naming_the_model(const std::string& path, F f) {
  try {
    return f();
  } catch (const RunError& error) {
    throw RunError(error.status, {path, error.diagnostic.node, error.diagnostic.message});
  } catch (const CompileError& error) {
    if (!error.diagnostic.file.empty()) throw;
    throw CompileError({path, error.diagnostic.node, error.diagnostic.message});
  }
}

}  // namespace metac
