// NAME.json: what was compiled, how, and into what; for people, `metac diff` and CI.
#pragma once
#include <string>

#include "compiler/codegen/library_weights.h"
#include "compiler/codegen/project.h"

namespace metac {

constexpr int manifest_format = 1;  // "format": what readers of earlier versions would misread gets another

// `kernel_files[p][k]`: the source that holds kernel k of program p. `weights_hash`: SHA-256 of the weights block. The
// manifest is about the first program (net_run on the CPU to be preferred); the others, where there are any, stand under
// "programs".
std::string manifest_text(const std::vector<LibraryProgram>& programs, const ProjectOptions& options,
                          const std::vector<std::vector<std::string>>& kernel_files, const LibraryWeights& weights,
                          const std::string& weights_hash);

}  // namespace metac
