// Timing a compiled folder through the run program that it contains.
#pragma once
#include <string>
#include <vector>

#include "compiler/api/bench/bench_report.h"

namespace metac {

// Runs `bin/<name>_run --bench seconds --json ...`; `arguments` are further ones of that program. Operations and bytes
// are those that it counts in a run. Throws CompileError where the folder is none of ours, was not built, or fails.
BenchResult bench_folder(const std::string& folder, double seconds, const std::vector<std::string>& arguments);

}  // namespace metac
