// CPUs by name.
#pragma once
#include <functional>
#include <string>

#include "compiler/machine/processors.h"

namespace metac {

// "native" (this machine's), "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", the last two with "+vnni" where byte dot
// products are there too. Throws CompileError naming the known ones.
CpuTarget cpu_target(const std::string& name);

// Can this machine run code for `cpu`? Answered by what the machine has, not by how wide its vectors are.
bool runs_here(const CpuTarget& cpu);

// The same of a machine that answers `has` for the names of features and levels that __builtin_cpu_supports knows, and the
// best target of such a machine.
typedef std::function<bool(const std::string& feature)> CpuFeatures;
bool runs_on(const CpuFeatures& has, const CpuTarget& cpu);
CpuTarget best_cpu(const CpuFeatures& has);

}  // namespace metac
