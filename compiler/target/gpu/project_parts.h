// What projects for an NVIDIA GPU have beside what all have.
#pragma once
#include "compiler/target/project_parts.h"

namespace metac {

// `architectures`: compute capabilities times ten, "80,90"; empty: those. Throws CompileError.
ProjectParts cuda_project_parts(const std::string& architectures);

}  // namespace metac
