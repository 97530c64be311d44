// A compiled model as bytes, for a process of the same build that is to run it: all that a run needs, without what only
// compiling and people want (work as expressions, schedules, reports).
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "compiler/program/program.h"

namespace metac {

// Of parameters without elements only name, dtype and shape are kept: the reader has them in its model.
std::string stored_program(const CompiledModel& model);

// Empty where the bytes are no such program.
std::optional<CompiledModel> read_stored_program(std::string_view bytes);

}  // namespace metac
