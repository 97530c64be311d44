// What `metac compile` says of what it made.
#pragma once
#include "compiler/api/compile_library.h"
#include "compiler/api/compile_training.h"
#include "compiler/driver/compile/compile_arguments.h"

namespace metac {

// To the standard output, as text or with --json. `training`: null without --train.
void report(const CompileArguments& o, const LibraryReport& r, const TrainingReport* training);

}  // namespace metac
