// CPUs by name.
#pragma once
#include <string>

#include "compiler/kernel/target.h"

namespace metac {

// "native" (this machine's), "x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4", the last two with "+vnni" where byte dot
// products are there too. Throws CompileError naming the known ones.
CpuTarget cpu_target(const std::string& name);

// Can this machine run code for `cpu`?
bool runs_here(const CpuTarget& cpu);

}  // namespace metac
