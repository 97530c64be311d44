// The schedules of a compilation as a file: what `--tune` writes, `--emit schedules` prints and `--tune-from` takes.
//
//   {"metac": "0.9.0", "format": 1, "cpu": "x86-64-v4", ..., "choices": [{"subject": "1 64 56 56 / 64 3 3, ...", "schedule":
//   "filter 4, tile 7x2"}]}
#pragma once
#include <string>

#include "compiler/ops/model.h"
#include "compiler/program/program.h"
#include "compiler/target/choices.h"
#include "compiler/target/compile_options.h"

namespace metac {

// What was decided about every contraction of the model, and about the batch where there was something to decide. Compiled
// again with it the kernels are the same; people may change a line, or leave it out.
std::string schedules_text(const Model& model, const CompiledModel& compiled, const CompileOptions& options,
                           const Choices& choices);

// Throws CompileError where the text is none; `cpu` receives what the schedules are for.
Choices read_schedules(const std::string& text, std::string* cpu);

}  // namespace metac
