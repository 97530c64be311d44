#include "compiler/codegen/cpu_variant.h"

#include <cstdlib>
#include <tuple>

namespace metac {
namespace {

bool has_byte_products(const CpuTarget& cpu) { return cpu.has_vnni && cpu.vector_bytes == 64; }

}  // namespace

std::string full_name(const CpuTarget& cpu) { return has_byte_products(cpu) ? cpu.name + "+vnni" : cpu.name; }

std::string tag_of(const CpuTarget& cpu) {
  std::string tag = full_name(cpu);
  for (char& c : tag)
    if (c == '-' || c == '+') c = '_';
  return tag;
}

std::vector<std::string> compiler_flags(const CpuTarget& cpu) {
  std::vector<std::string> flags = {"-march=" + cpu.name};
  if (cpu.vector_bytes == 64) flags.push_back("-mprefer-vector-width=512");
  if (has_byte_products(cpu)) flags.push_back("-mavx512vnni");
  return flags;
}

int clang_version(const std::string& answer) {
  const std::string before = "clang version ";
  const size_t found = answer.find(before);
  return found == std::string::npos ? 0 : std::atoi(answer.c_str() + found + before.size());
}

std::vector<std::string> host_flags(const std::string& level, int clang) {
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
  if (clang == 0) flags.push_back("-fno-tree-loop-if-convert");  // as in templates/project/CMakeLists.txt
  return flags;
}

std::vector<std::string> kernel_flags(const CpuTarget& cpu, int clang) {
  std::vector<std::string> flags = host_flags("-O3", clang);
  for (std::string& flag : compiler_flags(cpu)) flags.push_back(std::move(flag));
  return flags;
}

std::vector<std::string> needed_features(const CpuTarget& cpu) {
  std::vector<std::string> features;
  if (cpu.name != "x86-64") features = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"};
  if (cpu.vector_bytes >= 32) features.insert(features.end(), {"avx", "avx2", "fma", "bmi", "bmi2"});
  if (cpu.vector_bytes >= 64) features.insert(features.end(), {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
  if (has_byte_products(cpu)) features.push_back("avx512vnni");
  return features;
}

bool is_better(const CpuTarget& a, const CpuTarget& b) {
  auto rank = [](const CpuTarget& cpu) { return std::tuple(cpu.vector_bytes, has_byte_products(cpu), cpu.name); };
  return rank(b) < rank(a);
}

}  // namespace metac
