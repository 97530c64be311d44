// What projects for an NVIDIA GPU have beside what all have.
#pragma once
#include "compiler/machine/cuda_target.h"
#include "compiler/target/project_parts.h"

namespace metac {

ProjectParts cuda_project_parts(const CudaTarget& cuda);

}  // namespace metac
