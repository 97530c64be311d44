// What a compiled model's kernels say of their schedules.
#pragma once
#include <string>

#include "compiler/program/program.h"

namespace metac {

// The transforms of all kernels of a run, a line each.
inline std::string schedules_of(const CompiledModel& model) {
  std::string all;
  for (const KernelSource& kernel : model.run.kernels)
    for (const std::string& line : kernel.schedule) all += line + "\n";
  return all;
}

}  // namespace metac
