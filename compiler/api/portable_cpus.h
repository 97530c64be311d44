// What a library has code for unless its maker says otherwise.
#pragma once
#include <vector>

#include "compiler/machine/cpu_target.h"
#include "compiler/ops/model.h"

namespace metac {

// The processors of `--cpu portable`, the best first: x86-64-v4, v3 and v2, and before them those that multiply bytes where
// the model computes with them or `precision` (CompileOptions::precision) is int8, and those that multiply bfloat16 where
// that is it. They follow from the model and the options alone, so that every machine makes the same library.
std::vector<CpuTarget> portable_cpus(const Model& model, DType precision);

}  // namespace metac
