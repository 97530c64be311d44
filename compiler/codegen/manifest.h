// NAME.json: what was compiled, how, and into what; for people, `metac diff` and CI.
#pragma once
#include <string>

#include "compiler/codegen/project.h"

namespace metac {

// `kernel_files[k]`: the source that holds kernel k of the run program. `weights_hash`: SHA-256 of the weights block.
std::string manifest_text(const CompiledModel& model, const ProjectOptions& options, const std::vector<std::string>& kernel_files,
                          const std::string& weights_hash);

}  // namespace metac
