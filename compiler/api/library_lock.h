// A lock: what a library was made from and what came of it, as JSON, so that a later compilation that would make another
// library is refused before it builds (metac compile --lock, --locked).
//
//   metac_lock    1
//   metac         the version, and kernels, the compiler of kernels
//   model_sha256, options, cpu, weights_sha256     as the manifest has them
//   files         the SHA-256 of every file of the project
#pragma once
#include <string>

#include "compiler/codegen/project.h"

namespace metac {

std::string lock_of(const Project& project);

// Throws CompileError with each difference: `path` has the text `locked`, and the compilation at hand `now`.
void check_lock(const std::string& path, const std::string& locked, const std::string& now);

}  // namespace metac
