#include "compiler/codegen/compiler_flags.h"

#include <cstdlib>

#include "compiler/support/diagnostic.h"

namespace metac {

std::vector<std::string> compiler_flags(const CpuTarget& cpu) {
  const InstructionSet& row = cpu.instructions();
  std::vector<std::string> flags = {concat("-march=", row.march)};
  flags.insert(flags.end(), row.flags.begin(), row.flags.end());
  return flags;
}

int clang_version(const std::string& answer) {
  const std::string before = "clang version ";
  const size_t found = answer.find(before);
  return found == std::string::npos ? 0 : std::atoi(answer.c_str() + found + before.size());
}

namespace {

std::vector<std::string> flags_of_all(const std::string& level, int clang) {
  std::vector<std::string> flags = {"-std=c++17",
                                    "-fPIC",
                                    level,
                                    "-ffp-contract=off",
                                    "-fno-math-errno",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-fvisibility=hidden",
                                    "-fvisibility-inlines-hidden"};
  if (clang >= 17)
    flags.push_back("-fdenormal-fp-math=dynamic");  // as in compiler/jit/clang_compiler.cpp; older ones do not know it
  if (clang == 0) flags.push_back("-fno-tree-loop-if-convert");  // as in templates/project/cmake/CMakeLists.txt
  return flags;
}

}  // namespace

std::vector<std::string> host_flags(int clang) {
  std::vector<std::string> flags = flags_of_all("-O1", clang);
  if (clang == 0) flags.push_back("-finline-limit=60");  // g++'s own makes libraries 8 kB larger, and no call faster
  return flags;
}

std::vector<std::string> kernel_flags(const CpuTarget& cpu, int clang) {
  std::vector<std::string> flags = flags_of_all("-O3", clang);
  for (std::string& flag : compiler_flags(cpu)) flags.push_back(std::move(flag));
  return flags;
}

}  // namespace metac
