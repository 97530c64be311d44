// The page of `metac inspect --html`: one file, no scripts, nothing fetched.
#pragma once
#include <string>

#include "compiler/ops/model.h"
#include "compiler/program/program.h"

namespace metac {

// HTML text. All text of the model is escaped; `title` too.
std::string inspect_page(const std::string& title, const CompiledModel& compiled, const Model& model);

}  // namespace metac
