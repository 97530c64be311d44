// What a CpuTarget means to a project: its name, what it is compiled with, what a machine must have to run it.
#pragma once
#include <string>
#include <vector>

#include "compiler/machine/processors.h"

namespace metac {

// As --cpu spells it: "x86-64-v4+vnni".
std::string full_name(const CpuTarget& cpu);
// The same as an identifier and a folder's name: "x86_64_v4_vnni".
std::string tag_of(const CpuTarget& cpu);

std::vector<std::string> compiler_flags(const CpuTarget& cpu);
// What decides the code that a system's compiler makes of a project's files: of kernels, and of the rest at an -O level.
// `clang`: its major version, by what --version says; 0 for another compiler.
int clang_version(const std::string& answer);
std::vector<std::string> kernel_flags(const CpuTarget& cpu, int clang);
std::vector<std::string> host_flags(const std::string& level, int clang);

// What the machine must have, as GCC's and clang's __builtin_cpu_supports spell it.
std::vector<std::string> needed_features(const CpuTarget& cpu);

// Is `a` to be taken before `b` where a machine can run both? A strict weak order; equal: the same instructions.
bool is_better(const CpuTarget& a, const CpuTarget& b);

}  // namespace metac
