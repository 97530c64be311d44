// What a run of a compiled program fails with, and what it needs before.
#pragma once
#include <new>
#include <string_view>

#include "compiler/support/diagnostic.h"
#include "runtime/status.h"

namespace metac {

// The executor's message and its status: a condition of the model that the data do not meet, memory that there is not, ...
class RunError : public CompileError {
 public:
  RunError(metac_runtime::Status status, Diagnostic diagnostic) : CompileError(std::move(diagnostic)), status(status) {}
  const metac_runtime::Status status;
};

inline RunError no_memory(int64_t count, std::string_view what) {
  return {metac_runtime::Status::out_of_memory, {"", "", concat("no memory for ", count, " ", what)}};
}

// It may go well another time: nothing is known of the model by it.
inline bool is_for_want_of_memory(const std::exception& error) {
  const auto* of_run = dynamic_cast<const RunError*>(&error);
  return of_run ? of_run->status == metac_runtime::Status::out_of_memory
                : dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
}

}  // namespace metac
