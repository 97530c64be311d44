// What a system's compiler is given for a project's files.
#pragma once
#include <string>
#include <vector>

#include "compiler/machine/cpu_target.h"

namespace metac {

// What makes it compile for that CPU.
std::vector<std::string> compiler_flags(const CpuTarget& cpu);
// What decides the code that a system's compiler makes of a project's files: of kernels, and of the rest.
// `clang`: its major version, by what --version says; 0 for another compiler.
int clang_version(const std::string& answer);
std::vector<std::string> kernel_flags(const CpuTarget& cpu, int clang);
std::vector<std::string> host_flags(int clang);

}  // namespace metac
