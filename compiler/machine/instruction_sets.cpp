#include "compiler/machine/instruction_sets.h"

#include "compiler/support/diagnostic.h"
#include "runtime/process/cpu_features.h"

namespace metac {
namespace {

std::vector<std::string_view> joined(std::vector<std::string_view> a, const std::vector<std::string_view>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<InstructionSet> make_table() {
  const std::vector<std::string_view> v2 = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"},
                                      v3 = joined(v2, {"avx", "avx2", "fma", "bmi", "bmi2"}),
                                      v4 = joined(v3, {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}),
                                      vnni = joined(v4, {"avx512vnni"}), bf16 = joined(vnni, {"avx512bf16", "avx512vbmi"}),
                                      amx = joined(bf16, {"amx-tile", "amx-int8", "amx-bf16"});
  // g++ and clang take vectors of 256 bits on processors with 512 unless told.
  const std::string_view wide = "-mprefer-vector-width=512";
  // All but one family of the processors that have bfloat16 shuffle bytes, too (runtime/device/look_up.h).
  const std::vector<std::string_view> vnni_flags = {wide, "-mavx512vnni"},
                                      bf16_flags = joined(vnni_flags, {"-mavx512bf16", "-mavx512vbmi"}),
                                      amx_flags = joined(bf16_flags, {"-mamx-tile", "-mamx-int8", "-mamx-bf16"});
  return {
      {"x86-64-v4+amx", "x86-64-v4", 64, 32, 2 << 20, true, true, true, amx_flags, amx},
      {"x86-64-v4+bf16", "x86-64-v4", 64, 32, 1 << 20, true, true, false, bf16_flags, bf16},
      {"x86-64-v4+vnni", "x86-64-v4", 64, 32, 1 << 20, true, false, false, vnni_flags, vnni},
      {"x86-64-v4", "x86-64-v4", 64, 32, 1 << 20, false, false, false, {wide}, v4},
      {"x86-64-v3", "x86-64-v3", 32, 16, 512 << 10, false, false, false, {}, v3},
      {"x86-64-v2", "x86-64-v2", 16, 16, 256 << 10, false, false, false, {}, v2},
      {"x86-64", "x86-64", 16, 16, 256 << 10, false, false, false, {}, {}},
  };
}

}  // namespace

const std::vector<InstructionSet>& instruction_sets() {
  static const std::vector<InstructionSet> table = make_table();
  return table;
}

const InstructionSet* instruction_set(std::string_view name) {
  for (const InstructionSet& row : instruction_sets())
    if (row.name == name) return &row;
  return nullptr;
}

// The built-in function takes literals alone.
bool has_here(std::string_view feature) {
  __builtin_cpu_init();
#define FEATURE(name) \
  if (feature == name) return __builtin_cpu_supports(name) != 0;
  FEATURE("x86-64")
  FEATURE("x86-64-v2")
  FEATURE("x86-64-v3")
  FEATURE("x86-64-v4")
  FEATURE("sse3")
  FEATURE("ssse3")
  FEATURE("sse4.1")
  FEATURE("sse4.2")
  FEATURE("popcnt")
  FEATURE("avx")
  FEATURE("avx2")
  FEATURE("fma")
  FEATURE("bmi")
  FEATURE("bmi2")
  FEATURE("avx512f")
  FEATURE("avx512bw")
  FEATURE("avx512cd")
  FEATURE("avx512dq")
  FEATURE("avx512vl")
  FEATURE("avx512vnni")
  FEATURE("avx512bf16")
  FEATURE("avx512vbmi")
#undef FEATURE
  // Compilers do not all know these, and a process asks the system for their registers.
  for (const std::string_view tiles : {"amx-tile", "amx-int8", "amx-bf16"})
    if (feature == tiles) return METAC_RUNTIME_NAMESPACE::has_cpu_feature(tiles.data());
  METAC_ASSERT(false, "a feature that no CPU is asked for: ", feature);
  return false;
}

}  // namespace metac
